"""Tensor metrics against scipy and direct formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial import distance

from dovetail.compare import TENSOR_METRICS, Head, lsb_histogram, sqnr_db_along, top_k_agreement, worst_slice
from dovetail.errors import DataError

values = st.floats(-1e6, 1e6, width=32).filter(lambda v: v == 0 or abs(v) > 1e-6)
pairs = hnp.array_shapes(max_dims=3, max_side=6).flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.float32, shape, elements=values), hnp.arrays(np.float32, shape, elements=values)
    )
)


@given(pairs)
def test_against_scipy_and_formulas(tensors):
    a, b = (t.astype(np.float64).ravel() for t in tensors)
    assert TENSOR_METRICS["euclidean"](*tensors) == pytest.approx(distance.euclidean(a, b))
    assert TENSOR_METRICS["max_abs_error"](*tensors) == pytest.approx(distance.chebyshev(a, b))
    assert TENSOR_METRICS["mean_abs_error"](*tensors) == pytest.approx(distance.cityblock(a, b) / a.size)
    assume(a.any() and b.any())
    assert TENSOR_METRICS["cosine"](*tensors) == pytest.approx(1 - distance.cosine(a, b), abs=1e-9)
    assume((a != b).any())
    expected = 10 * math.log10((a**2).sum() / ((a - b) ** 2).sum())
    assert TENSOR_METRICS["sqnr_db"](*tensors) == pytest.approx(expected, abs=1e-9)


@given(pairs, st.data())
def test_slices_are_the_metric_of_the_slice(tensors, data):
    a, b = tensors
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    along = sqnr_db_along(a, b, axis)
    for i, value in enumerate(along):
        assert value == pytest.approx(TENSOR_METRICS["sqnr_db"](np.take(a, i, axis), np.take(b, i, axis)), abs=1e-6)


def test_limits_are_defined():
    zero, one, nan = np.zeros(3), np.ones(3), np.array([1.0, np.nan, 1.0])
    cosine, sqnr = TENSOR_METRICS["cosine"], TENSOR_METRICS["sqnr_db"]
    assert (cosine(zero, zero), cosine(zero, one), cosine(one, one), cosine(one, -one)) == (1, 0, 1, -1)
    assert (sqnr(one, one), sqnr(zero, zero), sqnr(zero, one)) == (math.inf, math.inf, -math.inf)
    assert (sqnr(one, nan), cosine(one, nan), TENSOR_METRICS["max_abs_error"](one, nan)) == (
        -math.inf,
        0,
        math.inf,
    )
    assert sqnr(nan, nan) == math.inf  # matched exactly
    assert sqnr(nan, one) == -math.inf
    masked = np.array([-np.inf, 1.0])
    assert sqnr(masked, np.array([-np.inf, 1.1])) == pytest.approx(20, abs=1e-6)
    assert list(sqnr_db_along(np.array([[1.0, 1.0]]), np.array([[np.nan, 1.0]]), 1)) == [-math.inf, math.inf]
    assert cosine(np.full(4, 1e-200), np.full(4, 1e-200)) == 1  # squares would underflow


def test_shapes_and_types_are_checked():
    for metric in TENSOR_METRICS.values():
        with pytest.raises(DataError, match=r"shapes differ: golden \[2, 3\], measured \[3, 2\]"):
            metric(np.zeros((2, 3)), np.zeros((3, 2)))
    with pytest.raises(DataError, match="not numeric"):
        TENSOR_METRICS["cosine"](np.array(["a"]), np.array(["a"]))


def test_lsb_histogram_does_not_wrap():
    a = np.array([0, 255, 128, 7], np.uint8)
    b = np.array([255, 0, 129, 7], np.uint8)
    assert lsb_histogram(a, b) == {255: 1, -255: 1, 1: 1, 0: 1}
    big = np.array([2**63], np.uint64)
    assert lsb_histogram(np.array([-(2**63)], np.int64), big) == {2**64: 1}
    with pytest.raises(DataError, match="not both integers"):
        lsb_histogram(a, b.astype(np.float32))


def test_top_k_agreement():
    a = np.array([[3.0, 2.0, 1.0], [1.0, 1.0, 0.0]])
    b = np.array([[2.0, 3.0, 1.0], [1.0, 0.0, 0.0]])
    assert top_k_agreement(a, b) == 0.5
    assert top_k_agreement(a, b, 2) == 1.0
    assert top_k_agreement(a, np.where(a == 3, np.nan, a)) == 0.5
    with pytest.raises(DataError, match="top-4"):
        top_k_agreement(a, b, 4)


def test_heads_are_pooled_inside_and_judged_apart():
    golden = np.tile(np.array([600.0, 500.0, 0.9, 0.001]), (1, 50, 1))
    measured = golden.copy()
    measured[..., 3] = 0.0
    assert worst_slice(golden, measured).sqnr_db == 0
    heads = (Head("box", 0, 2), Head("class", 2, 4))
    worst = worst_slice(golden, measured, heads)
    assert worst.name == "class"
    assert worst.sqnr_db == pytest.approx(20 * math.log10(900), abs=0.01)
    measured[..., 2:] = 0.0
    assert worst_slice(golden, measured, heads).sqnr_db == pytest.approx(0)
    with pytest.raises(DataError, match="head 'x' 3:9"):
        worst_slice(golden, measured, (Head("x", 3, 9),))
