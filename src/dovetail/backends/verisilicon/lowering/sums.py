"""What the vendor's compiler makes of sums and differences of two byte tensors.

Derived on the vendor's simulator from all 65536 pairs of stored values under random scales.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.generation import CONVERTING, NEWEST, Generation
from dovetail.backends.verisilicon.lowering.tabled import is_narrow
from dovetail.backends.verisilicon.program import Code, ProgramOperator, Route, TensorRole
from dovetail.backends.verisilicon.views import OperatorView, ProgramView, is_stored, scale_of
from dovetail.ir import DType

_WIDEST_SCALE = 2.0
"""The adder takes operands of at most so many output steps."""
_WIDEST_FIXED = 8.0
"""As much of dynamic fixed point that joins a convolution."""
_NEAR, _FAR = 2.0, 20.0
"""Ratios of the operands' scales that make no byte weights any more: where a scale is above 1, and where none is."""
CONVOLUTIONS = frozenset({"conv2d", "grouped_conv2d"})
_GROUPED = "grouped_conv2d"
"""A convolution that the compiler cuts into one for each group: its result is made of parts, and no sum joins it."""
_TRANSPOSED = frozenset({"deconv2d"})
_UNCUT = CONVOLUTIONS - {_GROUPED}
LAYERS = frozenset({"fully_connected"})
_LONGEST_CHAIN = 3
_POINT, _SQUARE = (1, 1), (3, 3)
"""Windows of the two convolutions that some networks are trained with side by side."""


def sum_route(item: OperatorView) -> Route:
    """Return what computes a sum by itself; a convolution with two byte weights is the array's."""
    exact = _exact_route(item)
    grouped = _adds_groups(item)
    if not _adds_bytes(item) or _reads_parts(item) or (grouped and item.generation in CONVERTING):
        return exact
    taken = item.whole.makers.keys().isdisjoint(_sources(item))
    if item.made().dtype is DType.U8 and item.generation in NEWEST and taken:
        # Two tensors of unsigned bytes that the graph takes are a shader's.
        return exact
    route = _adding_route(item)
    if route is Route.ARRAY and (grouped or any(is_part(item.whole, tensor) for tensor in item.operator.inputs)):
        return exact
    return route or exact


def in_one_sum_each(whole: ProgramView, operators: Sequence[ProgramOperator]) -> list[ProgramOperator]:
    """Return the operators with an exact form of the sums that the array does not take.

    It reads two operands side by side, and a tensor lies beside one other only: in the sum that the compiler comes to
    first. Measured with 13 arrangements of up to three sums on A311D and i.MX 8M Plus.
    """
    found, beside = list(operators), set[int]()
    for index in sorted(range(len(found)), key=whole.visits.__getitem__):
        operator = found[index]
        if operator.kind not in ("add", "sub") or operator.route is not Route.ARRAY or operator.joins:
            continue
        item = whole.operators[index]
        # Signed bytes are converted first, and what is seen with another shape is converted by itself.
        sources = operator.inputs if item.made().dtype is DType.I8 else _sources(item)
        if beside.isdisjoint(sources):
            beside.update(sources)
        else:
            found[index] = replace(operator, route=_exact_route(item))
    return found


def _adds_groups(item: OperatorView) -> bool:
    """Tell whether it adds a grouped convolution of unsigned bytes: signed ones are converted, a ReLU makes one piece.

    The operand may be seen with another shape.
    """
    whole, sources = item.whole, _sources(item)
    makers = [whole.program.operators[whole.makers[tensor]].kind for tensor in sources if tensor in whole.makers]
    return item.made().dtype is DType.U8 and _GROUPED in makers


def _exact_route(item: OperatorView) -> Route:
    return Route.STREAM if item.generation is Generation.STREAM else Route.SHADER


def _reads_parts(item: OperatorView) -> bool:
    """Tell whether a shader has to take a sum because of operands that lie within other tensors.

    In older parts it is one of them that matters, in newer ones without a stream processor both. Measured with 29 kinds
    of operands on V853, T527, A733 and A311D.
    """
    found = [is_part(item.whole, tensor) for tensor in item.operator.inputs]
    return any(found) if item.generation in CONVERTING else item.generation in NEWEST and all(found)


def added_order(item: OperatorView) -> tuple[int, ...]:
    """Return the operands of a sum in the order in which the adder takes them: what lies within another is the second.

    Beside a stream processor they stay as they are.
    """
    first, second = item.operator.inputs
    turned = item.generation in NEWEST and is_part(item.whole, first) and not is_part(item.whole, second)
    return (second, first) if turned else (first, second)


