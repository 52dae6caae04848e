"""ReLU and Abs of one step of 2^-15 in fixed point: by themselves they read it as 0, in the array they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from dovetail.backend.protocols import Signature
from dovetail.backends.verisilicon.driver.bench import GraphBench
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.emulator.executable import Emulation
from dovetail.backends.verisilicon.parts.part import VsiProfile, profile_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.quantize import Range
from dovetail.testing.wild.deploying import deploy
from dovetail.testing.wild.growth import Growth

from .conftest import target_named

pytestmark = pytest.mark.sdk

_FINEST = {Precision.I8DFP: 120 / 2**15, Precision.I16: 30000 / 2**15}


def _convolution(growth: Growth, tensor: str) -> str:
    weight = np.zeros((4, 4, 1, 1))
    weight[range(4), range(4), 0, 0] = (1.0, 0.75, 0.5, -1.0)
    return growth.op("Conv", tensor, growth.constant(weight), growth.constant(np.zeros(4)))


def _with_another_reader(growth: Growth, tensor: str) -> None:
    made = _convolution(growth, tensor)
    growth.op("Relu", made)
    growth.op("Sigmoid", made)


def _averaged(growth: Growth, tensor: str) -> None:
    growth.op("Relu", growth.op("AveragePool", tensor, kernel_shape=(2, 2), strides=(2, 2)))


def _reshaped(growth: Growth, tensor: str) -> None:
    growth.op("Relu", growth.op("Reshape", _convolution(growth, tensor), growth.constant([1, 4, 256, 1])))


def _layer(growth: Growth, tensor: str, rows: int) -> None:
    data = growth.op("Reshape", tensor, growth.constant([rows, 1024 // rows]))
    weight = np.zeros((1024 // rows, 4))
    weight[range(4), range(4)] = (1.0, 0.75, 0.5, -1.0)
    growth.op("Relu", growth.op("MatMul", data, growth.constant(weight)))


_ARRANGEMENTS: dict[str, Callable[[Growth, str], object]] = {
    "Relu": lambda growth, tensor: growth.op("Relu", tensor),
    "Abs": lambda growth, tensor: growth.op("Abs", tensor),
    "Conv and Relu": lambda growth, tensor: growth.op("Relu", _convolution(growth, tensor)),
    "Conv and Abs": lambda growth, tensor: growth.op("Abs", _convolution(growth, tensor)),
    "Conv, Relu and Sigmoid": _with_another_reader,
    "Conv and Reshape and Relu": _reshaped,
    "AveragePool and Relu": _averaged,
    "a layer of one row and Relu": lambda growth, tensor: _layer(growth, tensor, 1),
    "a layer of 64 rows and Relu": lambda growth, tensor: _layer(growth, tensor, 64),
    "Add and Relu": lambda growth, tensor: growth.op("Relu", growth.op("Add", tensor, _convolution(growth, tensor))),
}


@pytest.fixture(scope="module", params=("vsi:v853", "vsi:a733", "vsi:a311d", "vsi:imx8mp"))
def part(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[tuple[VsiProfile, GraphBench]]:
    profile = profile_of(target_named(request.param))
    with GraphBench(profile.part.sdk_name, Settings(vendor.folder)) as bench:
        yield profile, bench


@pytest.mark.parametrize("precision", _FINEST, ids=lambda precision: precision.value)
@pytest.mark.parametrize("name", _ARRANGEMENTS)
def test_one_step_is_read_as_on_the_part(name: str, precision: Precision, part: tuple[VsiProfile, GraphBench]) -> None:
    (profile, bench), growth = part, Growth(7)
    _ARRANGEMENTS[name](growth, growth.input(1, 4, 16, 16))
    case, top = growth.case(7), _FINEST[precision]
    nodes, deployed = deploy(
        replace(case, ranges={tensor: Range(-top, top) for tensor in case.ranges}), profile, precision
    )
    assert nodes == len(case.graph.nodes)
    (only,) = deployed
    (given,) = only.graph.inputs
    kind = only.graph.types[given]
    steps = np.random.default_rng(0).integers(-6, 7, kind.static_shape or ()).astype(kind.dtype.carrier)
    outputs = {output: only.graph.types[output] for output in only.graph.outputs}
    (theirs,) = bench.measure(only.program, ({given: steps},), outputs, fresh=False).results
    ours = Emulation(only.program, Signature.of(only.graph)).run({given: steps})
    for output in outputs:
        np.testing.assert_array_equal(ours[output], theirs[output])
