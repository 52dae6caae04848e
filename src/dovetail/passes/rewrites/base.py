"""What a rewrite is: a pass that says beforehand which nodes it would write otherwise, one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.ir.types import Dim
from dovetail.passes.draft import Draft


@dataclass(frozen=True)
class Rewrite(ABC):
    """A float network written otherwise, node by node, so that the float function stays."""

    name: ClassVar[str]
    title: ClassVar[str]
    """What is done, in words that follow a colon."""
    moves_only: ClassVar[bool] = False
    """Values are only moved: float outputs stay to the last bit."""
    any_outputs: ClassVar[bool] = False
    """It writes nodes with several outputs otherwise, or with some left out, too."""

    def match(self, graph: Graph) -> tuple[str, ...]:
        """Return the names of the nodes that would be written otherwise."""
        return tuple(node.name for node in graph.nodes if self._is_plain(graph, node) and self.fits(graph, node))

    def __call__(self, graph: Graph) -> Graph:
        """Return the graph with every match written otherwise; the very same where there is none."""
        names = self.match(graph)
        if not names:
            return graph
        scene = Scene(graph)
        for name in names:
            self.build(scene, graph.node(name))
        return scene.draft.graph()

    def _is_plain(self, graph: Graph, node: Node) -> bool:
        """Tell whether a node has no bodies, and outputs in float of known rank."""
        if node.domain or node.bodies() or (len(node.outputs) != 1 and not self.any_outputs):
            return False
        made = [graph.types[name] for name in node.outputs if name]
        if not all(kind.dtype.is_float and kind.shape is not None for kind in made):
            return False
        return all(graph.types[name].quant is None for name in (*node.inputs, *node.outputs) if name)

    @abstractmethod
    def fits(self, graph: Graph, node: Node) -> bool:
        """Tell whether a node of float tensors without bodies would be written otherwise."""

    @abstractmethod
    def build(self, scene: Scene, node: Node) -> None:
        """Replace the node."""


class Scene:
    """A graph that is being written otherwise: nodes are taken out and others put in."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.draft = Draft.of(graph)
        self._nodes = {node.name for node in graph.nodes}

    def shape(self, tensor: str) -> tuple[Dim, ...]:
        """Return the shape of a tensor of known rank."""
        return self.draft.types[tensor].shape or ()

    def remove(self, *nodes: Node) -> None:
        """Take nodes out."""
        gone = {node.name for node in nodes}
        self.draft.nodes = [node for node in self.draft.nodes if node.name not in gone]
        self._nodes -= gone

    def add(
        self, source: Node, op: str, inputs: Sequence[str], shape: Sequence[Dim], attributes: dict[str, object]
    ) -> str:
        """Put in a node that stands for part of a source node; return the tensor that it makes."""
        name = self._fresh(f"{source.name}/{op.lower()}")
        stands_for = next(output for output in source.outputs if output)
        made = self.draft.fresh(f"{stands_for}/{op.lower()}")
        self.draft.types[made] = TensorType(self.draft.types[stands_for].dtype, tuple(shape))
        self.draft.nodes.append(Node(name, op, tuple(inputs), (made,), attributes, origin=source.origin))
        return made

    def end(
        self, source: Node, op: str, inputs: Sequence[str], attributes: dict[str, object], output: str | None = None
    ) -> None:
        """Put in the node that makes what the source made, or one of its outputs; the first has the source's name."""
        name = self._fresh(source.name)
        made = source.outputs if output is None else (output,)
        self.draft.nodes.append(Node(name, op, tuple(inputs), made, attributes, origin=source.origin))

    def constant(self, stem: str, value: AnyArray) -> str:
        """Put in a constant of float32, float16 or int64."""
        kinds = {np.dtype(np.int64): DType.I64, np.dtype(np.float32): DType.F32, np.dtype(np.float16): DType.F16}
        name = self.draft.fresh(stem)
        array = np.ascontiguousarray(value)
        self.draft.constants[name] = array
        self.draft.types[name] = TensorType(kinds[array.dtype], tuple(array.shape))
        return name

    def reshape(self, source: Node, tensor: str, shape: Sequence[Dim]) -> str:
        """Put in a Reshape to sizes of which the first may be symbolic, and is then kept."""
        return self.add(source, "Reshape", (tensor, self.sizes(source, shape)), shape, {})

    def sizes(self, source: Node, shape: Sequence[Dim]) -> str:
        """Put in the constant by which a Reshape is told sizes."""
        told = [dim if isinstance(dim, int) else 0 for dim in shape]
        return self.constant(f"{source.name}/shape", np.array(told, np.int64))

    def transpose(self, source: Node, tensor: str, order: Sequence[int]) -> str:
        """Put in a Transpose."""
        shape = self.shape(tensor)
        return self.add(source, "Transpose", (tensor,), [shape[axis] for axis in order], {"perm": tuple(order)})

    def _fresh(self, stem: str) -> str:
        name, number = stem, 1
        while name in self._nodes:
            name, number = f"{stem}.{number}", number + 1
        self._nodes.add(name)
        return name


def fixed_behind_batch(shape: Sequence[Dim] | None) -> bool:
    """Tell whether all sizes but the first are known numbers."""
    return bool(shape) and all(isinstance(dim, int) for dim in (shape or ())[1:])


def sole_reader(graph: Graph, tensor: str) -> Node | None:
    """Return the one node that reads a tensor which is no output, or None."""
    readers = graph.consumers.get(tensor, ())
    return readers[0] if len(readers) == 1 and tensor not in graph.outputs else None
