"""Say what a file is before it is converted: also of files that cannot be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError
from onnx import ModelProto

from dovetail.facts.tflite import HybridFacts, LstmFacts
from dovetail.importers.converted import recognise
from dovetail.importers.formats import format_of
from dovetail.importers.onnx.dynamic import count_dynamic
from dovetail.importers.options import LoadOptions
from dovetail.importers.tflite.convert import known_operators
from dovetail.importers.tflite.model import LiteGraph, LiteModel, LiteOperator
from dovetail.importers.tflite.operators.recurrent_facts import recurrent_facts
from dovetail.importers.tflite.reader import read_model
from dovetail.importers.tflite.states import NEXT, variables_of
from dovetail.ir import DType

_WEIGHED = {
    "BATCH_MATMUL": 1,
    "CONV_2D": 1,
    "CONV_3D": 1,
    "DEPTHWISE_CONV_2D": 1,
    "FULLY_CONNECTED": 1,
    "TRANSPOSE_CONV": 1,
}
"""Operators with weights, and which input holds them."""

_CONVERTED = "a converter reads it, in the environment '{}' (dovetail env list)"


@dataclass(frozen=True, slots=True)
class Survey:
    """What a file holds; `tensors` counts by element type and quantisation, in the file's own words.

    `unsupported` names the operators that cannot be converted and how often each occurs.
    """

    format: str
    tensors: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unsupported: Mapping[str, int] = field(default_factory=dict)

    @property
    def document(self) -> Mapping[str, object]:
        """Return the survey as plain data for JSON."""
        return {
            "format": self.format,
            "tensors": dict(self.tensors),
            "notes": list(self.notes),
            "unsupported": dict(self.unsupported),
        }


def survey_model(path: str | PathLike[str], options: LoadOptions | None = None) -> Survey:
    """Return what a model file holds; raise LoadError when it is damaged or of no known format.

    Formats other than TFLite give their name, and ONNX what quantises its data as it runs: the rest shows in the Graph.
    """
    place = Path(fspath(path))
    model_format = format_of(place)
    if model_format.name == "converted":
        source = recognise(place, options or LoadOptions())
        return Survey(f"{source.environment} {source.kind}", notes=(_CONVERTED.format(source.environment),))
    if model_format.name == "onnx":
        return survey_onnx(place)
    if model_format.name != "tflite":
        return Survey(model_format.name)
    return survey_tflite(read_model(place, options or LoadOptions()))


def survey_onnx(place: Path) -> Survey:
    """Return what an ONNX file holds that its Graph no longer shows; a file that cannot be parsed holds nothing."""
    try:
        model = ModelProto.FromString(place.read_bytes())
    except (OSError, DecodeError):
        return Survey("onnx")
    count = count_dynamic(model.graph.node)
    if not count:
        return Survey("onnx")
    what = "1 operator quantises its data as it runs" if count == 1 else f"{count} operators quantise data as they run"
    return Survey(
        "onnx",
        notes=(
            f"{what} (quantize_dynamic), which no NPU does: a plan starts from the float model, or from the weights "
            "taken as floats",
        ),
    )


def survey_tflite(model: LiteModel) -> Survey:
    """Return what a TFLite file holds."""
    known = known_operators()
    kinds: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    hybrid = 0
    for graph in model.graphs:
        for tensor in graph.tensors:
            channels = tensor.quant is not None and tensor.quant.per_channel
            how = " per channel" if channels else " per tensor" if tensor.quant is not None else ""
            kinds[tensor.source_type.lower() + how] += 1
        missing.update(item.kind for item in graph.operators if item.kind not in known)
        hybrid += sum(_is_hybrid(graph, item) for item in graph.operators)
    return Survey("tflite", dict(kinds.most_common()), tuple(_notes(model, kinds, hybrid)), dict(missing.most_common()))


def _is_hybrid(graph: LiteGraph, operator: LiteOperator) -> bool:
    place = _WEIGHED.get(operator.kind)
    if place is None or len(operator.inputs) <= place or min(operator.inputs[0], operator.inputs[place]) < 0:
        return False
    return graph.tensors[operator.inputs[0]].is_float and graph.tensors[operator.inputs[place]].is_quantized


def _notes(model: LiteModel, kinds: Mapping[str, int], hybrid: int) -> list[str]:
    notes: list[str] = []
    if hybrid:
        notes.append(
            f"{hybrid} kernels are hybrid (dynamic range): float data meets 8-bit weights, TFLite quantises the data "
            "as it runs; a plan starts from the weights taken as floats"
        )
    notes += _recurrent_notes(model)
    notes += _state_notes(model)
    if any(kind.startswith("float16") for kind in kinds):
        notes.append("some weights are float16 and become float32")
    made = [graph.tensors[index] for graph in model.graphs for item in graph.operators for index in item.outputs]
    if any(tensor.is_quantized and tensor.dtype is DType.I16 for tensor in made):
        notes.append("activations are 16-bit (int16x8)")
    if len(model.graphs) > 1 + sum(item.kind == "CALL_ONCE" for item in model.graphs[0].operators):
        notes.append(f"{len(model.graphs)} subgraphs: the first is the model, the others are bodies of control flow")
    return notes


def _state_notes(model: LiteModel) -> list[str]:
    """Say which variables a call finds as the last one left them, and what the first call finds."""
    read = {item.kind for item in model.graphs[0].operators}
    known = [] if "READ_VARIABLE" not in read else list(variables_of(model).known.values())
    if not known:
        return []
    firsts = [item.first for item in known if item.first is not None and item.first.size]
    values = {value for first in firsts for value in np.unique(first)[:2].tolist()}
    first = "the file's other subgraph has their first values"
    if len(firsts) == len(known) and len(values) == 1:
        first = f"all hold {values.pop()} at first"
    name = known[0].name
    return [
        f"{len(known)} variables keep states between calls: each is an input ('{name}') and an output ('{name}{NEXT}') "
        f"that goes back in; {first}"
    ]


def _recurrent_notes(model: LiteModel) -> list[str]:
    """Say by which rules recurrent operators are computed, and what their form on reals leaves out."""
    recurrent_operators = [
        (graph, item)
        for graph in model.graphs
        for item in graph.operators
        if item.kind.endswith(("SEQUENCE_LSTM", "SEQUENCE_RNN"))
        and len(item.inputs) > 2
        and min(item.inputs[:3:2]) >= 0
    ]
    quantized = [item for graph, item in recurrent_operators if graph.tensors[item.inputs[0]].is_quantized]
    mixed = [
        item
        for graph, item in recurrent_operators
        if graph.tensors[item.inputs[0]].is_float and graph.tensors[item.inputs[2]].is_quantized
    ]
    known = [recurrent_facts(graph, item) for graph, item in recurrent_operators]
    integer = sum(isinstance(facts, LstmFacts) for facts in known)
    hybrid = sum(isinstance(facts, HybridFacts) for facts in known)
    kinds = (
        (integer, len(quantized), "integer", "on reals between a DequantizeLinear and a QuantizeLinear"),
        (hybrid, len(mixed), "hybrid (dynamic range)", "with the weights as floats"),
    )
    notes: list[str] = []
    for count, total, what, else_how in kinds:
        if total:
            who = f"target reference:tflite computes {count} of them as TFLite's kernel does, every other target"
            notes.append(f"{total} recurrent operators are {what}: {who} {else_how}")
    if any(item.kind.endswith("LSTM") and item.options.number("CellClip") > 0 for _, item in recurrent_operators):
        notes.append("LSTMs clip their cells: integer and hybrid ones do at target reference:tflite, others nowhere")
    return notes
