"""Protobuf's text form, as .prototxt files have it: fields of numbers, strings, names and messages in any order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dovetail.errors import LoadError

_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|(?P<mark>[{}:\[\],;])|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<word>[^\s{}:\[\],;"'\#]+)"""
)
_MAX_DEPTH = 32
_MAX_NUMBER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Message:
    """The fields of a message, each with every value that it is given; `place` is its file and line."""

    place: str
    fields: Mapping[str, list[str | Message]] = field(default_factory=dict)

    def messages(self, name: str) -> list[Message]:
        """Return the messages of a field."""
        return [item for item in self.fields.get(name, []) if isinstance(item, Message)]

    def message(self, name: str) -> Message:
        """Return the last message of a field, or an empty one."""
        found = self.messages(name)
        return found[-1] if found else Message(self.place)

    def texts(self, name: str) -> list[str]:
        """Return the plain values of a field."""
        return [item for item in self.fields.get(name, []) if isinstance(item, str)]

    def text(self, name: str, default: str = "") -> str:
        """Return the last plain value of a field."""
        found = self.texts(name)
        return found[-1] if found else default

    def integers(self, name: str) -> list[int]:
        """Return whole numbers; raise LoadError when one is not, or is out of proportion."""
        return [self._integer(name, item) for item in self.texts(name)]

    def integer(self, name: str, default: int) -> int:
        """Return the last whole number of a field."""
        found = self.integers(name)
        return found[-1] if found else default

    def number(self, name: str, default: float) -> float:
        """Return the last number of a field."""
        text = self.text(name)
        try:
            return float(text) if text else default
        except ValueError as error:
            raise LoadError(f"{self.place}: {name}: {text} is not a number.", source_node=self.place) from error

    def flag(self, name: str, default: bool) -> bool:
        """Return a truth value."""
        text = self.text(name)
        return default if not text else text in ("true", "True", "t", "1")

    def _integer(self, name: str, text: str) -> int:
        try:
            value = int(text)
        except ValueError as error:
            raise LoadError(f"{self.place}: {name}: {text} is not a whole number.", source_node=self.place) from error
        if abs(value) > _MAX_NUMBER:
            raise LoadError(f"{self.place}: {name}: {text} is out of proportion.", source_node=self.place)
        return value


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    line: int
    quoted: bool = False


def read_text(text: str, where: str) -> Message:
    """Return the message of a text; raise LoadError naming the line where it is wrong."""
    return _Parser(_tokens(text, where), where).message(1, 0)


def _tokens(text: str, where: str) -> list[_Token]:
    tokens: list[_Token] = []
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise LoadError(f"{where}:{line}: a string is not closed.", source_node=f"{where}:{line}")
        if match.lastgroup == "text":
            tokens.append(_Token(match[0][1:-1], line, quoted=True))
        elif match.lastgroup is not None:
            tokens.append(_Token(match[0], line))
        line += match[0].count("\n")
        at = match.end()
    return tokens


class _Parser:
    """Read tokens one by one."""

    def __init__(self, tokens: list[_Token], where: str) -> None:
        self._tokens = tokens
        self._where = where
        self._at = 0

    def message(self, line: int, depth: int) -> Message:
        """Read fields up to the closing brace, or to the end at depth 0."""
        if depth > _MAX_DEPTH:
            raise self._wrong(line, f"messages lie more than {_MAX_DEPTH} deep")
        fields: dict[str, list[str | Message]] = {}
        while True:
            token = self._next(optional=depth == 0)
            if token is None:
                break
            if token.text == "}" and not token.quoted and depth:
                break
            if token.text in (",", ";") and not token.quoted:
                continue
            if token.quoted or not (token.text[0].isalpha() or token.text[0] == "_"):
                raise self._wrong(token.line, f"a field is expected, not '{token.text[:40]}'")
            fields.setdefault(token.text, []).extend(self._values(depth))
        return Message(f"{self._where}:{line}", fields)

    def _values(self, depth: int) -> list[str | Message]:
        token = self._need()
        if token.text == ":" and not token.quoted:
            token = self._need()
        if token.text == "[" and not token.quoted:
            return self._list(depth)
        return [self._value(token, depth)]

    def _list(self, depth: int) -> list[str | Message]:
        values: list[str | Message] = []
        while True:
            token = self._need()
            if token.text == "]" and not token.quoted:
                return values
            if token.text != "," or token.quoted:
                values.append(self._value(token, depth))

    def _value(self, token: _Token, depth: int) -> str | Message:
        if token.quoted:
            return token.text
        if token.text == "{":
            return self.message(token.line, depth + 1)
        if token.text in "}:[],;":
            raise self._wrong(token.line, f"a value is expected, not '{token.text}'")
        return token.text

    def _next(self, *, optional: bool) -> _Token | None:
        if self._at == len(self._tokens):
            if optional:
                return None
            last = self._tokens[-1].line if self._tokens else 1
            raise self._wrong(last, "the text ends inside a message")
        self._at += 1
        return self._tokens[self._at - 1]

    def _need(self) -> _Token:
        token = self._next(optional=False)
        assert token is not None
        return token

    def _wrong(self, line: int, why: str) -> LoadError:
        place = f"{self._where}:{line}"
        return LoadError(f"{place}: {why}.", source_node=place)
