"""Samples in several threads, with the answer of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Threads:
    """A number of threads, which are started when there is work for two."""

    def __init__(self, count: int) -> None:
        self._count = count

    def map(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Yield what a function makes of each item, in order; no more items are alive than there are threads."""
        waiting = iter(items)
        while some := list(islice(waiting, self._count)):
            if len(some) == 1:
                yield function(some[0])
            else:
                yield from self._pool.map(function, some)
            some.clear()

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._count, "dovetail-samples")
