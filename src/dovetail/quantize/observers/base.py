"""What every observer does, and how it is told what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import DataError, QuantizeError


class CalibrationMethod(Enum):
    """How a range is made from the values seen.

    `minmax`: all values. `moving_average`: mean minimum and maximum of the samples, exponentially weighted.
    `percentile`: the middle share of the values. `kl`: least divergence of the quantised distribution.
    `mse`: least expected squared quantisation error.
    """

    MINMAX = "minmax"
    MOVING_AVERAGE = "moving_average"
    PERCENTILE = "percentile"
    KL = "kl"
    MSE = "mse"


@dataclass(frozen=True, slots=True)
class ObserverOptions:
    """How to observe.

    `percentile` is the share kept, in percent, half of the rest cut on either side. `momentum` weighs the
    newest sample of a moving average (Acuity's `moving_average_weight` is 0.01). `bits` and `symmetric`
    describe the quantiser that `kl` and `mse` optimise for. `bins` bounds the histogram; at least half of
    them are in use.
    """

    bits: int = 8
    symmetric: bool = False
    percentile: float = 99.99
    momentum: float = 0.01
    bins: int = 4096

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 16:
            raise QuantizeError(f"calibration: bits {self.bits} is outside 2..16.")
        if not 0 < self.percentile <= 100:
            raise QuantizeError(f"calibration: percentile {self.percentile:g} is outside (0, 100].")
        if not 0 < self.momentum <= 1:
            raise QuantizeError(f"calibration: momentum {self.momentum:g} is outside (0, 1].")
        if not 64 <= self.bins <= 1 << 20:
            raise QuantizeError(f"calibration: bins {self.bins} is outside 64..1048576.")


class Observer(Protocol):
    """Take the values of one tensor, sample by sample, and give a range.

    The range is raw: it need not contain zero.
    """

    @property
    def count(self) -> int:
        """Return how many values were seen."""

    def update(self, array: NDArray[Any]) -> None:
        """Take one sample of any shape; an empty one changes nothing.

        Raises DataError for NaN or infinity, and then nothing has changed.
        """

    def merge(self, other: Self) -> None:
        """Take all that `other`, made with the same options, has seen, as if it came next."""

    def range(self) -> tuple[float, float]:
        """Return (low, high), low <= high.

        Raises DataError when no value was seen.
        """


def extremes(array: NDArray[Any]) -> tuple[float, float]:
    """Return minimum and maximum of a non-empty array in one pass each; NaN and infinity show in them.

    Raises DataError.
    """
    if array.dtype.kind not in "biuf":
        raise DataError(f"dtype {array.dtype} has no range.")
    low, high = float(np.min(array)), float(np.max(array))
    if not (np.isfinite(low) and np.isfinite(high)):
        raise DataError("values are NaN or infinite.", hint="Look at the float model's own outputs first.")
    return low, high


def nothing_seen() -> DataError:
    """Make the error for a range that no value supports."""
    return DataError("no value was seen, so it has no range.", hint="Give calibration samples.")
