"""Operators seen with fewer axes compute what they did."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.backends.verisilicon.lowering.folding import fold

_SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=6).map(tuple)


def _filled(shape: tuple[int, ...]) -> np.ndarray:
    """Return distinct numbers; `shape` has the fastest axis first, as in all tests here."""
    return np.arange(math.prod(shape), dtype=np.float64).reshape(tuple(reversed(shape))) + 1.0


def _reshaped(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return value.reshape(tuple(reversed(shape)))


@given(_SIZES, st.data())
def test_operands_broadcast_as_before(result: tuple[int, ...], data: st.DataObject) -> None:
    """The sum of two operands is the same, whatever is merged; what is refused has five blocks."""
    masks = data.draw(st.tuples(*(st.tuples(st.booleans(), st.booleans()).filter(any) for _ in result)))
    shapes = [tuple(size if kept[i] else 1 for size, kept in zip(result, masks, strict=True)) for i in (0, 1)]
    try:
        seen = fold("mul", (), shapes, result)
    except ValueError:
        blocks = [kept for size, kept in zip(result, masks, strict=True) if size > 1]
        assert 1 + sum(one != other for one, other in itertools.pairwise(blocks)) > 4
        return
    first, second = (_filled(shape) for shape in shapes)
    if seen is None:
        assert len(result) <= 4
        return
    assert len(seen.result) == 4
    made = _reshaped(first, seen.shapes[0]) * _reshaped(second, seen.shapes[1])
    assert made.shape == tuple(reversed(seen.result))
    np.testing.assert_array_equal(_reshaped(made, result), first * second)


@given(_SIZES, st.data())
def test_reductions_are_along_the_same_elements(whole: tuple[int, ...], data: st.DataObject) -> None:
    """Sums over the merged axes are the sums of before."""
    axes = data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4, unique=True))
    result = tuple(1 if axis in axes else size for axis, size in enumerate(whole))
    value = _filled(whole)
    expected = value.sum(axis=tuple(len(whole) - 1 - axis for axis in axes), keepdims=True)
    try:
        seen = fold("reduce", (3, 1, *axes), [whole], result)
    except ValueError:
        assert len(whole) > 4
        return
    if seen is None:
        assert max(axes) < 4
        return
    assert seen.ints[:2] == (3, 1)
    assert max(seen.ints[2:]) < len(seen.result) <= 4
    gone = tuple(len(seen.result) - 1 - axis for axis in seen.ints[2:])
    made = _reshaped(value, seen.shapes[0]).sum(axis=gone, keepdims=True)
    assert made.shape == tuple(reversed(seen.result))
    np.testing.assert_array_equal(_reshaped(made, result), expected)


@given(st.lists(st.integers(1, 3), min_size=6, max_size=6), st.integers(0, 5), st.lists(st.integers(1, 3), min_size=2))
def test_operands_are_joined_as_before(sizes: list[int], axis: int, parts: list[int]) -> None:
    """Joining along the merged axes is joining along the axis of before."""
    shapes = [(*sizes[:axis], part, *sizes[axis + 1 :]) for part in parts]
    result = (*sizes[:axis], sum(parts), *sizes[axis + 1 :])
    seen = fold("concat", (axis,), shapes, result)
    assert seen is not None
    values = [_filled(shape) * (1 + index) for index, shape in enumerate(shapes)]
    rows = [_reshaped(value, shape) for value, shape in zip(values, seen.shapes, strict=True)]
    made = np.concatenate(rows, len(seen.result) - 1 - seen.ints[0])
    np.testing.assert_array_equal(_reshaped(made, result), np.concatenate(values, len(sizes) - 1 - axis))


def test_an_operand_of_one_number_stays_as_it_is() -> None:
    """A scalar broadcasts along everything."""
    seen = fold("add", (), [(6, 5, 4, 3, 2), (1,)], (6, 5, 4, 3, 2))
    assert seen is not None
    assert seen.shapes == ((6, 5, 4, 6), (1,))


@pytest.mark.parametrize("kind", ["softmax", "transpose", "conv2d"])
def test_other_operators_stay_as_they_are(kind: str) -> None:
    """Only what is known to be garbage is seen otherwise."""
    assert fold(kind, (4,), [(2, 2, 2, 2, 2, 2)], (2, 2, 2, 2, 2, 2)) is None
