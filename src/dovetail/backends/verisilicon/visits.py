"""The order in which the vendor's compiler comes to the operators of a program.

Its library sorts them by passes over a list in which the last takes the place of what was sorted; its compiler then
goes breadth first from each operator that reads only what goes in, or what a kernel of the library's own makes, and
from a conversion where that is signed bytes. What reads signed bytes is come to as it is written. Derived on the
vendor's simulator: of two convolutions before a sum it joins the one that it comes to first, in each of 185 random
residual blocks, and of up to five that read one tensor, in 179 of 180 more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from dovetail.backends.verisilicon.program import Code, Program, Quant

_OWN_KERNELS = frozenset({"maximum", "minimum"})
"""Operators that the compiler does not look into: what reads them is a beginning. Softmax was measured to be none."""


def visit_order(program: Program) -> Sequence[int]:
    """Return the numbers of all operators in the order in which the compiler comes to them."""
    listed = listed_order(program)
    makers = {tensor: index for index, item in enumerate(program.operators) for tensor in item.outputs}
    readers: dict[int, list[int]] = {}
    sources: dict[int, set[int]] = {}
    for index in listed:
        inputs = dict.fromkeys(program.operators[index].inputs)
        made = {makers[tensor] for tensor in inputs if tensor in makers}
        sources[index] = {maker for maker in made if program.operators[maker].kind not in _OWN_KERNELS}
        for tensor in inputs:
            readers.setdefault(tensor, []).append(index)
    for tensor, reading in readers.items():
        if _is_signed(program, tensor):
            reading.sort()
    visited: dict[int, None] = {}
    for head in (index for index in listed if not sources[index]):
        converted = [tensor for tensor in program.operators[head].inputs if is_converted(program, tensor)]
        waiting = deque([index for tensor in converted for index in readers[tensor]] or [head])
        while waiting:
            index = waiting.popleft()
            if index in visited or not sources[index] <= visited.keys():
                continue
            visited[index] = None
            if program.operators[index].kind in _OWN_KERNELS:
                continue
            next_ones = (reader for tensor in program.operators[index].outputs for reader in readers.get(tensor, ()))
            waiting.extend(reader for reader in next_ones if sources[reader] <= visited.keys())
    return tuple(visited)


def is_converted(program: Program, tensor: int) -> bool:
    """Tell whether a tensor goes in as affine signed bytes."""
    return _is_signed(program, tensor) and tensor in dict(program.inputs).values()


def _is_signed(program: Program, tensor: int) -> bool:
    form = program.tensors[tensor].form if tensor >= 0 else None
    return form is not None and form.code is Code.I8 and form.quant is Quant.AFFINE


def listed_order(program: Program) -> Sequence[int]:
    """Return the operators as the vendor's library hands them to its compiler."""
    known = {index for index, tensor in enumerate(program.tensors) if tensor.data is not None}
    known |= {-1, *(tensor for _, tensor in program.inputs)}
    left, listed = list(range(len(program.operators))), list[int]()
    for _ in range(len(left)):
        position = 0
        while position < len(left):
            item = program.operators[left[position]]
            if not known.issuperset(item.inputs):
                position += 1
                continue
            known.update(item.outputs)
            listed.append(left[position])
            left[position] = left[-1]
            left.pop()
    return listed
