"""Weights and biases of accumulating operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.importers.tflite.site import Site
from dovetail.importers.tflite.values import real_value
from dovetail.ir import AnyArray, DType, Quantization, TensorType


@dataclass(frozen=True, slots=True)
class Kernel:
    """Where an operator's data, weight and bias are, and how the weight's dimensions are to lie."""

    data: int
    weight: int
    bias: int
    order: tuple[int, ...]


def is_hybrid(site: Site, kernel: Kernel) -> bool:
    """Tell whether float data meets integer weights: TFLite then quantises the data as it runs."""
    return site.tensor(kernel.data).is_float and site.tensor(kernel.weight).is_quantized


def read_weight(site: Site, kernel: Kernel) -> str:
    """Return the weight in its new order; constants are turned at once, float operators get float ones."""
    tensor = site.tensor(kernel.weight)
    value = site.value(kernel.weight)
    hybrid = is_hybrid(site, kernel)
    if value is None:
        return _turned(site, kernel, hybrid)
    quant = tensor.quant if tensor.is_quantized else None
    if hybrid or (tensor.dtype is DType.F16 and site.tensor(kernel.data).dtype is DType.F32):
        value, quant, dtype = real_value(value, quant), None, DType.F32
    else:
        assert tensor.dtype is not None
        dtype = tensor.dtype
    turned = value.transpose(kernel.order)
    if quant is not None and quant.axis is not None:
        quant = Quantization(quant.scale, quant.zero_point, kernel.order.index(quant.axis))
    return site.scope.store(
        site.scope.prefix + tensor.name, turned, TensorType(dtype, turned.shape, quant), tensor.name
    )


def _with_axis(quant: Quantization | None, axis: int) -> Quantization | None:
    if quant is None or quant.axis is None:
        return quant
    return Quantization(quant.scale, quant.zero_point, axis)


def _turned(site: Site, kernel: Kernel, hybrid: bool) -> str:
    name = site.read_real(kernel.weight) if hybrid else site.read(kernel.weight)
    if kernel.order == tuple(range(len(kernel.order))):
        return name
    kind = site.scope.types[name]
    shape = tuple((kind.shape or ())[axis] for axis in kernel.order)
    quant = kind.quant
    if quant is not None and quant.axis is not None:
        quant = _with_axis(quant, kernel.order.index(quant.axis))
    turned = TensorType(kind.dtype, shape, quant)
    return site.emit("Transpose", (name,), turned, {"perm": kernel.order}, stem=f"{site.stem}/weight")


def read_bias(site: Site, kernel: Kernel, weight: str) -> tuple[str, ...]:
    """Return the bias as `[C]`, or nothing; an integer one is at scale `s_x * s_w`."""
    if not site.has(kernel.bias):
        return ()
    tensor, value = site.tensor(kernel.bias), site.value(kernel.bias)
    if value is None:
        name = site.read(kernel.bias)
        if site.scope.types[name].dtype.is_float:
            return (name,)
        raise site.fail("its integer bias is computed at run time")
    flat = value.reshape(-1)
    if flat.dtype.kind == "f":
        real = flat.astype(np.float32)
        kind = TensorType(DType.F32, real.shape)
        return (site.scope.store(site.scope.prefix + tensor.name, real, kind, tensor.name),)
    data, stored = site.tensor(kernel.data).quant, site.scope.types[weight].quant
    if data is None or stored is None or tensor.dtype not in (DType.I32, DType.I64):
        raise site.fail(f"its bias of type {tensor.source_type.lower()} does not belong to its data")
    quant = bias_quantization(data.scale[0], stored.scale, flat)
    kind = TensorType(tensor.dtype, flat.shape, quant)
    return (site.scope.store(site.scope.prefix + tensor.name, flat, kind, tensor.name),)


def bias_quantization(data_scale: float, weight_scales: Sequence[float], bias: AnyArray) -> Quantization:
    """Return the quantisation that a stored bias has by definition: scale `s_x * s_w`, zero point 0."""
    tiny = float(np.finfo(np.float32).tiny)
    scales = tuple(max(float(np.float32(data_scale * scale)), tiny) for scale in weight_scales)
    axis = 0 if len(scales) > 1 and len(scales) == bias.size else None
    return Quantization(scales, (0,) * len(scales), axis)
