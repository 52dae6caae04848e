"""Shapes, ranges and constants."""

from __future__ import annotations

import numpy as np

from dovetail.backends.reference.kernels.call import Call, Kernels
from dovetail.ir import AnyArray


def _shape(call: Call) -> tuple[AnyArray, ...]:
    sizes = call.x.shape[call.node.integer("start", 0) :] if "end" not in call.node.attributes else None
    if sizes is None:
        sizes = call.x.shape[call.node.integer("start", 0) : call.node.integer("end", 0)]
    return (np.array(sizes, dtype=np.int64),)


def _constant_of_shape(call: Call) -> tuple[AnyArray, ...]:
    value = call.node.attributes.get("value")
    fill = value.reshape(-1)[0] if isinstance(value, np.ndarray) else np.float32(0)
    return (np.full(call.sizes(0) or (), fill),)


def _constant(call: Call) -> tuple[AnyArray, ...]:
    (value,) = call.node.attributes.values()
    return (np.asarray(value),)


def _eye_like(call: Call) -> tuple[AnyArray, ...]:
    rows, columns = call.x.shape
    return (np.eye(rows, columns, k=call.node.integer("k", 0), dtype=call.output_dtype),)


def _range(call: Call) -> tuple[AnyArray, ...]:
    start, limit, delta = (call.input(index).reshape(()) for index in range(3))
    count = max(int(np.ceil((limit.astype(np.float64) - start) / delta)), 0)
    return (np.asarray(start + np.arange(count, dtype=start.dtype) * delta),)


KERNELS: Kernels = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "EyeLike": _eye_like,
    "Range": _range,
    "Shape": _shape,
    "Size": lambda call: (np.array(call.x.size, dtype=np.int64),),
}
