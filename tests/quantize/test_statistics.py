"""Powers of channels, against sums by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.ir import AnyArray
from dovetail.quantize.statistics import ChannelPower, PowerMeter, channel_axes


def _powers(*samples: AnyArray) -> tuple[ChannelPower, ...]:
    meter = PowerMeter()
    for sample in samples:
        meter.update("t", sample)
    return meter.statistics().tensors["t"]


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((), []),
        ((5,), []),
        ((1, 4), [1]),
        ((3, 1), []),
        ((1, 2, 3), [1, 2]),
        ((1, 2, 3, 4), [1, 3]),
        ((1, 1, 3, 4), [3]),
        ((1, 8192, 1, 8193), [1]),
    ],
)
def test_the_second_and_the_last_axis_may_count_channels(shape: tuple[int, ...], axes: list[int]) -> None:
    assert channel_axes(np.zeros(shape, np.float32)) == axes


def test_a_power_is_the_mean_square_over_all_samples() -> None:
    first = np.array([[[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]]])
    second = np.array([[[1.0, 0.0], [1.0, 0.0], [6.0, 0.0]]])
    rows, columns = _powers(first, second)
    assert (rows.axis, columns.axis) == (1, 2)
    np.testing.assert_allclose(rows.mean_square, [6 / 4, 26 / 4, 36 / 4])
    np.testing.assert_allclose(columns.mean_square, [48 / 6, 20 / 6])


def test_samples_of_another_size_count_where_the_channels_are_the_same() -> None:
    first, wider = np.full((1, 2, 3), 1.0), np.full((1, 2, 5), 3.0)
    rows, columns = _powers(first, wider)
    np.testing.assert_allclose(rows.mean_square, [(3 + 45) / 8] * 2)
    np.testing.assert_allclose(columns.mean_square, [1.0] * 3)


def test_samples_of_another_rank_count_where_their_axes_agree() -> None:
    rows, columns = _powers(np.full((1, 2, 3), 1.0), np.full((4, 2), 3.0))
    np.testing.assert_allclose(rows.mean_square, [(3 + 36) / 7] * 2)
    np.testing.assert_allclose(columns.mean_square, [1.0] * 3)


def test_float16_does_not_overflow() -> None:
    (power,) = _powers(np.full((1, 2), 300.0, np.float16))
    np.testing.assert_allclose(power.mean_square, [90_000.0] * 2)


def test_nothing_has_no_power() -> None:
    assert PowerMeter().statistics().tensors == {}
    (power,) = _powers(np.zeros((0, 2), np.float32))
    np.testing.assert_array_equal(power.mean_square, [0.0, 0.0])


def test_an_axis_of_another_size_does_not_hide_the_next_one() -> None:
    rows, columns = _powers(np.full((1, 2, 3), 1.0), np.full((1, 4, 3), 3.0))
    np.testing.assert_allclose(rows.mean_square, [1.0] * 2)
    np.testing.assert_allclose(columns.mean_square, [(2 + 36) / 6] * 3)
