"""Generations of VeriSilicon's engines: parts of one generation compute alike."""

from __future__ import annotations

from enum import Enum


class Generation(Enum):
    """A generation of the engines."""

    V7 = "VIP v7"
    V7_BYTES = "VIP v7 with an array for bytes only"
    VIP8000 = "VIP8000"
    VIP9000 = "VIP9000"
    VIP9000_PLUS = "VIP9000 plus"
    STREAM = "VIP9000 with a stream processor"

    # As for DType: it is part of what every verdict looks up.
    __hash__ = object.__hash__


OLDEST = (Generation.V7, Generation.V7_BYTES)
"""Their array cuts a multiplier to 16 bits, and takes unsigned bytes only."""
CONVERTING = (*OLDEST, Generation.VIP8000)
"""Their array takes unsigned bytes only: signed ones are converted before and behind it. None has the adder."""
NEWEST = (Generation.VIP9000, Generation.VIP9000_PLUS)
"""Their tensor processor turns every signed byte into an unsigned one, dynamic fixed point too."""
