"""Delegates: `DOVETAIL_LITERT_DELEGATES` names them, with the library's path and options of its own.

vx=/usr/lib/libvx_delegate.so?cache_file_path=/var/cache/vx;teflon=/usr/lib/libteflon.so
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from ai_edge_litert import interpreter as litert

from dovetail.backend.protocols import AbsentDevice

VARIABLE = "DOVETAIL_LITERT_DELEGATES"
CPU = "CPU"


@dataclass(frozen=True, slots=True)
class Delegate:
    """A delegate; the one without a library stands for LiteRT's own kernels."""

    name: str
    library: str = ""
    options: tuple[tuple[str, str], ...] = ()

    def load(self, extra: dict[str, str]) -> list[object]:
        """Return what an interpreter takes; raise ValueError or OSError when the library does not load."""
        if not self.library:
            return []
        return [litert.load_delegate(self.library, {**dict(self.options), **extra})]


@cache
def _named() -> tuple[Delegate, ...]:
    delegates: list[Delegate] = []
    for item in os.environ.get(VARIABLE, "").split(";"):
        name, sign, rest = item.strip().partition("=")
        library, _, options = rest.partition("?")
        if sign and name and library:
            pairs = (pair.partition("=") for pair in options.split("&") if pair)
            delegates.append(Delegate(name, library, tuple((key, value) for key, _, value in pairs)))
    return tuple(delegates)


@cache
def _failures() -> dict[str, str]:
    failed: dict[str, str] = {}
    for delegate in _named():
        try:
            delegate.load({})
        except Exception as error:
            # The library is anybody's: whatever it does on loading is why it is not there.
            failed[delegate.name] = " ".join(str(error).split())[:200] or type(error).__name__
    return failed


def present_delegates() -> tuple[Delegate, ...]:
    """Return LiteRT's own kernels and the delegates that load."""
    return (Delegate(CPU), *(one for one in _named() if one.name not in _failures()))


def absent_delegates() -> tuple[AbsentDevice, ...]:
    """Return the delegates that do not load, with the reason."""
    return tuple(AbsentDevice(f"litert:{name}", why) for name, why in _failures().items())
