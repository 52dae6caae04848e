"""Compare ONNX Runtime's own rules in the reference with its integer kernels, also where ties are many."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dovetail.backend.arithmetic import ORT
from dovetail.ir import Graph, Quantization, TensorType
from dovetail.ir.precision import Precision
from judges import ort_judge
from judges.trial import Score, Trial, make_trial

JUDGE = "ort-rules"
_FIRST = (0.1, 0.0123, 0.37)
"""Scales of the first input: no binary fractions, so that float32 rounds what the exact rule does not."""
_WEIGHED = frozenset({"Conv", "Gemm", "MatMul", "Mul"})
_SOLE = frozenset({"DequantizeLinear", "MaxPool", "QuantizeLinear"})


def rules_scores() -> Iterator[Score]:
    """Yield the share of equal integers of every trial."""
    for trial in rules_trials():
        yield rules_score(trial)


def rules_score(trial: Trial) -> Score:
    """Run a trial on ONNX Runtime's integer kernels and by its rules, in the form that they have on this processor."""
    return replace(ort_judge.judge_trial(replace(trial, arithmetic=ORT)), judge=JUDGE)


def rules_trials() -> list[Trial]:
    """Return every trial of the other judge, and each with scales whose ratios are powers of two but for float32."""
    made = ort_judge.trials()
    p = Precision
    names = ("Add.broadcast", "Add.channel", "Mul.channel", "Mul.scalar")
    made += [make_trial(name, precision) for name in names for precision in (p.I8, p.U8)]
    tied = [
        _tied(trial, first)
        for trial in made
        if trial.graph.nodes[0].op not in _SOLE and trial.graph.types[trial.graph.outputs[0]].quant is not None
        for first in _FIRST
    ]
    return made + tied


def _tied(trial: Trial, first: float) -> Trial:
    """Give the first input a scale, and every other tensor the power of two of it that is nearest to its own."""
    graph, kinds = trial.graph, dict(trial.graph.types)
    node = graph.nodes[0]
    start = np.float32(first)
    kinds[node.inputs[0]] = _scaled(kinds[node.inputs[0]], (float(start),))
    base = float(start)
    for place, name in enumerate(node.inputs[1:2]):
        quant = kinds[name].quant
        if quant is None:
            continue
        unit = base if node.op not in _WEIGHED else 0.7 * base
        kinds[name] = _scaled(kinds[name], tuple(_near(unit, scale) for scale in quant.scale))
        base = base * _smallest(kinds[name]) if node.op in _WEIGHED and place == 0 else base
    output = kinds[node.outputs[0]]
    assert output.quant is not None
    grown = output.quant.scale[0] * first / _smallest(graph.types[node.inputs[0]])
    kinds[node.outputs[0]] = _scaled(output, (_near(base, grown),))
    return replace(trial, name=f"{trial.name}.ties{first}", graph=_with(graph, kinds))


def _with(graph: Graph, kinds: dict[str, TensorType]) -> Graph:
    return graph.evolve(types=kinds)


def _smallest(kind: TensorType) -> float:
    assert kind.quant is not None
    return min(kind.quant.scale)


def _near(unit: float, scale: float) -> float:
    """Return the unit times the power of two that brings it nearest to a scale, in float32."""
    return float(np.float32(unit * 2.0 ** round(math.log2(scale / unit))))


def _scaled(kind: TensorType, scale: tuple[float, ...]) -> TensorType:
    assert kind.quant is not None
    quant = Quantization(scale, kind.quant.zero_point, kind.quant.axis)
    return TensorType(kind.dtype, kind.shape, quant)
