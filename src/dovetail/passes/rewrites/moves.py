"""What only moves values written otherwise: tensors of too many axes, transposes that could meet."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dovetail.ir import Graph, Node
from dovetail.ir.types import Dim
from dovetail.passes.rewrites.base import Rewrite, Scene, sole_reader

_UNARY = frozenset(
    {
        "Abs",
        "Ceil",
        "Clip",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Log",
        "Mish",
    }
    | {"Neg", "Reciprocal", "Relu", "Round", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Tanh"}
)
"""They look at each value alone; what they read besides has one value."""


@dataclass(frozen=True)
class FewerAxes(Rewrite):
    """Write a Reshape, Transpose, Reshape through more axes than a limit as a chain through fewer.

    Axes of one element go, axes that stay beside each other become one. If that is not enough, runs of axes are brought
    to their places one after the other, each by a Transpose of four axes: what is in place, what the run jumps, the
    run, the rest.
    """

    name: ClassVar[str] = "fewer-axes"
    title: ClassVar[str] = "reshapes through many axes as a chain through few"
    moves_only: ClassVar[bool] = True
    most: int = 6

    def fits(self, graph: Graph, node: Node) -> bool:
        """Tell whether it is the Transpose of such a chain, of known sizes."""
        found = _chain(graph, node)
        return found is not None and len(node.integers("perm")) > self.most

    def build(self, scene: Scene, node: Node) -> None:
        """Put the shorter chain in the place of the three nodes."""
        found = _chain(scene.graph, node)
        assert found is not None
        before, after = found
        sizes = scene.graph.types[node.inputs[0]].static_shape or ()
        runs, order = _runs(sizes, node.integers("perm"))
        scene.remove(before, node, after)
        data = before.inputs[0]
        if len(runs) <= self.most:
            data = scene.transpose(node, scene.reshape(node, data, runs), order)
        else:
            data = _one_by_one(scene, node, data, runs, order)
        made = scene.shape(after.outputs[0])
        scene.end(after, "Reshape", (data, scene.sizes(after, made)), {})


@dataclass(frozen=True)
class TransposeLater(Rewrite):
    """Put a Transpose behind the operator on single values that reads it, where another Transpose follows."""

    name: ClassVar[str] = "transpose-later"
    title: ClassVar[str] = "transposes around operators on single values brought together"
    moves_only: ClassVar[bool] = True

    def fits(self, graph: Graph, node: Node) -> bool:
        """Tell whether it is a Transpose whose one reader is such an operator, and so on up to a Transpose."""
        if node.op != "Transpose":
            return False
        chain = _until_transpose(graph, node)
        return bool(chain)

    def build(self, scene: Scene, node: Node) -> None:
        """Let the operators read what the Transpose read, and transpose the last one's result."""
        chain = _until_transpose(scene.graph, node)
        scene.remove(node, *chain)
        data, shape = node.inputs[0], scene.shape(node.inputs[0])
        for item in chain:
            data = scene.add(item, item.op, (data, *item.inputs[1:]), shape, dict(item.attributes))
        scene.end(chain[-1], "Transpose", (data,), {"perm": node.integers("perm")})


def _until_transpose(graph: Graph, node: Node) -> list[Node]:
    """Return the operators on single values between a Transpose and the next; none where there is something else."""
    chain: list[Node] = []
    reader = sole_reader(graph, node.outputs[0])
    while reader is not None and reader.op in _UNARY and not reader.domain and len(reader.outputs) == 1:
        types = [graph.types[name] for name in (reader.inputs[0], *reader.outputs)]
        if any(kind.quant is not None or not kind.dtype.is_float for kind in types):
            return []
        chain.append(reader)
        reader = sole_reader(graph, reader.outputs[0])
    return chain if reader is not None and reader.op == "Transpose" else []


def _chain(graph: Graph, node: Node) -> tuple[Node, Node] | None:
    """Return the reshapes before and behind a Transpose that nothing else reads."""
    if node.op != "Transpose" or not node.integers("perm") or graph.types[node.inputs[0]].static_shape is None:
        return None
    before, after = graph.producers.get(node.inputs[0]), sole_reader(graph, node.outputs[0])
    if before is None or after is None or sole_reader(graph, node.inputs[0]) is not node:
        return None
    if not all(item.op == "Reshape" and item.inputs[1] in graph.constants for item in (before, after)):
        return None
    known = all(graph.types[name].static_shape is not None for name in (before.inputs[0], *after.outputs))
    return (before, after) if known and before.inputs[0] not in graph.constants else None


def _runs(sizes: tuple[int, ...], order: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Return the sizes of runs of axes that stay beside each other, and their order behind the Transpose."""
    kept = [axis for axis in order if sizes[axis] != 1]
    axes = sorted(kept)
    places = [axes.index(axis) for axis in kept]
    groups: list[list[int]] = []
    for place in places:
        if groups and place == groups[-1][-1] + 1:
            groups[-1].append(place)
        else:
            groups.append([place])
    ordered = sorted(groups)
    runs = [math.prod(sizes[axes[place]] for place in group) for group in ordered]
    return runs or [1], [ordered.index(group) for group in groups] or [0]


def _one_by_one(scene: Scene, node: Node, data: str, runs: list[int], order: list[int]) -> str:
    """Bring runs to their places, from the first place on."""
    now = list(range(len(runs)))
    for place, run in enumerate(order):
        at = now.index(run)
        if at == place:
            continue
        size = [runs[item] for item in now]
        shape: tuple[Dim, ...] = (
            math.prod(size[:place]),
            math.prod(size[place:at]),
            size[at],
            math.prod(size[at + 1 :]),
        )
        data = scene.transpose(node, scene.reshape(node, data, shape), (0, 2, 1, 3))
        now.insert(place, now.pop(at))
    return data
