"""What is computed together loses nothing: drawn networks on the emulator, and what float makes of them."""

from __future__ import annotations

from collections.abc import Callable

import draws
import numpy as np
import pytest

from dovetail.backend.protocols import Signature
from dovetail.backends.reference import run_graph
from dovetail.backends.verisilicon.emulator.executable import Emulation
from dovetail.backends.verisilicon.emulator.storing import reals_of
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.ir import AnyArray, TensorType
from dovetail.ir.precision import Precision
from dovetail.testing.wild.deploying import deploy
from dovetail.testing.wild.growth import Growth

from .conftest import drawn_input

_CHANNELS = 8
_PRECISIONS = (Precision.U8, Precision.I8DFP, Precision.I16, Precision.FP16)
_LARGEST_ERROR = 0.5
"""More than rounding leaves, and less than what is added."""
_BUILDERS: list[Callable[[Growth], str]] = []


def _network(build: Callable[[Growth], str]) -> Callable[[Growth], str]:
    _BUILDERS.append(build)
    return build


def _numbers(growth: Growth, *shape: int) -> str:
    return growth.constant(growth.rng.uniform(1.0, 2.0, shape))


def _convolution(growth: Growth) -> str:
    data = drawn_input(growth, 1, 4, 4, 6)
    weights = growth.constant(growth.rng.normal(0, 0.4, (_CHANNELS, 4, 3, 3)))
    return growth.op("Conv", data, weights, kernel_shape=(3, 3), pads=(1, 1, 1, 1))


def _point(growth: Growth) -> str:
    """Return averages of whole planes, to which numbers of channels are added."""
    average = growth.op("AveragePool", drawn_input(growth, 1, _CHANNELS, 3, 3), kernel_shape=(3, 3))
    return growth.op("Add", average, _numbers(growth, 1, _CHANNELS, 1, 1))


@_network
def added_to_a_biased_average(growth: Growth) -> str:
    return growth.op("Add", growth.op("Relu", _point(growth)), drawn_input(growth, 1, _CHANNELS, 1, 1))


@_network
def largest_of_a_biased_average(growth: Growth) -> str:
    return growth.op("Max", _point(growth), drawn_input(growth, 1, _CHANNELS, 1, 1))


@_network
def product_and_sum_of_an_average(growth: Growth) -> str:
    average = growth.op("AveragePool", drawn_input(growth, 1, _CHANNELS, 3, 3), kernel_shape=(3, 3))
    scaled = growth.op("Mul", average, _numbers(growth, 1, _CHANNELS, 1, 1))
    return growth.op("Add", scaled, _numbers(growth, 1, _CHANNELS, 1, 1))


@_network
def function_of_averages_and_a_plane(growth: Growth) -> str:
    data = drawn_input(growth, 1, _CHANNELS, 6, 6)
    average = growth.op("AveragePool", data, kernel_shape=(2, 2), strides=(2, 2))
    return growth.op("Tanh", growth.op("Add", average, _numbers(growth, 1, _CHANNELS, 3, 3)))


@_network
def average_and_itself(growth: Growth) -> str:
    data = growth.op("Relu", drawn_input(growth, 1, _CHANNELS, 4, 4))
    mean = growth.op("ReduceMean", data, growth.constant([2, 3]), keepdims=1)
    return growth.op("Add", mean, mean)


@_network
def channels_of_a_row_seen_as_planes(growth: Growth) -> str:
    weights = growth.constant(growth.rng.normal(0, 0.4, (16, 32)))
    row = growth.op("MatMul", drawn_input(growth, 1, 16), weights)
    planes = growth.op("Reshape", row, growth.constant([1, 2, 4, 4]))
    return growth.op("Add", planes, _numbers(growth, 1, 2, 1, 1))


@_network
def channels_of_a_point_seen_as_planes(growth: Growth) -> str:
    weights = growth.constant(growth.rng.normal(0, 0.4, (32, 8, 1, 1)))
    point = growth.op("Conv", drawn_input(growth, 1, 8, 1, 1), weights, kernel_shape=(1, 1))
    planes = growth.op("Reshape", point, growth.constant([1, _CHANNELS, 2, 2]))
    return growth.op("Add", planes, _numbers(growth, 1, _CHANNELS, 1, 1))


@_network
def two_constants_behind_a_convolution(growth: Growth) -> str:
    once = growth.op("Add", _convolution(growth), _numbers(growth, 1, _CHANNELS, 1, 1))
    return growth.op("Add", growth.op("Add", once, _numbers(growth, 1, _CHANNELS, 1, 1)), _convolution(growth))


@_network
def softplus_between_a_convolution_and_a_clamp(growth: Growth) -> str:
    return growth.op("Relu", growth.op("Softplus", _convolution(growth)))


@_network
def product_with_a_function_of_a_convolution(growth: Growth) -> str:
    return growth.op("Mul", growth.op("Gelu", _convolution(growth)), drawn_input(growth, 1, _CHANNELS, 4, 6))


@pytest.mark.parametrize("precision", _PRECISIONS, ids=lambda precision: precision.value)
@pytest.mark.parametrize("build", _BUILDERS, ids=lambda build: build.__name__)
def test_results_are_near_those_of_the_reference(build: Callable[[Growth], str], precision: Precision) -> None:
    """A constant in a bias was lost or of another size, and a one of half precision was none."""
    growth = Growth(draws.seed_here())
    build(growth)
    case = growth.case(1)
    for profile in VSI_PROFILES:
        for part in deploy(case, profile, precision)[1]:
            found = Emulation(part.program, Signature.of(part.graph)).run(part.samples[0])
            expected = run_graph(part.graph, part.samples[0])
            for name in part.graph.outputs:
                kind = part.graph.types[name]
                error = np.abs(_reals(found[name], kind) - _reals(expected[name], kind)).max()
                assert error <= _LARGEST_ERROR, f"{profile.name}: {error}"


def _reals(stored: AnyArray, kind: TensorType) -> AnyArray:
    return reals_of(stored, kind) if kind.quant is not None else stored.astype(np.float64)
