"""Functions of 16 bits on all that they can read, and products of two tensors whose results lie near halves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import draws
import numpy as np
import pytest

from dovetail.backend.protocols import Signature
from dovetail.backends.verisilicon.driver.bench import GraphBench
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.emulator.executable import Emulation
from dovetail.backends.verisilicon.parts.part import VsiProfile, profile_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir import AnyArray
from dovetail.ir.precision import Precision
from dovetail.quantize import Range
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import Deployed, deploy
from dovetail.testing.wild.growth import Growth

from .conftest import target_named

pytestmark = pytest.mark.sdk

_TOP = 30000.0
_PLANE = (64, 128)
_NEAR_HALVES = 0.01
"""Share of results, nearly all of which lie within a millionth of a half, that may differ: by order of operations."""


@pytest.fixture(scope="module", params=("vsi:v853", "vsi:a311d", "vsi:imx8mp", "vsi:rv1126", "vsi:t527"))
def part(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[tuple[VsiProfile, GraphBench]]:
    profile = profile_of(target_named(request.param))
    with GraphBench(profile.part.sdk_name, Settings(vendor.folder)) as bench:
        yield profile, bench


def _deployed(case: WildCase, profile: VsiProfile, precision: Precision) -> Deployed:
    nodes, (only,) = deploy(case, profile, precision)
    assert nodes == len(case.graph.nodes)
    return only


def _run(deployed: Deployed, bench: GraphBench, given: dict[str, AnyArray]) -> tuple[AnyArray, AnyArray]:
    """Return what the emulator and the simulator make of stored values."""
    (output,) = deployed.graph.outputs
    ours = Emulation(deployed.program, Signature.of(deployed.graph)).run(given)
    (theirs,) = bench.measure(deployed.program, (given,), {output: deployed.graph.types[output]}, fresh=False).results
    return ours[output], theirs[output]


@pytest.mark.parametrize("bits", [11, 13, 14, 15])
@pytest.mark.parametrize("function", ["SiLU", "Sigmoid", "Tanh", "HardSwish", "Log"])
def test_functions_of_every_number_of_16_bits(function: str, bits: int, part: tuple[VsiProfile, GraphBench]) -> None:
    (profile, bench), growth = part, Growth(3)
    data = growth.input(1, 1, *_PLANE)
    if function == "SiLU":
        gate = growth.op("Sigmoid", data)
        growth.op("Mul", data, gate)
    else:
        gate = growth.op(function, data)
    case, top = growth.case(3), _TOP / 2.0**bits
    ranges = {name: Range(-top, top) for name in case.ranges} | ({gate: Range(0.0, 0.9)} if function == "SiLU" else {})
    deployed = _deployed(replace(case, ranges=ranges), profile, Precision.I16)
    least = 1 if function == "Log" else -(2**15)
    for some in np.maximum(np.arange(-(2**15), 2**15), least).astype(np.int16).reshape(-1, 1, 1, *_PLANE):
        ours, theirs = _run(deployed, bench, {deployed.graph.inputs[0]: some})
        np.testing.assert_array_equal(ours, theirs)


def test_products_of_two_tensors_near_halves(part: tuple[VsiProfile, GraphBench]) -> None:
    """A shader adds the zero point before it rounds, the array of newer parts after that: halves go elsewhere."""
    profile, bench = part
    rng = np.random.default_rng(draws.seed_here())
    differing = elements = 0
    for _ in range(6):
        count, share, zero = int(rng.integers(3, 60)), float(rng.choice([0.5, 0.25, 0.125])), int(rng.integers(1, 255))
        growth = Growth(1)
        growth.op("MatMul", growth.input(1, 1, 16, count), growth.input(1, 1, count, 16))
        one, other = rng.uniform(0.001, 0.05, 2)
        made = float(np.float32(np.float32(one) * np.float32(other))) / share
        scales = {"x0": (one, 0), "x1": (other, 146), "t0": (made, zero)}
        ranges = {name: Range(-at * scale, (255 - at) * scale) for name, (scale, at) in scales.items()}
        deployed = _deployed(replace(growth.case(1), ranges=ranges), profile, Precision.U8)
        shapes = [deployed.graph.types[name].static_shape or () for name in deployed.graph.inputs]
        values = (rng.integers(0, 12, shapes[0]), rng.integers(137, 155, shapes[1]))
        given = {name: value.astype(np.uint8) for name, value in zip(deployed.graph.inputs, values, strict=True)}
        ours, theirs = _run(deployed, bench, given)
        differing += int((ours != theirs).sum())
        elements += ours.size
    assert differing <= _NEAR_HALVES * elements


def test_products_of_steps_that_a_shader_would_read_as_nothing(part: tuple[VsiProfile, GraphBench]) -> None:
    """Steps below 2^-26 would make all results 0: such operands get coarser ones."""
    growth = Growth(1)
    growth.op("MatMul", growth.input(1, 1, 4, 6), growth.input(1, 1, 6, 4))
    (profile, bench), rng = part, np.random.default_rng(draws.seed_here())
    for bits in (26, 27, 30):
        top = _TOP / 2.0**bits
        ranges = {"x0": Range(-top, top), "x1": Range(-7.0, 7.0), "t0": Range(-32.0 * top, 32.0 * top)}
        deployed = _deployed(replace(growth.case(1), ranges=ranges), profile, Precision.I16)
        shapes = {name: deployed.graph.types[name].static_shape or () for name in deployed.graph.inputs}
        given = {name: rng.integers(-30000, 30000, shape).astype(np.int16) for name, shape in shapes.items()}
        ours, theirs = _run(deployed, bench, given)
        np.testing.assert_array_equal(ours, theirs)
        assert np.count_nonzero(theirs) > theirs.size // 2
