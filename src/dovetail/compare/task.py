"""What a task metric is, and how a user's own function becomes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import DataError

Arrays = Mapping[str, NDArray[Any]]


class Reference(Enum):
    """What a metric compares the outputs with, given as its `labels`."""

    LABELS = "labels"
    GOLDEN = "golden"


@runtime_checkable
class TaskMetric(Protocol):
    """Score outputs `[N, ...]` by name, sample by sample or as a set.

    `labels` are the samples' labels stacked to `[N, ...]`, or the golden outputs, as `reference` says.
    """

    @property
    def name(self) -> str: ...

    @property
    def higher_is_better(self) -> bool: ...

    @property
    def reference(self) -> Reference: ...

    def per_sample(self, outputs: Arrays, labels: Arrays) -> NDArray[np.float64] | None:
        """Return `[N]`, or `None` when the metric exists only for a set."""

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        """Return one number for the set.

        Raises DataError when outputs and labels do not fit.
        """


class CallableMetric:
    """Show a function `(outputs, labels) -> float | [N]` as a TaskMetric; `[N]` scores as its mean.

    A function attribute `higher_is_better = False` turns the direction.
    """

    def __init__(self, function: Callable[[Arrays, Arrays], object], name: str | None = None) -> None:
        self._function = function
        self.name: str = name or str(getattr(function, "__name__", type(function).__name__))
        self.higher_is_better = bool(getattr(function, "higher_is_better", True))
        self.reference = Reference.LABELS

    def per_sample(self, outputs: Arrays, labels: Arrays) -> NDArray[np.float64] | None:
        values = self._call(outputs, labels)
        return values if values.ndim == 1 else None

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        return float(np.mean(self._call(outputs, labels)))

    def _call(self, outputs: Arrays, labels: Arrays) -> NDArray[np.float64]:
        count = sample_count(outputs)
        try:
            values = np.asarray(self._function(outputs, labels), dtype=np.float64)
        except DataError:
            raise
        except Exception as error:  # a user's function may raise anything
            raise DataError(f"metric {self.name!r}: {type(error).__name__}: {error}.") from error
        if values.shape not in ((), (count,)):
            raise DataError(f"metric {self.name!r}: gave {list(values.shape)}, not one number or [{count}].")
        if not np.isfinite(values).all():
            raise DataError(f"metric {self.name!r}: gave a value that is not finite.")
        return values


def callable_metric(function: Callable[[Arrays, Arrays], object], name: str | None = None) -> TaskMetric:
    """Wrap a function as a TaskMetric."""
    return CallableMetric(function, name)


def sample_count(outputs: Arrays) -> int:
    """Return the common leading dimension of the outputs.

    Raises DataError when there is none.
    """
    counts = {name: array.shape[0] if array.ndim else None for name, array in outputs.items()}
    if len(set(counts.values())) != 1 or None in counts.values() or 0 in counts.values():
        raise DataError(f"metric: the outputs have no common number of samples: {counts}.")
    return int(next(iter(outputs.values())).shape[0])


def pick(arrays: Arrays, name: str | None, what: str, fits: Callable[[NDArray[Any]], bool]) -> NDArray[Any]:
    """Return the array called `name`, or the only one that fits.

    Raises DataError naming what is there.
    """
    if name is not None:
        if name not in arrays:
            raise DataError(f"metric: no {what} {name!r}; found {', '.join(arrays) or 'none'}.")
        return arrays[name]
    fitting: Sequence[str] = [key for key, array in arrays.items() if fits(array)]
    if len(fitting) != 1:
        found = ", ".join(f"{key} {array.dtype} {list(array.shape)}" for key, array in arrays.items())
        if not arrays:
            raise DataError(
                f"metric: there is no {what}: the samples carry no other arrays.",
                hint="Add an array with a row a sample, or a metric that needs none.",
            )
        raise DataError(
            f"metric: {len(fitting)} arrays could be the {what}; found {found}.",
            hint=f"Leave one of them, or write a metric that reads the {what} by its name.",
        )
    return arrays[fitting[0]]
