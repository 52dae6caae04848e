"""Evaluate nodes of constant inputs with ONNX Runtime; what it has no kernel for stays in the graph."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, NodeProto, ValueInfoProto, helper

from dovetail.importers.onnx.tensors import Stored, write_tensor
from dovetail.ir import OPSET, DType, TensorType
from dovetail.ir.codes import ONNX_CODES

_LOG = logging.getLogger(__name__)
_SILENT = 4


def evaluate_nodes(
    nodes: Sequence[NodeProto], constants: Mapping[str, Stored], types: Mapping[str, TensorType]
) -> dict[str, Stored]:
    """Return the values of the outputs; those of a node that nothing here can run are left out."""
    together = _run(nodes, constants, types)
    if together is not None:
        return together
    values: dict[str, Stored] = {}
    for node in nodes:
        available = {**constants, **values}
        if not all(name in available for name in node.input if name):
            continue
        values.update(_run([node], available, types) or {})
    return values


def _run(
    nodes: Sequence[NodeProto], constants: Mapping[str, Stored], types: Mapping[str, TensorType]
) -> dict[str, Stored] | None:
    names = [name for node in nodes for name in node.output if name]
    if any(types[name].dtype is DType.BF16 for name in names):
        return None
    model = _model(nodes, constants, [_declared(name, types[name]) for name in names])
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = _SILENT
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        arrays = session.run(names, {})
    except Exception as error:  # ONNX Runtime raises its own types and plain RuntimeError alike
        _LOG.debug("cannot fold %s together: %s", [node.name for node in nodes], error)
        return None
    return _stored(names, arrays, types)


def _model(
    nodes: Sequence[NodeProto], constants: Mapping[str, Stored], outputs: Sequence[ValueInfoProto]
) -> ModelProto:
    read = dict.fromkeys(name for node in nodes for name in node.input if name in constants)
    initializers = [write_tensor(name, constants[name]) for name in read]
    graph = helper.make_graph(nodes, "constants", [], outputs, initializers)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", OPSET)])


def _declared(name: str, kind: TensorType) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, ONNX_CODES[kind.dtype], None)


def _stored(
    names: Sequence[str], arrays: Sequence[object], types: Mapping[str, TensorType]
) -> dict[str, Stored] | None:
    stored: dict[str, Stored] = {}
    for name, value in zip(names, arrays, strict=True):
        dtype = types[name].dtype
        if not isinstance(value, np.ndarray) or value.dtype != dtype.carrier:
            return None
        stored[name] = Stored(dtype, value)
    return stored
