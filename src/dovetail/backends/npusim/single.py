"""One operator as an ONNX Runtime session: the route for everything that needs no integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime
from onnx import GraphProto, NodeProto

from dovetail.backends.npusim.kernel import NodeContext, Values
from dovetail.backends.npusim.rounding import reals_of
from dovetail.backends.proto import attribute_protos, model_bytes, tensor_proto, value_info
from dovetail.errors import DeviceError
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
            name: np.ascontiguousarray(value).astype(kind, copy=False)
            for index, name, kind in self.feeds
            if (value := values[index]) is not None
        }
        try:
            found = self.session.run(list(self.outputs), feeds)
        except Exception as error:
            raise DeviceError(f"{self.label}: {_first_line(error)}") from error
        results = [np.empty(0)] * (max(self.positions) + 1)
        for position, value in zip(self.positions, found, strict=True):
            results[position] = np.asarray(value)
        return results


def single_operator(context: NodeContext, real: DType, threads: int = 1) -> SingleOperator | str:
    """Return the operator with its real tensors in a float type, or why ONNX Runtime has no kernel for it."""
    node, graph = context.node, context.graph
    proto = NodeProto(op_type=node.op, domain=node.domain, name="operator")
    proto.attribute.extend(attribute_protos(node))
    holder = GraphProto(name="single")
    feeds: list[tuple[int, str, np.dtype[np.generic]]] = []
    for index, tensor in enumerate(node.inputs):
        name = f"i{index}" if tensor else ""
        proto.input.append(name)
        if not tensor:
            continue
        dtype = _element(graph.types[tensor], real, index in _FLOAT32_CONTROLS.get(node.op, ()))
        if tensor in graph.constants:
            holder.initializer.append(
                tensor_proto(name, _constant(graph.constants[tensor], graph.types[tensor], dtype))
            )
        else:
            holder.input.append(value_info(name, dtype, None))
            feeds.append((index, name, dtype.carrier))
    positions = tuple(index for index, tensor in enumerate(node.outputs) if tensor)
    for index, tensor in enumerate(node.outputs):
        proto.output.append(f"o{index}" if tensor else "")
        if tensor:
            holder.output.append(value_info(f"o{index}", _element(graph.types[tensor], real, False), None))
    holder.node.append(proto)
    try:
        session = onnxruntime.InferenceSession(
            model_bytes(holder), _options(threads), providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        return _first_line(error)
    return SingleOperator(session, tuple(feeds), tuple(f"o{index}" for index in positions), positions, node.label)


def _element(kind: TensorType, real: DType, keep: bool) -> DType:
    if not kind.holds_reals:
        return kind.dtype
    return DType.F32 if keep else real


def _constant(value: AnyArray, kind: TensorType, dtype: DType) -> AnyArray:
    reals = reals_of(value, kind) if kind.quant is not None else value
    return np.asarray(reals).astype(dtype.carrier)


def _options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return options


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].strip()
