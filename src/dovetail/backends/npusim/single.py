"""One operator as an ONNX Runtime session: the route for everything that needs no integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime
from onnx import GraphProto, ValueInfoProto

from dovetail.backends.npusim.kernel import NodeContext, Values
from dovetail.backends.proto import model_of, node_proto
from dovetail.backends.sessions import first_line
from dovetail.errors import DeviceError
from dovetail.exporters.onnx_protos import tensor_proto, value_info
from dovetail.ir import AnyArray, DType, TensorType

_FLOAT32_CONTROLS = {"Resize": (1, 2), "Upsample": (1,)}
"""Real inputs that stay float32 whatever the type of the data."""


@dataclass(frozen=True)
class SingleOperator:
    """Run one operator with real tensors in one float type, the others as they are."""

    session: onnxruntime.InferenceSession
    feeds: tuple[tuple[int, str, np.dtype[np.generic]], ...]
    outputs: tuple[str, ...]
    positions: tuple[int, ...]
    label: str

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the outputs; an omitted one is an empty array."""
        feeds = {
            name: np.asarray(value, order="C").astype(kind, copy=False)
            for index, name, kind in self.feeds
            if (value := values[index]) is not None
        }
        try:
            found = self.session.run(list(self.outputs), feeds)
        except Exception as error:
            raise DeviceError(f"{self.label}: {first_line(error)}") from error
        results = [np.empty(0)] * (max(self.positions) + 1)
        for position, value in zip(self.positions, found, strict=True):
            results[position] = np.asarray(value)
        return results


def single_operator(context: NodeContext, real: DType, threads: int = 1) -> SingleOperator | str:
    """Return the operator with its real tensors in a float type, or why ONNX Runtime has no kernel for it."""
    node, graph = context.node, context.graph
    inputs = [f"i{index}" if tensor else "" for index, tensor in enumerate(node.inputs)]
    outputs = [f"o{index}" if tensor else "" for index, tensor in enumerate(node.outputs)]
    holder = GraphProto(name="single")
    feeds: list[tuple[int, str, np.dtype[np.generic]]] = []
    for index, tensor in enumerate(node.inputs):
        name = inputs[index]
        if not tensor:
            continue
        dtype = _element(graph.types[tensor], real, index in _FLOAT32_CONTROLS.get(node.op, ()))
        if tensor in graph.constants and graph.types[tensor].quant is None:
            # Quantised constants are fed, so that a table can sweep over all their values.
            holder.initializer.append(tensor_proto(name, graph.constants[tensor].astype(dtype.carrier)))
        else:
            holder.input.append(_declared(name, dtype))
            feeds.append((index, name, dtype.carrier))
    positions = tuple(index for index, tensor in enumerate(node.outputs) if tensor)
    for index, tensor in enumerate(node.outputs):
        if tensor:
            holder.output.append(_declared(outputs[index], _element(graph.types[tensor], real, False)))
    holder.node.append(node_proto(node, inputs, outputs))
    try:
        session = onnxruntime.InferenceSession(model_of(holder), _options(threads), providers=["CPUExecutionProvider"])
    except Exception as error:
        return first_line(error)
    return SingleOperator(session, tuple(feeds), tuple(f"o{index}" for index in positions), positions, node.label)


def _declared(name: str, dtype: DType) -> ValueInfoProto:
    return value_info(name, TensorType(dtype, None))


def _element(kind: TensorType, real: DType, keep: bool) -> DType:
    if not kind.holds_reals:
        return kind.dtype
    return DType.F32 if keep else real


def _options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return options
