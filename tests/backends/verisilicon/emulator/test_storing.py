"""Rounding against decimal arithmetic."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.backends.verisilicon.emulator.storing import Store
from dovetail.ir import DType, Quantization, TensorType

VALUES = st.one_of(
    st.integers(-300, 300).map(lambda k: k / 2),
    st.floats(-(2.0**30), 2.0**30),
    st.sampled_from([0.49999999999999994, -0.49999999999999994, 2.0**30 + 0.5]),
)


@given(value=VALUES)
def test_ties_go_to_even(value: float) -> None:
    store = Store(TensorType(DType.I32, (1,), Quantization((1.0,), (0,))))
    wanted = int(Decimal(value).to_integral_value(ROUND_HALF_EVEN))
    assert store.from_steps(np.array([value])).tolist() == [wanted]


@pytest.mark.parametrize(
    ("before", "zero", "wanted"),
    [(False, 3, [3, 5, 5]), (True, 3, [4, 4, 6]), (True, 4, [4, 6, 6])],
)
def test_an_odd_zero_point_moves_ties(before: bool, zero: int, wanted: list[int]) -> None:
    kind = TensorType(DType.U8, (3,), Quantization((1.0,), (zero,)))
    for single in (False, True):
        assert Store(kind, before, single).from_steps(np.array([0.5, 1.5, 2.5])).tolist() == wanted


def test_what_is_not_a_number_is_stored_as_zero_and_the_rest_saturates() -> None:
    store = Store(TensorType(DType.I8, (4,), Quantization((0.5,), (-7,))))
    found = store.from_reals(np.array([np.nan, np.inf, -np.inf, 1.0]))
    assert found.tolist() == [0, 127, -128, -5]


@pytest.mark.parametrize(("dtype", "lowest"), [(DType.U8, 0), (DType.I8, -128), (DType.I16, 0)])
def test_a_shader_stores_scalars_and_what_is_no_number(dtype: DType, lowest: int) -> None:
    store = Store(TensorType(dtype, (), Quantization((0.3,), (7,))), moved_before=True, single=True)
    assert int(store.from_reals(np.asarray(1.5))) == 12
    assert int(store.from_steps(np.asarray(5.0))) == 12
    assert int(store.from_reals(np.asarray(np.nan))) == lowest


def test_a_signed_byte_seen_as_an_unsigned_one_rounds_where_that_lies() -> None:
    """A tenth is 25.4999996 steps of 1/255: behind -128 float32 takes it for a tie."""
    kind = TensorType(DType.I8, (1,), Quantization((float(np.float32(1 / 255)),), (-128,)))
    found = [Store(kind, True, True, shift).from_reals(np.array([0.1])).tolist() for shift in (0, 128)]
    assert found == [[-102], [-103]]
