"""What the vendor's compiler makes of sums and differences of two byte tensors.

Derived on the vendor's simulator from all 65536 pairs of stored values under random scales.
"""

from __future__ import annotations

import numpy as np

from dovetail.backends.verisilicon.generation import CONVERTING, NEWEST, Generation
from dovetail.backends.verisilicon.program import Route
from dovetail.backends.verisilicon.views import OperatorView, ProgramView, is_stored, scale_of
from dovetail.ir import DType

_WIDEST_SCALE = 2.0
"""The adder takes operands of at most so many output steps."""
_NEAR, _FAR = 2.0, 20.0
"""Ratios of the operands' scales that make no byte weights any more: where a scale is above 1, and where none is."""
_CONVOLUTIONS = frozenset({"conv2d", "grouped_conv2d"})
_LONGEST_CHAIN = 2


def sum_route(item: OperatorView) -> Route:
    """Return what computes a sum by itself; a convolution with two byte weights is the array's."""
    exact = Route.STREAM if item.generation is Generation.STREAM else Route.SHADER
    if not _adds_bytes(item):
        return exact
    if item.made().dtype is DType.U8 and item.generation in NEWEST and not _inside(item):
        # Unsigned bytes that the graph takes or gives are a shader's.
        return exact
    return _adding_route(item) or exact


def joined_operators(whole: ProgramView, index: int) -> tuple[int, ...]:
    """Return the operators that are computed together with a sum: a convolution, and its ReLU; of two the earlier.

    Empty where the sum is computed by itself.
    """
    item = whole.operators[index]
    if item.generation not in NEWEST or not _adds_bytes(item) or _adding_route(item) is not Route.ADDER:
        return ()
    if item.made().dtype is DType.I8 and item.kept:
        return ()
    chains = [_chain(whole, tensor) for tensor in item.operator.inputs]
    return min((chain for chain in chains if chain), default=())


def _adds_bytes(item: OperatorView) -> bool:
    """Tell whether it adds two tensors of one shape and of affine bytes that no shader has to take."""
    dtype, inputs = item.made().dtype, item.operator.inputs
    unsigned = dtype is DType.U8 and (item.generation not in CONVERTING or _inside(item))
    if not (unsigned or dtype is DType.I8) or item.in_fixed_point or inputs[0] == inputs[1]:
        return False
    kinds = (item.kind(0), item.kind(1))
    return all(is_stored(kind) and kind.dtype is dtype for kind in kinds) and kinds[0].shape == kinds[1].shape


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


def _chain(whole: ProgramView, tensor: int) -> tuple[int, ...]:
    """Return the convolution, and its ReLU, that make a tensor for one reader only; empty for another maker."""
    chain: list[int] = []
    while len(chain) < _LONGEST_CHAIN:
        maker = whole.makers.get(tensor)
        if maker is None or whole.reader_count(tensor) != 1 or tensor in whole.edges:
            return ()
        chain.insert(0, maker)
        operator = whole.program.operators[maker]
        if operator.kind in _CONVOLUTIONS:
            return tuple(chain)
        if operator.kind != "relu":
            return ()
        tensor = operator.inputs[0]
    return ()