def is_part(whole: ProgramView, tensor: int) -> bool:
    """Tell whether a tensor lies in one piece within another one, and is not copied.

    It is a slice of one inside the graph, or goes into a Concat that stores it as it is.
    """
    maker = whole.makers.get(tensor)
    if maker is None or not _is_inside(whole, tensor):
        return False
    if any(_lies_within(whole, tensor, into) for into in _views_of(whole, tensor)):
        return True
    operator = whole.program.operators[maker]
    inner = whole.program.tensors[operator.inputs[0]].role is TensorRole.INNER
    return operator.kind == "strided_slice" and inner and _lies_within(whole, tensor, operator.inputs[0])


def _is_inside(whole: ProgramView, tensor: int) -> bool:
    """Tell whether a tensor lies in memory as the compiler likes; signed bytes that are converted lie as they are."""
    return whole.program.tensors[tensor].role is TensorRole.INNER or (
        whole.program.generation in CONVERTING and tensor not in whole.edges
    )


def _views_of(whole: ProgramView, tensor: int) -> list[int]:
    """Return what a Concat makes of a tensor that copies nothing: all that it joins is stored as the whole is.

    Signed bytes leave newer parts as other ones.
    """
    tensors = whole.program.tensors
    joins = [reader for reader in whole.readers.get(tensor, ()) if reader.kind == "concat"]
    alike = [
        reader.outputs[0]
        for reader in joins
        if len({tensors[one].form for one in (*reader.inputs, *reader.outputs)}) == 1
    ]
    if whole.program.generation in CONVERTING:
        return alike
    return [into for into in alike if tensors[into].role is TensorRole.INNER or tensors[into].form.code is Code.U8]


def _lies_within(whole: ProgramView, tensor: int, other: int) -> bool:
    """Tell whether a tensor is one piece of another: cut along its outermost axis."""
    tensors = whole.program.tensors
    sizes, taken = tensors[other].shape, tensors[tensor].shape
    cut = [axis for axis, (size, left) in enumerate(zip(sizes, taken, strict=True)) if size != left]
    return all(size == 1 for size in sizes[cut[0] + 1 :]) if cut else True


def joined_operators(whole: ProgramView, index: int) -> tuple[int, ...]:
    """Return the operators that are computed together with a sum: a convolution, and its ReLU.

    A layer of one row is a convolution there; a constant that is added to it becomes its bias, or part of that.

    Empty where the sum is computed by itself. What is subtracted is always computed before.
    """
    item = whole.operators[index]
    layer = biased_layer(whole, item) or wide_pair(whole, item)
    if layer:
        return layer
    in_fixed_point = item.in_fixed_point and item.made().dtype is DType.I8 and has_two_alike(item)
    if item.generation in CONVERTING or not (in_fixed_point or _adds_bytes(item)):
        return ()
    first, second = item.operator.inputs
    added = (first,) if item.operator.kind == "sub" else (first, second)
    if first == second:
        # Both operands are read as they are stored.
        return ()
    chains = [chain for tensor in added if (chain := summed_before(whole, tensor, ("relu",)))]
    row = any(_is_row(whole.operators[chain[0]]) for chain in chains)
    if item.generation is not Generation.STREAM and _adding_route(item, flat=not row) is not Route.ADDER:
        return ()
    if item.made().dtype is DType.I8 and not in_fixed_point and (item.kept or _is_clamped_on_leaving(item)):
        return ()
    return () if _takes_square_from_point(whole, item) else _joined_chain(whole, chains)


def summed_before(whole: ProgramView, tensor: int, through: tuple[str, ...] = ()) -> tuple[int, ...]:
    """Return the convolution, or the layer of one row, that a sum may be computed with, and what lies between them.

    A kernel of two points is stored before. A constant in the bias of a convolution lies between.
    """
    return _product_alone(whole, tensor, through) or _biased_convolution(whole, tensor, through)


def biased_before(whole: ProgramView, tensor: int, readers: int = 1) -> tuple[int, ...]:
    """Return the product, its reshaping, and the sum with a constant that make a tensor for so many readers."""
    maker = whole.makers.get(tensor)
    if maker is None or whole.operators[maker].operator.kind != "add":
        return ()
    layer = biased_layer(whole, whole.operators[maker])
    alone = whole.reader_count(tensor) == readers and tensor not in whole.edges
    return (*layer, maker) if alone and layer else ()


def _biased_convolution(whole: ProgramView, tensor: int, through: tuple[str, ...]) -> tuple[int, ...]:
    chain, maker = biased_before(whole, tensor), whole.makers.get(tensor)
    if maker is not None and whole.operators[maker].operator.kind in through and whole.reader_count(tensor) == 1:
        before = biased_before(whole, whole.operators[maker].operator.inputs[0])
        chain = (*before, maker) if before and tensor not in whole.edges else ()
    product = whole.operators[chain[0]] if chain else None
    return () if product is None or product.operator.kind not in CONVOLUTIONS or is_narrow(product) else chain


