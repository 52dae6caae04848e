"""Read YAML that nobody vouches for: no tags, no anchors, bounded depth; scalars as YAML 1.2 means them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from dovetail.errors import FormatError
from dovetail.formats.text import decode

_DEEPEST = 32
_INT = re.compile(r"[-+]?\d+")
_FLOAT = re.compile(r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?")
_WORDS: Mapping[str, object] = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./\- ]*")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Document:
    """The value of a file, and the line of every mapping key by its path."""

    value: object
    lines: Mapping[tuple[str, ...], int]

    def line(self, *keys: str) -> int:
        """Return the line of a key, 0 when it is not there."""
        return self.lines.get(keys, 0)


@dataclass(slots=True)
class _Open:
    """A collection that is being read."""

    value: dict[str, object] | list[object]
    path: tuple[str, ...]
    key: str | None = None


class _Builder:
    def __init__(self, path: str) -> None:
        self.path = path
        self.stack: list[_Open] = []
        self.root: object = None
        self.lines: dict[tuple[str, ...], int] = {}

    def fail(self, message: str, line: int, code: str = "YAML") -> FormatError:
        return FormatError(message, path=self.path, line=line, code=code)

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise self.fail("anchors and aliases are not read.", line)
        if isinstance(event, yaml.ScalarEvent):
            self.scalar(event, line)
        elif isinstance(event, yaml.MappingStartEvent):
            self.open({}, line)
        elif isinstance(event, yaml.SequenceStartEvent):
            self.open([], line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self.stack.pop()

    def open(self, value: dict[str, object] | list[object], line: int) -> None:
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            raise self.fail("a collection as a key is not read.", line)
        inside = () if top is None else (*top.path, top.key) if top.key is not None else top.path
        self.add(value, line)
        if len(self.stack) >= _DEEPEST:
            raise self.fail(f"nested deeper than {_DEEPEST} levels.", line)
        self.stack.append(_Open(value, inside))

    def scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        top = self.stack[-1] if self.stack else None
        if event.tag is not None and not event.implicit[0] and not event.implicit[1]:
            raise self.fail(f"the tag {event.tag} is not read.", line)
        if top is not None and isinstance(top.value, dict) and top.key is None:
            if event.value in top.value:
                raise self.fail(f"'{event.value}' occurs twice.", line, "DUPLICATE")
            top.key = event.value
            self.lines[(*top.path, event.value)] = line
            return
        self.add(_resolve(event.value) if event.implicit[0] else event.value, line)

    def add(self, value: object, line: int) -> None:
        if not self.stack:
            self.root = value
            return
        top = self.stack[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        else:
            assert top.key is not None
            top.value[top.key] = value
            # The key of a collection stays for the path of what is inside; `close_keys` forgets it.
            if not isinstance(value, dict | list):
                top.key = None

    def close_keys(self, event: yaml.Event) -> None:
        """Forget the key of the mapping around a collection that ended."""
        if isinstance(event, yaml.CollectionEndEvent) and self.stack:
            self.stack[-1].key = None


def _resolve(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text) and len(text) < 400:
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def parse_yaml(content: bytes, path: str) -> Document:
    """Return the value of a YAML file; keys are texts. Raises FormatError naming the line that is wrong."""
    text = decode(content, path).removeprefix("\ufeff")
    builder = _Builder(path)
    try:
        for event in yaml.parse(text, Loader=_Loader):
            builder.take(event)
            builder.close_keys(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "cannot be read"
        raise builder.fail(f"not YAML: {problem}.", mark.line + 1 if mark else 0) from error
    return Document(builder.root, builder.lines)


def scalar_text(value: object) -> str:
    """Return a scalar as YAML that reads back the same, numbers as their shortest exact form."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = str(value)
    if _PLAIN.fullmatch(text) and text == text.strip() and isinstance(_resolve(text), str) and " -" not in text:
        return text
    return quoted(text)


def quoted(text: str) -> str:
    """Return a text in quotes: single ones as Acuity writes them, double ones where escapes are needed."""
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text)


def block_text(value: object, indent: int = 0) -> str:
    """Return mappings, lists and scalars as block YAML with an indent of two."""
    pad = " " * indent
    if isinstance(value, dict):
        return "".join(f"{pad}{scalar_text(key)}:{_under(item, indent)}" for key, item in value.items())
    if isinstance(value, list):
        return "".join(f"{pad}- {block_text(item, indent + 2).lstrip()}" for item in value)
    return f"{pad}{scalar_text(value)}\n"


def _under(value: object, indent: int) -> str:
    if isinstance(value, dict):
        return "\n" + block_text(value, indent + 2) if value else " {}\n"
    if isinstance(value, list):
        return "\n" + block_text(value, indent) if value else " []\n"
    return f" {text}\n" if (text := scalar_text(value)) else "\n"
