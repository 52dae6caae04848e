"""The kernels: one ONNX operator (opset 21 signature) each, in numpy."""

from __future__ import annotations

from types import MappingProxyType

from dovetail.backends.reference.kernels import (
    activation,
    conversion,
    convolution,
    elementwise,
    indexing,
    linear,
    logic,
    movement,
    normalisation,
    pooling,
    recurrent,
    reduction,
    resize,
    shape,
    vision,
)
from dovetail.backends.reference.kernels.call import Call, Kernel, Kernels

_FAMILIES = (
    activation,
    conversion,
    convolution,
    elementwise,
    indexing,
    linear,
    logic,
    movement,
    normalisation,
    pooling,
    recurrent,
    reduction,
    resize,
    shape,
    vision,
)

KERNELS: Kernels = MappingProxyType({op: kernel for family in _FAMILIES for op, kernel in family.KERNELS.items()})
"""Every operator that the reference runs, control flow apart."""

__all__ = ["KERNELS", "Call", "Kernel", "Kernels"]
