"""The simulators against the reference: every supported operator, precision and target.

The exact simulation emulates the lowered program; the reference computes the graph in plain int64 and float64 numpy
and knows no maker. They share no code, which a test here asserts. Where the silicon has a rule of its own (a table, the
adder, a shader of 16 bits) the reference says only that the result is near: the vendor's vectors judge such rules.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dovetail.backend.arithmetic import EXACT, Arithmetic
from dovetail.backend.protocols import CompileOptions, Executable, Fidelity
from dovetail.backend.target import TargetProfile
from dovetail.backends.npusim import backend as simulator
from dovetail.backends.reference import backend as reference
from dovetail.backends.verisilicon.emulator.functions import NATIVE, ODD, USER
from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.lowering.routes import PRODUCTS
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.backends.verisilicon.program import Program, ProgramOperator, Route
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
        if case.name in REFUSED_LATE or not target.verdict(found.graph, found.graph.nodes[0], precision).supported:
            continue
        yield case, found


REFUSED_LATE = frozenset(
    {
        *("AveragePool.include_pad", "ConvTranspose.grouped", "Gemm.scaled", "GroupNormalization"),
        *("Resize.nearest", "Conv.grouped"),
    }
)
"""What a verdict accepts and lowering refuses (Conv.grouped in half precision)."""

MOVEMENTS = frozenset({"depth_to_space", "pad", "reshape", "reverse", "space_to_depth", "strided_slice", "transpose"})
SHADED = frozenset(
    {
        *("batch_norm", "conv2d", "cos", "deconv2d", "exp", "instance_norm", "l2_norm", "layer_norm", "log_softmax"),
        *("resize", "sin", "softmax", "softplus"),
    }
)
"""Operators of 16 bits that are emulated in the order of a shader's float32 operations."""
STREAMED = frozenset({*USER, *NATIVE, *ODD, "div", "exp", "layer_norm", "softmax", "softplus", "sqrt"})
"""Operators that the stream processor computes with tables."""
STEPS_OF_BYTES, SHARE_OF_RANGE = 1, 256
"""How far a rule of the silicon may lead: steps of 8 bits, and of 16 bits 0.4 % of what they hold."""


def has_own_rule(program: Program) -> bool:
    """Tell whether the emulator computes an operator otherwise than by its definition."""
    return any(_is_own(program, operator) for operator in program.operators)


def _is_own(program: Program, operator: ProgramOperator) -> bool:
    made = program.tensors[operator.outputs[0]].form.code.name
    if operator.route is Route.ARRAY:
        return operator.kind not in PRODUCTS
    if operator.route is Route.SHADER:
        fixed = operator.kind == "resize" or operator.kind == "lrn"
        return operator.kind == "reduce_l2" or (operator.kind in SHADED and (made == "I16" or fixed)) or fixed
    return operator.kind in STREAMED if operator.route is Route.STREAM else operator.kind not in MOVEMENTS


def rounding_of(program: Program, target: TargetProfile) -> Arithmetic:
    """Return the target's rounding facts; a product in a shader has no multiplier of the array."""
    shaded = any(operator.kind in PRODUCTS and operator.route is Route.SHADER for operator in program.operators)
    return replace(target.arithmetic, multiplier_bits=None, by_op={}) if shaded else target.arithmetic


@pytest.mark.parametrize(("target", "precision"), INTEGER_PAIRS, ids=INTEGER_IDS)
def test_exact_equals_the_reference(target: TargetProfile, precision: Precision) -> None:
    plain, own = Steps(), []
    equal = 0
    for case, found in supported(target, precision):
        program = lower_graph(found.graph, part_of(target))
        exact = load_on(simulator, found.graph, target, CompileOptions(Fidelity.EXACT))
        judged = replace(target, arithmetic=rounding_of(program, target))
        judge = load_on(reference, found.graph, judged, CompileOptions())
        if has_own_rule(program):
            own.append(case.name)
            result = agreement(exact, judge, found.inputs[:2])
            limit = SHARE_OF_RANGE if precision is Precision.I16 else STEPS_OF_BYTES
            assert result.largest <= limit, f"{case.name}: {result}"
            continue
        result = agreement(exact, judge, found.inputs)
        assert result.largest <= 1, f"{case.name}: {result}"
        assert result.share >= 0.999, f"{case.name}: {result}"
        plain += result
        equal += 1
    told = "%s %s: %d cases judged by the reference, %d by vendor vectors: %s"
    logging.getLogger(__name__).info(told, target.name, precision.value, equal, len(own), ", ".join(own))
    assert equal >= len(own) / 2, own
    assert plain.elements > 50_000
    assert plain.share >= 0.99998


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("dovetail.backends.reference", ("verisilicon", "npusim")),
        ("dovetail.backends.verisilicon.emulator.executable", ("backends.reference",)),
        ("dovetail.backends.npusim", ("backends.reference",)),
    ],
)
def test_the_judge_and_the_judged_share_no_code(first: str, other: tuple[str, ...]) -> None:
    program = f"import sys, {first}\nprint(*[name for name in sys.modules if any(o in name for o in {other!r})])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


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
    # The fast simulation computes functions; what the engines' tables do instead is the test's above.
    for case, found in supported(target, precision):
        program = lower_graph(found.graph, part_of(target))
        exact = load_on(simulator, found.graph, target, CompileOptions(Fidelity.EXACT))
        fast = load_on(simulator, found.graph, target, CompileOptions(Fidelity.FAST))
        own = has_own_rule(program)
        limited = case.op in LIMITED_DOMAIN or own
        result = agreement(fast, exact, found.inputs[:2] if limited else found.inputs)
        wide = own and precision is Precision.I16
        assert result.largest <= (SHARE_OF_RANGE if wide else 1), f"{case.name}: {result}"
        if not own:
            assert result.share >= FLOORS.get(case.name, 0.99), f"{case.name}: {result}"


def test_nothing_by_nothing_is_nothing_in_the_stream_processor() -> None:
    """0 / 0 is no number, for which it gives 0; all else is within a step of the quotient."""
    (target,) = (target for target in VSI_PROFILES if target.generation is Generation.STREAM)
    found = prepared([case.name for case in CASES].index("Div"), Precision.U8)
    exact = load_on(simulator, found.graph, target, CompileOptions(Fidelity.EXACT))
    known = load_on(reference, found.graph, target, CompileOptions())
    _compare_quotients(found, exact, known)


def _compare_quotients(found: QuantizedCase, exact: Executable, known: Executable) -> None:
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
