"""The operators of a TFLite file: the names that its quantisers know, and the nodes that each stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dovetail.errors import FormatError, LoadError
from dovetail.formats.binding import Binding, Operation, bind_operations
from dovetail.importers import LoadOptions
from dovetail.importers.tflite.model import LiteGraph, LiteOperator, LiteTensor
from dovetail.importers.tflite.reader import read_model
from dovetail.ir.graph import Graph

_CHANNEL_AXES = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 0}
"""Operators with weights, which are their second input, and the axis of the weights that counts channels."""


@dataclass(frozen=True)
class FileOperators:
    """The operators of a file's main network by the first tensor that each makes."""

    network: LiteGraph

    @property
    def by_name(self) -> Mapping[str, LiteOperator]:
        """Return the operators by the names that quantisers have for them."""
        return {self.tensor(item.outputs[0]).name: item for item in self.network.operators if item.outputs}

    def tensor(self, index: int) -> LiteTensor:
        """Return a tensor of the file."""
        return self.network.tensors[index]

    def weight_axis(self, operator: LiteOperator) -> int | None:
        """Return the axis that counts the channels of an operator's constant weights; None where it has none."""
        axis = _CHANNEL_AXES.get(operator.kind)
        given = axis is not None and len(operator.inputs) > 1 and operator.inputs[1] >= 0
        return axis if given and len(self.tensor(operator.inputs[1]).data) > 0 else None

    def bind(self, graph: Graph) -> Binding:
        """Return the nodes of every operator: a fused activation, and the transpositions around it, are its own."""
        operations = []
        for name, item in self.by_name.items():
            ins = tuple(self.tensor(index).name for index in item.inputs if index >= 0)
            outs = tuple(self.tensor(index).name for index in item.outputs)
            operations.append(Operation(name, item.kind, ins, outs))
        binding = bind_operations(graph, operations)
        return Binding(binding.nodes_of, readers=_readers(operations, binding))


def _readers(operations: Sequence[Operation], binding: Binding) -> Mapping[str, tuple[str, ...]]:
    """Return, of operators that stand for no node (the graph has their work nowhere), the nodes that read them."""
    users: dict[str, list[Operation]] = {}
    for item in operations:
        for name in item.ins:
            users.setdefault(name, []).append(item)
    readers: dict[str, tuple[str, ...]] = {}
    for item in reversed(operations):
        if not binding.nodes_of[item.name]:
            found = (user for name in item.outs for user in users.get(name, ()))
            nodes = (node for user in found for node in binding.nodes_of[user.name] or readers.get(user.name, ()))
            readers[item.name] = tuple(dict.fromkeys(nodes))
    return readers


def file_operators(content: bytes, path: str) -> FileOperators:
    """Return the operators of a TFLite file; raise FormatError when it is none."""
    try:
        return FileOperators(read_model(content, LoadOptions()).graphs[0])
    except LoadError as error:
        raise FormatError(error.message, path=path, line=0, code="NOT_TFLITE", hint=error.hint) from error


def bind_file(graph: Graph, content: bytes, path: str) -> Binding:
    """Bind by the operators of the TFLite file that a graph comes from."""
    return file_operators(content, path).bind(graph)
