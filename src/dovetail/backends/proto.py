"""Whole ONNX models from their parts; needs the onnx package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import GraphProto, ModelProto, NodeProto, OperatorSetIdProto

from dovetail.errors import CompileError
from dovetail.exporters.onnx_protos import attribute_proto
from dovetail.ir import OPSET, Node
from dovetail.ir.node import Body, without_facts

_IR_VERSION = 10
"""The ONNX file version that goes with opset 21."""


def node_proto(node: Node, inputs: Sequence[str], outputs: Sequence[str]) -> NodeProto:
    """Return a node with other tensor names; raise CompileError for control flow."""
    proto = NodeProto(op_type=node.op, name=node.name, domain=node.domain, input=inputs, output=outputs)
    for name, value in without_facts(node.attributes).items():
        if isinstance(value, Body):
            raise CompileError(f"{node.label}: control flow does not run here.", hint="Place it on cpu.")
        proto.attribute.append(attribute_proto(node, name, value))
    return proto


def new_model() -> ModelProto:
    """Return an empty model at the opset of the intermediate representation."""
    model = ModelProto(ir_version=_IR_VERSION, producer_name="dovetail")
    model.opset_import.append(OperatorSetIdProto(domain="", version=OPSET))
    return model


def model_of(graph: GraphProto) -> bytes:
    """Return a model that holds the graph, as bytes."""
    model = new_model()
    model.graph.CopyFrom(graph)
    data: bytes = model.SerializeToString()
    return data


def add_metadata(model: ModelProto, facts: Mapping[str, str]) -> None:
    """Write facts that `sessions.read_metadata` reads."""
    for key in sorted(facts):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, facts[key]
