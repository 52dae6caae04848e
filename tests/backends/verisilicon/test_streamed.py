"""Functions of bytes in the stream processor: every stored value under drawn scales."""

from __future__ import annotations

from collections.abc import Iterator

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome
from dovetail.testing.wild.growth import Growth

from .conftest import kept_judge

pytestmark = pytest.mark.sdk

_SCALES = 12
_FUNCTIONS = (
    *("Abs", "Celu", "Elu", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Selu", "Sigmoid"),
    *("Softplus", "Softsign", "Tanh", "Ceil", "Floor"),
)


@pytest.fixture(scope="module")
def judge(vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge("vsi:a733", vendor) as simulator:
        yield simulator


def _every_byte(seed: int, op: str) -> WildCase:
    growth = Growth(seed)
    low, high = growth.rng.uniform(-4.0, -0.05), growth.rng.uniform(0.05, 4.0)
    name = growth.input(1, 256)
    growth.values[name] = [np.linspace(low, high, 256, dtype=np.float32)[None] for _ in range(2)]
    growth.op(op, name)
    return growth.case(seed)


@pytest.mark.parametrize("op", _FUNCTIONS)
def test_every_byte_is_what_the_stream_processor_makes_of_it(op: str, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    for drawn in range(seed, seed + _SCALES):
        found = judge.judge(_every_byte(drawn, op), Precision.U8)
        assert found.outcome is WildOutcome.EQUAL, f"seed {drawn}: {found.steps} {found.reason}"
