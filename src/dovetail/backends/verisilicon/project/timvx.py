"""Write a program as C++ that calls TIM-VX."""

from __future__ import annotations

from dovetail.backends.verisilicon.program import Code, ProgramOperator, Quant, TensorRole
from dovetail.backends.verisilicon.project.listing import (
    NamedProgram,
    facts_source,
    heading,
    operator_remark,
    quantisation,
)
from dovetail.backends.verisilicon.project.spelling import list_literal, remark
from dovetail.backends.verisilicon.project.timvx_rows import TIM_ROWS
from dovetail.errors import CompileError

_TYPES = {
    Code.F32: "FLOAT32",
    Code.F16: "FLOAT16",
    Code.I8: "INT8",
    Code.U8: "UINT8",
    Code.I16: "INT16",
    Code.U16: "UINT16",
    Code.I32: "INT32",
    Code.U32: "UINT32",
    Code.I64: "INT64",
    Code.BOOL: "BOOL8",
}
_HINT = "Write an ovxlib-project, or place the node on cpu."


def network_source(listing: NamedProgram) -> str:
    """Return network.cpp; raise CompileError naming the node whose operator TIM-VX has not."""
    program = listing.program
    edges = [tensor for _, tensor in (*program.inputs, *program.outputs)]
    own = [_edge(listing, place) for place in range(len(edges))]
    lines = [*heading(program), '#include "timvx/builder.h"', "", *facts_source(listing), ""]
    lines += ["void add_network(Builder &net) {", *own]
    lines += [_tensor(listing, index) for index, name in enumerate(listing.names) if name and index not in edges]
    for operator in program.operators:
        lines += ["", *_operator(listing, operator)]
    return "\n".join([*lines, "}", "", "void add_edges(Builder &net) {", *(_call(line) for line in own), "}", ""])


def _call(line: str) -> str:
    """Return a definition without its name: the builder keeps inputs and outputs."""
    return f"    {line.partition(' = ')[2]}"


def _what(listing: NamedProgram, index: int) -> str:
    tensor = listing.program.tensors[index]
    if tensor.form.code not in _TYPES:
        raise CompileError(f"tensor '{remark(listing.names[index])}': TIM-VX has no bfloat16.", hint=_HINT)
    if tensor.form.quant is Quant.CHANNEL_AFFINE:
        raise CompileError("TIM-VX has no zero points per channel.", hint=_HINT)
    return f"vx::DataType::{_TYPES[tensor.form.code]}, {list_literal(tensor.shape)}, {quantisation(tensor.form)}"


def _edge(listing: NamedProgram, place: int) -> str:
    inputs = [tensor for _, tensor in listing.program.inputs]
    tensor = [*inputs, *(tensor for _, tensor in listing.program.outputs)][place]
    side = "input" if place < len(inputs) else "output"
    return f"    const Tensor {listing.names[tensor]} = net.{side}({_what(listing, tensor)});"


def _tensor(listing: NamedProgram, index: int) -> str:
    role, what = listing.program.tensors[index].role, _what(listing, index)
    if role is TensorRole.CONSTANT:
        made = f"net.constant({what}, {listing.offsets[index]}, {listing.constant_bytes(index)})"
    else:
        made = f"net.{'inner' if role is TensorRole.INNER else 'kept'}({what})"
    return f"    const Tensor {listing.names[index]} = {made};"


def _operator(listing: NamedProgram, operator: ProgramOperator) -> list[str]:
    row = TIM_ROWS.get(operator.kind)
    arguments = row.arguments(operator) if row is not None else None
    if row is None or arguments is None:
        raise CompileError(f"node '{operator.node}': TIM-VX has no form of '{operator.kind}' for it.", hint=_HINT)
    given = list(operator.inputs)
    while given and given[-1] < 0:  # what is left out at the end
        given.pop()
    inputs = list_literal("net.nothing()" if tensor < 0 else listing.names[tensor] for tensor in given)
    outputs = list_literal(listing.names[tensor] for tensor in operator.outputs)
    made = f"net.graph->CreateOperation<ops::{row.name(operator)}>({', '.join(arguments)})"
    return [operator_remark(operator), f"    net.bind({made},", f"             {inputs}, {outputs});"]
