"""The table of operators, and the lowering of whole graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.lowering.accumulating import (
    lower_convolution,
    lower_gemm,
    lower_matmul,
    lower_transposed,
)
from dovetail.backends.verisilicon.lowering.choosing import CHOOSING
from dovetail.backends.verisilicon.lowering.defects import keep_signed_bytes
from dovetail.backends.verisilicon.lowering.elementwise import (
    BINARY,
    COMPARISONS,
    UNARY,
    lower_cast,
    lower_clip,
    lower_convert,
    lower_not,
    lower_pow,
    lower_prelu,
    lower_sub,
    lower_sum,
    lower_where,
)
from dovetail.backends.verisilicon.lowering.moving import MOVING
from dovetail.backends.verisilicon.lowering.picking import PICKING
from dovetail.backends.verisilicon.lowering.reducing import REDUCING
from dovetail.backends.verisilicon.lowering.routes import with_routes
from dovetail.backends.verisilicon.lowering.view import Draft, NodeView, refusal
from dovetail.backends.verisilicon.parts.part import Part
from dovetail.backends.verisilicon.program import Program
from dovetail.errors import CompileError
from dovetail.ir import DOVETAIL_DOMAIN, Graph, TensorType

Lowering = Callable[[NodeView], None]

LOWERINGS: Mapping[str, Lowering] = {
    **UNARY,
    **BINARY,
    **COMPARISONS,
    **REDUCING,
    **MOVING,
    **PICKING,
    **CHOOSING,
    "Cast": lower_cast,
    "Clip": lower_clip,
    "Conv": lower_convolution,
    "ConvTranspose": lower_transposed,
    "DequantizeLinear": lower_convert,
    "Gemm": lower_gemm,
    "MatMul": lower_matmul,
    "Not": lower_not,
    "PRelu": lower_prelu,
    "Pow": lower_pow,
    "QuantizeLinear": lower_convert,
    "Requantize": lower_convert,
    "Sub": lower_sub,
    "Sum": lower_sum,
    "Where": lower_where,
}
"""Every operator that can be lowered, by its ONNX name."""


def lower_graph(graph: Graph, part: Part) -> Program:
    """Return the program of a graph for a part; raise CompileError with the reason at the first node that has none."""
    single, batched = bind_batch(graph)
    draft = Draft(single, part)
    for name in single.inputs:
        draft.tensor(name, f"input '{name}'")
    for node in single.nodes:
        lowering = LOWERINGS.get(node.op) if node.domain in ("", DOVETAIL_DOMAIN) else None
        if lowering is None:
            raise refusal(node.label, part, f"there is no lowering of {node.domain or 'ONNX'}::{node.op}")
        _lower(lowering, NodeView(draft, node))
    _check_edges(single, part)
    program = Program(
        target=part.target,
        sdk_name=part.sdk_name,
        pid=part.pid,
        generation=part.generation,
        tensors=keep_signed_bytes(tuple(draft.tensors), tuple(draft.operators), all_of_them=part.converts_signed_bytes),
        operators=tuple(draft.operators),
        inputs=tuple((name, draft.tensor(name, f"input '{name}'")) for name in single.inputs),
        outputs=tuple((name, draft.tensor(name, f"output '{name}'")) for name in single.outputs),
        batched=batched,
        inner=draft.inner_tensors(),
    )
    return with_routes(program)


def _lower(lowering: Lowering, view: NodeView) -> None:
    """Lower one node; what its attributes or constants break in our own arithmetic is a refusal like any other."""
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
    for name in graph.outputs:
        if name in graph.constants or name in graph.inputs:
            raise refusal(where, part, f"output '{name}' is computed by no node")
    for name in graph.inputs:
        if not graph.consumers.get(name):
            raise refusal(where, part, f"input '{name}' is read by no node")
    if len(set(graph.outputs)) != len(graph.outputs):
        raise refusal(where, part, "an output is named twice")
    if graph.captures:
        raise refusal(where, part, "it is the body of control flow")


def bind_batch(graph: Graph) -> tuple[Graph, bool]:
    """Return the graph for one sample, and whether it has a symbolic batch that is run sample by sample.

    The batch is one named size that every input and output has as its first; raise CompileError for other symbols.
    """
    edges = [graph.types[name] for name in (*graph.inputs, *graph.outputs)]
    symbols = {dim for kind in edges for dim in kind.shape or () if isinstance(dim, str)}
    if not symbols:
        return graph, False
    if len(symbols) > 1:
        raise CompileError(
            f"graph '{graph.name}': sizes {', '.join(sorted(symbols))} are not known.",
            hint="Import the model with static shapes.",
        )
    (batch,) = symbols
    for name in (*graph.inputs, *graph.outputs):
        shape = graph.types[name].shape or ()
        if not shape or shape[0] != batch or batch in shape[1:]:
            raise CompileError(
                f"graph '{graph.name}': '{name}' does not have the batch '{batch}' as its first size only.",
                hint="Import the model with static shapes.",
            )
    kinds = {name: _bound(kind, batch) for name, kind in graph.types.items()}
    return graph.evolve(types=kinds), True


def _bound(kind: TensorType, batch: str) -> TensorType:
    if kind.shape is None or batch not in kind.shape:
        return kind
    return replace(kind, shape=tuple(1 if dim == batch else dim for dim in kind.shape))
