"""Refuse what is known to end the process inside ONNX's native code, before that code sees it."""

from __future__ import annotations

from onnx import NodeProto, defs

from dovetail.errors import LoadError
from dovetail.importers.onnx.reader import OnnxSource, all_graphs, node_label

MAX_DIM = 2**31 - 1
MAX_RANK = 64
_AXES = ("axis", "axes", "batch_axis", "batch_dims", "perm", "time_axis")


def check_guards(source: OnnxSource, version: int) -> None:
    """Raise LoadError for sizes and counts that native shape inference trusts."""
    for value in source.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value > MAX_DIM:
                raise LoadError(f"{source.where}: input '{value.name}' has a dimension of {dim.dim_value}.")
    for graph in all_graphs(source.graph):
        for node in graph.node:
            reason = "" if node.domain else _why_unsafe(node, version)
            if reason:
                raise LoadError(f"{source.where}: {node_label(node)} {reason}.", source_node=node.name)


def _why_unsafe(node: NodeProto, version: int) -> str:
    for item in node.attribute:
        lowest = 0 if item.name == "batch_dims" else -MAX_RANK
        if item.name in _AXES and not all(lowest <= axis <= MAX_RANK for axis in (item.i, *item.ints)):
            return f"has an impossible {item.name}"
    if node.op_type == "Split":
        # Shape inference writes as many outputs as the attribute says.
        stated = [item.i for item in node.attribute if item.name == "num_outputs"]
        if stated and stated[0] != len(node.output):
            return f"says that it has {stated[0]} outputs and has {len(node.output)}"
    return _missing_input(node, version)


def _missing_input(node: NodeProto, version: int) -> str:
    """Return a complaint when a node leaves out an input that kernels read without asking."""
    if "" not in node.input or not defs.has(node.op_type, version, ""):
        return ""
    formals = defs.get_schema(node.op_type, version, "").inputs
    for index, name in enumerate(node.input):
        formal = formals[min(index, len(formals) - 1)] if formals else None
        if not name and formal is not None and formal.option != defs.OpSchema.FormalParameterOption.Optional:
            return f"omits its input '{formal.name}'"
    return ""
