"""Histograms, quantiles, errors and divergences against their definitions, spelt out in plain loops."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dovetail.errors import DataError, QuantizeError
from dovetail.quantize.observers import CalibrationMethod, Observer, ObserverOptions, make_observer
from dovetail.quantize.observers.histogram import Density, Histogram
from dovetail.quantize.observers.mse import Quantiser, expected_error, quantiser
from dovetail.quantize.observers.percentile import quantile

Values = NDArray[np.float32]


def _observed(method: CalibrationMethod, values: Values, options: ObserverOptions) -> Observer:
    observer = make_observer(method, options)
    observer.update(values)
    return observer


def _density(*values: float, bins: int = 256) -> Density:
    histogram = Histogram(bins)
    histogram.update(np.array(values, np.float64))
    return histogram.density()


# Histograms


def test_bins_are_powers_of_two_anchored_at_zero_and_end_at_the_extremes() -> None:
    density = _density(-1.3, 0.2, 0.3, 2.9, bins=8)
    # 4.2 wide: bins of a half would be 9.
    assert density.edges.tolist() == [-1.3, -1.0, 0.0, 1.0, 2.0, 2.9]
    assert density.counts.tolist() == [1, 0, 2, 0, 1]
    assert (density.low, density.high) == (-1.3, 2.9)


@pytest.mark.parametrize(("top", "bins", "count"), [(63.5, 64, 64), (64.0, 64, 33), (64.0, 65, 65), (63.5, 65, 64)])
def test_bins_are_as_narrow_as_their_number_allows(top: float, bins: int, count: int) -> None:
    assert _density(0.0, top, bins=bins).counts.size == count


def test_no_bin_is_finer_than_the_largest_value_can_tell() -> None:
    for power in (2.0**-7, 1.0, 2.0**9):
        step = power * 2.0**-21  # the values are below twice the power, and an index has 22 bits
        assert _density(power, power + step / 2).counts.tolist() == [2]
        assert _density(power, power + step).counts.tolist() == [1, 1]


def test_no_bin_is_finer_than_float32_can_scale() -> None:
    step = 2.0**-120
    assert _density(0.0, step * 0.75).counts.tolist() == [2]
    assert _density(0.0, step, step * 1.5).counts.tolist() == [1, 2]


def test_a_small_negative_value_does_not_fall_among_the_zeros() -> None:
    histogram = Histogram(64)
    histogram.update(np.array([-1e-45, 0.0, 0.0, 1e30], np.float32))
    assert histogram.density().counts[:2].tolist() == [1, 3 - 1]


def test_many_values_are_counted_in_pieces() -> None:
    histogram = Histogram(64)
    values = np.arange(200_000) % 10
    histogram.update(values.astype(np.float32).reshape(2, 1000, 100))
    assert histogram.count == 200_000
    counts = histogram.density().counts
    assert counts[counts > 0].tolist() == [20_000] * 10


def test_counts_move_into_wider_bins_and_none_is_lost() -> None:
    histogram = Histogram(64)
    histogram.update(np.array([0.25, 0.75, -0.25], np.float32))
    histogram.update(np.array([1000.0], np.float32))
    density = histogram.density()
    assert density.counts.sum() == 4
    assert density.edges[1] == 0.0
    assert density.counts[:2].tolist() == [1, 2]


def test_nothing_seen_has_no_density() -> None:
    with pytest.raises(DataError, match="no value was seen"):
        Histogram(64).density()
    merged = Histogram(64)
    merged.merge(Histogram(64))
    assert merged.count == 0


def test_texts_have_no_range() -> None:
    with pytest.raises(DataError, match="dtype <U1 has no range"):
        make_observer(CalibrationMethod.MINMAX).update(np.array(["a"]))


@pytest.mark.parametrize(
    "good", [{"bits": 2}, {"bits": 16}, {"percentile": 100}, {"momentum": 1}, {"bins": 64}, {"bins": 1 << 20}]
)
def test_options_at_their_ends_are_taken(good: dict[str, Any]) -> None:
    assert ObserverOptions(**good)


@pytest.mark.parametrize(
    "bad", [{"bins": 63}, {"bins": (1 << 20) + 1}, {"percentile": 100.1}, {"momentum": 1.01}, {"bits": -3}]
)
def test_options_beyond_their_ends_are_refused(bad: dict[str, Any]) -> None:
    (name,) = bad
    with pytest.raises(QuantizeError, match=f"calibration: {name} .* is outside"):
        ObserverOptions(**bad)


def test_the_first_sample_is_the_first_state_of_a_moving_average() -> None:
    observer = make_observer(CalibrationMethod.MOVING_AVERAGE, ObserverOptions(momentum=0.25))
    observer.update(np.array([-4.0, 8.0], np.float32))
    assert observer.range() == (-4.0, 8.0)
    observer.update(np.array([0.0, 4.0, 2.0], np.float32))
    assert observer.range() == (-3.0, 7.0)
    assert observer.count == 5


def test_a_moving_average_without_samples_takes_over_the_others() -> None:
    first, second = (make_observer(CalibrationMethod.MOVING_AVERAGE, ObserverOptions(momentum=0.5)) for _ in "ab")
    second.update(np.array([1.0, 3.0], np.float32))
    first.merge(second)
    assert (first.range(), first.count) == ((1.0, 3.0), 2)
    first.merge(make_observer(CalibrationMethod.MOVING_AVERAGE))
    assert (first.range(), first.count) == ((1.0, 3.0), 2)
    first.merge(second)
    third = make_observer(CalibrationMethod.MOVING_AVERAGE, ObserverOptions(momentum=0.5))
    third.update(np.array([5.0, 9.0], np.float32))
    first.merge(third)
    assert first.range() == (3.0, 6.0)


# Quantiles


@pytest.mark.parametrize(
    ("share", "value"), [(0.1, 0.4), (0.25, 1.0), (0.5, 1 + 1 / 3), (0.75, 1 + 2 / 3), (0.9, 1 + 2.6 / 3)]
)
def test_a_quantile_is_interpolated_in_its_bin(share: float, value: float) -> None:
    density = Density(np.array([1, 3]), np.array([0.0, 1.0, 2.0]))
    assert quantile(density, share) == pytest.approx(value)


def test_an_empty_bin_holds_no_quantile() -> None:
    density = Density(np.array([2, 0, 2]), np.array([0.0, 1.0, 5.0, 6.0]))
    assert quantile(density, 0.5) == 1.0
    assert quantile(density, 0.5001) == pytest.approx(5.0002)


def test_half_of_what_is_cut_is_cut_on_either_side() -> None:
    values = np.arange(1000, dtype=np.float32)
    low, high = _observed(CalibrationMethod.PERCENTILE, values, ObserverOptions(percentile=90.0, bins=4096)).range()
    assert (low, high) == (pytest.approx(50.0, abs=1.0), pytest.approx(949.0, abs=1.5))


# Errors


def test_grids_by_hand() -> None:
    assert quantiser(-3.0, 1.0, 3, True) == Quantiser(1.0, -3, 3)
    assert quantiser(-1.0, 2.54, 8, True) == Quantiser(2.54 / 127, -127, 127)
    assert quantiser(-1.0, 6.0, 3, False) == Quantiser(1.0, -1, 6)
    assert quantiser(2.0, 7.0, 3, False) == Quantiser(1.0, 0, 7)
    assert quantiser(-7.0, -2.0, 3, False) == Quantiser(1.0, -7, 0)
    assert quantiser(0.0, 0.0, 3, False) == Quantiser(0.0, 0, 7)


def _error(density: Density, grid: Quantiser) -> float:
    """Return the mean squared error of values at the middles of 2,000 parts of every bin."""
    total = 0.0
    for count, left, right in zip(density.counts, density.edges, density.edges[1:], strict=False):
        parts = left + (right - left) * (np.arange(2000) + 0.5) / 2000
        codes = np.clip(np.rint(parts / grid.step), grid.lowest, grid.highest)
        total += int(count) * float(np.mean((parts - codes * grid.step) ** 2))
    return total / int(density.counts.sum())


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-0.3, 2.0), (0.0, 0.4), (-2.0, -0.1), (-5.0, 5.0)])
def test_the_expected_error_is_the_mean_over_evenly_spread_values(low: float, high: float, symmetric: bool) -> None:
    density = Density(np.array([5, 0, 7, 1, 2]), np.array([-1.7, -1.0, -0.25, 0.125, 0.5, 2.0]))
    wanted = _error(density, quantiser(low, high, 4, symmetric))
    assert expected_error(density, low, high, 4, symmetric) == pytest.approx(wanted, rel=1e-3)


def test_a_bin_without_width_has_the_error_of_its_value() -> None:
    density = Density(np.array([3, 1]), np.array([0.3, 0.3, 1.3]))
    inside = _error(Density(np.array([1]), np.array([0.3, 1.3])), Quantiser(0.2, 0, 7))
    assert expected_error(density, 0.0, 1.4, 3) == pytest.approx((3 * 0.1**2 + inside) / 4, rel=1e-3)


def test_a_grid_without_a_step_makes_everything_zero() -> None:
    density = Density(np.array([1, 3]), np.array([0.0, 1.0, 3.0]))
    assert expected_error(density, 0.0, 0.0, 8) == (0.5**2 + 3 * 2.0**2) / 4
    assert expected_error(density, 0.0, 1e-320, 8) == (0.5**2 + 3 * 2.0**2) / 4


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("kind", ["normal", "heavy", "positive", "negative", "skewed"])
def test_no_other_pair_of_ends_has_a_lower_error(kind: str, symmetric: bool) -> None:
    values = _data(kind)
    histogram = Histogram(256)
    histogram.update(values)
    density = histogram.density()
    options = ObserverOptions(bits=4, bins=256, symmetric=symmetric)
    low, high = _observed(CalibrationMethod.MSE, values, options).range()
    factors = np.geomspace(0.01, 1.0, 80)
    lows, highs = ({min(max(end * f, density.low), density.high) for f in factors} for end in (low / 0.2, high / 0.2))
    pairs = [(a, b) for a in lows for b in highs if a <= b]
    least = min(expected_error(density, a, b, 4, symmetric) for a, b in pairs)
    assert expected_error(density, low, high, 4, symmetric) <= least * 1.01


def test_the_default_grid_is_asymmetric() -> None:
    density = Density(np.array([1]), np.array([0.0, 1.0]))
    assert expected_error(density, 0.0, 1.0, 4) == expected_error(density, 0.0, 1.0, 4, symmetric=False)
    assert expected_error(density, 0.0, 1.0, 4) < expected_error(density, 0.0, 1.0, 4, symmetric=True) / 2


# Divergences


def _divergence(counts: list[float], start: int, stop: int, levels: int) -> float:
    """Return D(P || Q) of a window: P with the outliers in its end bins, Q the window's bins merged into levels."""
    real = list(counts[start:stop])
    real[0] += sum(counts[:start])
    real[-1] += sum(counts[stop:])
    bounds = [start + level * (stop - start) // levels for level in range(levels + 1)]
    merged = [0.0] * (stop - start)
    for left, right in pairwise(bounds):
        filled = [index for index in range(left, right) if counts[index] > 0]
        for index in filled:
            merged[index - start] = sum(counts[left:right]) / len(filled)
    p, q = _smooth(real), _smooth(merged)
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def _smooth(counts: list[float]) -> list[float]:
    total = sum(counts)
    if total <= 0:
        return [1 / len(counts)] * len(counts)
    raised = [count / total if count else 1e-4 / len(counts) for count in counts]
    return [item / sum(raised) for item in raised]


def _padded(values: Values, bins: int) -> tuple[list[float], list[float], int]:
    """Return bins from the first to the last value and to zero, their edges, and the bin of zero."""
    histogram = Histogram(bins)
    histogram.update(values)
    density = histogram.density()
    width = float(density.edges[2] - density.edges[1])
    indices = np.floor(values.astype(np.float64) / width).astype(int)
    first, last = min(indices.min(), 0), max(indices.max(), -1)
    counts = [float((indices == index).sum()) for index in range(first, last + 1)]
    edges = [width * index for index in range(first, last + 2)]
    zero = min(-first, len(counts) - 1)
    beside = [counts[index] for index in (zero - 1, zero + 1) if 0 <= index < len(counts)]
    if beside and max(beside) > 0:
        counts[zero] = min(counts[zero], max(beside))
    return counts, edges, zero


def _widest_of_the_best(windows: list[tuple[int, int]], counts: list[float], levels: int) -> tuple[int, int]:
    ordered = sorted(windows, key=lambda window: window[0] - window[1])
    errors = [_divergence(counts, *window, levels) for window in ordered]
    return ordered[int(np.argmin(errors))]


def _spaced(first: int, last: int) -> list[int]:
    """Return all whole numbers between two, or 128 of them that are as far apart as they can be."""
    count = min(128, last - first + 1)
    return sorted({round(first + (last - first) * index / max(1, count - 1)) for index in range(count)})


def _data(kind: str) -> Values:
    rng = np.random.default_rng(11)
    values = {
        "normal": rng.standard_normal(3000),
        "heavy": rng.standard_t(2, 3000),
        "relu": np.maximum(rng.laplace(size=3000), 0),
        "positive": rng.uniform(2, 6, 3000) ** 2,
        "negative": -rng.gamma(2.0, size=3000) - 1.0,
        "skewed": rng.gumbel(size=3000) + 0.5,
        "few": rng.choice([-2.0, 0.5, 1.0, 9.0], 300),
        # Windows up to the first value and up to the second lose as little: nothing.
        "two": rng.choice([1.0, 2.0], 300),
    }[kind]
    return values.astype(np.float32)


KINDS = ["normal", "heavy", "relu", "positive", "negative", "few", "two"]


FORMS = [(2, 96), (4, 96), (3, 400)]
"""Bits and bins: few enough that every window is tried, and too many for that."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("bits", "bins"), FORMS)
def test_both_ends_together_are_the_best_window_around_zero(kind: str, bits: int, bins: int) -> None:
    values, levels = _data(kind), 1 << bits
    counts, edges, zero = _padded(values, bins)
    size = len(counts)
    halves = _spaced(levels // 2, max(zero + 1, size - zero))
    windows = [(max(0, zero - half), min(size, zero + half + 1)) for half in halves]
    start, stop = _widest_of_the_best(windows, counts, levels)
    options = ObserverOptions(bits=bits, bins=bins, symmetric=True)
    low, high = _observed(CalibrationMethod.KL, values, options).range()
    assert low == pytest.approx(max(edges[start], float(values.min())))
    assert high == pytest.approx(min(edges[stop], float(values.max())))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("bits", "bins"), FORMS)
def test_the_ends_in_turn_are_each_the_best_beside_the_other(kind: str, bits: int, bins: int) -> None:
    values, levels = _data(kind), 1 << bits
    counts, edges, zero = _padded(values, bins)
    start, stop = 0, len(counts)
    for _ in range(2):
        ends = [(start, end) for end in _spaced(max(start + levels, zero + 1), len(counts))]
        start, stop = _widest_of_the_best(ends or [(start, stop)], counts, levels)
        begins = [(begin, stop) for begin in _spaced(0, min(stop - levels, zero))]
        start, stop = _widest_of_the_best(begins or [(start, stop)], counts, levels)
    low, high = _observed(CalibrationMethod.KL, values, ObserverOptions(bits=bits, bins=bins)).range()
    assert low == pytest.approx(float(np.clip(edges[start], values.min(), values.max())))
    assert high == pytest.approx(float(np.clip(edges[stop], values.min(), values.max())))


def test_two_bins_for_each_level_are_enough() -> None:
    assert make_observer(CalibrationMethod.KL, ObserverOptions(bits=8, bins=512))
    with pytest.raises(QuantizeError, match="kl cannot tell 256 levels apart with 511 bins"):
        make_observer(CalibrationMethod.KL, ObserverOptions(bits=8, bins=511))


def test_values_far_from_zero_are_not_padded_up_to_it() -> None:
    values = np.linspace(1000.0, 1001.0, 500, dtype=np.float32)
    low, high = _observed(CalibrationMethod.KL, values, ObserverOptions(bits=4, bins=256)).range()
    assert 1000.0 <= low < high <= 1001.0
