"""Give what a converter made the names of the source: layers of TensorFlow, modules of PyTorch, variables of Paddle."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto

from dovetail.errors import LoadError
from dovetail.importers.converted.source import ConvertedSource

_SCOPES = "pkg.torch.onnx.name_scopes"
_CALLS = ("PartitionedCall/", "StatefulPartitionedCall/")


def restore_names(path: Path, source: ConvertedSource, layers: Iterable[str] = ()) -> None:
    """Rewrite an ONNX file in place; raise LoadError when it is none. `layers` are the names of a Keras model."""
    model = ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf's own error type has no typed import
        raise LoadError(f"{source.path}: what its converter made is damaged.") from error
    naming = {"torch": _of_module, "tensorflow": _of_layer, "paddle": _of_variable, "paddle-pir": _kept}
    find = naming[source.environment]
    known = frozenset(layers)
    seen: Counter[str] = Counter(node.name for node in model.graph.node)
    for node in model.graph.node:
        if node.op_type == "Constant":
            continue
        name = _without_counter(find(node), known)
        if not name or name == node.name:
            continue
        # Several operators may come from one of the source: the first has its name, the others count on.
        while seen[name]:
            stem, _, last = name.rpartition("#")
            name = f"{stem}#{int(last) + 1}" if stem and last.isdigit() else f"{name}#2"
        seen[name] += 1
        node.name = name
    _drop_notes(model.graph)
    path.write_bytes(model.SerializeToString())


def _of_module(node: NodeProto) -> str:
    """Return the path of the module and the operator in it: `features.0/conv2d`."""
    for entry in node.metadata_props:
        if entry.key == _SCOPES:
            try:
                scopes = ast.literal_eval(entry.value)
            except (ValueError, SyntaxError):
                return ""
            texts = [scope for scope in scopes if isinstance(scope, str) and scope]
            return "/".join(texts[-2:])
    return ""


def _of_layer(node: NodeProto) -> str:
    """Return the name without the calls that a SavedModel wraps around the network."""
    name = node.name
    while name.startswith(_CALLS):
        name = name.split("/", 1)[1]
    return name


def _of_variable(node: NodeProto) -> str:
    """Return the variable that the operator writes: operators of Paddle have no names of their own."""
    return next(iter(node.output), "")


def _without_counter(name: str, layers: frozenset[str]) -> str:
    """Return a name with its layers as the person wrote them: Keras 3 opens each scope twice, and counts (`c1_1`)."""
    parts = name.split("/") if layers else []
    for index, part in enumerate(parts):
        stem = part.removesuffix("_1")
        if part not in layers and stem in layers:
            parts[index] = stem
    return "/".join(parts) if parts else name


def _drop_notes(graph: GraphProto) -> None:
    # Stack traces of the machine that exported the model are in there.
    for node in graph.node:
        del node.metadata_props[:]
        node.doc_string = ""


def _kept(node: NodeProto) -> str:
    """Return the converter's name: Paddle 3 files name weights, and neither operators nor what they write."""
    return node.name
