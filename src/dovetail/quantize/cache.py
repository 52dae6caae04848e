"""What is made once and kept while there is room for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class BoundedCache(Generic[_Value]):
    """Values by key, up to a number of bytes; what was not asked for longest goes first, the newest never."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._entries: OrderedDict[Hashable, tuple[_Value, int]] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> _Value | None:
        """Return a value that is still there, or None."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: Hashable, value: _Value, size_bytes: int) -> _Value:
        """Keep a value, and return it."""
        self.size_bytes += size_bytes - self._entries.pop(key, (value, 0))[1]
        self._entries[key] = value, size_bytes
        while self.size_bytes > self._most_bytes and len(self._entries) > 1:
            self.size_bytes -= self._entries.popitem(last=False)[1][1]
        return value
