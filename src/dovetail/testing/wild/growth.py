"""Float graphs that grow node by node, computed as they grow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dovetail.backends.reference import run_graph
from dovetail.errors import DovetailError
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.quantize import Range
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.values import Draw, wild_range

MOST_ELEMENTS = 12_000
_MOST_PRODUCTS = 3_000_000
"""Of all convolutions of a graph, were they dense: what the simulator multiplies in seconds."""
_LARGEST_VALUE, _SAMPLES = 1e6, 2


class UnfitError(Exception):
    """A block that does not fit the tensor it was to be added to."""


@dataclass(frozen=True, slots=True)
class _Mark:
    nodes: int
    products: int


class Growth:
    """Grow a float graph; every tensor is computed on some samples at once, which gives its shape and its range."""

    def __init__(self, seed: int, most: int = MOST_ELEMENTS) -> None:
        self.draw = Draw("graph", seed)
        self.rng = self.draw.rng
        self.nodes: list[Node] = []
        self.inputs: list[str] = []
        self.values: dict[str, list[AnyArray]] = {}
        self.constants: dict[str, AnyArray] = {}
        self.heads: list[str] = []
        """Tensors that are outputs although others may read them."""
        self._products, self._most = 0, most

    def input(self, *shape: int) -> str:
        """Add an input of a random range."""
        name = f"x{len(self.inputs)}"
        low, high = wild_range(self.rng)
        if low == high:
            low, high = -1.0, 1.0
        self.inputs.append(name)
        self.values[name] = [self.rng.uniform(low, high, shape).astype(np.float32) for _ in range(_SAMPLES)]
        return name

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return tuple(self.values[tensor][0].shape)

    def constant(self, value: object) -> str:
        """Add a constant; whole numbers become int64 and others float32."""
        array = np.asarray(value)
        name = f"c{len(self.constants)}"
        self.constants[name] = array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
        return name

    def op(self, op: str, *inputs: str, **attributes: object) -> str:
        """Add a node with one output; raise UnfitError when it is too large or not a number."""
        return self.split(op, inputs, 1, **attributes)[0]

    def split(self, op: str, inputs: tuple[str, ...], count: int, **attributes: object) -> tuple[str, ...]:
        """Add a node with some outputs."""
        number = len(self.nodes)
        names = tuple(f"t{number}" + "bcdef"[index - 1 : index] for index in range(count))
        node = Node(f"n{number}", op, inputs, names, attributes)
        for name, values in zip(names, self._computed(node), strict=True):
            self.values[name] = values
        self.nodes.append(node)
        return names

    def spend(self, products: int) -> None:
        """Count products; raise UnfitError when there are too many."""
        if self._products + products > _MOST_PRODUCTS:
            raise UnfitError
        self._products += products

    def mark(self) -> _Mark:
        """Return where the graph stands."""
        return _Mark(len(self.nodes), self._products)

    def undo(self, mark: _Mark) -> None:
        """Take back what was added since a mark."""
        for node in self.nodes[mark.nodes :]:
            for name in node.outputs:
                del self.values[name]
        del self.nodes[mark.nodes :]
        self._products = mark.products
        self.heads = [name for name in self.heads if name in self.values]

    def case(self, seed: int) -> WildCase:
        """Return the graph: what nothing reads is an output."""
        used = {name for node in self.nodes for name in node.inputs}
        made = [name for node in self.nodes for name in node.outputs]
        outputs = tuple(name for name in made if name not in used or name in self.heads)
        constants = {name: value for name, value in self.constants.items() if name in used}
        types = {name: TensorType(DType.F32, self.shape(name)) for name in self.values}
        types |= {name: TensorType(DType.of(value.dtype), tuple(value.shape)) for name, value in constants.items()}
        ranges = {
            name: Range(float(min(v.min() for v in values)), float(max(v.max() for v in values)))
            for name, values in self.values.items()
        }
        inputs = tuple(name for name in self.inputs if name in used)
        types = {name: kind for name, kind in types.items() if name not in self.inputs or name in inputs}
        graph = Graph(f"wild{seed}", tuple(self.nodes), inputs, outputs, types, constants)
        return WildCase(graph, ranges, seed)

    def _computed(self, node: Node) -> list[list[AnyArray]]:
        """Return the values of each output of a node."""
        constants = {name: self.constants[name] for name in node.inputs if name in self.constants}
        feeds = tuple(dict.fromkeys(name for name in node.inputs if name and name not in constants))
        types = {name: TensorType(DType.F32, self.shape(name)) for name in feeds}
        types |= {name: TensorType(DType.of(value.dtype), tuple(value.shape)) for name, value in constants.items()}
        types |= {name: TensorType(DType.F32, None) for name in node.outputs}
        graph = Graph("step", (node,), feeds, node.outputs, types, constants)
        runs = [run_graph(graph, {name: self.values[name][place] for name in feeds}) for place in range(_SAMPLES)]
        found = [[run[name] for run in runs] for name in node.outputs]
        for values in found:
            for value in values:
                fits = 0 < value.size <= self._most and math.isfinite(float(np.abs(value).max()))
                if not fits or float(np.abs(value).max()) > _LARGEST_VALUE:
                    raise UnfitError
        return found


def grown(seed: int, attempts: int, grow: Callable[[Growth, int], None]) -> WildCase | None:
    """Return what grows at the first attempt that fits, the same for the same seed; None where none does.

    `grow` is given the number of the attempt.
    """
    for attempt in range(attempts):
        growth = Growth(seed + attempt)
        try:
            grow(growth, attempt)
        except (UnfitError, DovetailError):
            continue
        return growth.case(seed)
    return None
