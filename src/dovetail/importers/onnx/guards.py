"""Refuse what is known to end the process inside ONNX's native code, before that code sees it."""

from __future__ import annotations

from onnx import NodeProto

from dovetail.errors import LoadError
from dovetail.importers.onnx.reader import Source, all_graphs, node_label

MAX_DIM = 2**31 - 1


def check_guards(source: Source) -> None:
    """Raise LoadError for sizes and counts that native shape inference trusts."""
    for value in source.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value > MAX_DIM:
                raise LoadError(f"{source.where}: input '{value.name}' has a dimension of {dim.dim_value}.")
    for graph in all_graphs(source.graph):
        for node in graph.node:
            reason = "" if node.domain else _why_unsafe(node)
            if reason:
                raise LoadError(f"{source.where}: {node_label(node)} {reason}.", source_node=node.name)


def _why_unsafe(node: NodeProto) -> str:
    if node.op_type == "Split":
        # Shape inference writes as many outputs as the attribute says.
        stated = [item.i for item in node.attribute if item.name == "num_outputs"]
        if stated and stated[0] != len(node.output):
            return f"says that it has {stated[0]} outputs and has {len(node.output)}"
    return ""
