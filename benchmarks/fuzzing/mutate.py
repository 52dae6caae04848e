"""Mutants that keep the form of a document: a value of JSON, or a line, made extreme, doubled, moved or taken out."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

_EXTREME: tuple[object, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    -0.0,
    2**31,
    2**63,
    2**64,
    -(2**63),
    10**400,
    1e-320,
    1e308,
    float("inf"),
    float("-inf"),
    float("nan"),
    "",
    "\0",
    "\ud800",
    "\n",
    "..",
    "../x",
    "a" * 300,
    "0",
    "1e999",
    "(",
    [],
    {},
    [[]],
    [None],
    {"": None},
    "DEEP",
)
_DEEP = 3000


def reshape(data: bytes, rng: np.random.Generator) -> bytes | None:
    """Return a mutant of JSON, of lines of JSON, or of lines of text; None where it has no such form."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    whole = _document(text)
    if whole is not None:
        return _print(_changed(whole, rng))
    lines = text.split("\n")
    if len(lines) < 2:
        return None
    at = int(rng.integers(len(lines)))
    line = _document(lines[at])
    match int(rng.integers(4)) if line is None else 4:
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[int(rng.integers(len(lines)))])
        case 2:
            lines[at] = _word(lines[at], rng)
        case 3:
            other = int(rng.integers(len(lines)))
            lines[at], lines[other] = lines[other], lines[at]
        case _:
            lines[at] = _print(_changed(line, rng)).decode(errors="replace")
    return "\n".join(lines).encode(errors="surrogatepass")


def _document(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) and value else None


def _print(value: object) -> bytes:
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):
        return b"[]"
    return text.replace('"DEEP"', "[" * _DEEP + "]" * _DEEP).encode()


def _extreme(rng: np.random.Generator) -> object:
    return _EXTREME[int(rng.integers(len(_EXTREME)))]


def _word(line: str, rng: np.random.Generator) -> str:
    """Return a line with one of its words made extreme."""
    words = line.split(" ")
    value = _extreme(rng)
    words[int(rng.integers(len(words)))] = value if isinstance(value, str) else json.dumps(value)
    return " ".join(words)


def _changed(value: Any, rng: np.random.Generator) -> Any:
    """Return a document with one value in it changed; the way down is drawn at every step."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return _leaf(value, rng)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[int(rng.integers(len(keys)))]
    changed: Any = dict(value) if isinstance(value, dict) else list(value)
    match int(rng.integers(10)):
        case 0:
            del changed[key]
        case 1 if isinstance(changed, list):
            changed.append(changed[key])
        case 1:
            changed[f"{key}x"] = changed.pop(key)
        case _:
            changed[key] = _changed(value[key], rng)
    return changed


def _leaf(value: Any, rng: np.random.Generator) -> Any:
    if isinstance(value, str) and value and rng.random() < 0.5:
        at = int(rng.integers(len(value)))
        return value[:at] + chr(int(rng.integers(32, 127))) * int(rng.integers(0, 3)) + value[at + 1 :]
    if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.3:
        return -value if rng.random() < 0.5 else value * 2 + 1
    return _extreme(rng)
