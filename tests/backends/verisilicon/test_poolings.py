"""Poolings over drawn windows: strides, pads, rounding of sizes and what counts, on values that fill their range."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import draws
import numpy as np
import pytest

from dovetail.backend.protocols import Signature
from dovetail.backend.registry import find_target
from dovetail.backends.verisilicon.driver.bench import GraphBench
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.emulator.executable import Emulation
from dovetail.backends.verisilicon.parts.part import VsiProfile, profile_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.quantize import Range
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome, deploy
from dovetail.testing.wild.growth import Growth

from .conftest import drawn_input, kept_judge, target_named

_PRECISIONS = (Precision.U8, Precision.I8PC, Precision.I8DFP, Precision.I16)
_PLANES = ((1, 7), (3, 1), (3, 5), (4, 8), (7, 6), (5, 3))
_STRIDES = ((1, 1), (2, 2), (1, 2), (2, 1), (3, 2), (1, 3), (3, 3))
_WINDOWS = 6


@pytest.fixture(scope="module", params=["vsi:v853", "vsi:a311d", "vsi:imx8mp", "vsi:rv1126", "vsi:s905d3", "vsi:a733"])
def profile(request: pytest.FixtureRequest) -> VsiProfile:
    return profile_of(target_named(request.param))


@pytest.fixture(scope="module")
def judge(profile: VsiProfile, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(profile.name, vendor) as simulator:
        yield simulator


@pytest.fixture(scope="module")
def bench(profile: VsiProfile, vendor: VsiBackend) -> Iterator[GraphBench]:
    with GraphBench(profile.part.sdk_name, Settings(vendor.folder)) as simulator:
        yield simulator


def _pads(rng: Random, size: int, kernel: int, *, columns: bool) -> tuple[int, int]:
    """Return what stands before and after an axis, so that the kernel fits; of columns it is often nothing before."""
    least = max(0, kernel - size)
    if columns and rng.random() < 0.4:
        return 0, min(least, kernel - 1)
    before = rng.randrange(kernel)
    return before, rng.randrange(max(0, min(kernel - 1, least - before)), kernel)


def _drawn(seed: int, op: str, *, counted: bool) -> WildCase:
    """Return a pooling of a drawn window; one that rounds its sizes up counts no padding."""
    rng, growth = Random(seed), Growth(seed)
    rows, columns = rng.choice(_PLANES)
    kernels = [(high, wide) for high in (1, 2, 3) for wide in (1, 2, 3)]
    # One that is refused: as large as what it reads (below), and the largest of three along a line (on A733).
    refused = {(1, 1), (rows, columns), *(((3, 1), (1, 3)) if op == "MaxPool" and 1 in (rows, columns) else ())}
    possible = [size for size in kernels if size[0] <= rows + 1 and size[1] <= columns + 1]
    kernel = rng.choice([size for size in possible if size not in refused])
    (top, bottom), (left, right) = (
        _pads(rng, rows, kernel[0], columns=False),
        _pads(rng, columns, kernel[1], columns=True),
    )
    extra = {"count_include_pad": int(counted)} if op == "AveragePool" else {}
    pads, strides = (top, left, bottom, right), rng.choice(_STRIDES)
    # A row is at times given without its axis.
    first = int(rows == kernel[0] == 1 and rng.random() < 0.5)
    data = drawn_input(growth, 1 + seed % 2, rng.choice([1, 3, 5]), *(rows, columns)[first:])
    sizes = {"kernel_shape": kernel[first:], "strides": strides[first:], "pads": (left, right) if first else pads}
    growth.op(op, data, ceil_mode=0 if counted else rng.choice([0, 1]), **sizes, **extra)
    return growth.case(seed)


@pytest.mark.sdk
@pytest.mark.parametrize(("op", "counted"), [("AveragePool", False), ("AveragePool", True), ("MaxPool", False)])
def test_windows_are_equal(op: str, counted: bool, judge: SimulatorJudge) -> None:
    """What a compiler does with padding depends on the axis, the strides, the kernel and the precision."""
    first = draws.seed_here()
    for seed in range(first, first + _WINDOWS):
        case = _drawn(seed, op, counted=counted)
        for precision in _PRECISIONS:
            found = judge.judge(case, precision)
            said = f"{precision.value}, seed {seed}, {case.graph.nodes[0].attributes}: {found.outcome.value}"
            assert found.outcome is WildOutcome.EQUAL, f"{said} {found.steps} {found.reason}"


@pytest.mark.sdk
@pytest.mark.parametrize("kernel", [(1, 3), (2, 1), (2, 2), (3, 3)])
@pytest.mark.parametrize("strides", [(1, 1), (3, 2)])
def test_averages_near_halves_are_equal(
    strides: tuple[int, int], kernel: tuple[int, int], profile: VsiProfile, bench: GraphBench
) -> None:
    """An array and a shader round each in their own way: a quarter of such results would be a step off otherwise."""
    rng, growth = np.random.default_rng(draws.seed_here()), Growth(1)
    pads = (kernel[0] - 1, kernel[1] - 1, 0, 0) if strides != (1, 1) else (0, 0, 0, 0)
    growth.op("AveragePool", growth.input(1, 3, 24, 24), kernel_shape=kernel, strides=strides, pads=pads)
    for _ in range(4):
        made, zeros = float(rng.uniform(0.001, 0.05)), [int(zero) for zero in rng.integers(60, 190, 2)]
        near = 1.0 + rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-7.5, -5.5)
        scales = (made * math.prod(kernel) / 2 * near, made)
        ranges = {
            name: Range(-zero * scale, (255 - zero) * scale)
            for name, scale, zero in zip(("x0", "t0"), scales, zeros, strict=True)
        }
        _, (part,) = deploy(replace(growth.case(1), ranges=ranges), profile, Precision.U8)
        given = {part.graph.inputs[0]: (zeros[0] + rng.integers(-18, 18, (1, 3, 24, 24))).astype(np.uint8)}
        (output,) = part.graph.outputs
        ours = Emulation(part.program, Signature.of(part.graph)).run(given)[output]
        kinds = {output: part.graph.types[output]}
        (theirs,) = bench.measure(part.program, (given,), kinds, fresh=False).results
        np.testing.assert_array_equal(ours, theirs[output])


@pytest.mark.parametrize(
    ("plane", "pads", "reason"),
    [
        ((1, 1), (1, 1, 0, 0), "the average of a single value and its padding ends the compiler"),
        ((2, 2), (0, 1, 0, 1), "a window of 2x2 over 2x2 and padding is taken for the mean without it"),
    ],
)
def test_what_the_vendor_takes_for_another_is_refused(
    plane: tuple[int, int], pads: tuple[int, int, int, int], reason: str
) -> None:
    growth = Growth(1)
    data = growth.input(1, 3, *plane)
    growth.op("AveragePool", data, kernel_shape=(2, 2), strides=(1, 1), pads=pads, count_include_pad=1)
    graph = growth.case(1).graph
    assert reason in find_target("vsi:v853").verdict(graph, graph.nodes[0], Precision.U8).reason
