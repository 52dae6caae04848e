"""Slices of five axes, as decoders of detections and shuffles of channels have them, between other operators."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.growth import Growth, UnfitError

from .conftest import drawn_input, expect_equal

pytestmark = pytest.mark.sdk

_CASES, _AXES = 8, 5
_BEFORE = ("nothing", "Relu", "Sigmoid", "Transpose", "Concat", "Mul")
_BEHIND = ("nothing", "Relu", "Sigmoid", "Tanh", "Transpose", "Concat", "Add", "Sub", "Reshape", "Slice")


def _cut(growth: Growth, tensor: str) -> str:
    shape = growth.shape(tensor)
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if not axes:
        raise UnfitError
    axis = growth.draw.pick(*axes)
    start = growth.draw.whole(0, shape[axis] - 1)
    end = growth.draw.whole(start + 1, shape[axis])
    return growth.op("Slice", tensor, *(growth.constant([place]) for place in (start, end, axis)))


def _added(growth: Growth, kind: str, tensor: str) -> str:
    shape = growth.shape(tensor)
    if kind == "Transpose":
        return growth.op(kind, tensor, perm=tuple(int(axis) for axis in growth.rng.permutation(_AXES)))
    if kind == "Concat":
        return growth.op(kind, tensor, drawn_input(growth, *shape), axis=growth.draw.whole(0, _AXES - 1))
    if kind in ("Add", "Sub", "Mul"):
        other = drawn_input(growth, *shape)
        return growth.op(kind, *((tensor, other) if growth.draw.chance(0.5) else (other, tensor)))
    if kind == "Reshape":
        return growth.op(kind, tensor, growth.constant([shape[0], -1]))
    if kind == "Slice":
        return _cut(growth, tensor)
    return tensor if kind == "nothing" else growth.op(kind, tensor)


def _sliced(seed: int) -> WildCase:
    growth = Growth(seed)
    data = drawn_input(growth, *(growth.draw.pick(1, 1, 2, 3, 5) for _ in range(_AXES)))
    made = _added(growth, growth.draw.pick(*_BEFORE), data)
    _added(growth, growth.draw.pick(*_BEHIND), _cut(growth, made))
    return growth.case(seed)


_EVERY = [
    *(("vsi:v853", precision) for precision in (Precision.I8PC, Precision.U8, Precision.I16)),
    *(("vsi:t527", precision) for precision in (Precision.I8PC, Precision.U8)),
    *(("vsi:a311d", precision) for precision in (Precision.U8, Precision.I16)),
    ("vsi:imx8mp", Precision.U8),
]


def _drawn(draw: Callable[[int], WildCase]) -> dict[str, WildCase]:
    cases: dict[str, WildCase] = {}
    for seed in np.random.SeedSequence(draws.seed_here()).generate_state(20 * _CASES):
        if len(cases) < _CASES:
            with suppress(UnfitError):
                cases[f"seed {seed}"] = draw(int(seed))
    return cases


@pytest.mark.parametrize(("target", "precision"), _EVERY)
def test_deep_slices_between_operators(target: str, precision: Precision, vendor: VsiBackend) -> None:
    """Of signed bytes nearly half were garbage on the newest parts; a transposed one ended the compiler."""
    expect_equal(target, precision, vendor, _drawn(_sliced))


def _cropped(seed: int) -> WildCase:
    """Return a sum of a slice and of a tensor that is an input, or that a convolution or a product makes."""
    growth = Growth(seed)
    shape = tuple(growth.draw.pick(1, 2, 4, 5) for _ in range(growth.draw.pick(4, 4, _AXES)))
    axis = growth.draw.whole(0, len(shape) - 1)
    start = growth.draw.whole(0, 2)
    whole = drawn_input(growth, *(size + 2 * (place == axis) for place, size in enumerate(shape)))
    if growth.draw.chance(0.4):
        whole = growth.op("Relu", whole)
    part = growth.op("Slice", whole, *(growth.constant([at]) for at in (start, start + shape[axis], axis)))
    other = drawn_input(growth, *shape)
    kind = growth.draw.pick("nothing", "Conv", "Conv", "Mul")
    if kind == "Mul":
        other = growth.op("Mul", other, growth.constant(growth.rng.uniform(0.3, 1.5)))
    if kind == "Conv" and len(shape) < _AXES:
        weight = growth.rng.normal(0.0, 0.4, (shape[1], shape[1], 1, 1))
        other = growth.op("Conv", other, growth.constant(weight), kernel_shape=(1, 1))
    growth.op(growth.draw.pick("Add", "Sub"), *((part, other) if growth.draw.chance(0.5) else (other, part)))
    return growth.case(seed)


@pytest.mark.parametrize(("target", "precision"), _EVERY)
def test_sums_with_a_part_of_a_tensor(target: str, precision: Precision, vendor: VsiBackend) -> None:
    """The newest parts' array read a cropped plane as if it were whole: two of three values were garbage."""
    expect_equal(target, precision, vendor, _drawn(_cropped))
