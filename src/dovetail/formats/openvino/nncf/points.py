"""Where NNCF rounds activations: before the operators that compute in bytes, and one tensor once.

Rules of NNCF 3.4 for OpenVINO's CPU (`openvino/graph/metatypes/groups.py`, `common/hardware/setups/cpu.py`,
`common/quantization/quantizer_propagation/solver.py`). What an operator makes is not rounded unless another that
computes in bytes reads it. A rounding moves up through operators that only move values while nothing else reads what
it passes. The inputs of a Concat before a convolution or a product of matrices share one range. A depthwise
convolution reads numbers with a range for each channel, unless one of another kind reads the same tensor.

And one rule of OpenVINO's CPU plug-in (2026.4): a sum that is rounded is computed within the first convolution before
it whose result nothing else reads, in the place of the other operand, where all else that reads that has been computed
before the convolution. In between the result is held within its range, but not rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.roles import Role, input_roles
from dovetail.plan.plan import Plan

_ROUND = frozenset(
    {"Conv", "ConvTranspose", "MatMul", "Gemm", "BatchNormalization", "Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"}
    | {"AveragePool", "GlobalAveragePool", "ReduceMean", "InstanceNormalization", "GroupNormalization", "Resize"}
    | {"Upsample", "LpNormalization", "LSTM", "GRU"}
)
"""Operators before which activations are rounded."""
_MOVE = frozenset(
    {"MaxPool", "GlobalMaxPool", "ReduceMax", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Split", "Transpose"}
    | {"Tile", "Expand", "Pad", "Gather", "GatherND", "GatherElements", "DepthToSpace", "SpaceToDepth", "Identity"}
)
"""Operators that a rounding passes on its way up; a Slice is none."""
_WEIGHTED = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm"})
"""Operators before which the inputs of a Concat share a range."""
_SUMS = frozenset({"Add", "Sub"})
_APART = frozenset({"", "Conv", "ConvTranspose", "MatMul", "Gemm", "AveragePool", "GlobalAveragePool", "ReduceMean"})
"""What OpenVINO does not compute together with what reads it, element by element; nothing makes an input."""

Edge = tuple[str, int]
"""The name of a node and the index of an input."""


@dataclass(frozen=True, slots=True)
class PointRounding:
    """How what an operator reads is rounded: within all that some tensors reach, for each channel or at large."""

    reach: tuple[str, ...]
    per_channel: bool = False
    held_only: bool = False
    """Whether it is only held within the range, and not rounded."""


def rounding_points(graph: Graph, plan: Plan) -> Mapping[Edge, PointRounding]:
    """Return where a plan's ignored scope makes NNCF round what an operator reads, and within what."""
    return _Points(graph, plan).found()


