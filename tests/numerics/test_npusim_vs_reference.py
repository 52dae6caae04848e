"""The simulators against the reference: every supported operator, precision and target.

The exact simulation and the reference share no code: matrix products, tables and ONNX Runtime's double kernels on one
side, plain int64 and float64 numpy on the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dovetail.backend.arithmetic import EXACT, Vip
from dovetail.backend.profiles import VSI_PROFILES
from dovetail.backend.protocols import CompileOptions, Executable, Fidelity
from dovetail.backend.target import TargetProfile
from dovetail.backends.npusim import backend as simulator
from dovetail.backends.reference import backend as reference
from dovetail.compare.steps import Steps
from dovetail.ir import Quantization
from dovetail.ir.precision import Precision
from dovetail.testing.agreement import agreement, load_on
from dovetail.testing.cases import CASES, QuantizedCase, quantized
from dovetail.testing.operator_case import OperatorCase

EACH_GENERATION = ("vsi:a311d", "vsi:imx8mp", "vsi:v853", "vsi:a733")
TARGETS = [target for target in VSI_PROFILES if target.name in EACH_GENERATION]
PAIRS = [(target, precision) for target in TARGETS for precision in target.precisions]
INTEGER_PAIRS = [pair for pair in PAIRS if pair[1].is_quantized]
INTEGER_IDS = [f"{target.name}-{precision.value}" for target, precision in INTEGER_PAIRS]

FLOORS = {
    # Ties: where many results lie exactly between two integers, float32 falls on either side of them.
    "AveragePool.same_scale": 0.90,
    "Resize.linear": 0.975,
    "Round": 0.56,
}
"""Measured shares of equal elements between the fast and the exact simulation, where they are below 0.99."""

LIMITED_DOMAIN = frozenset({"Div", "Log", "Reciprocal", "Sqrt"})
"""Operators that are undefined somewhere: only samples from their declared ranges are compared."""


@cache
def prepared(index: int, precision: Precision) -> QuantizedCase:
    return quantized(CASES[index], precision)


def supported(target: TargetProfile, precision: Precision) -> Iterator[tuple[OperatorCase, QuantizedCase]]:
    for index, case in enumerate(CASES):
        found = prepared(index, precision)
        if target.verdict(found.graph, found.graph.nodes[0], precision).supported:
            yield case, found


@pytest.mark.parametrize(("target", "precision"), INTEGER_PAIRS, ids=INTEGER_IDS)
def test_exact_equals_the_reference(target: TargetProfile, precision: Precision) -> None:
    total = Steps()
    for case, found in supported(target, precision):
        exact = load_on(simulator, found.graph, target, CompileOptions(Fidelity.EXACT))
        result = agreement(exact, load_on(reference, found.graph, target, CompileOptions()), found.inputs)
        assert result.largest <= 1, f"{case.name}: {result}"
        assert result.share >= 0.999, f"{case.name}: {result}"
        total += result
    assert total.elements > 200_000
    assert total.share >= 0.99998


@pytest.mark.parametrize("name", ["Add", "Sub", "AveragePool.same_scale"])
def test_the_comparison_sees_another_rounding(name: str) -> None:
    (target,) = (target for target in VSI_PROFILES if target.name == "vsi:v853")
    index = [case.name for case in CASES].index(name)
    found = prepared(index, Precision.U8)
    tied = _on_one_scale(found)
    exact = load_on(simulator, tied.graph, target, CompileOptions(Fidelity.EXACT))
    other = load_on(reference, tied.graph, replace(target, arithmetic=EXACT), CompileOptions())
    assert agreement(exact, other, tied.inputs).share < 0.99


def _on_one_scale(found: QuantizedCase) -> QuantizedCase:
    """Return the case with scales that make half of all results ties, and odd zero points."""
    types = dict(found.graph.types)
    for name in (*found.graph.inputs, *found.graph.outputs):
        scale = 1.0 if name in found.graph.outputs else 0.5
        scale = 1.0 if len(found.graph.inputs) == 1 else scale
        types[name] = replace(types[name], quant=Quantization((scale,), (127,)))
    return replace(found, graph=found.graph.evolve(types=types))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(("precision", "tolerance"), [(Precision.FP16, 2e-3), (Precision.FP32, 2e-6)])
def test_floats_are_close_to_the_reference(target: TargetProfile, precision: Precision, tolerance: float) -> None:
    for case, found in supported(target, precision):
        exact = load_on(simulator, found.graph, target, CompileOptions(Fidelity.EXACT))
        judge = load_on(reference, found.graph, target, CompileOptions())
        for sample in found.inputs[:2]:
            wanted = judge.run(sample)
            for name, value in exact.run(sample).items():
                largest = max(1.0, float(np.abs(wanted[name]).max()))
                np.testing.assert_allclose(value, wanted[name], tolerance, tolerance * largest, err_msg=case.name)


@pytest.mark.parametrize(("target", "precision"), INTEGER_PAIRS, ids=INTEGER_IDS)
def test_fast_is_within_one_step_of_exact(target: TargetProfile, precision: Precision) -> None:
    # The fast simulation computes functions; what the engines' tables do instead is the next test's.
    target = replace(target, arithmetic=replace(target.arithmetic, vip=None))
    for case, found in supported(target, precision):
        exact = load_on(simulator, found.graph, target, CompileOptions(Fidelity.EXACT))
        fast = load_on(simulator, found.graph, target, CompileOptions(Fidelity.FAST))
        result = agreement(fast, exact, found.inputs[:2] if case.op in LIMITED_DOMAIN else found.inputs)
        assert result.largest <= 1, f"{case.name}: {result}"
        assert result.share >= FLOORS.get(case.name, 0.99), f"{case.name}: {result}"


@pytest.mark.parametrize("name", EACH_GENERATION)
@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8, Precision.I8PC])
def test_the_engines_move_bytes_by_one_step_at_most(name: str, precision: Precision) -> None:
    (target,) = (target for target in VSI_PROFILES if target.name == name)
    plain = replace(target, arithmetic=replace(target.arithmetic, vip=None))
    for case, found in supported(target, precision):
        exact = load_on(reference, found.graph, target, CompileOptions())
        known = load_on(reference, found.graph, plain, CompileOptions())
        if case.op == "Div" and target.arithmetic.vip is Vip.STREAM:
            _nothing_by_nothing_is_nothing(found, exact, known)
            continue
        result = agreement(exact, known, found.inputs)
        assert result.largest <= 1, f"{case.name}: {result}"


def _nothing_by_nothing_is_nothing(found: QuantizedCase, exact: Executable, known: Executable) -> None:
    """The stream processor gives 0 for 0 / 0, which is no number; all else is within a step."""
    graph = found.graph
    names, result = graph.nodes[0].inputs, graph.outputs[0]
    zeros = [quant.zero_point[0] for name in (*names, result) if (quant := graph.types[name].quant) is not None]
    seen = 0
    for sample in found.inputs:
        first, other = (one.run(sample)[result].astype(int) for one in (exact, known))
        nothing = (sample[names[0]] == zeros[0]) & (sample[names[1]] == zeros[1])
        assert np.all(first[nothing] == zeros[2])
        assert np.abs(first - other)[~nothing].max(initial=0) <= 1
        seen += int(nothing.sum())
    assert seen
