"""Run ONNX's own operator tests through import, export and ONNX Runtime, and print a table per operator.

python benchmarks/onnx_node_tests.py [--json] [--operator NAME] [--failures]

The quantising operators get scales, zero points and weights as graph inputs in these tests, which no quantised type
can hold. Such a case is run again with all inputs but the first as constants, and counted as `pass (bound)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, TensorProto, numpy_helper

from dovetail.errors import DovetailError
from dovetail.exporters import to_onnx
from dovetail.importers import load_onnx
from judges import onnx_cases as judged

_SILENT = 4
_BINDABLE = (
    "ConvInteger",
    "DequantizeLinear",
    "MatMulInteger",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
)


class Outcome(Enum):
    """Say how a case ended."""

    PASS = "pass"
    BOUND = "pass (bound)"
    """The same, with all inputs but the first turned into constants: quantised types need constant parameters."""
    REFUSED = "refused"
    """A DovetailError: the importer or exporter says why it cannot represent the model."""
    NO_KERNEL = "no kernel"
    """ONNX Runtime cannot run the exported model, nor the original one."""
    MISMATCH = "mismatch"
    RUNTIME = "runtime"
    """ONNX Runtime runs the original model but not the exported one."""
    ORIGINAL = "original differs"
    """The outputs differ from the expected ones, and those of the original model differ as well."""
    CRASH = "crash"
    """An exception that is not a DovetailError."""


CaseResult: TypeAlias = judged.CaseResult[Outcome]


def run_cases(operator: str | None = None) -> list[CaseResult]:
    """Run every case, or those of one operator."""
    ort.set_default_logger_severity(_SILENT)
    return judged.run_each(_run_case, lambda case: operator in (None, _operator(case.model)))


def _operator(model: ModelProto) -> str:
    return str(model.graph.node[0].op_type)


def _run_case(case: Any) -> CaseResult:
    model: ModelProto = case.model
    name, operator = str(case.name), _operator(model)
    if "_expanded" in name:
        operator = f"expanded:{name.split('_')[1]}"
    try:
        exported = to_onnx(load_onnx(model.SerializeToString()))
    except DovetailError as error:
        if operator in _BINDABLE and len(model.graph.input) > 1:
            return _run_bound(case, error)
        return CaseResult(name, operator, Outcome.REFUSED, str(error))
    except Exception as error:
        return CaseResult(name, operator, Outcome.CRASH, f"{type(error).__name__}: {error}")
    problem = _compare(exported, case)
    if problem is None:
        return CaseResult(name, operator, Outcome.PASS)
    original = _compare(model, case)
    failed = not isinstance(problem, _Differs)
    if failed:
        outcome = Outcome.RUNTIME if original is None else Outcome.NO_KERNEL
    else:
        outcome = Outcome.MISMATCH if original is None else Outcome.ORIGINAL
    return CaseResult(name, operator, outcome, " ".join(str(problem).split())[:200])


def _run_bound(case: Any, refusal: DovetailError) -> CaseResult:
    """Run a case again with all inputs but the first as constants."""
    model = ModelProto()
    model.CopyFrom(case.model)
    inputs, outputs = case.data_sets[0]
    for value, given in zip(list(model.graph.input)[1:], inputs[1:], strict=True):
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(_array(given)), value.name))
    del model.graph.input[1:]
    bound = replace(case, model=model, data_sets=[(inputs[:1], outputs)])
    operator = _operator(model)
    try:
        exported = to_onnx(load_onnx(model.SerializeToString()))
    except DovetailError:
        return CaseResult(case.name, operator, Outcome.REFUSED, str(refusal))
    except Exception as error:
        return CaseResult(case.name, operator, Outcome.CRASH, f"{type(error).__name__}: {error}")
    problem = _compare(exported, bound)
    outcome = Outcome.BOUND if problem is None else Outcome.MISMATCH
    return CaseResult(case.name, operator, outcome, "" if problem is None else " ".join(str(problem).split())[:200])


class _Differs(Exception):
    """The outputs differ from what the case expects."""


def _compare(model: ModelProto, case: Any) -> Exception | None:
    """Run a model on the case's data; return what went wrong, or None."""
    try:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = _SILENT
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for inputs, outputs in case.data_sets:
            names = [item.name for item in session.get_inputs()]
            feeds = {name: np.asarray(_array(value)) for name, value in zip(names, inputs, strict=True)}
            found = session.run(None, feeds)
            for got, expected in zip(found, outputs, strict=True):
                _check(np.asarray(got), _array(expected), case)
    except _Differs as error:
        return error
    except Exception as error:
        return error
    return None


def _array(value: object) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _check(got: Any, expected: Any, case: Any) -> None:
    if got.dtype != expected.dtype or got.shape != expected.shape:
        raise _Differs(f"{got.dtype}{got.shape} for {expected.dtype}{expected.shape}")
    if got.dtype.kind in "fc":
        try:
            np.testing.assert_allclose(got, expected, rtol=case.rtol, atol=case.atol)
        except AssertionError as error:
            raise _Differs(str(error)) from error
    elif not np.array_equal(got, expected):
        raise _Differs("integers differ")


def count_outcomes(results: Sequence[CaseResult]) -> dict[str, int]:
    """Return how many cases ended in each way."""
    return judged.count_outcomes(results, Outcome)


def table(results: Sequence[CaseResult]) -> Iterator[str]:
    """Yield the lines of the table: operator, cases, imported, passing, first reason of a refusal."""
    operators = sorted({result.operator for result in results})
    yield f"{'operator':36} {'cases':>5} {'imported':>8} {'passing':>7}  refused or failing, first reason"
    for operator in operators:
        mine = [result for result in results if result.operator == operator]
        imported = sum(result.outcome not in (Outcome.REFUSED, Outcome.CRASH) for result in mine)
        passing = sum(result.outcome in (Outcome.PASS, Outcome.BOUND) for result in mine)
        reason = next((f"{item.outcome.value}: {item.reason}" for item in mine if item.reason), "")
        yield f"{operator:36} {len(mine):5} {imported:8} {passing:7}  {reason[:120]}"
    yield judged.tally(results, Outcome)


def main() -> None:
    """Print the table, or everything as JSON."""
    judged.Report(str(__doc__), Outcome, run_cases, table, lambda result: result.outcome is not Outcome.PASS).main()


if __name__ == "__main__":
    main()
