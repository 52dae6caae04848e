"""Read scales and zero points off Quantize/Dequantize nodes and put them on types."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.errors import LoadError
from dovetail.ir import AnyArray, DType, Node, Quantization, TensorType
from dovetail.passes.draft import Draft

QUANTIZE = "QuantizeLinear"
DEQUANTIZE = "DequantizeLinear"


def read_parameters(draft: Draft, where: str) -> None:
    """Give every boundary node one input, its parameters on the integer side; raise LoadError if they are computed.

    The integer input of a DequantizeLinear becomes a tensor of its own, `<tensor>#<number>`, where two nodes read
    one tensor with different parameters; `settle_integers` gives such tensors their values.
    """
    nodes: list[Node] = []
    for node in draft.nodes:
        if node.domain or node.op not in (QUANTIZE, DEQUANTIZE):
            nodes.append(node)
        elif node.op == QUANTIZE:
            nodes.append(_read_quantize(draft, node, where))
        else:
            nodes.append(_read_dequantize(draft, node, where))
    draft.nodes = [node for node in nodes if node.outputs[0] not in draft.constants]


def _read_quantize(draft: Draft, node: Node, where: str) -> Node:
    target = node.outputs[0]
    kind = draft.types[target]
    draft.types[target] = replace(kind, quant=_parameters(draft, node, kind, where))
    return replace(node, inputs=node.inputs[:1], attributes={})


def _read_dequantize(draft: Draft, node: Node, where: str) -> Node:
    source = node.inputs[0]
    kind = draft.types[source]
    if node.integer("block_size", 0):
        _expand_blocks(draft, node, where)
        return node
    quant = _parameters(draft, node, kind, where)
    return replace(node, inputs=(source,), attributes={"quant": _pack(quant)})


def _pack(quant: Quantization) -> AnyArray:
    """Carry parameters on a node until every reader of the integer tensor is known."""
    packed: AnyArray = np.empty((), dtype=object)
    packed[()] = quant
    return packed


def parameters_of(node: Node) -> Quantization:
    """Return the parameters that `read_parameters` left on a DequantizeLinear node."""
    packed = node.attributes["quant"]
    assert isinstance(packed, np.ndarray)
    quant = packed[()]
    assert isinstance(quant, Quantization)
    return quant


def _parameters(draft: Draft, node: Node, kind: TensorType, where: str) -> Quantization:
    scale = _constant(draft, node, 1, "scale", where)
    zero = _constant(draft, node, 2, "zero point", where) if len(node.inputs) > 2 and node.inputs[2] else None
    assert scale is not None
    if node.integer("block_size", 0):
        raise _refused(node, "it quantises in blocks, which only constant weights may use", where)
    if kind.dtype not in (DType.I8, DType.U8, DType.I16, DType.U16, DType.I32):
        raise _refused(node, f"quantised {kind.dtype.value} tensors are not represented", where)
    scales = scale.astype(np.float64).reshape(-1)
    zeros = np.zeros(scales.shape, dtype=np.int64) if zero is None else zero.astype(np.int64).reshape(-1)
    if zeros.size != scales.size or scale.ndim > 1:
        raise _refused(
            node, f"its scale has shape {list(scale.shape)} and its zero point has {zeros.size} values", where
        )
    if not np.isfinite(scales).all() or (scales <= 0).any():
        raise _refused(node, "its scale is not a positive number", where)
    axis = _axis(node, kind, scale, where)
    if axis is not None and scale.size == 1 and not _is_single_channel(draft, node, kind, axis):
        axis = None
    return Quantization(tuple(float(item) for item in scales), tuple(int(item) for item in zeros), axis)


def _axis(node: Node, kind: TensorType, scale: AnyArray, where: str) -> int | None:
    if scale.ndim == 0:
        return None
    axis = node.integer("axis", 1)
    rank = kind.rank
    if scale.size == 1 and (rank is None or not -rank <= axis < rank):
        return None
    if rank is None or not -rank <= axis < rank:
        raise _refused(node, f"its channel axis {axis} is outside the tensor", where)
    axis %= rank
    size = kind.shape[axis] if kind.shape is not None else None
    if isinstance(size, int) and size != scale.size != 1:
        raise _refused(node, f"it has {scale.size} scales for {size} channels", where)
    return axis


def _is_single_channel(draft: Draft, node: Node, kind: TensorType, axis: int) -> bool:
    """Tell whether a list of one scale is meant per channel: a constant whose channel axis has size 1."""
    return draft.value(node.inputs[0]) is not None and kind.shape is not None and kind.shape[axis] == 1


def _constant(draft: Draft, node: Node, index: int, what: str, where: str) -> AnyArray | None:
    value = draft.value(node.inputs[index])
    if value is None:
        raise _refused(
            node, f"its {what} '{node.inputs[index]}' is computed at run time; a quantised type needs constants", where
        )
    return value


def _refused(node: Node, reason: str, where: str) -> LoadError:
    hint = "Export a statically quantised model, or the float model."
    return LoadError(f"{where}: {node.label}: {reason}.", source_node=node.name, hint=hint)


def _expand_blocks(draft: Draft, node: Node, where: str) -> None:
    """Turn a constant quantised in blocks into a float constant; types hold one scale a channel at most."""
    stored, scale = draft.value(node.inputs[0]), draft.value(node.inputs[1])
    zero = draft.value(node.inputs[2]) if len(node.inputs) > 2 else None
    if stored is None or scale is None or scale.ndim != stored.ndim:
        raise _refused(node, "it dequantises in blocks, which only constant weights may use", where)
    axis, size = node.integer("axis", 1), node.integer("block_size", 0)
    if not -stored.ndim <= axis < stored.ndim or size < 1:
        raise _refused(node, f"block size {size} on axis {axis} is impossible", where)
    length = stored.shape[axis]

    def spread(values: AnyArray) -> AnyArray:
        return np.take(np.repeat(values, size, axis=axis), range(length), axis=axis)

    try:
        centred = stored.astype(np.float32)
        if zero is not None:
            centred = centred - spread(zero).astype(np.float32)
        real: AnyArray = centred * spread(scale).astype(np.float32)
    except (ValueError, IndexError) as error:
        raise _refused(node, "the shapes of its blocks do not match the tensor", where) from error
    name = node.outputs[0]
    dtype = draft.types[name].dtype
    draft.constants[name] = real.astype(dtype.carrier)
    draft.types[name] = TensorType(dtype, tuple(real.shape))
