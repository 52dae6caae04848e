"""Values of shape arithmetic as far as they are known: numbers where sizes are static, names where they are not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import GraphProto, NodeProto

from dovetail.importers.onnx.tensors import Stored
from dovetail.ir import AnyArray, DType, TensorType
from dovetail.ir.types import Dim

_MAX_ELEMENTS = 64
Values = Mapping[str, AnyArray]
"""Arrays of objects: int, the name of a symbolic size, or None where nothing is known."""


def known_values(graph: GraphProto, types: Mapping[str, TensorType], constants: Mapping[str, Stored]) -> Values:
    """Return what is known of the small integer tensors that shape arithmetic computes."""
    values: dict[str, AnyArray] = {}
    for name, stored in constants.items():
        if stored.dtype in (DType.I64, DType.I32) and stored.array.size <= _MAX_ELEMENTS and stored.array.ndim <= 1:
            values[name] = stored.array.astype(object)
    for node in graph.node:
        if node.domain or len(node.output) != 1:
            continue
        value = _evaluate(node, values, types)
        if value is not None and value.size <= _MAX_ELEMENTS:
            values[node.output[0]] = value
    return values


def _attribute(node: NodeProto, name: str, default: int) -> int:
    return next((int(item.i) for item in node.attribute if item.name == name), default)


def _evaluate(node: NodeProto, known: Values, types: Mapping[str, TensorType]) -> AnyArray | None:
    if node.op_type in ("Shape", "Size"):
        return _shape_of(node, types)
    arguments = [known.get(name) for name in node.input]
    if not arguments or any(value is None for value in arguments):
        return None
    try:
        return _combine(node, [value for value in arguments if value is not None], types)
    except (IndexError, ValueError, TypeError):
        return None


def _shape_of(node: NodeProto, types: Mapping[str, TensorType]) -> AnyArray | None:
    kind = types.get(node.input[0]) if node.input else None
    if kind is None or kind.shape is None:
        return None
    if node.op_type == "Size":
        static = kind.static_shape
        return None if static is None else np.array(int(np.prod(static, dtype=np.int64)), dtype=object)
    start, end = _attribute(node, "start", 0), _attribute(node, "end", len(kind.shape))
    dims = list(kind.shape)[slice(start, end)]
    value: AnyArray = np.empty(len(dims), dtype=object)
    value[:] = dims
    return value


def _combine(node: NodeProto, values: list[AnyArray], types: Mapping[str, TensorType]) -> AnyArray | None:
    op, first = node.op_type, values[0]
    if op == "Identity":
        return first
    if op == "Cast":
        kind = types.get(node.output[0])
        return first if kind is not None and kind.dtype in (DType.I64, DType.I32) else None
    if op == "Gather" and first.ndim == 1 and _attribute(node, "axis", 0) in (0, -1):
        return _as_object(first[values[1].astype(np.int64)])
    if op == "Concat" and _attribute(node, "axis", 0) in (0, -1):
        return np.concatenate(values)
    if op in ("Unsqueeze", "Squeeze"):
        return first.reshape(-1) if op == "Unsqueeze" and first.ndim == 0 else _squeeze(op, first)
    if op == "Slice" and first.ndim == 1:
        numbers = [value.astype(np.int64) for value in values[1:]]
        step = int(numbers[3][0]) if len(numbers) > 3 else 1
        start, stop = int(numbers[0][0]), int(numbers[1][0])
        return first[_slice(start, stop, step, len(first))]
    if op in _ARITHMETIC:
        return _elementwise(op, first, values[1])
    return None


def _squeeze(op: str, value: AnyArray) -> AnyArray | None:
    return value.reshape(()) if op == "Squeeze" and value.size == 1 else None


def _slice(start: int, stop: int, step: int, size: int) -> slice:
    # A huge negative stop with a negative step means "to the beginning", as numpy spells with None.
    return slice(start, None if step < 0 and stop < -size else stop, step)


def _as_object(value: object) -> AnyArray:
    if isinstance(value, np.ndarray):
        return value
    boxed: AnyArray = np.empty((), dtype=object)
    boxed[()] = value
    return boxed


_ARITHMETIC = ("Add", "Sub", "Mul", "Div")


def _elementwise(op: str, one: AnyArray, other: AnyArray) -> AnyArray:
    left, right = np.broadcast_arrays(one, other)
    result: AnyArray = np.empty(left.shape, dtype=object)
    for index in np.ndindex(left.shape):
        result[index] = _number(op, left[index], right[index])
    return result


def _number(op: str, one: object, other: object) -> object:
    if op in ("Mul", "Div") and other == 1:
        return one
    if op == "Mul" and one == 1:
        return other
    if not isinstance(one, int) or not isinstance(other, int):
        return None
    if op == "Add":
        return one + other
    if op == "Sub":
        return one - other
    if op == "Mul":
        return one * other
    # Integer division in ONNX truncates; sizes are not negative, so anything else is left unknown.
    return one // other if other > 0 and one >= 0 else None


def constant_of(value: AnyArray, dtype: DType) -> Stored | None:
    """Return the value as a constant when every element is a number."""
    lowest, highest = dtype.integer_range if dtype.is_integer else (0, -1)
    if not all(isinstance(item, int) and lowest <= item <= highest for item in value.reshape(-1)):
        return None
    return Stored(dtype, value.astype(dtype.carrier))


def filled_shape(node: NodeProto, known: Values, types: Mapping[str, TensorType]) -> TensorType | None:
    """Return the type of an Expand or ConstantOfShape whose target is known in part, or None."""
    target = known.get(node.input[-1])
    kind = types.get(node.output[0])
    if target is None or target.ndim != 1 or kind is None or kind.static_shape is not None:
        return None
    dims: list[Dim] = [dim if isinstance(dim, int | str) else None for dim in target]
    if node.op_type == "Expand":
        source = types.get(node.input[0])
        if source is None or source.shape is None:
            return None
        rank = max(len(dims), len(source.shape))
        own = [1] * (rank - len(source.shape)) + list(source.shape)
        asked = [1] * (rank - len(dims)) + dims
        dims = [_wider(one, other) for one, other in zip(own, asked, strict=True)]
    bad = any(isinstance(dim, int) and not 0 <= dim < 2**31 for dim in dims)
    return None if bad else TensorType(kind.dtype, tuple(dims))


def _wider(one: Dim, other: Dim) -> Dim:
    """Return the size that two broadcast to; a number above 1 wins over a name."""
    if 1 in (one, other):
        return other if one == 1 else one
    known = [dim for dim in (one, other) if isinstance(dim, int)]
    return known[0] if known else one if one == other else None


def reshape_target(value: AnyArray, source: TensorType | None) -> AnyArray | None:
    """Return a constant Reshape target that means the same for every batch size, or None.

    A size equal to the input's own symbolic size at that place is spelt 0, one other unknown size -1.
    """
    if value.ndim != 1 or source is None or source.shape is None:
        return None
    target: list[int] = []
    for index, item in enumerate(value):
        if isinstance(item, int):
            if item == 0:
                return None
            target.append(item)
            if not -1 <= item < 2**31:
                return None
        elif isinstance(item, str) and index < len(source.shape) and source.shape[index] == item:
            target.append(0)
        else:
            target.append(-1)
    return np.array(target, dtype=np.int64) if target.count(-1) <= 1 else None
