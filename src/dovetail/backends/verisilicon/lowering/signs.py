"""Sums and differences that the vendor's adder takes for each other.

Of a sum and a difference of unsigned bytes in one graph the newest parts compute both alike where the first operands
have the same zero point: the compiler keeps the adder's weights by it, and forgets the sign. Measured on V853 and T527
with all orders, related or not; `x + y` and `x - y` is the smallest of them, every GRU that is spelt out another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dovetail.backends.verisilicon.generation import NEWEST
from dovetail.backends.verisilicon.lowering.joins import with_routes
from dovetail.backends.verisilicon.lowering.sums import is_part
from dovetail.backends.verisilicon.program import Code, Program, ProgramOperator, ProgramTensor, Route, TensorRole
from dovetail.backends.verisilicon.views import ProgramView

_MOST = 255


def with_signs_apart(program: Program) -> Program:
    """Return a program with routes whose sums are turned around, or differences negated, so that none are alike."""
    if program.generation not in NEWEST:
        return program
    tensors, operators = list(program.tensors), list[ProgramOperator]()
    whole = ProgramView(program)
    added = {item.outputs: item for item in program.operators if _is_added(item, program.tensors)}

    def zeros(kind: str, items: Mapping[tuple[int, ...], ProgramOperator]) -> set[int]:
        return {tensors[item.inputs[0]].form.zero_point for item in items.values() if item.kind == kind}

    taken = zeros("sub", added)
    if taken.isdisjoint(zeros("add", added)):
        return program
    added |= {made: _turned(item, whole, taken) for made, item in added.items() if item.kind == "add"}
    left = zeros("add", added)
    for item in program.operators:
        placed = added.get(item.outputs, item)
        if item.outputs in added and item.kind == "sub" and tensors[item.inputs[0]].form.zero_point in left:
            operators.extend(_negated(item, tensors))
        else:
            operators.append(placed)
    return with_routes(replace(program, tensors=tuple(tensors), operators=tuple(operators)))


def _is_added(item: ProgramOperator, tensors: tuple[ProgramTensor, ...]) -> bool:
    """Tell whether an operator is a sum or a difference of unsigned bytes that the adder takes, or `x - x`."""
    return (
        item.kind in ("add", "sub")
        and (item.route is Route.ADDER or len(set(item.inputs)) == 1)
        and all(tensors[tensor].form.code is Code.U8 for tensor in (*item.inputs, *item.outputs))
    )


def _turned(item: ProgramOperator, whole: ProgramView, taken: set[int]) -> ProgramOperator:
    """Return a sum with the other operand first where that is unlike all that something is taken from.

    What lies within another tensor is never the first.
    """
    (first, second), tensors = item.inputs, whole.program.tensors
    alike, other = (tensors[tensor].form.zero_point in taken for tensor in (first, second))
    return replace(item, inputs=(second, first)) if alike and not (other or is_part(whole, second)) else item


def _negated(item: ProgramOperator, tensors: list[ProgramTensor]) -> list[ProgramOperator]:
    """Return a difference as the sum with what is subtracted negated, which loses nothing."""
    first, second = item.inputs
    held, found = tensors[second], list[ProgramOperator]()
    form = replace(held.form, zero_point=_MOST - held.form.zero_point)
    if held.data is None:
        tensors.append(replace(held, form=form, role=TensorRole.INNER))
        found.append(ProgramOperator("neg", (second,), (len(tensors) - 1,), node=item.node))
    else:
        tensors.append(replace(held, form=form, data=bytes(_MOST - value for value in held.data)))
    return [*found, replace(item, kind="add", inputs=(first, len(tensors) - 1))]
