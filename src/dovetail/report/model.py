"""Describe a model: what goes in and out, what it is made of, and what looks suspicious."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import OPSET, Graph
from dovetail.ir.macs import graph_macs
from dovetail.ir.roles import weight_layout
from dovetail.ir.text import print_type
from dovetail.ir.types import TensorType
from dovetail.quantize.ranges import Ranges
from dovetail.report.figures import bytes_text, count_text, number_text
from dovetail.report.page import Facts, Page, Prose, Table, flexible, left, right, wrapped

_CHANNEL_RATIO = 1000.0
"""Weights of output channels further apart than this lose the small ones under one scale."""

_CONCAT_RATIO = 16.0
_WIDE = 1e4


@dataclass(frozen=True, slots=True)
class ModelFinding:
    """Something suspicious: the node or tensor, and what is odd about it."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """What a model is; `operators` counts by name, most frequent first, `quantised` tensors by stored type.

    `weights` counts the elements of real constants by stored type: the precision that the file has.
    """

    name: str
    digest: str
    opset: int
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    operators: Mapping[str, int]
    node_count: int
    parameter_count: int
    parameter_bytes: int
    macs: int | None
    quantised: Mapping[str, int]
    weights: Mapping[str, int]
    findings: tuple[ModelFinding, ...]

    @property
    def document(self) -> Mapping[str, object]:
        """Return the summary as plain data for JSON."""
        return {
            "name": self.name,
            "digest": self.digest,
            "opset": self.opset,
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "nodes": self.node_count,
            "operators": dict(self.operators),
            "parameters": self.parameter_count,
            "parameter_bytes": self.parameter_bytes,
            "macs": self.macs,
            "quantised": dict(self.quantised),
            "weights": dict(self.weights),
            "findings": [{"place": item.place, "text": item.text} for item in self.findings],
        }


def describe_graph(graph: Graph, ranges: Ranges | None = None) -> ModelSummary:
    """Return what a graph is; with ranges also what is suspicious about its activations."""
    constants = list(_real_constants(graph))
    counts = Counter(node.op if not node.domain else f"{node.domain}::{node.op}" for node in graph.nodes)
    stored = Counter(_stored(kind) for kind in graph.types.values() if kind.quant is not None)
    return ModelSummary(
        name=graph.name,
        digest=graph.digest,
        opset=OPSET,
        inputs={name: print_type(graph.types[name]) for name in graph.inputs},
        outputs={name: print_type(graph.types[name]) for name in graph.outputs},
        operators=dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        node_count=len(graph.nodes),
        parameter_count=sum(int(array.size) for _, array in constants),
        parameter_bytes=sum(array.size * kind.dtype.size_bytes for kind, array in constants),
        # How often a body runs is not known, nor which.
        macs=None if any(node.bodies() for node in graph.nodes) else graph_macs(graph),
        quantised=dict(stored.most_common()),
        weights=_weights(constants),
        findings=(*_constant_findings(graph), *(() if ranges is None else _range_findings(graph, ranges))),
    )


def model_page(summary: ModelSummary) -> Page:
    """Return the page about a model."""
    quantised = ", ".join(f"{count} tensors {kind}" for kind, count in summary.quantised.items())
    facts = Facts(
        "",
        (
            ("nodes", str(summary.node_count)),
            ("parameters", f"{count_text(summary.parameter_count)} ({bytes_text(summary.parameter_bytes)})"),
            ("multiply-accumulates", f"{count_text(summary.macs)} a sample"),
            ("quantised", quantised or "no"),
            (
                "weights stored as",
                ", ".join(f"{count_text(n)} {kind}" for kind, n in summary.weights.items()) or "none",
            ),
            ("opset", f"{summary.opset} (converted on import)"),
            ("digest", summary.digest),
        ),
    )
    ends = [("input", name, kind) for name, kind in summary.inputs.items()]
    ends += [("output", name, kind) for name, kind in summary.outputs.items()]
    operators = tuple((op, str(count)) for op, count in summary.operators.items())
    blocks: list[Facts | Table | Prose] = [
        facts,
        Table("Inputs and outputs", (left(""), flexible("name"), flexible("type")), tuple(ends)),
        Table("Operators", (left("operator"), right("count")), operators),
    ]
    if summary.findings:
        rows = tuple((item.place, item.text) for item in summary.findings)
        blocks.append(Table("Suspicious", (flexible("where"), wrapped("what")), rows))
    return Page(f"Model '{summary.name}'", tuple(blocks))


def _real_constants(graph: Graph) -> Iterator[tuple[TensorType, AnyArray]]:
    """Yield the constants of a graph and of the bodies in it that stand for reals, with their types."""
    for name, array in graph.constants.items():
        if graph.types[name].holds_reals:
            yield graph.types[name], array
    for node in graph.nodes:
        for body in node.bodies():
            if isinstance(body, Graph):
                yield from _real_constants(body)


def _weights(constants: Sequence[tuple[TensorType, AnyArray]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for kind, array in constants:
        counts[_stored(kind)] += int(array.size)
    return dict(counts.most_common())


def _stored(kind: TensorType) -> str:
    return kind.dtype.value + (" per channel" if kind.quant is not None and kind.quant.per_channel else "")


def _constant_findings(graph: Graph) -> Iterator[ModelFinding]:
    for name, array in graph.constants.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            bad = int(array.size - np.count_nonzero(np.isfinite(array)))
            yield ModelFinding(name, f"{bad} of {array.size} values of this constant are NaN or infinite")
    for node in graph.nodes:
        layout = weight_layout(graph, node)
        if layout is None:
            continue
        weight = graph.constants[node.inputs[layout.weight]]
        if weight.dtype.kind != "f" or not 0 <= layout.channel_axis < weight.ndim or not np.isfinite(weight).all():
            continue
        others = tuple(axis for axis in range(weight.ndim) if axis != layout.channel_axis)
        # Ratios of numbers next to nothing are beyond float32.
        peaks = np.abs(weight).max(axis=others, initial=0.0).astype(np.float64)
        live = peaks[peaks > 0]
        if 0 < live.size < peaks.size:
            yield ModelFinding(
                node.name, f"{peaks.size - live.size} of {peaks.size} output channels have weights of zero"
            )
        if live.size and live.max() / live.min() > _CHANNEL_RATIO:
            ratio = number_text(float(live.max() / live.min()), 2)
            yield ModelFinding(node.name, f"weights of output channels are {ratio} times apart")


def _range_findings(graph: Graph, ranges: Ranges) -> Iterator[ModelFinding]:
    spans = {name: max(abs(item.low), abs(item.high)) for name, item in ranges.tensors.items()}
    for name, limits in ranges.tensors.items():
        if limits.low == limits.high:
            yield ModelFinding(name, f"always {limits.low:g}: calibration saw one value")
        elif spans[name] > _WIDE:
            yield ModelFinding(name, f"spans [{limits.low:.3g}, {limits.high:.3g}]")
    for node in graph.nodes:
        live = {name: spans[name] for name in node.inputs if spans.get(name, 0.0) > 0}
        if node.op == "Concat" and live and max(live.values()) / min(live.values()) > _CONCAT_RATIO:
            ratio = max(live.values()) / min(live.values())
            yield ModelFinding(node.name, f"joins ranges {ratio:.0f} times apart under one scale")
