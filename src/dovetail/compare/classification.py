"""Task metrics on class scores, and agreement with golden outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.compare.task import Arrays, Reference, pick, sample_count
from dovetail.compare.tensor_metrics import top_k
from dovetail.errors import DataError


@dataclass(frozen=True, slots=True)
class TopK:
    """Count a sample as right when an accepted class is among the k best scores; a sample with NaN is wrong.

    Labels are class ids `[N]`, or sets `[N, M]` padded with negative numbers. `output` and `label` name the
    arrays; without names the only output and the only integer label are taken (`label`, where several are
    integers).
    """

    name: str
    k: int = 1
    output: str | None = None
    label: str | None = None
    higher_is_better: bool = True
    reference: Reference = Reference.LABELS

    def per_sample(self, outputs: Arrays, labels: Arrays) -> NDArray[np.float64]:
        count = sample_count(outputs)
        scores = _class_scores(self.name, pick(outputs, self.output, "output", lambda _: True))
        label = self.label
        if label is None and "label" in labels:
            label = "label"
        accepted = pick(labels, label, "label", lambda a: a.dtype.kind in "iu").astype(np.int64)
        if accepted.shape[:1] != (count,):
            raise DataError(f"metric {self.name!r}: {count} outputs, labels {list(accepted.shape)}.")
        accepted = accepted.reshape(count, -1)
        classes = scores.shape[1]
        if accepted.max() >= classes or (accepted < 0).all(axis=1).any():
            raise DataError(
                f"metric {self.name!r}: labels {accepted.min()}..{accepted.max()} for {classes} classes.",
                hint="Check for a background class, and for samples without a label.",
            )
        best = top_k(scores, min(self.k, classes))
        right = (best[:, :, None] == accepted[:, None, :]).any(axis=(1, 2))
        return np.asarray(right & ~np.isnan(scores.astype(np.float64)).any(axis=1), dtype=np.float64)

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        return float(np.mean(self.per_sample(outputs, labels)))


@dataclass(frozen=True, slots=True)
class Top1Agreement:
    """Count a sample as right when its best class is that of the golden output; needs no labels."""

    name: str = "top1_agreement"
    output: str | None = None
    higher_is_better: bool = True
    reference: Reference = Reference.GOLDEN

    def per_sample(self, outputs: Arrays, labels: Arrays) -> NDArray[np.float64]:
        count = sample_count(outputs)
        measured = _class_scores(self.name, pick(outputs, self.output, "output", lambda _: True))
        golden = pick(labels, self.output, "golden output", lambda _: True)
        if golden.size != measured.size or golden.shape[0] != count:
            raise DataError(f"metric {self.name!r}: golden {list(golden.shape)}, measured {list(measured.shape)}.")
        same = top_k(measured, 1)[:, 0] == top_k(golden.reshape(count, -1), 1)[:, 0]
        return np.asarray(same & ~np.isnan(measured.astype(np.float64)).any(axis=1), dtype=np.float64)

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        return float(np.mean(self.per_sample(outputs, labels)))


def _class_scores(name: str, scores: NDArray[Any]) -> NDArray[Any]:
    """Return class scores `[N, C]`; raise DataError for an output whose best entry is no class."""
    wide = [size for size in scores.shape[1:] if size != 1]
    if len(wide) > 1:
        raise DataError(
            f"metric {name!r}: an output {list(scores.shape)} is no list of class scores: the best of its "
            f"{math.prod(wide)} values is no class.",
            hint="Leave the metric out to compare the decisions that the outputs hold.",
        )
    return scores.reshape(len(scores), -1)
