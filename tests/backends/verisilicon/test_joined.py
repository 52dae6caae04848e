"""Operators that the vendor's compiler joins with the product before them, on random weights, scales and values."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.parts.part import profile_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir import AnyArray, parse_graph
from dovetail.ir.precision import Precision
from dovetail.quantize import Range
from dovetail.testing.wild.case import WildCase, measured_ranges
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome, deploy

from .conftest import kept_judge, target_named

pytestmark = pytest.mark.sdk

_IMAGE, _ROW = "f32[1, 3, 16, 16]", "f32[1, 1, 24]"
_PLANES, _FEATURES = "f32[1, 8, 16, 16]", "f32[1, 1, 40]"
_CONVOLUTION = (
    f'input "x": {_IMAGE}\n{{w}}\n{{b}}\n"product" = Conv("x", "w", "b") -> ("c": {_PLANES}) '
    '{{"dilations": [1, 1], "group": 1, "kernel_shape": [1, 1], "pads": [0, 0, 0, 0], "strides": [1, 1]}}\n'
)
_TAILS = {
    "sum": f'"last" = Add("o", "c") -> ("y": {_PLANES})',
    "difference": f'"last" = Sub("c", "o") -> ("y": {_PLANES})',
    "subtracted": f'"last" = Sub("o", "c") -> ("y": {_PLANES})',
    "slope": f'"last" = LeakyRelu("c") -> ("y": {_PLANES}) {{"alpha": 0.1}}',
}
_ROWS = ("bias", "row slope", "bias slope")
_SLOPES = {"slope": "u8 i8 i8pc", "row slope": "u8 i8 i8pc", "bias slope": "u8"}
_JOINED = {
    "vsi:v853": {"sum": "u8 i8dfp", "difference": "u8 i8dfp", "bias": "u8 i8dfp i16", **_SLOPES},
    "vsi:a311d": {"bias": "u8 i8dfp i16"},
    "vsi:a733": {"sum": "u8 i8dfp i16", "difference": "u8 i8dfp i16", "bias": "u8 i8dfp i16", **_SLOPES},
}
"""What is computed with the product, by target and precision: the rest is computed by itself."""
_RARE, _RARE_WIDE = 0.002, 0.1
_PRECISIONS = (Precision.U8, Precision.I8, Precision.I8PC, Precision.I8DFP, Precision.I16)


def _constant(name: str, rng: np.random.Generator, *shape: int) -> str:
    value = (rng.normal(size=shape) * rng.choice([0.3, 1.0, 4.0])).astype("<f4")
    return f'constant "{name}": f32{list(shape)} = base64 "{base64.b64encode(value.tobytes()).decode()}"'


def _text(tail: str, rng: np.random.Generator) -> str:
    if tail in _ROWS:
        body = f'input "x": {_ROW}\n{_constant("w", rng, 24, 40)}\n'
        body += f'"product" = MatMul("x", "w") -> ("c": {_FEATURES})\n'
        if tail != "row slope":
            made = "y" if tail == "bias" else "d"
            body += f'{_constant("b", rng, 40)}\n"sum" = Add("c", "b") -> ("{made}": {_FEATURES})\n'
        if tail != "bias":
            read = "d" if tail == "bias slope" else "c"
            body += f'"last" = LeakyRelu("{read}") -> ("y": {_FEATURES}) {{"alpha": 0.3}}\n'
    else:
        product = _CONVOLUTION.format(w=_constant("w", rng, 8, 3, 1, 1), b=_constant("b", rng, 8))
        other = f'input "o": {_PLANES}\n' if '"o"' in _TAILS[tail] else ""
        body = other + product + _TAILS[tail]
    return f'graph "joined" opset 21\n{body}\noutput "y"\nend\n'


def _case(tail: str, seed: int) -> WildCase:
    """Return a product and what follows, with ranges that cut off some of what is computed."""
    rng = np.random.default_rng(seed)
    graph = parse_graph(_text(tail, rng))
    limits = {name: (-rng.uniform(0.1, 2.0), rng.uniform(0.1, 2.0)) for name in graph.inputs}
    sample: dict[str, AnyArray] = {
        name: rng.uniform(*limits[name], graph.types[name].static_shape).astype(np.float32) for name in graph.inputs
    }
    ranges = {name: Range(item.low * 0.9, item.high * 0.9) for name, item in measured_ranges(graph, [sample]).items()}
    return WildCase(graph, ranges, seed)


@pytest.fixture(scope="module", params=sorted(_JOINED))
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[tuple[str, SimulatorJudge]]:
    with kept_judge(request.param, vendor) as simulator:
        yield request.param, simulator


@pytest.mark.parametrize("tail", [*_TAILS, *_ROWS])
def test_what_follows_a_product_is_computed_as_the_part_does(tail: str, judge: tuple[str, SimulatorJudge]) -> None:
    """A new seed each time; which of them are joined is a fact of the part."""
    target, simulator = judge
    seed = draws.seed_here()
    for precision in _PRECISIONS:
        case = _case(tail, seed)
        _, (deployed,) = deploy(case, profile_of(target_named(target)), precision)
        joined = precision.value in _JOINED[target].get(tail, "").split()
        assert bool(deployed.program.operators[-1].joins) is joined, f"{precision.value}, seed {seed}"
        if tail.endswith("slope") and not joined:
            # A LeakyRelu by itself is a table, which has tests of its own.
            continue
        found = simulator.judge(case, precision)
        said = f"{precision.value}, seed {seed}: {found.outcome.value} {found.steps} {found.reason}"
        # The last bit of the float adder's traces is known for nearly all pairs of affine bytes, not for all.
        assert found.outcome in (WildOutcome.EQUAL, WildOutcome.DIFFERS), said
        assert found.steps.largest <= 1, said
        rare = _RARE_WIDE if precision is Precision.I16 else _RARE
        assert found.steps.differing <= rare * sum(found.steps.counts), said
