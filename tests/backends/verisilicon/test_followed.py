"""What the vendor's compiler would join with a convolution: what follows it at once, or past what moves or pools it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome
from dovetail.testing.wild.growth import Growth

from .conftest import drawn_input, kept_judge

pytestmark = pytest.mark.sdk

_PRECISIONS = (Precision.U8, Precision.I8PC, Precision.I16)
_CHANNELS = 16


@pytest.fixture(scope="module", params=["vsi:v853", "vsi:a311d", "vsi:imx8mp", "vsi:rv1126"])
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(request.param, vendor) as simulator:
        yield simulator


def _convolution(growth: Growth, data: str, groups: int = 1) -> str:
    weight = growth.constant(growth.rng.normal(size=(_CHANNELS, 8 // groups, 3, 3)) / 8.0)
    bias = growth.constant(growth.rng.normal(size=_CHANNELS) / 4.0)
    return growth.op("Conv", data, weight, bias, pads=(1, 1, 1, 1), group=groups, kernel_shape=(3, 3))


def _made(growth: Growth, moved: str) -> str:
    """Return a convolution and what moves or pools it."""
    data = drawn_input(growth, 1, 8, 8, 8)
    made = _convolution(growth, data, 2 if moved == "groups" else 1)
    ends = [growth.constant(value) for value in ([4], [12], [1])]
    movements: Mapping[str, Callable[[], str]] = {
        "MaxPool": lambda: growth.op("MaxPool", made, kernel_shape=(2, 2), strides=(2, 2)),
        "Transpose": lambda: growth.op("Transpose", made, perm=(0, 2, 3, 1)),
        "Concat": lambda: growth.op("Concat", made, _convolution(growth, data), axis=1),
        "Slice": lambda: growth.op("Slice", made, *ends),
        "Reshape": lambda: growth.op("Reshape", made, growth.constant([1, _CHANNELS, 64])),
    }
    return movements[moved]() if moved in movements else made


def _followed(seed: int, moved: str, follower: str) -> WildCase:
    growth = Growth(seed)
    made = _made(growth, moved)
    channels = (growth.shape(made)[1], *(1,) * (len(growth.shape(made)) - 2))
    if follower == "PRelu":
        growth.op("PRelu", made, growth.constant(growth.rng.uniform(-0.3, 0.5, channels)))
    elif follower == "Mul":
        growth.op("Mul", made, growth.constant(growth.rng.uniform(0.2, 2.0, (1,) * len(growth.shape(made)))))
    elif follower == "Add":
        growth.op("Add", made, growth.constant(growth.rng.normal(size=channels)))
    elif follower == "LeakyRelu":
        growth.op("LeakyRelu", made, alpha=float(growth.rng.uniform(0.05, 0.3)))
    elif follower == "Clip":
        top = float(np.max(growth.values[made][0])) / 3
        growth.op("Clip", made, growth.constant(0.0), growth.constant(max(top, 1e-3)))
    else:
        growth.op(follower, made)
    return growth.case(seed)


@pytest.mark.parametrize("follower", ["Relu", "Clip", "LeakyRelu", "PRelu", "Mul"])
@pytest.mark.parametrize("moved", ["nothing", "groups", "MaxPool", "Transpose", "Concat", "Slice"])
def test_what_follows_a_convolution_is_rounded_as_the_part_does(
    moved: str, follower: str, judge: SimulatorJudge
) -> None:
    seed = draws.seed_here()
    for precision in _PRECISIONS:
        found = judge.judge(_followed(seed, moved, follower), precision)
        assert found.outcome is WildOutcome.EQUAL, f"{precision.value}, seed {seed}: {found.steps} {found.reason}"


def test_a_constant_added_to_a_convolution_seen_otherwise_is_not_in_its_bias(judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    found = judge.judge(_followed(seed, "Reshape", "Add"), Precision.U8)
    assert found.outcome is WildOutcome.EQUAL, f"seed {seed}: {found.steps} {found.reason}"
