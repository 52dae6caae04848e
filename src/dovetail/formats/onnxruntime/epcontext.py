"""A compiled model as one ONNX file: vendor blobs as EPContext nodes, the rest as ordinary operators.

ONNX Runtime runs it where the execution provider that `sources` names is there, and says which one it lacks elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, compose

from dovetail.bundle import Bundle
from dovetail.bundle.bundle import CompiledPartition
from dovetail.errors import PlanError
from dovetail.formats.onnxruntime.model_file import read_model
from dovetail.ir.codes import ONNX_CODES
from dovetail.ir.graph import OPSET
from dovetail.ir.types import TensorType

DOMAIN = "com.microsoft"
_PLAIN = "onnx"
_IR_VERSION = 10


def to_epcontext(bundle: Bundle, sources: Mapping[str, str]) -> ModelProto:
    """Return the model; `sources` maps a target to the execution provider that runs its blobs.

    Raises PlanError for a target whose blobs no provider is named for.
    """
    model = ModelProto(ir_version=_IR_VERSION, producer_name="dovetail")
    model.opset_import.append(OperatorSetIdProto(domain="", version=OPSET))
    model.opset_import.append(OperatorSetIdProto(domain=DOMAIN, version=1))
    graph = model.graph
    graph.name = bundle.name or "graph"
    _declare(graph.input, bundle.inputs)
    _declare(graph.output, bundle.outputs)
    for index, part in enumerate(bundle.partitions):
        if part.blob.format == _PLAIN:
            _inline(graph, part, index)
        elif part.target in sources:
            graph.node.append(_context(part, index, sources[part.target]))
        else:
            raise PlanError(
                f"no execution provider is named for the blobs of target '{part.target}'.",
                hint="An EPContext node says who runs it.",
            )
    return model


def _inline(graph: GraphProto, part: CompiledPartition, index: int) -> None:
    """Copy a partition's operators; what is inside it gets names of its own, borders keep theirs."""
    inner = read_model(part.blob.payload, f"partition {index}").graph
    border = {*part.inputs, *part.outputs}
    made = {name for node in inner.node for name in node.output if name}
    inside = (made | {tensor.name for tensor in inner.initializer}) - border
    # No prefix of its own: it is the one function of onnx that follows names into the bodies of control flow.
    renamed = compose.add_prefix_graph(
        inner,
        "",
        rename_nodes=False,
        rename_edges=False,
        rename_inputs=False,
        rename_outputs=False,
        rename_initializers=False,
        rename_value_infos=False,
        name_map={name: f"p{index}/{name}" for name in inside},
    )
    for node in renamed.node:
        node.name = f"p{index}/{node.name}"
    graph.node.extend(renamed.node)
    graph.initializer.extend(renamed.initializer)


def _context(part: CompiledPartition, index: int, source: str) -> NodeProto:
    node = NodeProto(op_type="EPContext", domain=DOMAIN, name=f"p{index}/{part.target}")
    node.input.extend(part.inputs)
    node.output.extend(part.outputs)
    texts = {
        "source": source.encode(),
        "partition_name": node.name.encode(),
        "ep_sdk_version": part.backend_version.encode(),
        "hardware_architecture": part.target.encode(),
        "notes": part.blob.format.encode(),
        "ep_cache_context": part.blob.payload,
    }
    for name, value in texts.items():
        node.attribute.append(AttributeProto(name=name, type=AttributeProto.STRING, s=value))
    for name in ("main_context", "embed_mode"):
        node.attribute.append(AttributeProto(name=name, type=AttributeProto.INT, i=1))
    return node


def _declare(values: object, types: Mapping[str, TensorType]) -> None:
    for name, kind in types.items():
        value = values.add(name=name)  # type: ignore[attr-defined]
        tensor = value.type.tensor_type
        tensor.elem_type = ONNX_CODES.get(kind.dtype, TensorProto.UNDEFINED)
        if kind.shape is not None:
            tensor.shape.SetInParent()
            _dimensions(tensor.shape.dim, kind.shape)


def _dimensions(dims: object, shape: Iterable[int | str | None]) -> None:
    for size in shape:
        dim = dims.add()  # type: ignore[attr-defined]
        if isinstance(size, int):
            dim.dim_value = size
        elif size is not None:
            dim.dim_param = size
