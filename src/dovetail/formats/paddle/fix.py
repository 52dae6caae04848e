"""Repair what can be repaired in subgraph.txt without knowing what was meant."""

from __future__ import annotations

from dovetail.formats.paddle.writer import NOTHING


def fix(text: str) -> str:
    """Return the file without carriage returns, byte order mark, comments, stray blanks, ';', extra fields and gaps.

    These are the findings E01 to E05 and E08 to E10; what needs a decision stays as it is.
    """
    lines = [_fix_line(line) for line in text.replace("\ufeff", "").replace("\r", "\n").split("\n")]
    return "".join(f"{line}\n" for line in lines if line) or NOTHING


def _fix_line(line: str) -> str:
    """Repair a line until nothing is left to repair: what one step takes away may uncover more."""
    while (fixed := _fix_once(line)) != line:
        line = fixed
    return line


def _fix_once(line: str) -> str:
    text = without_comment(line).strip()
    if not text:
        return ""
    if ":" not in text and ";" in text:
        text = text.replace(";", ":")
    return "-".join(item for item in (_fix_item(item) for item in text.split("-")) if item)


def without_comment(line: str) -> str:
    """Return a line up to where a person meant a comment to begin: '#' or '//' first, or after a blank."""
    for sign in ("#", "//"):
        if line.lstrip().startswith(sign):
            return ""
        for blank in (" ", "\t"):
            line = line.partition(blank + sign)[0]
    return line


def _fix_item(item: str) -> str:
    fields = item.split(":")[:3]
    names = [",".join(name.strip() for name in field.split(",") if name.strip()) for field in fields]
    names[0] = fields[0].strip()
    while len(names) > 1 and not names[-1]:
        names.pop()
    return ":".join(names) if any(names) else ""
