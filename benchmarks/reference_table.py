"""Run ONNX's own operator tests on the reference backend, and print a table per operator.

python benchmarks/reference_table.py [--json] [--operator NAME] [--failures]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from dovetail.backend.protocols import CompileOptions, Signature
from dovetail.backends.reference import REFERENCE, backend
from dovetail.errors import CompileError, DovetailError
from dovetail.importers import load_onnx
from dovetail.ir import DType, Graph
from judges import onnx_cases as judged


class Outcome(Enum):
    """Say how a case ended."""

    PASS = "pass"
    FAIL = "fail"
    """The outputs differ, or running raised an error."""
    NOT_IMPORTED = "not imported"
    """The importer refuses the model (strings, sequences, 4-bit and 8-bit floats, newer operators)."""
    REFUSED = "refused"
    """The reference refuses the graph when compiling."""


CaseResult: TypeAlias = judged.CaseResult[Outcome]


def run_cases(operator: str | None = None) -> list[CaseResult]:
    """Run every case, or those of one operator."""
    return judged.run_each(_run_case, lambda case: operator in (None, _operator(case)))


def _operator(case: Any) -> str:
    """Return the operator of a case; cases of expanded functions count as one group."""
    return "(expanded functions)" if "_expanded" in case.name else str(case.model.graph.node[0].op_type)


def _run_case(case: Any) -> CaseResult:
    name, operator, model = str(case.name), _operator(case), case.model
    assert isinstance(model, ModelProto)
    try:
        graph = load_onnx(model.SerializeToString())
    except DovetailError as error:
        return CaseResult(name, operator, Outcome.NOT_IMPORTED, str(error))
    try:
        problem = _run(graph, case)
    except CompileError as error:
        return CaseResult(name, operator, Outcome.REFUSED, str(error))
    except DovetailError as error:
        problem = str(error)
    return CaseResult(name, operator, Outcome.FAIL if problem else Outcome.PASS, problem)


def _run(graph: Graph, case: Any) -> str:
    """Return how the outputs differ from what the case expects; the empty text when they do not."""
    names = (graph.inputs, graph.outputs)
    inputs, outputs = ({name: graph.types[name] for name in side} for side in names)
    blob = backend.compile(graph, REFERENCE, CompileOptions())
    executable = backend.devices()[0].load(blob, Signature(inputs, outputs))
    order = [item.name for item in case.model.graph.input]
    for given, expected in case.data_sets:
        feeds = dict(zip(order, given, strict=True))
        found = executable.run({name: _stored(feeds[name], inputs[name].dtype) for name in graph.inputs})
        for name, want in zip(graph.outputs, expected, strict=True):
            problem = _difference(found[name], _stored(want, outputs[name].dtype), case)
            if problem:
                return f"{name}: {problem}"
    return ""


def _stored(value: object, dtype: DType) -> Any:
    """Return the array as Dovetail stores it: bfloat16 lies in float32."""
    array = np.asarray(numpy_helper.to_array(value) if isinstance(value, TensorProto) else value)
    return array.astype(np.float32) if dtype is DType.BF16 else array


def _difference(got: Any, want: Any, case: Any) -> str:
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    if got.dtype.kind != "f":
        return "" if np.array_equal(got, want) else f"{int((got != want).sum())} of {got.size} elements differ"
    close = np.isclose(got.astype(np.float64), want, rtol=case.rtol, atol=case.atol, equal_nan=True)
    return "" if close.all() else f"{int((~close).sum())} of {got.size} elements differ"


def table(results: Sequence[CaseResult]) -> Iterator[str]:
    """Yield the lines of the table: operator, cases, how many ran and passed, and the first reason otherwise."""
    yield f"{'operator':28} {'cases':>5} {'ran':>5} {'pass':>5} {'share':>7}  first reason of the rest"
    for operator in sorted({result.operator for result in results}):
        mine = [result for result in results if result.operator == operator]
        counts = judged.count_outcomes(mine, Outcome)
        ran, passed = counts["pass"] + counts["fail"], counts["pass"]
        share = f"{passed / ran:7.1%}" if ran else "      -"
        reason = next((f"{item.outcome.value}: {item.reason}" for item in mine if item.outcome is not Outcome.PASS), "")
        yield f"{operator:28} {len(mine):5} {ran:5} {passed:5} {share}  {' '.join(reason.split())[:110]}"
    yield judged.tally(results, Outcome)


def main() -> None:
    """Print the table, or everything as JSON."""
    judged.Report(str(__doc__), Outcome, run_cases, table, lambda result: result.outcome is Outcome.FAIL).main()


if __name__ == "__main__":
    main()
