"""What the vendor's compiler computes as one, by nodes: read off the program, so that a graph is cut between them.

A sum goes with the convolution that it is joined with, a gate with its product, a clamp and a maximum over windows with
the convolution before them. What lies inside a piece is never stored: to ask for it makes another binary.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import partial
from typing import NamedTuple

from dovetail.backend.pieces import CompiledPieces
from dovetail.backend.target import Target
from dovetail.backends.verisilicon.lowering.routes import PRODUCTS
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.backends.verisilicon.program import Program, TensorRole, own_copies
from dovetail.errors import CompileError
from dovetail.ir import Graph, Node
from dovetail.plan.units import clamp_host

_MOST_AVERAGE = 1
"""The last of the codes of a pooling that averages."""
_CLAMPS = ("clip", "relu")
_SUMS = ("add", "sub")


def pieces_of(graph: Graph, target: Target) -> CompiledPieces:
    """Return what is computed as one in a graph for a target; raise CompileError with the reason."""
    program = lower_graph(graph, part_of(target))
    first = {node.name: node.name for node in graph.nodes}
    for one, other in (*_clamped(graph), *_joined(program), *_pooled(graph, program)):
        root, moved = first[one], first[other]
        first.update({name: root for name, found in first.items() if found == moved})
    members: dict[str, list[str]] = {}
    for node in graph.nodes:
        members.setdefault(first[node.name], []).append(node.name)
    place = {node.name: index for index, node in enumerate(graph.nodes)}
    # Only the last node of a piece is read by others: the pieces can run in the order of their last nodes.
    ordered = sorted(members.values(), key=lambda names: place[names[-1]])
    return CompiledPieces(tuple(map(tuple, ordered)), partial(_keeps, program, target))


def _clamped(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield every clamp behind its host."""
    for node in graph.nodes:
        host = clamp_host(graph, node)
        if host is not None:
            yield host.name, node.name


def _joined(program: Program) -> Iterator[tuple[str, str]]:
    """Yield every operator behind those that are computed with it."""
    for operator in program.operators:
        yield from ((program.operators[index].node, operator.node) for index in operator.joins)


def _pooled(graph: Graph, program: Program) -> Iterator[tuple[str, str]]:
    """Yield every pooling by the maximum behind the product before it, or that product's clamp."""
    made = {tensor: operator for operator in program.operators for tensor in operator.outputs}
    for operator in program.operators:
        maker = made.get(operator.inputs[0])
        if operator.kind != "pool2d" or operator.ints[0] <= _MOST_AVERAGE or maker is None:
            continue
        source = made.get(maker.inputs[0]) if maker.kind in _CLAMPS else maker
        if source is not None and source.kind in PRODUCTS and _is_read_once(graph, graph.node(operator.node)):
            yield maker.node, operator.node


def _is_read_once(graph: Graph, reader: Node) -> bool:
    """Tell whether nobody else reads the first input of a node."""
    tensor = reader.inputs[0]
    return len(graph.consumers.get(tensor, ())) == 1 and tensor not in graph.outputs


def _keeps(whole: Program, target: Target, part: Graph) -> bool:
    """Tell whether every decision of a part's program is that of the whole; its own outputs may lie in memory."""
    try:
        program = lower_graph(part, part_of(target))
    except CompileError:
        return False
    nodes = {node.name for node in part.nodes}
    ends = {tensor for _, tensor in program.outputs}.union(own_copies(program).values())
    mine, found = list(_decisions(whole, nodes)), list(_decisions(program, nodes))
    return len(mine) == len(found) and all(one.agrees(other, ends) for one, other in zip(mine, found, strict=True))


class _Decision(NamedTuple):
    """What was decided of an operator, and which of its tensors lie inside the program."""

    decided: tuple[object, ...]
    inside: tuple[bool, ...]
    tensors: tuple[int, ...]

    def agrees(self, other: _Decision, ends: Set[int]) -> bool:
        """Tell whether the other was decided alike; its tensors may lie in memory where they are ends."""
        sides = zip(self.inside, other.inside, other.tensors, strict=True)
        return self.decided == other.decided and all(one == two or tensor in ends for one, two, tensor in sides)


def _decisions(program: Program, nodes: Set[str]) -> Iterator[_Decision]:
    """Yield what was decided of every operator of some nodes."""
    copies = own_copies(program)
    own = [index for index, operator in enumerate(program.operators) if operator.node in nodes and index not in copies]
    places = {index: place for place, index in enumerate(own)}
    for index in own:
        operator = program.operators[index]
        tensors = tuple(tensor for tensor in (*operator.inputs, *operator.outputs) if tensor >= 0)
        forms = tuple((program.tensors[tensor].form, program.tensors[tensor].shape) for tensor in tensors)
        joins = tuple(places.get(joined) for joined in operator.joins)
        yield _Decision(
            (operator.kind, operator.node, operator.ints, operator.floats, operator.route, joins, forms),
            tuple(program.tensors[tensor].role is TensorRole.INNER for tensor in tensors),
            tensors,
        )