class _Points:
    def __init__(self, graph: Graph, plan: Plan) -> None:
        self._graph = graph
        self._low = {node.name for node in graph.nodes if plan.placement(node.name).precision.is_quantized}
        self._edges = {
            (node.name, index): tensor
            for node in graph.nodes
            if node.op in _ROUND and not node.domain and node.name in self._low
            for index, tensor in enumerate(node.inputs)
            if self._is_data(node, index)
        }
        self._whole: dict[str, bool] = {}

    def found(self) -> dict[Edge, PointRounding]:
        tops = {edge: self._top(tensor) for edge, tensor in self._edges.items()}
        others = {top for edge, top in tops.items() if not self._is_depthwise(edge) and self._is_whole(top)}
        points: dict[Edge, PointRounding] = {}
        for edge, top in tops.items():
            joined = self._joined(top)
            if joined is None:
                alone = self._is_depthwise(edge) and top not in others
                points[edge] = PointRounding((self._edges[edge],), True) if alone else PointRounding((top,))
            elif self._is_unified(top):
                points[edge] = PointRounding(tuple(dict.fromkeys(self._parts(joined))))
            else:
                points.update(self._apart(joined))
        for edge in self._within_convolutions(points):
            points[edge] = replace(points[edge], held_only=True)
        return points

    def _is_data(self, node: Node, index: int) -> bool:
        tensor = node.inputs[index]
        if not tensor or tensor in self._graph.constants or not self._graph.types[tensor].holds_reals:
            return False
        return input_roles(self._graph, node)[index] is Role.DATA

    def _is_depthwise(self, edge: Edge) -> bool:
        node = self._graph.node(edge[0])
        shape = self._graph.types[node.inputs[0]].shape
        return node.op == "Conv" and shape is not None and 1 < node.integer("group", 1) == shape[1]

    def _mover(self, tensor: str) -> Node | None:
        """Return what moved the values of a tensor into it, where a rounding behind it moves up before it."""
        node = self._graph.producers.get(tensor)
        if node is None or node.name not in self._low or node.domain or node.op not in _MOVE:
            return None
        whole = all(self._is_whole(name) for name in node.outputs if name)
        return node if whole and node.inputs[0] not in self._graph.constants else None

    def _joined(self, tensor: str) -> Node | None:
        """Return the Concat that makes a tensor, where its inputs are rounded in its place."""
        node = self._graph.producers.get(tensor)
        joins = node is not None and node.op == "Concat" and node.name in self._low and self._is_whole(tensor)
        return node if joins else None

    def _is_whole(self, tensor: str) -> bool:
        """Tell whether all that reads a tensor reads it rounded."""
        known = self._whole.get(tensor)
        if known is None:
            readers = self._graph.consumers.get(tensor, ())
            known = tensor not in self._graph.outputs and bool(readers)
            known = known and all(self._reads_rounded(node, tensor) for node in readers)
            self._whole[tensor] = known
        return known

    def _reads_rounded(self, node: Node, tensor: str) -> bool:
        if node.op in _MOVE or node.op == "Concat":
            return node.name in self._low and all(self._is_whole(name) for name in node.outputs if name)
        return all((node.name, index) in self._edges for index, name in enumerate(node.inputs) if name == tensor)

    def _top(self, tensor: str) -> str:
        """Return the tensor that a rounding moves up to."""
        mover = self._mover(tensor)
        while mover is not None:
            tensor = mover.inputs[0]
            mover = self._mover(tensor)
        return tensor

    def _is_unified(self, tensor: str) -> bool:
        """Tell whether what joins tensors into this one is read by what wants one range of all."""
        for node in self._graph.consumers.get(tensor, ()):
            passes = node.op in _MOVE or node.op == "Concat"
            if node.op in _WEIGHTED or (passes and any(self._is_unified(name) for name in node.outputs if name)):
                return True
        return False

    def _parts(self, joined: Node) -> Iterator[str]:
        """Yield what a Concat joins, as far up as its rounding moves."""
        for name in joined.inputs:
            if name in self._graph.constants:
                continue
            top = self._top(name)
            inner = self._joined(top)
            if inner is None:
                yield top
            else:
                yield from self._parts(inner)

    def _apart(self, joined: Node) -> Iterator[tuple[Edge, PointRounding]]:
        """Yield the roundings of what a Concat joins, each with a range of its own."""
        for index, name in enumerate(joined.inputs):
            if name in self._graph.constants:
                continue
            top = self._top(name)
            inner = self._joined(top)
            if inner is None:
                yield (joined.name, index), PointRounding((top,))
            else:
                yield from self._apart(inner)

    def _within_convolutions(self, points: Mapping[Edge, PointRounding]) -> Iterator[Edge]:
        """Yield the edges from convolutions to the sums that are computed within them."""
        for node in self._graph.nodes:
            edges = [(node.name, index) for index in range(len(node.inputs))]
            if node.op in _SUMS and all(edge in points for edge in edges) and self._is_rounded_behind(node):
                yield from [edge for edge in edges if self._is_computed_within(node, edge[1])][:1]

    def _is_computed_within(self, total: Node, index: int) -> bool:
        """Tell whether a sum can be computed within a convolution in bytes that makes one of its operands."""
        tensor, other = total.inputs[index], total.inputs[1 - index]
        maker = self._graph.producers.get(tensor)
        if maker is None or maker.op != "Conv" or maker.name not in self._low or tensor in self._graph.outputs:
            return False
        if len(self._graph.consumers[tensor]) > 1 or tensor == other:
            return False
        readers = {node.name for node in self._graph.consumers[other]} - {total.name}
        if other not in self._graph.outputs and (not readers or self._is_whole(other)):
            return readers <= self._before(maker)
        source = self._graph.producers.get(other)
        return (source.op if source is not None else "") in _APART

    def _before(self, node: Node) -> set[str]:
        """Return the nodes that a node depends on."""
        found: set[str] = set()
        waiting = list(node.inputs)
        while waiting:
            maker = self._graph.producers.get(waiting.pop())
            if maker is not None and maker.name not in found:
                found.add(maker.name)
                waiting += maker.inputs
        return found

    def _is_rounded_behind(self, node: Node) -> bool:
        (tensor,) = node.outputs
        readers = self._graph.consumers.get(tensor, ())
        if len(readers) == 1 and readers[0].op in ("Relu", "Clip") and tensor not in self._graph.outputs:
            tensor = readers[0].outputs[0]
        return self._is_whole(tensor)
