"""Write a program as C++ that calls ovxlib."""

from __future__ import annotations

from dovetail.backends.verisilicon.program import Code, ProgramOperator, TensorRole
from dovetail.backends.verisilicon.project.listing import (
    NamedProgram,
    facts_source,
    heading,
    operator_remark,
    quantisation,
)
from dovetail.backends.verisilicon.project.ovxlib_rows import OVX_ROWS
from dovetail.backends.verisilicon.project.spelling import list_literal
from dovetail.errors import CompileError

_TYPES = {
    Code.F32: "FLOAT32",
    Code.F16: "FLOAT16",
    Code.BF16: "BFLOAT16",
    Code.I8: "INT8",
    Code.U8: "UINT8",
    Code.I16: "INT16",
    Code.U16: "UINT16",
    Code.I32: "INT32",
    Code.U32: "UINT32",
    Code.I64: "INT64",
    Code.BOOL: "BOOL8",
}


def network_source(listing: NamedProgram) -> str:
    """Return network.cpp; raise CompileError naming the node whose operator cannot be written."""
    program = listing.program
    lines = [*heading(program), '#include "ovxlib/builder.h"', "", *facts_source(listing), ""]
    lines.append("void add_network(Builder &net) {")
    lines += [_tensor(listing, index) for index, name in enumerate(listing.names) if name]
    for operator in program.operators:
        lines += ["", *_operator(listing, operator)]
    lines += ["", _edges(listing), "}", "", "void add_edges(Builder &net) {"]
    lines += [_tensor(listing, tensor) for _, tensor in (*program.inputs, *program.outputs)]
    return "\n".join([*lines, _edges(listing), "}", ""])


def _edges(listing: NamedProgram) -> str:
    sides = [
        list_literal(listing.names[tensor] for _, tensor in side)
        for side in (listing.program.inputs, listing.program.outputs)
    ]
    return f"    net.set_edges({sides[0]}, {sides[1]});"


def _tensor(listing: NamedProgram, index: int) -> str:
    tensor = listing.program.tensors[index]
    what = f"VSI_NN_TYPE_{_TYPES[tensor.form.code]}, {list_literal(tensor.shape)}, {quantisation(tensor.form)}"
    if tensor.role is TensorRole.CONSTANT:
        made = f"net.constant({what}, {listing.offsets[index]}, {listing.constant_bytes(index)})"
    else:
        made = f"net.{'inner' if tensor.role is TensorRole.INNER else 'edge'}({what})"
    return f"    const Id {listing.names[index]} = {made};"


def _operator(listing: NamedProgram, operator: ProgramOperator) -> list[str]:
    row = OVX_ROWS.get(operator.kind)
    if row is None:
        raise CompileError(f"node '{operator.node}': an ovxlib project has no operator '{operator.kind}'.")
    inputs = list_literal("VSI_NN_TENSOR_ID_NA" if id_ < 0 else listing.names[id_] for id_ in operator.inputs)
    outputs = list_literal(listing.names[id_] for id_ in operator.outputs)
    call = f"net.node(VSI_NN_OP_{row.op}, {inputs}, {outputs});"
    lines = row.lines(operator.ints, operator.floats)
    if not lines:
        return [operator_remark(operator), f"    {call}"]
    return [
        operator_remark(operator),
        "    {",
        f"        vsi_nn_node_t *node = {call}",
        f"        auto &p = node->nn_param.{row.member};",
        *(f"        {line}" for line in lines),
        "    }",
    ]
