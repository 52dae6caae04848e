"""Constants of a TFLite file as arrays, without copies where the file's bytes can be used as they are."""

from __future__ import annotations

import math

import numpy as np

from dovetail.errors import LoadError
from dovetail.importers.tflite.model import LiteTensor
from dovetail.importers.tflite.sparse import Sparsity
from dovetail.ir import AnyArray, DType, Quantization, dequantize_array


def read_value(tensor: LiteTensor, where: str) -> AnyArray | None:
    """Return the stored elements of a tensor, or None when the file holds none.

    Raises LoadError when the bytes do not fit the shape.
    """
    if not len(tensor.data):
        empty = tensor.dtype is not None and 0 in tensor.shape
        return None if not empty or tensor.dtype is None else np.zeros(tensor.shape, tensor.dtype.carrier)
    label = f"{where}: tensor '{tensor.name}'"
    if tensor.dtype is None:
        return None
    if tensor.sparsity is not None:
        return _densified(tensor, tensor.sparsity, label)
    count = math.prod(tensor.shape)
    if tensor.source_type == "INT4":
        return _nibbles(tensor, count, label)
    stored = np.dtype(np.uint16) if tensor.dtype is DType.BF16 else tensor.dtype.carrier
    if len(tensor.data) != count * stored.itemsize:
        raise LoadError(
            f"{label} holds {len(tensor.data)} bytes but its shape {list(tensor.shape)} needs "
            f"{count * stored.itemsize}.",
            source_node=tensor.name,
        )
    raw = np.frombuffer(tensor.data, stored.newbyteorder("<")).astype(stored, copy=False).reshape(tensor.shape)
    if tensor.dtype is DType.BF16:
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw


def _densified(tensor: LiteTensor, sparsity: Sparsity, label: str) -> AnyArray:
    assert tensor.dtype is not None
    if tensor.source_type == "INT4" or tensor.dtype is DType.BF16:
        raise LoadError(f"{label} is sparse {tensor.source_type}.", hint="Convert the model without sparsity.")
    kind = tensor.dtype.carrier
    try:
        stored = np.frombuffer(tensor.data, kind.newbyteorder("<")).astype(kind, copy=False)
        return sparsity.densified(stored, tensor.shape)
    except ValueError as error:
        raise LoadError(
            f"{label} is damaged: {error}.", source_node=tensor.name, hint="Copy or export the model again."
        ) from error


def _nibbles(tensor: LiteTensor, count: int, label: str) -> AnyArray:
    if len(tensor.data) != (count + 1) // 2:
        raise LoadError(f"{label} holds {len(tensor.data)} bytes for {count} elements of 4 bits.")
    pairs = np.frombuffer(tensor.data, np.int8)
    low = np.left_shift(pairs, 4) >> 4
    split = np.stack([low, pairs >> 4], axis=1).reshape(-1)[:count]
    return split.astype(np.int8).reshape(tensor.shape)


def real_value(stored: AnyArray, quant: Quantization | None) -> AnyArray:
    """Return float32 values of stored ones."""
    if quant is not None:
        return dequantize_array(stored, quant)
    real: AnyArray = stored.astype(np.float32)
    return real
