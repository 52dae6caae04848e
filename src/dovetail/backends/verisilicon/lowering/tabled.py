"""Products whose results a function reads as the array has them, beside a stream processor: from a table behind it.

Derived from the steps that the vendor's compiler lists for the A733: 10 functions behind 60 arrangements of products.
"""

from __future__ import annotations

from dovetail.backends.verisilicon.views import OperatorView
from dovetail.backends.verisilicon.windows import window_of
from dovetail.ir import DType

TABLED_BYTES = frozenset({"gelu", "hard_swish", "sigmoid", "softplus", "tanh"})
"""Functions of bytes that the driver fills tables behind the array for; a gate is one of them."""
_SIGNED_BYTES = frozenset({"sigmoid", "tanh"})
"""Those of affine signed bytes."""
_NARROW = ((1, 2), (2, 1))
"""Kernels behind which neither the stream processor nor the adder is joined."""
_WITHIN = ((1, 1), (2, 2))
"""Strides of convolutions of single channels for which nothing is moved before."""


def reads_array(item: OperatorView, product: OperatorView) -> bool:
    """Tell whether a function reads what a convolution leaves in the array, and not what the tensor between stores.

    In 16 bits of every one but those in groups and transposed ones with strides; of bytes where the stream processor
    cannot be joined with it.
    """
    kind, strides = product.operator.kind, window_of(product.ints[:8]).strides
    if item.made().dtype is DType.I16:
        return kind == "conv2d" or (kind == "deconv2d" and strides == (1, 1))
    weight = product.kind(1).quant
    if kind != "conv2d" or weight is None or len(weight.scale) > 1 or not reads_bytes(item):
        return False
    groups = product.ints[10]
    if groups > 1 and (product.ints[12] != groups or strides not in _WITHIN):
        return True
    return product.ints[8:10] != (1, 1) or is_narrow(product)


def is_narrow(product: OperatorView) -> bool:
    """Tell whether a convolution has a kernel of two points where its strides are turned into channels."""
    if product.operator.kind != "conv2d" or product.ints[8:10] != (1, 1):
        return False
    window = window_of(product.ints[:8])
    return tuple(-(-size // step) for size, step in zip(window.kernel, window.strides, strict=True)) in _NARROW


def reads_bytes(item: OperatorView) -> bool:
    """Tell whether the array may have the table of a function of bytes, or of a gate."""
    affine = item.made().dtype is DType.I8 and not item.in_fixed_point
    return item.operator.kind in (_SIGNED_BYTES if affine else TABLED_BYTES | {"mul"})
