"""Bring a model to the pinned opset, from below and from above."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    defs,
    helper,
    inliner,
    version_converter,
)

from dovetail.errors import LoadError
from dovetail.importers.onnx.adapters import (
    adapt_in_place,
    attributes_to_restore,
    bare_split,
    flattens,
    restore_attributes,
)
from dovetail.importers.onnx.infer import typed_model, visible_model
from dovetail.importers.onnx.reader import OnnxSource, all_graphs, node_label
from dovetail.importers.onnx.tensors import read_tensor
from dovetail.ir import OPSET

OLDEST = 7
_CLASSICAL = "ai.onnx.ml"
"""The domain of trees, linear models and the like."""

_CHANGED_MEANING = {"GroupNormalization": 21, "DFT": 20}
"""Operators that changed meaning under an unchanged signature, and the opset of the change."""


def opset_of(model: ModelProto, where: str) -> int:
    """Return the version of ONNX's own operator set; raise LoadError when it is unknown here."""
    versions = {item.version for item in model.opset_import if item.domain in ("", "ai.onnx")}
    newest = int(defs.onnx_opset_version())
    if not versions:
        others = [item.domain[:80] for item in model.opset_import]
        raise LoadError(
            f"{where}: has none of ONNX's own operators, only those of {', '.join(map(repr, others))}.",
            hint="Trees and linear models are no neural networks: they need no NPU." if _CLASSICAL in others else None,
        )
    if len(versions) != 1:
        raise LoadError(f"{where}: imports {len(versions)} versions of ONNX's operator set; exactly one is expected.")
    version = int(versions.pop())
    if not OLDEST <= version <= newest:
        raise LoadError(
            f"{where}: opset {version}; {OLDEST} to {newest} are read here.",
            hint="Convert it with onnx.version_converter or export it again.",
        )
    return version


def bring_to_pinned(source: OnnxSource) -> None:
    """Rewrite the model in place at the pinned opset; raise LoadError naming the operator that cannot follow."""
    version = opset_of(source.model, source.where)
    if version > OPSET:
        _expand_new_functions(source, version)
    elif version < OPSET:
        adapt_in_place(source, version)
    lost = attributes_to_restore(source, version)
    refusals = list(_refusals(source, version))
    stuck = next((refusal for refusal in refusals if version > OPSET or refusal[0].op_type == "Scan"), None)
    if stuck is not None:
        node, reason = stuck
        raise LoadError(
            f"{source.where}: {node_label(node)}: {reason} at opset {version}; Dovetail works at opset {OPSET}.",
            source_node=node.name,
            hint=f"Export the model at opset {OPSET}.",
        )
    if version > OPSET:
        _drop_newer_attributes(source)
    elif refusals:
        _convert(source, version, *refusals[0])
    restore_attributes(source, lost)
    _set_opset(source.model, OPSET)


def _drop_newer_attributes(source: OnnxSource) -> None:
    """Remove attributes that the pinned opset lacks; they hold their defaults, or the model would be refused."""
    for graph in all_graphs(source.graph):
        for node in graph.node:
            if node.domain or not defs.has(node.op_type, OPSET, ""):
                continue
            known = defs.get_schema(node.op_type, OPSET, "").attributes
            kept = [item for item in node.attribute if item.name in known]
            if len(kept) != len(node.attribute):
                del node.attribute[:]
                node.attribute.extend(kept)


def _set_opset(model: ModelProto, version: int) -> None:
    others = [item for item in model.opset_import if item.domain not in ("", "ai.onnx")]
    imports = [helper.make_opsetid("", version), *others]
    del model.opset_import[:]
    model.opset_import.extend(imports)


def _refusals(source: OnnxSource, version: int) -> Iterator[tuple[NodeProto, str]]:
    for graph in all_graphs(source.graph):
        for node in graph.node:
            reason = "" if node.domain else _why_not_pinned(node, version)
            if reason:
                yield node, reason


def _why_not_pinned(node: NodeProto, version: int) -> str:
    """Return why a node does not mean the same at the pinned opset, or nothing when it does."""
    if not defs.has(node.op_type, version, ""):
        return "ONNX has no such operator"
    theirs = defs.get_schema(node.op_type, version, "")
    if not defs.has(node.op_type, OPSET, ""):
        return f"the operator is newer than opset {OPSET}"
    ours = defs.get_schema(node.op_type, OPSET, "")
    if ours.since_version == theirs.since_version:
        return ""
    changed = _CHANGED_MEANING.get(node.op_type, 0)
    if node.op_type == "Scan" and version < 9:
        return "Scan has changed its form, and ONNX's converter does not follow"
    if ours.deprecated or version < changed <= OPSET or flattens(node, version):
        return "the operator has changed its meaning"
    return _signature_difference(node, theirs, ours)


def _signature_difference(node: NodeProto, theirs: defs.OpSchema, ours: defs.OpSchema) -> str:
    present = {attribute.name: attribute for attribute in node.attribute}
    for name, attribute in present.items():
        if name not in ours.attributes:
            unset = name in theirs.attributes and _is_default(attribute, theirs.attributes[name])
            if not unset:
                return f"attribute '{name}' is not known"
    for name in set(theirs.attributes) & set(ours.attributes) - set(present):
        if theirs.attributes[name].default_value != ours.attributes[name].default_value:
            return f"the default of attribute '{name}' differs"
    count, outputs = len(node.input), len(node.output)
    if not ours.min_input <= count <= ours.max_input or not ours.min_output <= outputs <= ours.max_output:
        return "the number of inputs or outputs differs"
    names = [(item.name, other.name) for item, other in zip(theirs.inputs, ours.inputs, strict=False)][:count]
    if any(one != other for one, other in names) and node.op_type != "BatchNormalization":
        return "the order of inputs differs"
    if node.op_type == "BatchNormalization" and outputs > 1:
        return "the extra outputs differ"
    return "the number of outputs must be stated" if node.op_type == "Split" and bare_split(node) else ""


