"""What metrics against the float model's decisions have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.compare.task import Arrays, Reference
from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DecisionScore:
    """The score of one decision of a model."""

    name: str
    kind: str
    """What is decided, such as `detection`."""
    outputs: tuple[str, ...]
    """The outputs that it is read from."""
    score: float
    float_score: float
    """What the float model has; below 1 where a score is what float expects of itself."""
    unit: str = ""
    """What a score stands for in the field's own unit, such as `32 dB`; empty where there is none."""

    @property
    def loss(self) -> float:
        """Return what is lost against float."""
        return self.float_score - self.score


class AgainstFloat(ABC):
    """A metric whose labels are the float model's outputs; at most 1 a sample, a set scores as its mean."""

    name: str
    higher_is_better = True
    reference = Reference.GOLDEN

    @abstractmethod
    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        """Return `[N]`, each in 0..1."""

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        """Return the mean over the samples."""
        return float(np.mean(self.per_sample(outputs, labels)))

    def unit(self, score: float) -> str:
        """Return what a score stands for in the field's own unit; empty where there is none."""
        return ""


def output_pair(outputs: Arrays, labels: Arrays, name: str) -> tuple[AnyArray, AnyArray]:
    """Return the float output `[N, ...]` of a name and the measured one; raise DataError where they do not fit."""
    missing = "float run" if name not in labels else "candidate" if name not in outputs else ""
    if missing:
        raise DataError(f"metric: output '{name}' is missing in the {missing}.")
    golden, measured = np.asarray(labels[name]), np.asarray(outputs[name])
    if golden.shape != measured.shape:
        raise DataError(f"metric: output '{name}': float {list(golden.shape)}, measured {list(measured.shape)}.")
    return golden, measured


def by_channel(values: AnyArray, axis: int | None) -> Floats:
    """Return `[N, channels, rest]` of values `[N, ...]`; `axis` counts without the batch, None is one channel."""
    real = np.asarray(values, np.float64)
    if axis is None:
        return real.reshape(len(real), 1, -1)
    moved = np.moveaxis(real, axis + 1, 1)
    return moved.reshape(*moved.shape[:2], -1)