def _product_alone(whole: ProgramView, tensor: int, through: tuple[str, ...] = ()) -> tuple[int, ...]:
    found = product_before(whole, tensor, through)
    if found:
        product = whole.operators[found[0]]
        if product.operator.kind == _GROUPED:
            return ()
        return () if is_narrow(product) else found
    chain = product_before(whole, tensor, (*through, "reshape"), CONVOLUTIONS | LAYERS)
    return chain if chain and _is_row(whole.operators[chain[0]]) else ()


def _is_row(product: OperatorView) -> bool:
    """Tell whether a product makes one row, or one point, of more than one value; a layer of one is a shader's."""
    shape = product.made_shape()
    return product.is_stored and math.prod(shape) == shape[1] and math.prod(product.shape()) > 1


def wide_pair(whole: ProgramView, item: OperatorView) -> tuple[int, ...]:
    """Return the convolution that an operator of two operands reads as the array has it, or none.

    Beside a stream processor only, of 16 bits, and products of bytes but for affine signed ones that are kept; the
    other operand is computed before, and what is subtracted always is.
    """
    first, second = item.operator.inputs
    alike = item.is_stored and has_two_alike(item) and not (item.is_constant(0) or item.is_constant(1))
    bytes_alike = item.in_fixed_point or item.made().dtype is DType.U8 or not item.kept
    multiplied = item.operator.kind == "mul" and bytes_alike
    wide = multiplied or item.made().dtype is DType.I16
    if item.generation is not Generation.STREAM or not wide or not alike:
        return ()
    chains = [
        summed_before(whole, tensor, ("relu",))
        for tensor in ((first,) if item.operator.kind == "sub" else (first, second))
    ]
    joined = [chain for chain in chains if chain]
    if _takes_square_from_point(whole, item):
        return ()
    return first_visited(whole, joined) if item.operator.kind == "mul" else _joined_chain(whole, joined)


