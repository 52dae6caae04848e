"""Two equal operators of one tensor, which the vendor's compiler would make garbage of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import draws
import numpy as np
import pytest

from dovetail.backend.protocols import CompileOptions, Signature
from dovetail.backends.verisilicon.emulator.executable import Emulation
from dovetail.backends.verisilicon.parts.part import profile_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.agreement import load_on
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import deploy
from dovetail.testing.wild.growth import Growth

from .conftest import expect_equal, target_named

pytestmark = pytest.mark.sdk


def _conv(growth: Growth, data: str) -> str:
    weight = growth.constant(np.random.default_rng(len(growth.nodes)).normal(size=(4, 4, 1, 1)))
    return growth.op("Conv", data, weight, kernel_shape=(1, 1))


def _pool(growth: Growth, data: str) -> str:
    return growth.op("MaxPool", data, kernel_shape=(2, 2), strides=(2, 2))


_MADE: Mapping[str, Callable[[Growth, str], str]] = {
    "pool": _pool,
    "relu": lambda growth, data: growth.op("Relu", data),
    "sigmoid": lambda growth, data: growth.op("Sigmoid", data),
    "swish": lambda growth, data: growth.op("Mul", data, growth.op("Sigmoid", data)),
    "mean": lambda growth, data: growth.op("GlobalAveragePool", data),
}


def _case(seed: int, kind: str) -> WildCase:
    """Return a graph in which two equal operators, or pairs of them, are read each by something else, or come out."""
    rng, growth = Random(seed), Growth(seed)
    data = growth.input(1, 4, 8, 8)
    data = _conv(growth, data) if rng.random() < 0.7 else data
    one, other = _MADE[kind](growth, data), _MADE[kind](growth, data)
    one = _conv(growth, one) if rng.random() < 0.5 else growth.op("LeakyRelu", one)
    follower = rng.choice(["conv", "leaky", "none"])
    if follower != "none":
        other = _conv(growth, other) if follower == "conv" else growth.op("LeakyRelu", other, alpha=0.3)
    if growth.shape(one) == growth.shape(other) and rng.random() < 0.5:
        growth.op("Add", one, other)
    return growth.case(seed)


@pytest.mark.parametrize("precision", [Precision.U8, Precision.I16])
@pytest.mark.parametrize("target", ["vsi:v853", "vsi:a311d", "vsi:imx8mp"])
def test_equal_operators_are_computed_once(target: str, precision: Precision, vendor: VsiBackend) -> None:
    seed = draws.seed_here()
    cases = {f"{kind}, seed {seed + number}": _case(seed + number, kind) for number, kind in enumerate(_MADE)}
    expect_equal(target, precision, vendor, cases)


def test_tensors_that_are_computed_once_are_told_by_both_names(graphs: VsiBackend) -> None:
    """Where nothing copied them, the sigmoid of a gate would come out as zeros."""
    profile, names = target_named("vsi:v853"), ("t1", "t3")
    (deployed,) = deploy(_case(5, "swish"), profile_of(profile), Precision.U8)[1]
    known = dict(deployed.program.inner)
    assert known["t1"] == known["t3"]
    executable = load_on(graphs, deployed.graph, profile, CompileOptions())
    found = executable.run(deployed.samples[0], names)
    executable.close()
    wanted = Emulation(deployed.program, Signature.of(deployed.graph)).run(deployed.samples[0], names)
    assert all(found[name].tobytes() == wanted[name].tobytes() for name in names)
