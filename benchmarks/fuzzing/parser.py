"""What is fuzzed: a parser of bytes with small whole inputs of it, and what may come of any other input."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import DovetailError

SLOW_S = 5.0
"""Processor time that no small input may take."""
MOST_BYTES = 1 << 14


@dataclass(frozen=True)
class Parser:
    """A parser by name: whole inputs of it, and what reads bytes; it returns or raises DovetailError, in one line."""

    name: str
    seeds: tuple[bytes, ...]
    parse: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = ()
    """What it raises besides; its callers are tested to turn that into a word of their own."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that ended otherwise than it may: what happened, where, and in which parser."""

    parser: str
    what: str
    where: str

    @property
    def key(self) -> str:
        """Return what two findings of one defect share."""
        return f"{self.parser} {self.what.partition(':')[0]} {self.where}"


def attempt(parser: Parser, data: bytes) -> Finding | None:
    """Give bytes to a parser; return what should not have come of it, or None."""
    began = time.process_time()
    try:
        parser.parse(data)
    except DovetailError as error:
        if len(str(error).splitlines()) > 1:
            return Finding(parser.name, f"an error of several lines: {error}", "")
    except parser.refusals:
        pass
    except Exception as error:  # what a fuzzer is for
        place = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in place if "dovetail" in frame.filename.replace("site-packages", "")] or list(place)
        where = f"{Path(own[-1].filename).name}:{own[-1].lineno}"
        return Finding(parser.name, f"{type(error).__name__}: {' '.join(str(error).split())[:160]}", where)
    took = time.process_time() - began
    return Finding(parser.name, f"slow: {took:.1f} s of processor time", "") if took > SLOW_S else None


def through(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """Return what writes bytes to a file and reads that."""

    def parse(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return parse


def same_again(first: object, second: object, what: str) -> None:
    """Raise AssertionError where what was written and read again is another value."""
    if first != second:
        raise AssertionError(f"{what} is another one when it is written and read again")