def _is_default(attribute: AttributeProto, schema: defs.OpSchema.Attribute) -> bool:
    value = schema.default_value
    return bool(helper.get_attribute_value(attribute) == helper.get_attribute_value(value)) if value.name else False


def _convert(source: OnnxSource, version: int, node: NodeProto, reason: str) -> None:
    """Let ONNX's own converter rewrite the model; large constants stay out of it."""
    label = node_label(node)
    model = visible_model(source)
    model.ir_version = 10
    inputs = {value.name for value in source.graph.input}
    try:
        converted = version_converter.convert_version(model, OPSET)
    except Exception as error:
        detail = " ".join(str(error).split())[:200]
        raise LoadError(
            f"{source.where}: {label}: {reason} from opset {version} to {OPSET}, and ONNX's converter fails: {detail}",
            source_node=node.name,
            hint=f"Export the model at opset {OPSET}.",
        ) from error
    _adopt(source, converted, inputs)


def _adopt(source: OnnxSource, converted: ModelProto, inputs: set[str]) -> None:
    for tensor in converted.graph.initializer:
        if tensor.name not in source.constants:
            source.constants[tensor.name] = read_tensor(tensor, None, f"constant '{tensor.name}'")
    del converted.graph.initializer[:]
    kept = [value for value in converted.graph.input if value.name in inputs]
    del converted.graph.input[:]
    converted.graph.input.extend(kept)
    for graph in all_graphs(converted.graph):
        del graph.value_info[:]
    _inherit_origins(source, converted.graph)
    source.model.CopyFrom(converted)


def _inherit_origins(source: OnnxSource, graph: GraphProto) -> None:
    """Give nodes that the converter added the origin of the node that they serve."""
    named = {name: node.name for node in graph.node if node.name for name in node.output if name}
    readers = {name: node.name for node in reversed(graph.node) if node.name for name in node.input if name}
    for _ in range(2):
        for node in graph.node:
            if node.name:
                continue
            close = [readers.get(name) for name in node.output] + [named.get(name) for name in node.input]
            origin = next((name for name in close if name), None)
            if origin is None:
                continue
            node.name = f"{origin}/{node.op_type}:{node.output[0]}"
            source.origins[node.name] = source.origins.get(origin, (origin,))
            named.update(dict.fromkeys(node.output, node.name))
            readers.update(dict.fromkeys(node.input, node.name))


def _expand_new_functions(source: OnnxSource, version: int) -> None:
    """Replace operators newer than the pinned opset by ONNX's own definition of them, where it has one."""
    new = {
        node.op_type
        for graph in all_graphs(source.graph)
        for node in graph.node
        if not node.domain and not defs.has(node.op_type, OPSET, "") and defs.has(node.op_type, version, "")
    }
    functions = [name for name in sorted(new) if _is_function(defs.get_schema(name, version, ""))]
    if not functions:
        return
    inputs = {value.name for value in source.graph.input}
    try:
        expanded = inliner.inline_selected_functions(
            typed_model(source), [("", name) for name in functions], inline_schema_functions=True
        )
    except Exception as error:
        raise LoadError(
            f"{source.where}: operator {functions[0]} is newer than opset {OPSET} and cannot be expanded.",
            hint=f"Export the model at opset {OPSET}.",
        ) from error
    _adopt(source, expanded, inputs)


def _is_function(schema: defs.OpSchema) -> bool:
    return any(getattr(schema, name, False) for name in ("has_function", "has_context_dependent_function"))


def inline_functions(source: OnnxSource) -> None:
    """Inline the model's own functions; raise LoadError when they call each other in a circle."""
    model = source.model
    if not model.functions:
        return
    _check_functions(source)
    inputs = {value.name for value in source.graph.input}
    try:
        inlined = inliner.inline_local_functions(visible_model(source), convert_version=False)
    except Exception as error:
        detail = " ".join(str(error).split())[:200]
        raise LoadError(f"{source.where}: its functions cannot be inlined: {detail}") from error
    _adopt(source, inlined, inputs)
    del source.model.functions[:]


def _check_functions(source: OnnxSource) -> None:
    functions = {(item.domain, item.name): item for item in source.model.functions}
    if len(functions) != len(source.model.functions):
        raise LoadError(f"{source.where}: two functions have the same name.")
    state: dict[tuple[str, str], int] = {}

    def visit(domain: str, name: str, depth: int) -> None:
        key = domain, name
        if state.get(key) == 1 or depth > 64:
            raise LoadError(f"{source.where}: function '{name}' calls itself.")
        if key in state:
            return
        state[key] = 1
        body = onnx.GraphProto(node=functions[key].node)
        for graph in all_graphs(body):
            for node in graph.node:
                if (node.domain, node.op_type) in functions:
                    visit(node.domain, node.op_type, depth + 1)
        state[key] = 2

    for domain, name in functions:
        visit(domain, name, 0)
