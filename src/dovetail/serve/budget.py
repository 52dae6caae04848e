"""A budget of bytes that all requests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dovetail.oip.failures import Reply, RequestRefused


class ByteBudget:
    """Bytes that requests hold, with a limit; used by one thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.held = 0

    def take(self, count: int) -> None:
        """Hold bytes; raise RequestRefused where there are too many already."""
        if self.held + count > self._most:
            raise RequestRefused(Reply.FULL, "the server holds as many requests as it can.", hint="Try again later.")
        self.held += count

    def give(self, count: int) -> None:
        """Hold bytes no more."""
        self.held -= count

    @contextmanager
    def hold(self, count: int) -> Iterator[None]:
        """Hold bytes while the body runs; raise RequestRefused where there are too many already."""
        self.take(count)
        try:
            yield
        finally:
            self.give(count)
