"""Sigmoids that gate their own input: which of them the vendor's compiler makes one table with their product.

Its compiler searches breadth first from every operator that reads only what goes in, and rewrites what it finds. It
does not go on behind that, and searches again, until nothing is found, from the beginnings before the first one that it
rewrote; sums of an input with itself are beginnings that it has rewritten before. The input of a mean over several axes
is a view: nothing behind such a mean is searched, and what reads an input of which a mean is the first reader is not
rewritten. Nor is what a kernel of the library's own makes. A concatenation of what goes in, and a gathering of one
place of it, are no operators but views: the search does not begin with them.
Derived on the vendor's simulator from the layers that it lists for drawn networks. Parts with a stream processor have a
table of each.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.program import Code, Program, ProgramOperator
from dovetail.backends.verisilicon.visits import is_converted, listed_order

_MEAN = 0
"""The shim's code of a mean."""
_OWN_REDUCTIONS = (1, 2, 4)
"""Those of a maximum, a minimum and a product."""
_OWN_KERNELS = frozenset(
    {
        *("acosh", "atanh", "ceil", "cumsum", "floor", "gather_elements", "group_norm", "log_softmax", "lrn"),
        *("maximum", "minimum", "mod", "round", "sign", "softplus"),
    }
)
_PLACE_OF_AXES = 2
"""Where the axes begin in the integers of a reduction."""


class Rewrites(NamedTuple):
    """What the compiler rewrites of a program, by numbers of operators."""

    gates: Mapping[int, int]
    """Each product that becomes one table with the sigmoid of its other operand, and that sigmoid."""
    doubled: Set[int]
    """Sums of a tensor with itself that become multiples of it."""


def find_rewrites(program: Program) -> Rewrites:
    """Return what the compiler rewrites of a program."""
    operators = enumerate(program.operators)
    doubled = {index for index, item in operators if item.kind == "add" and item.inputs[0] == item.inputs[1]}
    if program.generation is Generation.STREAM:
        return Rewrites({product: gate for gate, product in _pairs(program)}, doubled)
    search = _Search(program, doubled)
    visited = search.visited(search.heads, through=False)
    gone = search.sums | (visited & search.pairs.keys())
    first = next((place for place, head in enumerate(search.heads) if head in gone), len(search.heads))
    visited |= search.visited(search.heads[:first], through=True)
    gates = {search.pairs[index]: index for index in visited & search.pairs.keys()}
    return Rewrites(gates, search.sums | (visited & search.doubled))


class _Search:
    """What the compiler comes to in one program."""

    def __init__(self, program: Program, doubled: set[int]) -> None:
        self._program = program
        makers = {tensor: index for index, item in enumerate(program.operators) for tensor in item.outputs}
        listed = listed_order(program)
        self._readers = _readers(program, listed)
        views = {index: item.inputs[0] for index, item in enumerate(program.operators) if _is_view(program, item)}
        inner = {index for index, data in views.items() if data in makers or is_converted(program, data)}
        self._hidden = self._behind(inner)
        self.heads = [
            index
            for index in listed
            if not any(at in makers for at in program.operators[index].inputs)
            and not _is_part(program, program.operators[index])
        ]
        """Operators that read only what goes in, in order."""
        seen = {index for index in listed if self._is_seen(index, views.keys() - inner)}
        self.doubled = doubled & seen
        """Sums of a tensor with itself that are rewritten where they are come to."""
        self.pairs = {
            gate: product
            for gate, product in _pairs(program)
            if gate in seen
            and not is_converted(program, program.operators[gate].inputs[0])
            and not _has_kernel_of_its_own(program, makers.get(program.operators[gate].inputs[0]))
        }
        """Each sigmoid whose only reader gates its input with it, and that product."""
        self.sums = {
            index
            for index in self.doubled.intersection(self.heads)
            if not is_converted(program, program.operators[index].inputs[0])
        }
        """Those with which a program begins: they are gone before the search."""

    def visited(self, heads: Sequence[int], *, through: bool) -> set[int]:
        """Return the operators that are come to; `through`: behind sigmoids with a product, too."""
        found, passed, waiting = set[int](), {*self._hidden, *self.sums}, deque(heads)
        while waiting:
            index = waiting.popleft()
            if index in passed:
                continue
            passed.add(index)
            found.add(index)
            if index in self.pairs and not through:
                passed.add(self.pairs[index])
                continue
            waiting.extend(self._next(index))
        return found

    def _next(self, index: int) -> Iterable[int]:
        made = self._program.operators[index].outputs
        return (reader for tensor in made for reader in self._readers.get(tensor, ()))

    def _is_seen(self, index: int, views: Set[int]) -> bool:
        """Tell whether an operator does not read what goes in and what a mean looks at as the first of all."""
        return index not in self.heads or self._readers[self._program.operators[index].inputs[0]][0] not in views

    def _behind(self, views: Iterable[int]) -> Set[int]:
        """Return views and all operators that need one."""
        found, waiting = set[int](), deque(views)
        while waiting:
            index = waiting.popleft()
            if index not in found:
                found.add(index)
                waiting.extend(self._next(index))
        return found


