"""A part as lowering and driver see it."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.backends.verisilicon.generation import CONVERTING, OLDEST, Generation


@dataclass(frozen=True, slots=True)
class Part:
    """What lowering must know of a part."""

    target: str
    """Dovetail's name of the part, for messages."""
    sdk_name: str
    """The simulator's name of the part."""
    pid: int
    """The product id."""
    generation: Generation
    """The engines."""
    wide_kernels: int = 15
    """Larger kernels keep the vendor's compiler busy for minutes."""
    wide_windows: int = 64
    """Poolings over more were not tried."""

    @property
    def converts_signed_bytes(self) -> bool:
        """Tell whether the array computes with unsigned bytes only."""
        return self.generation in CONVERTING

    @property
    def encodes_by_running(self) -> bool:
        """Tell whether weights come into a binary network only while the graph runs."""
        return self.generation in OLDEST
