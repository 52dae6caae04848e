"""Shared memory of this machine that peers have registered: tensors that do not go through a socket.

A region is read and written through its file, never mapped: a peer that makes it smaller under our hands gets an error,
where a mapped one would end the server.
"""

from __future__ import annotations

import os
import re
import stat
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import DeviceError
from dovetail.oip.failures import Reply, RequestRefused
from dovetail.serve.budget import ByteBudget

REGION, OFFSET, SIZE = "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size"
"""The parameters of a tensor that lies in a region."""

_FOLDER = Path("/dev/shm")
"""Where Linux keeps what `shm_open` opens."""
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_MOST_NAME = 200
_MOST_REGIONS = 256
_OTHERS = stat.S_IROTH | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class SharedSpan:
    """The bytes of one tensor in a region."""

    region: str
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class SharedRegion:
    """A registered part of a shared memory object; its file is closed when nobody uses it any more."""

    name: str
    key: str
    offset: int
    size_bytes: int
    handle: int

    def read(self, span: SharedSpan) -> bytes:
        """Return the bytes of a tensor; raise DeviceError where they are not there."""
        at = self._at(span)
        data = os.pread(self.handle, span.size_bytes, at)
        if len(data) != span.size_bytes:
            raise DeviceError(f"shared memory '{self.name}' was made smaller than it was registered.")
        return data

    def write(self, span: SharedSpan, data: bytes) -> None:
        """Write a tensor; raise DeviceError where it does not fit."""
        at = self._at(span)
        if len(data) > span.size_bytes:
            raise DeviceError(
                f"shared memory '{self.name}': the output has {len(data)} bytes, its place {span.size_bytes}."
            )
        if os.fstat(self.handle).st_size < at + len(data):
            raise DeviceError(f"shared memory '{self.name}' was made smaller than it was registered.")
        os.pwrite(self.handle, data, at)

    def _at(self, span: SharedSpan) -> int:
        if span.offset + span.size_bytes > self.size_bytes:
            raise DeviceError(
                f"shared memory '{self.name}' has {self.size_bytes} bytes; "
                f"{span.size_bytes} from {span.offset} on go beyond them."
            )
        return self.offset + span.offset


class SharedRegions:
    """The regions that are registered, by name; they are changed by one thread and used by several.

    Only peers of this machine can name its memory: elsewhere every call is refused.
    """

    def __init__(self, budget: ByteBudget, request_bytes: int, *, allowed: bool) -> None:
        self._budget = budget
        self._request_bytes = request_bytes
        self._allowed = allowed
        self._regions: dict[str, SharedRegion] = {}

    def register(self, name: str, key: str, offset: int, size_bytes: int) -> None:
        """Open a shared memory object; raise RequestRefused where it is none, not the peer's to name, or too small."""
        self._check()
        if not 0 < len(name) <= _MOST_NAME or not name.isprintable():
            raise RequestRefused(Reply.BAD_REQUEST, f"'{name[:80]}' is no name of a region.")
        if name in self._regions:
            raise RequestRefused(Reply.BAD_REQUEST, f"region '{name}' is registered already.", hint="Unregister it.")
        if len(self._regions) >= _MOST_REGIONS:
            raise RequestRefused(Reply.FULL, f"{_MOST_REGIONS} regions are registered.", hint="Unregister some.")
        file = key.lstrip("/")
        if not _KEY.fullmatch(file):
            raise RequestRefused(Reply.BAD_REQUEST, f"'{key[:80]}' is no key of shared memory.")
        handle = _opened(file, key)
        region = SharedRegion(name, key, offset, size_bytes, handle)
        weakref.finalize(region, os.close, handle)
        found = os.fstat(handle)
        if size_bytes < 1 or offset < 0 or offset + size_bytes > found.st_size:
            raise RequestRefused(
                Reply.BAD_REQUEST,
                f"region '{name}': '{key}' has {found.st_size} bytes; {size_bytes} from {offset} on are not there.",
            )
        self._regions[name] = region

    def unregister(self, name: str = "") -> None:
        """Forget a region, or all of them; one that is not registered is forgotten already."""
        self._check()
        if name:
            self._regions.pop(name, None)
        else:
            self._regions.clear()

    def status(self, name: str = "") -> Sequence[SharedRegion]:
        """Return the regions, or one of them; raise RequestRefused where it is not registered."""
        self._check()
        return [self._found(name)] if name else list(self._regions.values())

    @contextmanager
    def hold(self, spans: Sequence[SharedSpan]) -> Iterator[None]:
        """Hold the bytes of a request's inputs in the server's budget while the body runs.

        Raises RequestRefused where they are too many.
        """
        size = sum(span.size_bytes for span in spans)
        if spans:
            self._check()
        if size > self._request_bytes:
            raise RequestRefused(
                Reply.TOO_LARGE, f"the inputs have {size} bytes in shared memory; {self._request_bytes} are taken."
            )
        with self._budget.hold(size):
            yield

    def read(self, span: SharedSpan) -> bytes:
        """Return the bytes of an input; raise RequestRefused for an unknown region, DeviceError beyond its end."""
        return self._found(span.region).read(span)

    def write(self, pieces: Sequence[tuple[SharedSpan, bytes]]) -> None:
        """Write outputs, each into its place; raises as `read` does."""
        places = [(self._found(span.region), span, data) for span, data in pieces]
        for region, span, data in places:
            region.write(span, data)

    def _check(self) -> None:
        if not self._allowed:
            raise RequestRefused(
                Reply.FORBIDDEN, "shared memory is for peers of this machine; other machines can reach this server."
            )

    def _found(self, name: str) -> SharedRegion:
        self._check()
        region = self._regions.get(name)
        if region is None:
            raise RequestRefused(Reply.NOT_FOUND, f"shared memory '{name[:80]}' is not registered.")
        return region


def span_of(parameters: Mapping[str, object]) -> SharedSpan | None:
    """Return where a tensor lies by its parameters, None where it is in the message.

    Raises RequestRefused for what is no place.
    """
    if REGION not in parameters:
        return None
    region, offset, size = parameters[REGION], parameters.get(OFFSET, 0), parameters.get(SIZE)
    if not isinstance(region, str) or not _is_count(offset) or not _is_count(size):
        raise RequestRefused(Reply.BAD_REQUEST, f"a tensor in shared memory has '{REGION}' and '{SIZE}'.")
    assert isinstance(offset, int)
    assert isinstance(size, int)
    return SharedSpan(region, offset, size)


def _opened(file: str, key: str) -> int:
    """Return a file of shared memory; raise RequestRefused where there is none, or none that may be named.

    A server that may open more than its peers would be their way to it: what belongs to other users has to be open to
    everybody.
    """
    try:
        handle = os.open(_FOLDER / file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise RequestRefused(
            Reply.BAD_REQUEST, f"shared memory '{key[:80]}' cannot be opened: {error.strerror}."
        ) from error
    found = os.fstat(handle)
    own = found.st_uid == os.geteuid() or found.st_mode & _OTHERS == _OTHERS
    if not stat.S_ISREG(found.st_mode) or not own:
        os.close(handle)
        raise RequestRefused(Reply.FORBIDDEN, f"shared memory '{key[:80]}' is not of the server's user.")
    return handle


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
