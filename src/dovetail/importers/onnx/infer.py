"""Types of every tensor, by ONNX's shape inference on a copy without the large constants."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, checker, defs, helper, shape_inference

from dovetail.errors import LoadError
from dovetail.importers.onnx.reader import SMALL_ELEMENTS, OnnxSource, all_graphs
from dovetail.importers.onnx.tensors import write_tensor
from dovetail.ir import OPSET, TensorType
from dovetail.ir.codes import DTYPE_OF_CODE, ONNX_CODES
from dovetail.ir.types import Dim


def visible_model(source: OnnxSource) -> ModelProto:
    """Return a copy of the model for ONNX's native code: small constants inside, large ones as typed inputs."""
    model = ModelProto()
    model.CopyFrom(source.model)
    model.ir_version = 10
    for name, stored in source.constants.items():
        if stored.array.size <= SMALL_ELEMENTS:
            model.graph.initializer.append(write_tensor(name, stored))
        else:
            kind = helper.make_tensor_value_info(name, ONNX_CODES[stored.dtype], stored.array.shape)
            model.graph.input.append(kind)
    return model


def typed_model(source: OnnxSource) -> ModelProto:
    """Return the visible model with the inferred type of every tensor, constants included."""
    model = visible_model(source)
    declared = {value.name for value in (*model.graph.input, *model.graph.output)}
    for name, kind in infer_types(source).items():
        if name not in declared:
            model.graph.value_info.append(helper.make_tensor_value_info(name, ONNX_CODES[kind.dtype], kind.shape))
    return model


def check_model(source: OnnxSource) -> None:
    """Run ONNX's checker on the structure; raise LoadError with its complaint."""
    try:
        checker.check_model(visible_model(source), full_check=False)
    except Exception as error:
        detail = " ".join(str(error).split())[:300]
        raise LoadError(f"{source.where}: not valid ONNX: {detail}") from error


def infer_types(source: OnnxSource) -> dict[str, TensorType]:
    """Return the types that can be inferred for the main graph; bodies get theirs as value_info in place."""
    model = visible_model(source)
    for graph in all_graphs(model.graph):
        del graph.value_info[:]
    for value in model.graph.output:
        # A wrong declared shape must not win over the inferred one.
        if value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.ClearField("shape")
    for name, kind in source.hints.items():
        model.graph.value_info.append(helper.make_tensor_value_info(name, ONNX_CODES[kind.dtype], kind.shape))
    # ONNX's own data propagation allocates as many symbols as a list is long, which a hostile file can make huge.
    try:
        inferred = shape_inference.infer_shapes(model, check_type=False, strict_mode=False, data_prop=False)
    except Exception as error:
        detail = " ".join(str(error).split())[:300]
        raise LoadError(f"{source.where}: shapes cannot be inferred: {detail}") from error
    for ours, theirs in zip(all_graphs(source.graph), all_graphs(inferred.graph), strict=True):
        if ours is not source.graph:
            _copy_body_types(ours, theirs)
    values = [*inferred.graph.input, *inferred.graph.output, *inferred.graph.value_info]
    types = types_of(values)
    for name, declared in types_of(source.graph.output).items():
        # What the file says of an output counts only where inference says nothing.
        if name not in types or types[name].shape is None:
            types[name] = declared
    types |= {name: TensorType(stored.dtype, tuple(stored.array.shape)) for name, stored in source.constants.items()}
    for node in source.graph.node:
        _fill_from_schema(node, types)
    return types


def _fill_from_schema(node: NodeProto, types: dict[str, TensorType]) -> None:
    """Give the outputs that inference left without a type the element type that the operator's schema implies."""
    missing = [index for index, name in enumerate(node.output) if name and name not in types]
    if not missing or node.domain or not defs.has(node.op_type, OPSET, ""):
        return
    schema = defs.get_schema(node.op_type, OPSET, "")
    known = {
        formal.type_str: types[name].dtype
        for name, formal in zip(node.input, schema.inputs, strict=False)
        if name in types
    }
    for index in missing:
        if index < len(schema.outputs) and schema.outputs[index].type_str in known:
            types[node.output[index]] = TensorType(known[schema.outputs[index].type_str], None)


def _copy_body_types(ours: GraphProto, theirs: GraphProto) -> None:
    for mine, found in zip(ours.input, theirs.input, strict=True):
        if not mine.type.WhichOneof("value"):
            mine.type.CopyFrom(found.type)
    del ours.value_info[:]
    ours.value_info.extend([*theirs.value_info, *theirs.output])


def types_of(values: Iterable[ValueInfoProto]) -> dict[str, TensorType]:
    """Return the tensor types that these declarations give; those without an element type are left out."""
    types: dict[str, TensorType] = {}
    for value in values:
        tensor = value.type.tensor_type
        dtype = DTYPE_OF_CODE.get(tensor.elem_type)
        if value.type.WhichOneof("value") != "tensor_type" or dtype is None:
            continue
        shape: tuple[Dim, ...] | None = None
        if tensor.HasField("shape"):
            shape = tuple(
                dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or None
                for dim in tensor.shape.dim
            )
        types[value.name] = TensorType(dtype, shape)
    return types
