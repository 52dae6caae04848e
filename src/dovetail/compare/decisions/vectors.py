"""Agreement of embeddings and signals: direction, ranking, and energy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dovetail.compare.decisions.golden import AgainstFloat, Floats, by_channel, output_pair
from dovetail.compare.task import Arrays
from dovetail.ir.dtypes import AnyArray

_SILENT = 1e-12
"""Share of the loudest channel's energy below which a channel is silent."""


@dataclass(frozen=True)
class SignalAgreement(AgainstFloat):
    """Share of a signal's energy that is float's signal, whatever its loudness: 1 / (1 + 10^(-SI-SDR / 10)).

    Source of the ratio: Le Roux et al., "SDR - half-baked or well done?", 2019. With a channel axis the worst channel
    counts that is not silent.
    """

    output: str
    channel_axis: int | None = None
    name: str = "signal"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        golden, measured = (
            by_channel(values, self.channel_axis) for values in output_pair(outputs, labels, self.output)
        )
        energy = np.square(golden).sum(axis=2)
        loudest = energy.max(axis=1, keepdims=True)
        shares = same_direction(golden, measured)
        judged = np.where(energy > _SILENT * loudest, shares, 1.0)
        return np.asarray(np.where(loudest[:, 0] > 0, judged.min(axis=1), shares.min(axis=1)), np.float64)

    def unit(self, score: float) -> str:
        return f"SI-SDR {ratio_db(score):.1f} dB"


def same_direction(golden: Floats, measured: Floats) -> Floats:
    """Return the squared cosine over the last axis: 0 for what points away, is silent on one side or is not finite."""
    finite = np.asarray(np.isfinite(measured).all(axis=-1))
    measured = np.where(np.expand_dims(finite, -1), measured, 0.0)
    product = (golden * measured).sum(axis=-1)
    energies = np.square(golden).sum(axis=-1), np.square(measured).sum(axis=-1)
    both = energies[0] * energies[1]
    shares = np.divide(np.square(product), both, out=np.zeros_like(product), where=both > 0)
    silent = (energies[0] == 0) & (energies[1] == 0) & finite
    return np.asarray(np.where(silent, 1.0, np.clip(shares, 0.0, 1.0) * (product > 0)), np.float64)


def ratio_db(share: float) -> float:
    """Return 10 log10(share / (1 - share)), within +-100."""
    bounded = min(max(share, 1e-10), 1 - 1e-10)
    return 10 * math.log10(bounded / (1 - bounded))


@dataclass(frozen=True)
class EmbeddingAngle(AgainstFloat):
    """Squared cosine of the angle to float's embedding."""

    output: str
    name: str = "angle"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        golden, measured = output_pair(outputs, labels, self.output)
        flat = (np.asarray(values, np.float64).reshape(len(values), -1) for values in (golden, measured))
        return same_direction(*flat)

    def unit(self, score: float) -> str:
        return f"{math.degrees(math.acos(math.sqrt(min(max(score, 0.0), 1.0)))):.1f} degrees"


@dataclass(frozen=True)
class EmbeddingRanking(AgainstFloat):
    """Whether a sample finds the same entries of a gallery nearest as in float, in the same order.

    The gallery is float's embeddings of some samples `[G, values]`, so that a sample's score does not depend on what it
    is scored with. Of all pairs of entries those count that keep their order of similarity, weighted by how far float
    has them apart; 1 where float holds no two apart.
    """

    output: str
    gallery: tuple[tuple[float, ...], ...]
    name: str = "ranking"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        golden, measured = (
            _directions(values) @ _directions(np.array(self.gallery)).T
            for values in output_pair(outputs, labels, self.output)
        )
        scores = np.ones(len(golden))
        for row, (real, found) in enumerate(zip(golden, measured, strict=True)):
            apart = real[:, None] - real[None, :]
            kept = np.sign(found[:, None] - found[None, :]) == np.sign(apart)
            weight = np.abs(apart)
            scores[row] = float((weight * kept).sum() / weight.sum()) if weight.sum() > 0 else 1.0
        return scores


def _directions(values: AnyArray) -> Floats:
    rows = np.nan_to_num(np.asarray(values, np.float64).reshape(len(values), -1))
    length = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    return np.asarray(np.divide(rows, length, out=np.zeros_like(rows), where=length > 0), np.float64)
