"""The table of operators, and the lowering of whole graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dovetail.backends.verisilicon.lowering.accumulating import (
    lower_convolution,
    lower_gemm,
    lower_matmul,
    lower_transposed,
)
from dovetail.backends.verisilicon.lowering.batch import bind_batch
from dovetail.backends.verisilicon.lowering.choosing import CHOOSING
from dovetail.backends.verisilicon.lowering.copies import (
    with_coarse_results,
    with_copies_of_added,
    with_copies_of_concatenations,
    with_copies_of_gates,
    with_copies_of_joined,
    with_copies_of_moved,
    with_copies_of_pooled,
    with_copies_of_slices,
    with_own_copies,
)
from dovetail.backends.verisilicon.lowering.defects import keep_signed_bytes
from dovetail.backends.verisilicon.lowering.elementwise import (
    BINARY,
    COMPARISONS,
    UNARY,
    lower_cast,
    lower_clip,
    lower_convert,
    lower_mul,
    lower_not,
    lower_pow,
    lower_sub,
    lower_sum,
    lower_where,
)
from dovetail.backends.verisilicon.lowering.ending import ENDING
from dovetail.backends.verisilicon.lowering.joins import with_routes
from dovetail.backends.verisilicon.lowering.moving import MOVING
from dovetail.backends.verisilicon.lowering.picking import PICKING
from dovetail.backends.verisilicon.lowering.pooling import POOLING
from dovetail.backends.verisilicon.lowering.reducing import REDUCING
from dovetail.backends.verisilicon.lowering.refusals import LoweringRefusal
from dovetail.backends.verisilicon.lowering.signs import with_signs_apart
from dovetail.backends.verisilicon.lowering.slicing import SLICING
from dovetail.backends.verisilicon.lowering.slopes import lower_prelu
from dovetail.backends.verisilicon.lowering.turning import lower_transpose
from dovetail.backends.verisilicon.lowering.view import NodeView, ProgramDraft
from dovetail.backends.verisilicon.part import Part
from dovetail.backends.verisilicon.program import Program, ProgramOperator, TensorRole
from dovetail.errors import CompileError
from dovetail.ir import DOVETAIL_DOMAIN, Graph, Node

Lowering = Callable[[NodeView], None]

LOWERINGS: Mapping[str, Lowering] = {
    **UNARY,
    **BINARY,
    **COMPARISONS,
    **POOLING,
    **REDUCING,
    **MOVING,
    **SLICING,
    **PICKING,
    **CHOOSING,
    **ENDING,
    "Cast": lower_cast,
    "Clip": lower_clip,
    "Conv": lower_convolution,
    "ConvTranspose": lower_transposed,
    "DequantizeLinear": lower_convert,
    "Gemm": lower_gemm,
    "MatMul": lower_matmul,
    "Mul": lower_mul,
    "Not": lower_not,
    "PRelu": lower_prelu,
    "Pow": lower_pow,
    "QuantizeLinear": lower_convert,
    "Requantize": lower_convert,
    "Sub": lower_sub,
    "Sum": lower_sum,
    "Transpose": lower_transpose,
    "Where": lower_where,
}
"""Every operator that can be lowered, by its ONNX name."""


def lower_graph(graph: Graph, part: Part) -> Program:
    """Return the program of a graph for a part; raise CompileError with the reason at the first node that has none."""
    single, batched = bind_batch(graph)
    draft = ProgramDraft(single, part)
    for name in single.inputs:
        draft.tensor(name, f"input '{name}'")
    for node in single.nodes:
        if not draft.twins.keys() & set(node.outputs):
            lower_node(draft, node)
    _check_edges(single, part)
    with_coarse_results(draft)
    outputs = tuple((name, _output(draft, name)) for name in single.outputs)
    with_copies_of_moved(draft)
    with_copies_of_pooled(draft)
    with_copies_of_added(draft)
    with_copies_of_gates(draft)
    with_copies_of_slices(draft)
    with_copies_of_concatenations(draft)
    with_copies_of_joined(draft)
    outputs = with_own_copies(draft, outputs)
    program = Program(
        target=part.target,
        sdk_name=part.sdk_name,
        pid=part.pid,
        generation=part.generation,
        tensors=keep_signed_bytes(tuple(draft.tensors), tuple(draft.operators), part),
        operators=tuple(draft.operators),
        inputs=tuple((name, draft.tensor(name, f"input '{name}'")) for name in single.inputs),
        outputs=outputs,
        batched=batched,
        inner=tuple((name, tensor) for name, tensor in draft.inner_tensors() if name not in single.outputs),
    )
    return with_signs_apart(with_routes(program))


def _output(draft: ProgramDraft, name: str) -> int:
    """Return the id of an output; one that no node of its own computes is copied from what has its value."""
    where = f"output '{name}'"
    tensor = draft.tensor(name, where)
    if name in draft.graph.constants or name in draft.graph.inputs or name in draft.twins:
        source, tensor = tensor, draft.new(draft.graph.types[name], where, TensorRole.EDGE)
        draft.operators.append(ProgramOperator("data_convert", (source,), (tensor,)))
    return tensor


def lower_node(draft: ProgramDraft, node: Node) -> None:
    """Lower one node; what its attributes or constants break in our own arithmetic is a refusal like any other."""
    lowering, view = LOWERINGS.get(node.op) if node.domain in ("", DOVETAIL_DOMAIN) else None, NodeView(draft, node)
    if lowering is None:
        raise view.refuse(f"there is no lowering of {node.domain or 'ONNX'}::{node.op}", always=True)
    try:
        with np.errstate(all="ignore"):
            lowering(view)
    except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError, AttributeError) as error:
        told = " ".join(str(error).split())
        raise view.refuse(f"its attributes, constants and shapes do not fit each other ({told})") from error


def _check_edges(graph: Graph, part: Part) -> None:
    where = f"graph '{graph.name}'"
    if not graph.nodes:
        raise CompileError(f"{where}: {part.target} needs at least one operator.", hint="Place it on cpu.")
    for name in graph.inputs:
        if not graph.consumers.get(name):
            raise LoweringRefusal(where, part.target, f"input '{name}' is read by no node")
    if len(set(graph.outputs)) != len(graph.outputs):
        raise LoweringRefusal(where, part.target, "an output is named twice")
    if graph.captures:
        raise LoweringRefusal(where, part.target, "it is the body of control flow")
