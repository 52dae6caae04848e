"""Operators that treat every element alone: look-up tables for 8-bit operands, float64 for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.backends.npusim.kernel import Kernel, NodeContext, Values, given
from dovetail.backends.npusim.rounding import Store, reals_of
from dovetail.ir import AnyArray, TensorType

RealOperator = Callable[[Values], Sequence[AnyArray]]
"""The operator on real values: float64 in and out (control inputs as they are)."""

UNARY = frozenset(
    {
        "Abs",
        "Acos",
        "Acosh",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "Ceil",
        "Celu",
        "Clip",
        "Cos",
        "Cosh",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Log",
        "Mish",
        "Neg",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Shrink",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Tan",
        "Tanh",
        "ThresholdedRelu",
    }
)
BINARY = frozenset({"Add", "Div", "Max", "Mean", "Min", "Mod", "Mul", "PRelu", "Pow", "Sub", "Sum"})
_TABLE_BITS = {1: 16, 2: 8}
"""Widest operands that are looked up, by the number of operands that change."""


def codes_of(stored: AnyArray) -> AnyArray:
    """Return the bit patterns of stored integers as unsigned integers."""
    return stored.view(np.dtype(f"u{stored.dtype.itemsize}")) if stored.dtype.kind == "i" else stored


def all_values(kind: TensorType) -> AnyArray:
    """Return every stored value of an 8- or 16-bit type, in the order of its bit patterns."""
    unsigned = np.arange(1 << (8 * kind.dtype.size_bytes), dtype=f"u{kind.dtype.size_bytes}")
    return unsigned.view(kind.dtype.carrier)


@dataclass(frozen=True, slots=True)
class Table:
    """Look the output of one changing operand up."""

    position: int
    entries: AnyArray

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the stored output."""
        return (np.take(self.entries, codes_of(given(values, self.position))),)


@dataclass(frozen=True, slots=True)
class PairTable:
    """Look the output of two 8-bit operands up in 65536 entries."""

    entries: AnyArray

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the stored output."""
        high = codes_of(given(values, 0)).astype(np.uint16) << np.uint16(8)
        return (np.take(self.entries, high | codes_of(given(values, 1))),)


@dataclass(frozen=True, slots=True)
class ClampAtZeroPoint:
    """Clamp stored integers whose type stays the same; where the bounds cross, the upper one wins."""

    lowest: int
    highest: int

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the stored output."""
        stored = given(values, 0)
        return (np.clip(stored, stored.dtype.type(self.lowest), stored.dtype.type(self.highest)),)


@dataclass(frozen=True, slots=True)
class RealRoute:
    """Compute on real values in float64 and store the results."""

    operator: RealOperator
    kinds: tuple[TensorType | None, ...]
    """Types of the inputs that hold quantised values; None where an input is handed on as it is."""
    stores: tuple[Store | None, ...]
    """What stores each output; None where it is handed on as it is."""

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the outputs in their stored form."""
        reals = [
            value if kind is None or value is None else reals_of(value, kind)
            for value, kind in zip(values, self.kinds, strict=True)
        ]
        results = self.operator(reals)
        return tuple(
            result if store is None else store.from_reals(np.asarray(result))
            for result, store in zip(results, self.stores, strict=False)
        )


def build_clamp(context: NodeContext) -> Kernel | None:
    """Return the integer kernel of a Relu or Clip whose type stays the same, or None."""
    before, after = context.input_kind(0), context.output_kind()
    if after.quant is None or after.quant != before.quant or after.dtype is not before.dtype or after.quant.per_channel:
        return None
    lowest, highest = after.dtype.integer_range
    if context.node.op == "Relu":
        return ClampAtZeroPoint(after.quant.zero_point[0], highest)
    limits = [lowest, highest]
    for index in (1, 2):
        if not context.has(index):
            continue
        bound = context.constant(index)
        if bound is None or bound.size != 1:
            return None
        steps = np.rint(float(bound.reshape(())) / after.quant.scale[0]) + after.quant.zero_point[0]
        limits[index - 1] = int(np.clip(steps, lowest, highest))
    return ClampAtZeroPoint(*limits)


def build_table(context: NodeContext, operator: RealOperator) -> Kernel | None:
    """Return a table kernel of an element-wise operator, or None when its operands are too wide or too many."""
    node, output = context.node, context.output_kind()
    if output.quant is None or output.quant.per_channel or node.op not in UNARY | BINARY:
        return None
    changing = [
        index
        for index, name in enumerate(node.inputs)
        if name and (name not in context.graph.constants or context.graph.constants[name].size != 1)
    ]
    limit = _TABLE_BITS.get(len(changing))
    if limit is None or (len(changing) > 1 and changing != [0, 1]):
        return None
    for index in changing:
        kind = context.input_kind(index)
        if kind.quant is None or kind.quant.per_channel or 8 * kind.dtype.size_bytes > limit:
            return None
    return _filled(context, operator, changing)


def _filled(context: NodeContext, operator: RealOperator, changing: list[int]) -> Kernel:
    values: list[AnyArray | None] = []
    for index, name in enumerate(context.node.inputs):
        if not name:
            values.append(None)
        elif index in changing:
            kind = context.input_kind(index)
            reals = reals_of(all_values(kind), kind)
            values.append(reals.reshape(-1, 1) if len(changing) == 2 and index == changing[0] else reals)
        else:
            kind, constant = context.input_kind(index), context.graph.constants[name]
            values.append(constant.reshape(()) if kind.quant is None else reals_of(constant.reshape(()), kind))
    results = np.asarray(operator(values)[0], dtype=np.float64)
    entries = context.store().from_reals(results).reshape(-1)
    return Table(changing[0], entries) if len(changing) == 1 else PairTable(entries)
