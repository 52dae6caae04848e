"""Read files that nobody vouches for: bounded in size and line length, any bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from dovetail.errors import FormatError

MAX_FILE_BYTES = 64 << 20
"""No configuration of a network is larger."""

MAX_LINE_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20


class TextLine(NamedTuple):
    """A line without its line feed; `cut` tells that the rest of it was dropped, `ended` that a line feed came."""

    number: int
    text: str
    cut: bool
    ended: bool


def bounded_lines(source: bytes | BinaryIO, limit: int = MAX_LINE_BYTES) -> Iterator[TextLine]:
    """Yield the lines of a file in constant memory: what exceeds `limit` bytes of a line is dropped.

    Bytes that are no UTF-8 become U+FFFD.
    """
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    number, held, cut = 1, b"", False
    while chunk := stream.read(_CHUNK_BYTES):
        pieces = chunk.split(b"\n")
        pieces[0] = held + pieces[0]
        held = pieces.pop()
        for piece in pieces:
            yield TextLine(number, piece[:limit].decode("utf-8", "replace"), cut or len(piece) > limit, True)
            number, cut = number + 1, False
        if len(held) > limit:
            held, cut = held[:limit], True
    if held or cut:
        yield TextLine(number, held[:limit].decode("utf-8", "replace"), cut, False)


def decode(content: bytes, path: str, limit: int = MAX_FILE_BYTES) -> str:
    """Return a file as text; raise FormatError when it is too large, not UTF-8, or holds NUL bytes."""
    if len(content) > limit:
        raise FormatError(f"larger than {limit} bytes; this is no such file.", path=path, line=0, code="TOO_LARGE")
    nul = content.find(b"\0")
    if nul >= 0:
        line = content.count(b"\n", 0, nul) + 1
        hint = "It looks like UTF-16: save it as UTF-8." if content[:2] in (b"\xff\xfe", b"\xfe\xff") else None
        raise FormatError("a NUL byte: this is no text.", path=path, line=line, code="NOT_TEXT", hint=hint)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(
            f"byte 0x{content[error.start]:02x} is not UTF-8.", path=path, line=line, code="NOT_TEXT"
        ) from error


def read_json(content: bytes, path: str) -> object:
    """Return the value of a JSON file; raise FormatError naming the line that is wrong."""
    text = decode(content, path).removeprefix("\ufeff")
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise FormatError(f"not JSON: {error.msg}.", path=path, line=error.lineno, code="NOT_JSON") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not usable JSON: {error}.", path=path, line=0, code="NOT_JSON") from error
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


def json_bytes(value: object, indent: int = 2) -> bytes:
    """Return a value as a JSON file."""
    return (json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + "\n").encode()


def wrong_shape(path: str, what: str, expected: str) -> FormatError:
    """Return the error for a document whose parts are not what they should be."""
    return FormatError(f"{what}: {expected} is expected.", path=path, line=0, code="SHAPE")


def mapping_in(value: object, path: str, what: str) -> dict[str, object]:
    """Return a value that must be a mapping with text keys."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise wrong_shape(path, what, "a mapping with names as keys")
    return value


def texts_in(value: object, path: str, what: str) -> list[str]:
    """Return a value that must be a list of texts."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise wrong_shape(path, what, "a list of names")
    return value