def _readers(program: Program, order: Iterable[int]) -> dict[int, list[int]]:
    """Map every tensor that is read to its readers, in an order."""
    found: dict[int, list[int]] = {}
    for index in order:
        for tensor in dict.fromkeys(program.operators[index].inputs):
            found.setdefault(tensor, []).append(index)
    return found


def _pairs(program: Program) -> Iterable[tuple[int, int]]:
    """Yield each sigmoid whose only reader gates its input with it, and that product.

    Beside a stream processor the compiler looks through changes of shape, as before and behind what has five axes.
    """
    edges = {tensor for _, tensor in (*program.inputs, *program.outputs)}
    readers = _readers(program, range(len(program.operators)))
    looks_through = program.generation is Generation.STREAM
    viewed = {item.outputs[0]: item.inputs[0] for item in program.operators if item.kind == "reshape" and looks_through}

    def source(tensor: int) -> int:
        while tensor in viewed:
            tensor = viewed[tensor]
        return tensor

    for index, item in enumerate(program.operators):
        if item.kind != "sigmoid":
            continue
        tensor, alone = item.outputs[0], readers.get(item.outputs[0], [])
        while len(alone) == 1 and tensor not in edges and program.operators[alone[0]].outputs[0] in viewed:
            tensor = program.operators[alone[0]].outputs[0]
            alone = readers.get(tensor, [])
        if tensor in edges or len(alone) != 1:
            continue
        product = program.operators[alone[0]]
        # Seen with other shapes it may be a product of every pair.
        alike = len({program.tensors[operand].shape for operand in product.inputs}) == 1
        gated = product.kind == "mul" and alike
        if gated and set(map(source, product.inputs)) == {source(item.inputs[0]), item.outputs[0]}:
            yield index, alone[0]


def _has_kernel_of_its_own(program: Program, maker: int | None) -> bool:
    """Tell whether an operator is no node of the compiler's: what it makes is gated by two."""
    if maker is None:
        return False
    item = program.operators[maker]
    wide = program.tensors[item.outputs[0]].form.code is Code.I16
    if item.kind == "reduce":
        return item.ints[0] in _OWN_REDUCTIONS
    return item.kind in _OWN_KERNELS or (wide and item.kind == "prelu")


def _is_part(program: Program, item: ProgramOperator) -> bool:
    """Tell whether an operator only puts together, or takes a part of, what it reads."""
    if item.kind == "gather":
        return math.prod(program.tensors[item.inputs[1]].shape) == 1
    return item.kind == "concat"


def _is_view(program: Program, item: ProgramOperator) -> bool:
    """Tell whether the library looks at an operator's input with another shape: at that of a mean over several axes."""
    if item.kind != "reduce" or item.ints[0] != _MEAN:
        return False
    shape = program.tensors[item.inputs[0]].shape
    return sum(shape[axis] > 1 for axis in item.ints[_PLACE_OF_AXES:]) > 1
