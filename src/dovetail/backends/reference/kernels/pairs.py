"""What is lost where products of unsigned and signed bytes are added two by two in 16 bits.

ONNX Runtime's kernels for x86 with AVX2 and no VNNI compute `a[2i] * b[2i] + a[2i+1] * b[2i+1]` on the stored bytes
with `vpmaddubsw`, which saturates at int16, and add those sums in 32 bits; zero points are accounted for exactly,
outside. A convolution counts the bytes under its window position by position, channels innermost, its padding as the
data's zero point. Measured on 1.31 for QLinearMatMul, QGemm, MatMulInteger and QLinearConv with uint8 data and int8
weights, packed or not; other pairs of types, ConvInteger and convolutions of one channel a group have exact sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.backends.reference.kernels.window import columns, window_of
from dovetail.facts.onnxruntime import WEIGHT_ZEROS
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType

_LOWEST, _HIGHEST = -(2**15), 2**15 - 1
_LARGEST_BYTE = 255


def _saturates(left: AnyArray, right: AnyArray) -> bool:
    return left.dtype == np.uint8 and right.dtype == np.int8


def product_losses(left: AnyArray, right: AnyArray) -> AnyArray:
    """Return what saturation adds to the exact product of two matrices of stored integers, as int64.

    The shape is that of `numpy.matmul(left, right)`; one zero stands for element types that do not saturate.
    """
    if not _saturates(left, right):
        return np.zeros((), np.int64)
    rows = (left[None] if left.ndim == 1 else left).astype(np.int32)
    cols = (right[:, None] if right.ndim == 1 else right).astype(np.int32)
    batch = np.broadcast_shapes(rows.shape[:-2], cols.shape[:-2])
    losses = np.zeros((*batch, rows.shape[-2], cols.shape[-1]), np.int64)
    for k in range(0, cols.shape[-2] - 1, 2):
        first, second = cols[..., k, :], cols[..., k + 1, :]
        reach = _LARGEST_BYTE * (np.abs(first) + np.abs(second)).reshape(-1, cols.shape[-1]).max(axis=0, initial=0)
        # Weights of seven bits cannot saturate: only the columns that can are computed.
        able = np.flatnonzero(reach > _HIGHEST)
        if able.size:
            pair = rows[..., :, k, None] * first[..., None, able] + rows[..., :, k + 1, None] * second[..., None, able]
            losses[..., able] += np.clip(pair, _LOWEST, _HIGHEST) - pair
    losses = losses[..., 0, :] if left.ndim == 1 else losses
    return losses[..., 0] if right.ndim == 1 else losses


def convolution_losses(node: Node, data: AnyArray, weight: AnyArray, zero_point: int) -> AnyArray:
    """Return what saturation adds to the sums of a convolution `[N, C, *spatial]` with `[M, C / group, *kernel]`.

    The shape is that of the sums; one zero stands for what does not saturate.
    """
    group, depth = node.integer("group", 1), weight.shape[1]
    if not _saturates(data, weight) or (depth == 1 and weight.shape[0] == group):
        return np.zeros((), np.int64)
    window = window_of(node, tuple(weight.shape[2:]), tuple(data.shape[2:]))
    patches, output = columns(data.astype(np.int16) - np.int16(zero_point), window, group)
    patches = (patches + zero_point).astype(np.uint8)
    # [N, group, channel * place, position] -> [N, group, position, place * channel]
    count, positions = len(data), patches.shape[-1]
    rows = patches.reshape(count, group, depth, -1, positions).transpose(0, 1, 4, 3, 2)
    rows = rows.reshape(count, group, positions, -1)
    filters = weight.reshape(group, weight.shape[0] // group, depth, -1).transpose(0, 3, 2, 1)
    losses = product_losses(rows, filters.reshape(group, rows.shape[-1], -1))
    return losses.transpose(0, 1, 3, 2).reshape(count, weight.shape[0], *output)


def accumulator_losses(node: Node, types: Sequence[TensorType | None], values: Sequence[AnyArray | None]) -> AnyArray:
    """Return what saturation adds to the accumulators of a Conv, Gemm or MatMul of quantised types; see above."""
    data, weight, kind = values[0], values[1], types[0]
    if data is None or weight is None or kind is None or kind.quant is None:
        return np.zeros((), np.int64)
    if node.op == "Conv":
        return convolution_losses(node, data, weight, int(kind.quant.zero_point[0]))
    if node.op == "Gemm":
        data = data.T if node.integer("transA", 0) else data
        weight = weight.T if node.integer("transB", 0) else weight
    return product_losses(data, weight) if node.op in ("Gemm", "MatMul") else np.zeros((), np.int64)


def integer_product_losses(graph: Graph, node: Node, values: Mapping[str, AnyArray]) -> AnyArray | None:
    """Return what saturation adds to a MatMul of int32 that stands for a MatMulInteger; None where it stands for none.

    Importers write that operator as the product of bytes, cast to int32, from which their zero points are subtracted.
    """
    if node.op != "MatMul" or node.domain or graph.types[node.outputs[0]].dtype is not DType.I32:
        return None
    data, weight = (_bytes_behind(graph, name, values) for name in node.inputs)
    if weight is None and WEIGHT_ZEROS in node.attributes:
        weight = (values[node.inputs[1]] + np.array(node.integers(WEIGHT_ZEROS))).astype(np.int8)
    return None if data is None or weight is None else product_losses(data, weight)


def _bytes_behind(graph: Graph, name: str, values: Mapping[str, AnyArray]) -> AnyArray | None:
    """Return what is cast to make a tensor, before a zero point is subtracted; None where nothing is."""
    maker = graph.producers.get(name)
    if maker is not None and maker.op == "Sub":
        maker = graph.producers.get(maker.inputs[0])
    return values[maker.inputs[0]] if maker is not None and maker.op == "Cast" else None
