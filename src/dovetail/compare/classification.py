"""Task metrics on class scores, and agreement with golden outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.compare.slices import worst_slice
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
        scores = pick(outputs, self.output, "output", lambda _: True).reshape(count, -1)
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
        measured = pick(outputs, self.output, "output", lambda _: True).reshape(count, -1)
        golden = pick(labels, self.output, "golden output", lambda _: True)
        if golden.size != measured.size or golden.shape[0] != count:
            raise DataError(f"metric {self.name!r}: golden {list(golden.shape)}, measured {list(measured.shape)}.")
        same = top_k(measured, 1)[:, 0] == top_k(golden.reshape(count, -1), 1)[:, 0]
        return np.asarray(same & ~np.isnan(measured.astype(np.float64)).any(axis=1), dtype=np.float64)

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        return float(np.mean(self.per_sample(outputs, labels)))


@dataclass(frozen=True, slots=True)
class WorstSliceSqnr:
    """The lowest SQNR in dB of any slice of any output against the golden ones, pooled over the samples.

    Bounded to +-200 dB, so that an exact match is a number.
    """

    name: str = "worst_slice_sqnr_db"
    higher_is_better: bool = True
    reference: Reference = Reference.GOLDEN

    def per_sample(self, outputs: Arrays, labels: Arrays) -> NDArray[np.float64]:
        return np.array(
            [
                self.score(
                    {k: v[i : i + 1] for k, v in outputs.items()},
                    {k: v[i : i + 1] for k, v in labels.items()},
                )
                for i in range(sample_count(outputs))
            ]
        )

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        missing = sorted(set(labels) - set(outputs))
        if missing or not labels:
            raise DataError(f"metric {self.name!r}: output {missing[0] if missing else ''!r} is missing.")
        worst = min(worst_slice(golden, outputs[name]).sqnr_db for name, golden in labels.items())
        return float(np.clip(worst, -200.0, 200.0)) if not math.isnan(worst) else -200.0
