"""Products of two tensors of one shape, and functions behind layers: what A733's compiler joins with them."""

from __future__ import annotations

from collections.abc import Callable

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import WildOutcome
from dovetail.testing.wild.growth import Growth

from .conftest import drawn_input, kept_judge

pytestmark = pytest.mark.sdk

_CASES = 15
_FEW = 0.004
"""Share of elements that may be a step off: ties of 16 bits, and of tables."""
_MAKERS = ("none", "none", "conv", "conv", "conv relu", "relu", "neg")
_GATES = (*_MAKERS, "sigmoid", "tanh", "conv sigmoid", "conv tanh", "softmax")
_PRECISIONS = (Precision.U8, Precision.I8, Precision.I8DFP, Precision.I16)


def _made(growth: Growth, how: str, shape: tuple[int, ...]) -> str:
    tensor = drawn_input(growth, *shape)
    for word in how.split():
        if word == "conv":
            size = growth.draw.pick(1, 3)
            weights = growth.constant(growth.rng.normal(0, 0.5, (shape[1], shape[1], size, size)))
            tensor = growth.op("Conv", tensor, weights, kernel_shape=(size, size), pads=(size // 2,) * 4)
        elif word == "softmax":
            tensor = growth.op("Softmax", tensor, axis=1)
        elif word != "none":
            tensor = growth.op(word.capitalize(), tensor)
    return tensor


def gated_product(seed: int) -> WildCase:
    """Return a product, the same for the same seed."""
    growth = Growth(seed)
    draw = growth.draw
    shape = (1, draw.whole(2, 6), draw.whole(3, 8), draw.whole(3, 8))
    sides = [_made(growth, draw.pick(*_MAKERS), shape), _made(growth, draw.pick(*_GATES), shape)]
    made = growth.op("Mul", *(sides if draw.chance(0.5) else sides[::-1]))
    if draw.chance(0.3):
        growth.op("Relu", made)
    return growth.case(seed)


def layer_with_function(seed: int) -> WildCase:
    """Return a layer of one or more rows with a bias or none, and a function behind it."""
    growth = Growth(seed)
    draw = growth.draw
    inner, outer = draw.whole(2, 24), draw.whole(2, 24)
    data = drawn_input(growth, 1, draw.pick(1, 1, 3), inner)
    made = growth.op("MatMul", data, growth.constant(growth.rng.normal(0, 0.5, (inner, outer))))
    if draw.chance(0.7):
        made = growth.op("Add", made, growth.constant(growth.rng.normal(0, 0.3, outer)))
    function = draw.pick("Gelu", "HardSwish", "Sigmoid", "Softplus", "Tanh", "swish")
    if function == "swish":
        growth.op("Mul", made, growth.op("Sigmoid", made))
    else:
        growth.op(function, made)
    return growth.case(seed)


@pytest.mark.parametrize("precision", _PRECISIONS, ids=lambda precision: precision.value)
@pytest.mark.parametrize("drawn", [gated_product, layer_with_function], ids=lambda drawn: drawn.__name__)
def test_what_is_joined_is_computed_as_the_simulator_does(
    drawn: Callable[[int], WildCase], precision: Precision, vendor: VsiBackend
) -> None:
    """A convolution is multiplied before it is rounded, a sigmoid of something else after."""
    seed, differing, elements = draws.seed_here(), 0, 0
    with kept_judge("vsi:a733", vendor) as judge:
        for index in np.random.SeedSequence(seed).generate_state(_CASES):
            found = judge.judge(drawn(int(index)), precision)
            said = f"seed {index}: {found.outcome.value} {found.steps} {found.reason}"
            assert found.outcome in (WildOutcome.EQUAL, WildOutcome.DIFFERS), said
            assert found.steps.largest <= 1, said
            differing, elements = differing + found.steps.differing, elements + found.steps.elements
    assert differing <= max(2, _FEW * elements), f"seed {seed}: {differing} of {elements}"
