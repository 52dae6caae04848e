"""Upgrade what ONNX's version converter does worse, or not at all.

Upsample and Resize up to opset 10 sample asymmetrically; the converter leaves the newer default, half-pixel centres,
which moves every pixel of a linear resize.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import NodeProto, helper

from dovetail.importers.onnx.infer import infer_types
from dovetail.importers.onnx.reader import OnnxSource, all_graphs

_SOFTMAXES = ("Softmax", "LogSoftmax", "Hardmax")


def bare_split(node: NodeProto) -> bool:
    """Tell whether a Split leaves it to its outputs how many parts there are."""
    return len(node.input) < 2 and not any(item.name == "num_outputs" for item in node.attribute)


def flattens(node: NodeProto, version: int) -> bool:
    """Tell whether a softmax runs over all axes from an inner one on, as it did before opset 13."""
    return node.op_type in _SOFTMAXES and version < 13 and _axis(node) != -1


def _axis(node: NodeProto) -> int:
    return next((int(item.i) for item in node.attribute if item.name == "axis"), 1)


def adapt_in_place(source: OnnxSource, version: int) -> None:
    """Upgrade what needs no new nodes, so that most models keep their structure."""
    nodes = [node for graph in all_graphs(source.graph) for node in graph.node if not node.domain]
    softmaxes = [node for node in nodes if flattens(node, version)]
    if softmaxes:
        ranks = {name: kind.rank for name, kind in infer_types(source).items()}
        for node in softmaxes:
            rank = ranks.get(node.input[0]) if node.input else None
            # Over the last axis it has always meant the same.
            last = rank is not None and _axis(node) == rank - 1
            _set_attribute(node, "axis", -1 if last else _axis(node))
    for node in nodes:
        if node.op_type == "Split" and 13 <= version < 18 and bare_split(node):
            _set_attribute(node, "num_outputs", len(node.output))


def attributes_to_restore(source: OnnxSource, version: int) -> Mapping[str, Mapping[str, str]]:
    """Return, by output name, the attributes that spell out what was implied at this opset."""
    restored: dict[str, dict[str, str]] = {}
    for graph in all_graphs(source.graph):
        for node in graph.node:
            if node.domain:
                continue
            if node.op_type in ("Upsample", "Resize") and version <= 10:
                nearest = "ceil" if _shrinks(source, node) else "floor"
                restored[node.output[0]] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": nearest}
            elif node.op_type == "RoiAlign" and version < 16:
                restored[node.output[0]] = {"coordinate_transformation_mode": "output_half_pixel"}
    return restored


def _shrinks(source: OnnxSource, node: NodeProto) -> bool:
    stored = source.constants.get(node.input[1]) if len(node.input) > 1 else None
    scales = [float(value) for item in node.attribute if item.name == "scales" for value in item.floats]
    if stored is not None:
        scales = [float(value) for value in stored.array.reshape(-1)]
    return any(scale < 1 for scale in scales)


def restore_attributes(source: OnnxSource, lost: Mapping[str, Mapping[str, str]]) -> None:
    """Set the attributes on the nodes that make these outputs now."""
    for graph in all_graphs(source.graph) if lost else ():
        for node in graph.node:
            if node.output[0] in lost and node.op_type in ("Resize", "RoiAlign"):
                for name, value in lost[node.output[0]].items():
                    _set_attribute(node, name, value)


def _set_attribute(node: NodeProto, name: str, value: int | str) -> None:
    kept = [item for item in node.attribute if item.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])
