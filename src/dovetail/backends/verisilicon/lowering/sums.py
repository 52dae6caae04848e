"""What the vendor's compiler makes of sums and differences of two byte tensors.

Derived on the vendor's simulator from all 65536 pairs of stored values under random scales.
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from dovetail.backends.verisilicon.generation import CONVERTING, NEWEST, Generation
from dovetail.backends.verisilicon.program import Route
from dovetail.backends.verisilicon.views import OperatorView, ProgramView, is_stored, scale_of
from dovetail.ir import DType

_WIDEST_SCALE = 2.0
"""The adder takes operands of at most so many output steps."""
_NEAR, _FAR = 2.0, 20.0
"""Ratios of the operands' scales that make no byte weights any more: where a scale is above 1, and where none is."""
CONVOLUTIONS = frozenset({"conv2d", "grouped_conv2d"})
_LAYERS = frozenset({"fully_connected"})
_LONGEST_CHAIN = 2


def sum_route(item: OperatorView) -> Route:
    """Return what computes a sum by itself; a convolution with two byte weights is the array's."""
    exact = Route.STREAM if item.generation is Generation.STREAM else Route.SHADER
    if not _adds_bytes(item):
        return exact
    taken = item.whole.makers.keys().isdisjoint(item.operator.inputs)
    if item.made().dtype is DType.U8 and item.generation in NEWEST and taken:
        # Two tensors of unsigned bytes that the graph takes are a shader's.
        return exact
    return _adding_route(item) or exact


def joined_operators(whole: ProgramView, index: int) -> tuple[int, ...]:
    """Return the operators that are computed together with a sum: a convolution, and its ReLU; of two the earlier.

    A constant that is added to one row of a fully connected layer becomes its bias.

    Empty where the sum is computed by itself. What is subtracted is always computed before.
    """
    item = whole.operators[index]
    layer = _layer(whole, item)
    if layer:
        return layer
    in_fixed_point = item.in_fixed_point and item.made().dtype is DType.I8 and _has_two_alike(item)
    if item.generation in CONVERTING or not (in_fixed_point or _adds_bytes(item)):
        return ()
    if _adding_route(item) is not Route.ADDER:
        return ()
    if item.made().dtype is DType.I8 and item.kept and not in_fixed_point:
        return ()
    first, second = item.operator.inputs
    added = (first,) if item.operator.kind == "sub" else (first, second)
    chains = [product_before(whole, tensor, ("relu",)) for tensor in added]
    return min((chain for chain in chains if chain), default=())


def _layer(whole: ProgramView, item: OperatorView) -> tuple[int, ...]:
    """Return the layer without a bias, and the reshaping of its one row, to which a constant is added."""
    fits = item.operator.kind == "add" and item.is_stored and (item.in_fixed_point or item.made().dtype is DType.U8)
    positions = [index for index in (0, 1) if item.is_constant(index)]
    if not fits or len(positions) != 1 or item.shape(0) != item.shape(1):
        return ()
    chain = product_before(whole, item.operator.inputs[1 - positions[0]], ("reshape",), _LAYERS)
    if not chain:
        return ()
    layer = whole.operators[chain[0]]
    has_one_row = layer.made_shape()[0] == 1 and layer.is_stored
    return chain if has_one_row and layer.operator.inputs[2] < 0 else ()


def _adds_bytes(item: OperatorView) -> bool:
    """Tell whether it adds two tensors of one shape and of affine bytes that no shader has to take."""
    dtype = item.made().dtype
    unsigned = dtype is DType.U8 and (item.generation not in CONVERTING or _inside(item))
    return (unsigned or dtype is DType.I8) and not item.in_fixed_point and _has_two_alike(item)


def _has_two_alike(item: OperatorView) -> bool:
    """Tell whether it has two operands of one shape, stored in the type of the result."""
    kinds, inputs = (item.kind(0), item.kind(1)), item.operator.inputs
    alike = all(is_stored(kind) and kind.dtype is item.made().dtype for kind in kinds)
    return alike and inputs[0] != inputs[1] and kinds[0].shape == kinds[1].shape


def _inside(item: OperatorView) -> bool:
    """Tell whether the graph neither takes nor gives an operand."""
    return item.whole.edges.isdisjoint(item.operator.inputs)


def _adding_route(item: OperatorView) -> Route | None:
    """Return the adder, the array for a convolution, or None."""
    rank, generation, made = len(item.made_shape()), item.generation, item.made()
    first, second = scale_of(item.kind(0)), scale_of(item.kind(1))
    if generation not in CONVERTING:
        flat = rank < 3 and generation is not Generation.STREAM
        if not flat and np.float32(max(first, second) / scale_of(made)) <= _WIDEST_SCALE:
            return Route.ADDER
    fixed = any(item.is_constant(index) for index in (0, 1))
    if rank < 4 or fixed or (generation is Generation.STREAM and made.dtype is not DType.I8):
        return None
    if generation in NEWEST and 0 < len(item.kept) < 3:
        return None
    ratio = max(first, second) / min(first, second)
    return Route.ARRAY if ratio < (_NEAR if max(first, second) > 1.0 else _FAR) else None


def product_before(
    whole: ProgramView, tensor: int, through: Container[str] = (), to: Container[str] = CONVOLUTIONS
) -> tuple[int, ...]:
    """Return the product, and what it goes `through`, that make a tensor for one reader only; empty where none does."""
    chain: list[int] = []
    while len(chain) < _LONGEST_CHAIN:
        maker = whole.makers.get(tensor)
        if maker is None or whole.reader_count(tensor) != 1 or tensor in whole.edges:
            return ()
        chain.insert(0, maker)
        operator = whole.program.operators[maker]
        if operator.kind in to:
            return tuple(chain)
        if operator.kind not in through:
            return ()
        tensor = operator.inputs[0]
    return ()
