"""What shaders normalise and multiply, and padded averages, against the vendor's simulator on random values."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir import AnyArray, parse_graph
from dovetail.ir.precision import Precision
from dovetail.quantize import Range
from dovetail.testing.wild.case import WildCase, measured_ranges
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome

from .conftest import kept_judge

pytestmark = [pytest.mark.sdk, pytest.mark.slow]

_TARGET = "vsi:v853"
_INTEGERS = (Precision.U8, Precision.I8PC, Precision.I8DFP, Precision.I16)
_RARE = 0.0005
"""Share of normalised elements that may differ by one step: last bits of sums in float32."""


@pytest.fixture(scope="module")
def judge(vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(_TARGET, vendor) as simulator:
        yield simulator


def _generator() -> np.random.Generator:
    seed = draws.seed_here()
    print(f"seed {seed}")  # noqa: T201
    return np.random.default_rng(seed)


def _constant(name: str, value: AnyArray) -> str:
    data = base64.b64encode(value.astype("<f4").tobytes()).decode()
    return f'constant "{name}": f32{list(value.shape)} = base64 "{data}"\n'


def _case(body: str, rng: np.random.Generator) -> WildCase:
    graph = parse_graph(f'graph "shaded" opset 21\n{body}\noutput "y"\nend\n')
    sample: dict[str, AnyArray] = {
        name: rng.uniform(-3.0, 20.0, graph.types[name].static_shape).astype(np.float32) for name in graph.inputs
    }
    return WildCase(graph, measured_ranges(graph, [sample]), int(rng.integers(1 << 30)))


def _check(case: WildCase, precision: Precision, judge: SimulatorJudge, rare: float = 0.0) -> None:
    found = judge.judge(case, precision)
    said = f"{precision.value}, seed {case.seed}: {found.outcome.value} {found.steps} {found.reason}"
    assert found.outcome in (WildOutcome.EQUAL, WildOutcome.DIFFERS), said
    assert found.steps.differing <= rare * sum(found.steps.counts), said
    assert found.steps.largest <= 1, said


@pytest.mark.parametrize("precision", _INTEGERS)
@pytest.mark.parametrize("plane", [(3, 5), (7, 17), (2, 300)])
def test_planes_are_normalised(plane: tuple[int, int], precision: Precision, judge: SimulatorJudge) -> None:
    rng, shape = _generator(), [1, 8, *plane]
    weights = _constant("s", rng.normal(size=8)) + _constant("b", rng.normal(size=8))
    body = f'input "x": f32{shape}\n{weights}"n" = InstanceNormalization("x", "s", "b") -> ("y": f32{shape})'
    _check(_case(body, rng), precision, judge, _RARE)


@pytest.mark.parametrize("precision", _INTEGERS)
@pytest.mark.parametrize("operator", ["InstanceNormalization", "GroupNormalization"])
def test_planes_of_one_value_are_normalised(operator: str, precision: Precision, judge: SimulatorJudge) -> None:
    """What is left of a variance of 0 is the rounding of sums: its root is no number where that is below 0."""
    rng = _generator()
    plane = tuple(rng.integers(3, 12, 2).tolist())
    shape, groups = [1, 32, *plane], ' {"num_groups": 32}' * (operator == "GroupNormalization")
    weights = _constant("s", rng.uniform(0.5, 1.5, size=32)) + _constant("b", rng.normal(size=32))
    body = (
        f'input "x": f32[1, 32, 1, 1]\n{weights}constant "e": i64[4] = [{", ".join(map(str, shape))}]\n'
        f'"e0" = Expand("x", "e") -> ("t": f32{shape})\n'
        f'"n" = {operator}("t", "s", "b") -> ("y": f32{shape}){groups}'
    )
    _check(_case(body, rng), precision, judge)


@pytest.mark.parametrize("precision", _INTEGERS)
def test_planes_end_or_wrap_around_beyond_their_range(precision: Precision, judge: SimulatorJudge) -> None:
    """The shader that cuts to 16 bits keeps the lower ones of what is larger; bytes end at their ends."""
    rng, shape = _generator(), [1, 8, 7, 17]
    weights = _constant("s", rng.uniform(0.5, 2.0, size=8)) + _constant("b", rng.normal(size=8))
    body = f'input "x": f32{shape}\n{weights}"n" = InstanceNormalization("x", "s", "b") -> ("y": f32{shape})'
    case = _case(body, rng)
    narrow = Range(case.ranges["y"].low * 0.3, case.ranges["y"].high * 0.3)
    _check(replace(case, ranges={**case.ranges, "y": narrow}), precision, judge, _RARE)


@pytest.mark.parametrize("precision", _INTEGERS)
@pytest.mark.parametrize(("groups", "plane"), [(2, (4, 4)), (4, (6, 8)), (8, (3, 5))])
def test_groups_are_normalised(
    groups: int, plane: tuple[int, int], precision: Precision, judge: SimulatorJudge
) -> None:
    rng, shape = _generator(), [1, 8, *plane]
    rows = [np.tile(rng.normal(size=8 // groups), groups) for _ in range(2)]
    body = (
        f'input "x": f32{shape}\n{_constant("s", rows[0])}{_constant("b", rows[1])}'
        f'"n" = GroupNormalization("x", "s", "b") -> ("y": f32{shape}) {{"num_groups": {groups}}}'
    )
    _check(_case(body, rng), precision, judge, _RARE)


@pytest.mark.parametrize("inner", [4, 65])
def test_terms_of_16_bits_are_added_one_after_another(inner: int, judge: SimulatorJudge) -> None:
    rng = _generator()
    body = (
        f'input "x": f32[3, 7, {inner}]\ninput "z": f32[3, {inner}, 9]\n"n" = MatMul("x", "z") -> ("y": f32[3, 7, 9])'
    )
    _check(_case(body, rng), Precision.I16, judge)


@pytest.mark.parametrize("precision", _INTEGERS)
@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize(("kernel", "stride"), [((3, 3), 1), ((3, 3), 2), ((2, 3), 1)])
def test_padded_averages(
    kernel: tuple[int, int], stride: int, counted: int, precision: Precision, judge: SimulatorJudge
) -> None:
    rng = _generator()
    made = [(8 + 2 - side) // stride + 1 for side in kernel]
    body = (
        'input "x": f32[1, 3, 8, 8]\n'
        f'"n" = AveragePool("x") -> ("y": f32[1, 3, {made[0]}, {made[1]}]) '
        f'{{"count_include_pad": {counted}, "kernel_shape": {list(kernel)}, "strides": [{stride}, {stride}], '
        '"pads": [1, 1, 1, 1]}'
    )
    _check(_case(body, rng), precision, judge)
