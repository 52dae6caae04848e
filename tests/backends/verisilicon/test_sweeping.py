"""Convolutions with kernels, strides and steps that nobody uses every day, and long rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import WildOutcome
from dovetail.testing.wild.growth import Growth, UnfitError

from .conftest import drawn_input, kept_judge

pytestmark = pytest.mark.sdk

_CASES = 12
_OLDEST = ("vsi:a311d", "vsi:rk1808", "vsi:s905d3", "vsi:stm32mp2")
_OTHERS = ("vsi:v853", "vsi:a733", "vsi:imx8mp", "vsi:a311d")
_Sizes = tuple[int, int]


def _convolved(growth: Growth, kernel: _Sizes, strides: _Sizes, steps: _Sizes = (1, 1), places: int = 10) -> str:
    """Add a convolution, dense or depthwise, of a plane in which its window has so many places along each axis."""
    draw = growth.draw
    channels = draw.pick(3, 8, 40)
    group = draw.pick(1, 1, channels)
    sides = [
        step * (size - 1) + 1 + stride * (places - 1) for size, step, stride in zip(kernel, steps, strides, strict=True)
    ]
    outer = channels if group > 1 else draw.pick(1, 4)
    weights = growth.constant(growth.rng.normal(0, 0.2, (outer, channels // group, *kernel)))
    bias = [growth.constant(growth.rng.normal(0, 0.2, outer))] if draw.chance(0.5) else []
    data = drawn_input(growth, 1, channels, *sides)
    window = {"kernel_shape": kernel, "strides": strides, "dilations": steps, "group": group}
    return growth.op("Conv", data, weights, *bias, **window)


def pairs(seed: int) -> WildCase:
    """Return a kernel of two neighbours in a row, and at times what reads it."""
    growth = Growth(seed)
    made = _convolved(growth, (1, 2), (growth.draw.pick(1, 2), growth.draw.pick(1, 2)))
    if growth.draw.chance(0.4):
        growth.op("Relu", made)
    return growth.case(seed)


def quarters(seed: int) -> WildCase:
    """Return a convolution that steps by four, and at times what reads it."""
    growth = Growth(seed)
    kernel = growth.draw.pick((4, 4), (7, 7), (11, 11), (4, 7), (8, 4))
    made = _convolved(growth, kernel, (4, 4), places=growth.draw.pick(7, 9, 16))
    if growth.draw.chance(0.4):
        growth.op(growth.draw.pick("Relu", "Sigmoid"), made)
    return growth.case(seed)


def long(seed: int) -> WildCase:
    """Return a kernel of 10 to 15 elements along an axis."""
    growth = Growth(seed)
    kernel = (growth.draw.whole(10, 15), growth.draw.pick(1, 2, 3))
    kernel = kernel[::-1] if growth.draw.chance(0.5) else kernel
    _convolved(growth, kernel, (growth.draw.pick(1, 1, 2), growth.draw.pick(1, 1, 2)), places=4)
    return growth.case(seed)


def spread(seed: int) -> WildCase:
    """Return a kernel with steps between its elements, and at times between its places, too."""
    growth, draw = Growth(seed), Growth(seed).draw
    kernel = (draw.pick(1, 2, 3, 4, 5, 7), draw.pick(2, 3, 4, 5, 7))
    steps = (draw.pick(1, 2, 3, 5, 6), draw.pick(2, 3, 5, 6, 12))
    if draw.chance(0.3):
        kernel, steps = (kernel[1],) * 2, (steps[1],) * 2
    strides = (1, 1) if draw.chance(0.6) else (draw.whole(1, 3), draw.whole(1, 3))
    _convolved(growth, kernel, strides, steps, places=6)
    return growth.case(seed)


def points(seed: int) -> WildCase:
    """Return a kernel of one element that steps."""
    growth = Growth(seed)
    strides = (growth.draw.whole(1, 4), growth.draw.whole(1, 4)) if growth.draw.chance(0.5) else (3, 3)
    _convolved(growth, (1, 1), strides, places=growth.draw.whole(1, 9))
    return growth.case(seed)


def _cases(make: Callable[[int], WildCase]) -> Iterator[tuple[int, WildCase]]:
    """Yield cases with their seeds, new ones in every run."""
    for seed in np.random.SeedSequence(draws.seed_here()).generate_state(_CASES):
        with suppress(UnfitError):
            yield int(seed), make(int(seed))


def _judge(target: str, precision: Precision, make: Callable[[int], WildCase], vendor: VsiBackend) -> int:
    """Assert that what is accepted is at most a step off; return how many are."""
    accepted = 0
    with kept_judge(target, vendor) as simulator:
        for seed, case in _cases(make):
            found = simulator.judge(case, precision)
            said = f"seed {seed}: {found.outcome.value} {found.steps} {found.reason}"
            assert found.outcome in (WildOutcome.EQUAL, WildOutcome.DIFFERS, WildOutcome.REFUSED), said
            assert found.steps.largest <= 1, said
            accepted += found.outcome is not WildOutcome.REFUSED
    return accepted


@pytest.mark.parametrize("target", _OLDEST)
@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8, Precision.I8DFP])
@pytest.mark.parametrize("make", [pairs, quarters])
def test_pairs_and_quarters_of_bytes_are_right(
    target: str, precision: Precision, make: Callable[[int], WildCase], vendor: VsiBackend
) -> None:
    assert _judge(target, precision, make, vendor) > _CASES // 2


@pytest.mark.parametrize(
    ("target", "precision"),
    [
        ("vsi:a311d", Precision.U8),
        ("vsi:a311d", Precision.I16),
        ("vsi:a311d", Precision.I8PC),
        ("vsi:s905d3", Precision.I8),
        ("vsi:imx8mp", Precision.U8),
    ],
)
def test_long_kernels_are_right_or_refused(target: str, precision: Precision, vendor: VsiBackend) -> None:
    _judge(target, precision, long, vendor)


@pytest.mark.parametrize("target", ["vsi:a311d", "vsi:stm32mp2", "vsi:s905d3"])
@pytest.mark.parametrize("precision", [Precision.I16, Precision.I8DFP, Precision.U8])
def test_kernels_of_one_element_that_step_are_right(target: str, precision: Precision, vendor: VsiBackend) -> None:
    assert _judge(target, precision, points, vendor) > _CASES // 2


@pytest.mark.parametrize("target", _OTHERS)
@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8, Precision.I8PC])
def test_spread_kernels_of_bytes_are_right_or_refused(target: str, precision: Precision, vendor: VsiBackend) -> None:
    _judge(target, precision, spread, vendor)


def joined(seed: int) -> WildCase:
    """Return the sum of a convolution and another tensor; rows are at times longer than 8,191 elements."""
    growth, draw = Growth(seed), Growth(seed).draw
    columns = draw.pick(1, 2, 2, 3, 5)
    width, rows = draw.pick((13, 5), (1001, 1), (8192, 1), (9000, 1))
    inner = draw.pick(1, 2) if width > 1001 else draw.pick(1, 2, 8)
    outer = 1 if width > 1001 else 2
    kernel = (1, columns) if draw.chance(0.7) or rows == 1 else (columns, 1)
    after = tuple(size // 2 for size in kernel)
    before = tuple(size - 1 - end for size, end in zip(kernel, after, strict=True))
    weights = growth.constant(growth.rng.normal(0, 0.3, (outer, inner, *kernel)))
    data = drawn_input(growth, 1, inner, rows, width)
    made = growth.op("Conv", data, weights, kernel_shape=kernel, pads=(*before, *after))
    if draw.chance(0.3):
        made = growth.op("Relu", made)
    other = drawn_input(growth, 1, outer, rows, width)
    other = growth.op("Sigmoid", other) if draw.chance(0.5) else other
    operands = (made, other) if draw.chance(0.5) else (other, made)
    growth.op(draw.pick("Add", "Add", "Sub"), *operands)
    return growth.case(seed)


@pytest.mark.parametrize("target", ["vsi:v853", "vsi:t527", "vsi:a733"])
@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8DFP, Precision.I16])
def test_sums_of_convolutions_with_short_kernels_and_of_long_rows_are_right(
    target: str, precision: Precision, vendor: VsiBackend
) -> None:
    with kept_judge(target, vendor) as simulator:
        off = total = 0
        for seed, case in _cases(joined):
            found = simulator.judge(case, precision)
            said = f"seed {seed}: {found.outcome.value} {found.steps} {found.reason}"
            assert found.steps.elements, said
            assert found.steps.largest <= 1, said
            off, total = off + found.steps.differing, total + found.steps.elements
    # A kernel of two points was joined with the sum, which is a step off in 1 to 20 % of its values. What A733 adds
    # to a ReLU of 16 bits is a step off in some, with any kernel.
    wide = precision is Precision.I16 and target == "vsi:a733"
    assert wide or off <= total / 500, f"{off} of {total}"


def sounded(seed: int) -> WildCase:
    """Return what networks for sound have: rows, or columns, about as long as the array can read, and longer."""
    growth, draw = Growth(seed, most=80_000), Growth(seed).draw
    rows, channels, long = draw.chance(0.8), draw.pick(1, 2, 8), draw.whole(8150, 8230 if draw.chance(0.5) else 9000)
    sides = (1, long) if rows else (long, 1)
    data = drawn_input(growth, 1, channels, *sides)
    if draw.chance(0.2):
        more = draw.pick(1, 40)
        data = growth.op("Pad", data, growth.constant([0, 0, *([0, more] if rows else [more, 0])] * 2))
    size = draw.whole(1, 11)
    kernel, group = ((1, size) if rows else (size, 1)), draw.pick(1, 1, 1, channels)
    beside = size // 2 if draw.chance(0.6) else 0
    pads = (0, beside) * 2 if rows else (beside, 0) * 2
    strides = tuple(draw.pick(1, 2, 4) if extent > 1 else 1 for extent in sides)
    outer = channels if group > 1 else draw.pick(1, 4)
    weights = growth.constant(growth.rng.normal(0, 0.2, (outer, channels // group, *kernel)))
    window = {"kernel_shape": kernel, "strides": strides, "group": group, "pads": pads}
    made = growth.op("Conv", data, weights, **window)
    growth.op("Relu", made)
    if draw.chance(0.5):
        scale, bias = (growth.constant(growth.rng.normal(1, 0.2, channels)) for _ in range(2))
        growth.op("InstanceNormalization", data, scale, bias)
    return growth.case(seed)


@pytest.mark.parametrize(
    ("target", "precision"),
    [
        *(("vsi:a311d", precision) for precision in (Precision.U8, Precision.I8PC, Precision.I16)),
        ("vsi:rk1808", Precision.U8),
        ("vsi:v853", Precision.I8PC),
        ("vsi:imx8mp", Precision.U8),
    ],
)
def test_rows_of_sound_are_right_or_refused(target: str, precision: Precision, vendor: VsiBackend) -> None:
    assert _judge(target, precision, sounded, vendor) >= _CASES // 4
