"""MatMul and Gemm on integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.backends.npusim.kernel import Kernel, NodeContext, Values, exact_type, given
from dovetail.backends.npusim.matrix import multiply
from dovetail.backends.npusim.rounding import Store, centred, largest_size
from dovetail.ir import AnyArray, Quantization, TensorType


@dataclass(frozen=True, slots=True)
class Product:
    """Run a matrix product of centred integers; constant operands are prepared ahead."""

    left: TensorType
    right: TensorType
    fixed_left: AnyArray | None
    fixed_right: AnyArray | None
    transposes: tuple[bool, bool]
    bound: float
    """Largest size of one product of two centred integers."""
    multiplier: AnyArray
    store: Store
    threads: int
    bias: AnyArray | None = None

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the stored output."""
        left, right = given(values, 0), given(values, 1)
        length = left.shape[0 if self.transposes[0] else -1]
        bias = 0.0 if self.bias is None else float(np.abs(self.bias.astype(np.float64)).max(initial=0.0))
        working = exact_type(self.bound * length + bias)
        left = self._ready(self.fixed_left, left, self.left, working, self.transposes[0])
        right = self._ready(self.fixed_right, right, self.right, working, self.transposes[1])
        sums = multiply(left, right, self.threads)
        if self.bias is not None:
            sums = sums + self.bias.astype(working)
        return (self.store.from_steps(np.asarray(np.multiply(sums, self.multiplier, dtype=np.float64))),)

    def _ready(
        self,
        fixed: AnyArray | None,
        stored: AnyArray,
        kind: TensorType,
        working: np.dtype[np.generic],
        transposed: bool,
    ) -> AnyArray:
        matrix = centred(stored, kind, working) if fixed is None else fixed.astype(working, copy=False)
        return matrix.T if transposed else matrix


def _fixed(context: NodeContext, index: int) -> AnyArray | None:
    value = context.constant(index)
    if value is None:
        return None
    kind = context.input_kind(index)
    ready = centred(value, kind, np.int64)
    size = largest_size(kind)
    # Most weights of real layers are summed in float32; a wider sum converts them at the call.
    return ready.astype(np.float32 if size < 2**24 else np.float64)


def _operands_fit(context: NodeContext) -> bool:
    kinds = (context.input_kind(0), context.input_kind(1), context.output_kind())
    if any(kind.quant is None for kind in kinds):
        return False
    return not any(kind.quant.per_channel for kind in (kinds[0], kinds[2]) if kind.quant is not None)


def _multiplier(context: NodeContext, right: Quantization, channel_axis: int | None) -> AnyArray | None:
    left, output = context.input_kind(0).quant, context.output_kind().quant
    assert left is not None
    assert output is not None
    if right.axis is not None and right.axis != channel_axis:
        return None
    scales = np.asarray(right.scale, dtype=np.float64)
    found = context.arithmetic.multiplier(left.scale[0], scales, output.scale[0])
    return found if right.axis is not None else found.reshape(())


def _largest_product(context: NodeContext) -> float:
    """Return the largest size of one term; a constant operand is known better than its type."""
    sizes: list[float] = []
    for index in (0, 1):
        value, kind = context.constant(index), context.input_kind(index)
        known = None if value is None else np.abs(centred(value, kind, np.int64)).max(initial=0)
        sizes.append(float(largest_size(kind) if known is None else known))
    return sizes[0] * sizes[1]


def build_matmul(context: NodeContext) -> Kernel | None:
    """Return the kernel of a MatMul on integers, or None when it is not one."""
    if not _operands_fit(context):
        return None
    right = context.input_kind(1)
    assert right.quant is not None
    rank = right.rank
    multiplier = _multiplier(context, right.quant, None if rank is None or rank < 2 else rank - 1)
    if multiplier is None:
        return None
    return _product(context, (False, False), multiplier, None)


def build_gemm(context: NodeContext) -> Kernel | None:
    """Return the kernel of a Gemm on integers, or None when it is not one."""
    node = context.node
    if not _operands_fit(context) or node.number("alpha", 1.0) != 1.0:
        return None
    bias = context.constant(2)
    if context.has(2):
        kind = context.input_kind(2)
        if bias is None or kind.quant is None or node.number("beta", 1.0) != 1.0 or not _at_sum_scale(context):
            return None
    transposes = bool(node.integer("transA", 0)), bool(node.integer("transB", 0))
    right = context.input_kind(1).quant
    assert right is not None
    multiplier = _multiplier(context, right, 0 if transposes[1] else 1)
    return None if multiplier is None else _product(context, transposes, multiplier, bias)


def _at_sum_scale(context: NodeContext) -> bool:
    """Tell whether the bias is stored at the scale of the sums."""
    data, weight, bias = (context.input_kind(index).quant for index in range(3))
    assert data is not None
    assert weight is not None
    assert bias is not None
    if context.input_kind(2).dtype.size_bytes < 4 or len(bias.scale) not in (1, len(weight.scale)):
        return False
    wanted = data.scale[0] * np.asarray(weight.scale)
    return bool(np.allclose(np.asarray(bias.scale), wanted, rtol=1e-5, atol=0.0)) and not any(bias.zero_point)


def _product(
    context: NodeContext, transposes: tuple[bool, bool], multiplier: AnyArray, bias: AnyArray | None
) -> Product:
    return Product(
        context.input_kind(0),
        context.input_kind(1),
        _fixed(context, 0),
        _fixed(context, 1),
        transposes,
        _largest_product(context),
        multiplier,
        context.store(),
        context.threads,
        bias,
    )
