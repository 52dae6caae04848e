"""The options that the commands about other toolchains' files share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.options import ModelVerb
from dovetail.files import read_file

if TYPE_CHECKING:
    from dovetail.formats import Diagnostic
    from dovetail.report.page import Block, Tone

FormatOption = Annotated[str, typer.Option("--format", metavar="NAME", help="Format (dovetail formats).")]
LogOption = Annotated[
    Path | None, typer.Option("--log", metavar="FILE", help="Log of a run: operators are checked against it.")
]
VersionOption = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="VERSION",
        help="Version of Paddle Lite, such as v2.10; the newest. 'pipe' for builds that separate rules by '|'.",
    ),
]
_SHOWN_LINES = 10

ReplaceOption = Annotated[bool, typer.Option("--replace", help="Overwrite the output file, whoever made it.")]


@dataclass(frozen=True, kw_only=True)
class FormatVerb(ModelVerb):
    """The options that export and import-plan share."""

    model: Annotated[Path, typer.Option("--model", metavar="MODEL", help="Model that the plan is for.")]
    format: FormatOption
    listing: Annotated[
        Path | None,
        typer.Option("--listing", metavar="FILE", help="The toolchain's own list of the network: log.txt, X.json ..."),
    ] = None
    version: Annotated[
        str, typer.Option("--for", metavar="VERSION", help="Version of the toolchain; the newest if not given.")
    ] = ""

    def listing_bytes(self) -> bytes | None:
        """Return what the toolchain says of the network; a model of the toolchain's own kind says it itself."""
        from dovetail.formats import find_format
        from dovetail.formats.entries import EntryFormat

        if self.listing is not None:
            return read_file(self.listing)
        form = find_format(self.format)
        own = isinstance(form, EntryFormat) and form.listed and self.model.suffix == form.listed
        return read_file(self.model) if own else None


def rows_of(found: Sequence[Diagnostic]) -> list[Mapping[str, object]]:
    """Return findings as plain data."""
    return [
        {
            "code": item.code,
            "severity": item.severity.value,
            "line": item.line,
            "message": item.message,
            "hint": item.hint,
        }
        for item in found
    ]


def findings_block(found: Sequence[Diagnostic], title: str = "") -> Block:
    """Return findings as lines of text: they are read, not compared. What is said of many lines is said once."""
    from dovetail.report.page import Prose

    where: dict[tuple[str, str], list[int]] = {}
    for item in found:
        text = f"{item.message} {item.hint}" if item.hint else item.message
        where.setdefault((item.code, text), []).append(item.line)
    return Prose(title, tuple(f"{code} {_lines(lines)}{text}" for (code, text), lines in where.items()))


def _lines(lines: Sequence[int]) -> str:
    """Return the lines of a finding in words: nothing for the file as a whole."""
    shown = [str(line) for line in lines[:_SHOWN_LINES] if line]
    more = f" and {len(lines) - _SHOWN_LINES} more" if len(lines) > _SHOWN_LINES else ""
    return f"line{'s' if len(shown) > 1 else ''} {', '.join(shown)}{more}: " if shown else ""


def tone_of(found: Sequence[Diagnostic]) -> Tone:
    """Return how good findings are."""
    from dovetail.report.page import Tone

    return Tone.BAD if any(item.severity.value == "error" for item in found) else Tone.GOOD
