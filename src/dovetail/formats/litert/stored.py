"""What a quantised TFLite file stores, as LiteRT's interpreter has it, beside a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dovetail.formats.consumer import FLOAT, PER_CHANNEL, ReadNode, judge_node, weight_text
from dovetail.formats.litert.operators import FileOperators
from dovetail.importers.tflite.model import LiteOperator
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision
from dovetail.plan.plan import Plan

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter

_TYPES = {"float32": FLOAT, "int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32", "int64": "i64"}
_ABSENT = "no operator"
_BIASED = 2
"""The input that is the bias of an operator with weights: its type follows from the others."""


@dataclass(frozen=True)
class StoredFile:
    """A model in LiteRT's interpreter."""

    interpreter: Interpreter

    @cached_property
    def _operators(self) -> Mapping[str, Mapping[str, Any]]:
        """Map operators by the first tensor that each makes."""
        made = [item for item in self.interpreter._get_ops_details() if len(item["outputs"])]
        return {str(self._tensor(item["outputs"][0])["name"]): item for item in made}

    @cached_property
    def _tensors(self) -> Mapping[int, Mapping[str, Any]]:
        return {int(item["index"]): item for item in self.interpreter.get_tensor_details()}

    def _tensor(self, index: int) -> Mapping[str, Any]:
        return self._tensors.get(int(index), {"name": "", "dtype": np.float32})

    @cached_property
    def _dequantised(self) -> Mapping[int, int]:
        """Map tensors that are made from stored ones to those."""
        found = [item for item in self.interpreter._get_ops_details() if item["op_name"] == "DEQUANTIZE"]
        return {int(item["outputs"][0]): int(item["inputs"][0]) for item in found}

    def inputs(self, name: str) -> Sequence[str] | None:
        """Return the types from which an operator reads: of reals, what they were stored in before.

        None where there is no such operator.
        """
        found = self._operators.get(name)
        if found is None:
            return None
        return [self._text(self._dequantised.get(int(index), int(index))) for index in found["inputs"]]

    def outputs(self, name: str) -> Sequence[str]:
        """Return the types that an operator makes."""
        return [self._text(index) for index in self._operators[name]["outputs"]]

    def _text(self, index: int) -> str:
        tensor = self._tensor(index)
        scales = tensor.get("quantization_parameters", {}).get("scales", ())
        kind: str = np.dtype(tensor["dtype"]).name
        return _TYPES.get(kind, kind) + (PER_CHANNEL if len(scales) > 1 else "")


def compare_operators(graph: Graph, plan: Plan, file: FileOperators, stored: StoredFile) -> Iterator[ReadNode]:
    """Yield every node of a graph that an operator of the float file stands for, beside the operator that is stored."""
    binding = file.bind(graph)
    nodes = {node.name: node for node in graph.nodes}
    asked = _Asked(
        file, {name: plan.placement(found[0]).precision for name, found in binding.nodes_of.items() if found}
    )
    judged: dict[str, ReadNode] = {}
    for name, operator in file.by_name.items():
        for node in binding.nodes_of[name]:
            pairs = list(_pairs(asked, operator, name, stored))
            if pairs:
                judged[node] = judge_node(nodes[node], asked.precisions[name], pairs)
    yield from (judged[node.name] for node in graph.nodes if node.name in judged)


@dataclass(frozen=True)
class _Asked:
    """The operators of a file and the precision that a plan has for each."""

    file: FileOperators
    precisions: Mapping[str, Precision]

    @cached_property
    def made(self) -> Mapping[int, str]:
        """Map tensors that operators make to the types in which the plan has them stored."""
        pairs = ((index, name) for name, item in self.file.by_name.items() for index in item.outputs)
        return {index: _data_text(self.precisions[name]) for index, name in pairs if name in self.precisions}


def _data_text(precision: Precision) -> str:
    return precision.activation.dtype.value if precision.is_quantized else FLOAT


def _pairs(asked: _Asked, operator: LiteOperator, name: str, stored: StoredFile) -> Iterator[tuple[str, str]]:
    """Yield what an operator should read and make, and what it does."""
    file, precision, reads = asked.file, asked.precisions[name], stored.inputs(name)
    data = _data_text(precision)
    axis = file.weight_axis(operator)
    if reads is None:
        yield data, _ABSENT
        return
    for position, index in enumerate(operator.inputs):
        if index < 0 or not file.tensor(index).is_float or (axis is not None and position == _BIASED):
            continue
        if axis is not None and position == 1:
            channels = file.tensor(index).shape[axis]
            yield weight_text(precision, channels) if precision.is_quantized else FLOAT, reads[position]
        else:
            # A real operator reads what was stored before it, and nothing that is stored for it alone.
            yield data if precision.is_quantized else asked.made.get(index, FLOAT), reads[position]
    for index, given in zip(operator.outputs, stored.outputs(name), strict=True):
        if file.tensor(index).is_float:
            yield data, given


def open_file(content: bytes) -> Interpreter:
    """Return an interpreter with LiteRT's own kernels, which list what they compute."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    found = Interpreter(
        model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    found.allocate_tensors()
    return found


def run_file(interpreter: Interpreter, graph: Graph, feeds: Mapping[str, AnyArray]) -> Mapping[str, AnyArray]:
    """Return what a model computes, in reals; its inputs and outputs are in the graph's order."""
    for item, value in zip(interpreter.get_input_details(), (feeds[name] for name in graph.inputs), strict=True):
        interpreter.set_tensor(item["index"], _stored(item, value))
    interpreter.invoke()
    made = interpreter.get_output_details()
    pairs = zip(graph.outputs, made, strict=True)
    return {name: _real(item, interpreter.get_tensor(item["index"])) for name, item in pairs}


def _stored(tensor: Mapping[str, Any], value: AnyArray) -> AnyArray:
    kind = np.dtype(tensor["dtype"])
    scale, zero = tensor["quantization"]
    if not scale or kind.kind == "f":
        return value.astype(kind)
    limits = np.iinfo(kind)
    stored: AnyArray = np.clip(np.rint(value / scale) + zero, limits.min, limits.max).astype(kind)
    return stored


def _real(tensor: Mapping[str, Any], value: AnyArray) -> AnyArray:
    scale, zero = tensor["quantization"]
    return value if not scale else ((value.astype(np.float64) - zero) * scale).astype(np.float32)