def _joined_chain(whole: ProgramView, chains: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return which of the products before a sum is joined: the one that the compiler comes to first.

    Of convolutions with windows of 3 x 3 and of 1 x 1 that are added it is the former, but for depthwise ones.
    """
    windows = [_window(whole, chain) for chain in chains]
    return chains[windows.index(_SQUARE)] if sorted(windows) == [_POINT, _SQUARE] else first_visited(whole, chains)


def _takes_square_from_point(whole: ProgramView, item: OperatorView) -> bool:
    """Tell whether a convolution of 3 x 3 is taken from one of 1 x 1 that is come to before it: both are stored."""
    if item.operator.kind != "sub":
        return False
    point, square = (summed_before(whole, tensor) for tensor in item.operator.inputs)
    windows = (_window(whole, point), _window(whole, square))
    return windows == (_POINT, _SQUARE) and whole.visits[point[0]] < whole.visits[square[0]]


def _window(whole: ProgramView, chain: Sequence[int]) -> tuple[int, ...]:
    """Return the window of a product that nothing lies behind; none of a depthwise convolution."""
    product = whole.operators[chain[0]] if len(chain) == 1 else None
    return () if product is None or _is_depthwise(product) else product.shape(1)[2:] or _POINT


def _is_depthwise(product: OperatorView) -> bool:
    return product.operator.kind == "conv2d" and product.ints[10] > 1


def first_visited(whole: ProgramView, chains: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the chain to which the compiler comes first, or none."""
    return min(chains, key=lambda chain: whole.visits[chain[0]], default=())


def biased_layer(whole: ProgramView, item: OperatorView) -> tuple[int, ...]:
    """Return the layer, and the reshaping of its one row, or the convolution to whose bias a constant is added.

    Numbers of channels go into the bias of a convolution, without a stream processor of a transposed one, too.
    """
    fits = item.operator.kind == "add" and item.is_stored and (item.in_fixed_point or item.made().dtype is DType.U8)
    positions = [index for index in (0, 1) if item.is_constant(index)]
    if not fits or len(positions) != 1:
        return ()
    if item.is_of_channels(positions[0]):
        data, stream = item.operator.inputs[1 - positions[0]], item.generation is Generation.STREAM
        chain = product_before(whole, data, (), _UNCUT if stream else _UNCUT | _TRANSPOSED)
        chain = chain or _product_alone(whole, data)
        # Seen with another shape, its channels are others.
        return chain if chain and whole.operators[chain[0]].made_shape()[1] == item.made_shape()[1] else ()
    if item.shape(0) != item.shape(1):
        return ()
    layer = row_before(whole, item.operator.inputs[1 - positions[0]])
    wide = item.generation is Generation.V7_BYTES and item.made().dtype is DType.I16
    # Products of 16 bits are a shader's there, and of one feature they are stored.
    return () if layer and wide and whole.operators[layer[0]].made_shape()[-1] == 1 else layer


def row_before(whole: ProgramView, tensor: int, readers: int = 1) -> tuple[int, ...]:
    """Return the layer, and the reshaping of its one row, that make a tensor for so many readers; else none."""
    chain = product_before(whole, tensor, ("reshape",), LAYERS, readers)
    if not chain:
        return ()
    layer = whole.operators[chain[0]]
    # A layer of one feature is a shader's.
    return chain if layer.made_shape()[0] == 1 and layer.is_stored and layer.shape()[-1] > 1 else ()


def _adds_bytes(item: OperatorView) -> bool:
    """Tell whether it adds two tensors of one shape and of affine bytes that no shader has to take."""
    dtype = item.made().dtype
    unsigned = dtype is DType.U8 and (item.generation not in CONVERTING or _inside(item))
    return (unsigned or dtype is DType.I8) and not item.in_fixed_point and has_two_alike(item)


def has_two_alike(item: OperatorView) -> bool:
    """Tell whether it has two operands of one shape, stored in the type of the result, and is no multiple of one."""
    kinds, inputs = (item.kind(0), item.kind(1)), item.operator.inputs
    alike = all(is_stored(kind) and kind.dtype is item.made().dtype for kind in kinds)
    multiple = inputs[0] == inputs[1] and _is_multiple(item)
    return alike and not multiple and kinds[0].shape == kinds[1].shape


def _is_multiple(item: OperatorView) -> bool:
    return item.operator.kind != "add" or item.whole.makers[item.operator.outputs[0]] in item.whole.rewrites.doubled


def _inside(item: OperatorView) -> bool:
    """Tell whether the graph neither takes nor gives an operand."""
    return item.whole.edges.isdisjoint(_sources(item))


def _sources(item: OperatorView) -> list[int]:
    """Return the operands as they were before they were only seen with another shape."""
    whole, found = item.whole, []
    for tensor in item.operator.inputs:
        source = tensor
        while source in whole.makers and whole.program.operators[whole.makers[source]].kind == "reshape":
            source = whole.program.operators[whole.makers[source]].inputs[0]
        found.append(source)
    return found


def _is_clamped_on_leaving(item: OperatorView) -> bool:
    """Tell whether a ReLU clamps a sum as it leaves the graph, and is one with it: in the generation after VIP9000."""
    if item.generation is not Generation.VIP9000_PLUS:
        return False
    output = item.operator.outputs[0]
    clamps = [other for other in item.whole.operators if other.operator.inputs[0] == output]
    return any(other.operator.kind == "relu" and other.operator.outputs[0] in item.whole.edges for other in clamps)


def _adding_route(item: OperatorView, *, flat: bool = True) -> Route | None:
    """Return the adder, the array for a convolution, or None; `flat`: two axes are too few for the adder."""
    rank, generation, made = len(item.made_shape()), item.generation, item.made()
    first, second = scale_of(item.kind(0)), scale_of(item.kind(1))
    if generation not in CONVERTING:
        flat = flat and rank < 3 and generation is not Generation.STREAM
        widest = _WIDEST_FIXED if item.in_fixed_point else _WIDEST_SCALE
        if not flat and np.float32(max(first, second) / scale_of(made)) <= widest:
            return Route.ADDER
    fixed = any(item.is_constant(index) for index in (0, 1))
    if rank < 4 or fixed or (made.dtype is not DType.I8 and (generation is Generation.STREAM or not _inside(item))):
        return None
    if generation in NEWEST and made.dtype is DType.I8 and 0 < len(item.kept) < 3:
        return None
    ratio = max(first, second) / min(first, second)
    return Route.ARRAY if ratio < (_NEAR if max(first, second) > 1.0 else _FAR) else None


def product_before(
    whole: ProgramView,
    tensor: int,
    through: Container[str] = (),
    to: Container[str] = CONVOLUTIONS,
    readers: int = 1,
) -> tuple[int, ...]:
    """Return the product, and what it goes `through`, that make a tensor for so many readers; empty where none does."""
    chain: list[int] = []
    while len(chain) < _LONGEST_CHAIN:
        maker = whole.makers.get(tensor)
        if maker is None or whole.reader_count(tensor) != (1 if chain else readers) or tensor in whole.edges:
            return ()
        chain.insert(0, maker)
        operator = whole.program.operators[maker]
        if operator.kind in to:
            return tuple(chain)
        if operator.kind not in through:
            return ()
        tensor = operator.inputs[0]
    return ()
