"""Noise in numbers whose meaning is not known, as a share of the range that matters where they are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dovetail.compare.decisions.golden import AgainstFloat, Floats, by_channel, output_pair
from dovetail.compare.task import Arrays, sample_count
from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray

_FLOOR = 0.1
"""Share of the largest range of an output that counts as the range of a quieter channel: it cannot lead below that."""


REACHES = (0.05, 0.1, 0.2)
"""Shares of a size within which a value is near: PCK is stated at 0.1 and 0.2 of it, finer work at 0.05."""


@dataclass(frozen=True)
class NoiseAgreement(AgainstFloat):
    """1 less the noise of the worst channel: root mean square, as a share of the channel's range.

    `ranges` are those of the float model on the samples that the metric was made for, one for each index of `axis`
    (None: one for the whole output). The range of a channel is at least a tenth of the largest.
    """

    output: str
    axis: int | None
    ranges: tuple[float, ...]
    name: str = "noise"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        power = np.square(self.shares(outputs, labels)).mean(axis=2)
        return np.asarray(1.0 - np.minimum(np.sqrt(power).max(axis=1), 1.0), np.float64)

    def shares(self, outputs: Arrays, labels: Arrays) -> Floats:
        """Return how far every value `[N, channels, rest]` is from float's, as a share of its channel's range.

        It is infinite where a value is no number, and 0 where float's is none.
        """
        golden, measured = (np.asarray(item, np.float64) for item in output_pair(outputs, labels, self.output))
        with np.errstate(over="ignore", invalid="ignore"):
            apart = np.abs(measured - golden)
        apart = np.where(np.isfinite(golden), np.where(np.isfinite(apart), apart, np.inf), 0.0)
        channels = by_channel(apart, self.axis)
        if channels.shape[1] != len(self.ranges):
            raise DataError(f"metric: output '{self.output}' has {channels.shape[1]} channels, not {len(self.ranges)}.")
        return np.asarray(channels / np.array(self.ranges)[:, None], np.float64)

    def unit(self, score: float) -> str:
        return share_text(score)


@dataclass(frozen=True)
class ValueAgreement(NoiseAgreement):
    """Mean over the values: 1 within the nearest reach of float's, 0 beyond the farthest, evenly less in between.

    Reaches are shares of a channel's range and those of keypoints: numbers beside a decision weigh as coordinates do.
    """

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        near, far = REACHES[0], REACHES[-1]
        lost = np.clip((self.shares(outputs, labels) - near) / (far - near), 0.0, 1.0)
        return np.asarray(1.0 - lost.mean(axis=(1, 2)), np.float64)

    def unit(self, score: float) -> str:
        return ""


@dataclass(frozen=True)
class AnyNoise(AgainstFloat):
    """The noise of the worst channel of any output, as a share of the range that the channel has in the same sample."""

    name: str = "noise"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        if not labels:
            raise DataError(f"metric {self.name!r}: there is no float output.")
        return np.array([self._one(outputs, labels, index) for index in range(sample_count(labels))])

    def _one(self, outputs: Arrays, labels: Arrays, index: int) -> float:
        missing = [name for name in labels if name not in outputs]
        if missing:
            raise DataError(f"metric {self.name!r}: output {missing[0]!r} is missing.")
        real, found = ({name: arrays[name][index : index + 1] for name in labels} for arrays in (labels, outputs))
        return min(float(noise_against(name, real[name]).per_sample(found, real)[0]) for name in labels)

    def unit(self, score: float) -> str:
        return share_text(score)


def share_text(score: float) -> str:
    """Return what is lost as a share of the range and in decibels below it."""
    share = max(1.0 - score, 1e-6)
    return f"{share:.2%} of the range, {-20 * math.log10(share):.0f} dB"


def noise_against(name: str, golden: AnyArray) -> NoiseAgreement:
    """Return the metric for an output, given the float model's values `[N, ...]` on some samples."""
    values = np.asarray(golden, np.float64)
    axis = _channel_axis(values.shape[1:])
    channels = by_channel(values, axis)
    flat = np.moveaxis(channels, 1, 0).reshape(channels.shape[1], -1)
    known = np.isfinite(flat)
    high = np.where(known, flat, -np.inf).max(axis=1, initial=-np.inf)
    low = np.where(known, flat, np.inf).min(axis=1, initial=np.inf)
    ranges = np.where(known.any(axis=1), high - low, 0.0)
    largest = float(ranges.max(initial=0.0)) or 1.0
    return NoiseAgreement(name, axis, tuple(np.maximum(ranges, _FLOOR * largest).tolist()), f"noise of {name}")


def values_against(name: str, golden: AnyArray) -> ValueAgreement:
    """Return the metric for an output beside a decision, given the float model's values `[N, ...]` on some samples."""
    found = noise_against(name, golden)
    return ValueAgreement(name, found.axis, found.ranges, f"values of {name}")


def _channel_axis(shape: tuple[int, ...]) -> int | None:
    """Return the axis that is most likely that of channels: the smallest of several larger than 1, None for one."""
    wide = [axis for axis, size in enumerate(shape) if size > 1]
    return min(wide, key=lambda axis: (shape[axis], axis)) if len(wide) > 1 else None
