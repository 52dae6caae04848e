"""How many pictures a goal needs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.ir.dtypes import AnyArray

FEWEST_PICTURES = 10
"""Below this many pictures nothing is accepted unless it is asked for: one picture would be a tenth of the evidence."""
_MOST = 1 << 20

Bound = Callable[[AnyArray], float]
"""Give the upper confidence bound of the mean of losses `[N]`, each in 0..1, one for each picture."""


def pictures_needed(bound: Bound, allowance: float, typical: AnyArray | None = None) -> int | None:
    """Return how many pictures would show that the mean loss is within the allowance, or None where none would.

    `typical` are losses as they may be expected, such as those of the pictures that are there; without them the
    pictures are supposed to lose nothing, which is the least that is needed.
    """
    losses = np.zeros(1) if typical is None or not len(typical) else np.asarray(typical, np.float64)
    if float(losses.mean()) >= allowance:
        return None

    def shows(count: int) -> bool:
        repeated = np.resize(losses, count)
        return bound(repeated) <= allowance

    high = 1
    while not shows(high):
        high *= 2
        if high > _MOST:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle) else (middle, high)
    return high
