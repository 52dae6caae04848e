"""Rounding against decimal arithmetic, and multipliers against integers."""

from __future__ import annotations

from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.backend.arithmetic import Carrier, Rounding, Tie, ZeroPointOrder
from dovetail.backends.npusim.rounding import Store, round_in_place
from dovetail.ir import DType, Quantization, TensorType

VALUES = st.one_of(
    st.integers(-300, 300).map(lambda k: k / 2),
    st.floats(-(2.0**40), 2.0**40),
    st.sampled_from([0.49999999999999994, -0.49999999999999994, 2.0**52 + 0.5, 4503599627370495.5]),
)


def expected(value: float, tie: Tie) -> int:
    exact = Decimal(value)
    if tie is Tie.UP:
        return int((exact + Decimal("0.5")).to_integral_value(ROUND_FLOOR))
    mode = ROUND_HALF_EVEN if tie is Tie.EVEN else ROUND_HALF_UP  # decimal's half-up goes away from zero
    return int(exact.to_integral_value(mode))


@pytest.mark.parametrize("tie", Tie)
@given(value=VALUES)
def test_ties_go_where_they_should(tie: Tie, value: float) -> None:
    found = np.array([value])
    round_in_place(found, tie)
    assert int(found[0]) == expected(value, tie)


@pytest.mark.parametrize(
    ("order", "zero", "wanted"),
    [
        (ZeroPointOrder.AFTER, 3, [3, 5, 5]),
        (ZeroPointOrder.BEFORE, 3, [4, 4, 6]),
        (ZeroPointOrder.BEFORE, 4, [4, 6, 6]),
    ],
)
def test_an_odd_zero_point_moves_ties(order: ZeroPointOrder, zero: int, wanted: list[int]) -> None:
    kind = TensorType(DType.U8, (3,), Quantization((1.0,), (zero,)))
    store = Store(kind, Rounding(Tie.EVEN, order))
    assert store.from_steps(np.array([0.5, 1.5, 2.5])).tolist() == wanted


def test_what_is_not_a_number_is_stored_as_zero_and_the_rest_saturates() -> None:
    store = Store(TensorType(DType.I8, (4,), Quantization((0.5,), (-7,))), Rounding())
    found = store.from_reals(np.array([np.nan, np.inf, -np.inf, 1.0]))
    assert found.tolist() == [0, 127, -128, -5]


@pytest.mark.parametrize(("dtype", "lowest"), [(DType.U8, 0), (DType.I8, -128), (DType.I16, 0)])
def test_a_shader_stores_scalars_and_what_is_no_number(dtype: DType, lowest: int) -> None:
    rounding = Rounding(Tie.EVEN, ZeroPointOrder.BEFORE, Carrier.SINGLE)
    store = Store(TensorType(dtype, (), Quantization((0.3,), (7,))), rounding)
    assert int(store.from_reals(np.asarray(1.5))) == 12
    assert int(store.from_steps(np.asarray(5.0))) == 12
    assert int(store.from_reals(np.asarray(np.nan))) == lowest
