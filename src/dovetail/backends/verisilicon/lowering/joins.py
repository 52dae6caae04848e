"""What the vendor's compiler computes each operator of a program together with: decided here once.

Derived on the vendor's simulator, from what its results give.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace

from dovetail.backends.verisilicon.generation import CONVERTING, NEWEST, Generation
from dovetail.backends.verisilicon.lowering.routes import PRODUCTS, is_average, route_of
from dovetail.backends.verisilicon.lowering.sums import (
    CONVOLUTIONS,
    LAYERS,
    added_order,
    biased_before,
    biased_layer,
    first_visited,
    has_two_alike,
    in_one_sum_each,
    joined_operators,
    product_before,
    row_before,
    summed_before,
    wide_pair,
)
from dovetail.backends.verisilicon.lowering.tabled import reads_array, reads_bytes
from dovetail.backends.verisilicon.program import Program, ProgramOperator, Route
from dovetail.backends.verisilicon.reductions import WIDEST_WINDOW, is_window
from dovetail.backends.verisilicon.views import OperatorView, ProgramView
from dovetail.ir import DType

_SUMS = frozenset({"add", "sub"})
_CONVOLUTIONS = CONVOLUTIONS | {"deconv2d"}
_EXTREMES = frozenset({"maximum", "minimum"})
_UNGROUPED = frozenset({"conv2d"})
_GATE_AND_PRODUCT = 2
_PLANE = 3
"""Axes of a single point of several channels."""
_PAIR = 2
"""Elements of a row whose layer is a table with the function behind it."""
_FEWEST_ADDED = 4
"""Channels of an average to which the adder adds at once."""


def _gate(whole: ProgramView, index: int) -> tuple[int, ...]:
    """Return the sigmoid by which a product gates its own input: the vendor's compiler has a table of both.

    Affine signed bytes that the memory keeps stay two operators; those that it does not are unsigned ones inside.
    """
    item = whole.operators[index]
    if not item.is_stored or (item.made().dtype is DType.I8 and not item.in_fixed_point and item.kept):
        return ()
    gate = whole.rewrites.gates.get(index)
    if gate is None:
        return wide_pair(whole, item) or _paired_average(whole, item)
    between = _views_between(whole, gate, item)
    if between:
        # Of 16 bits it is neither one table nor two.
        return () if item.made().dtype is DType.I16 else (gate, *between)
    return (*_gated(whole, item, whole.program.operators[gate].inputs[0]), gate)


def _views_between(whole: ProgramView, gate: int, product: OperatorView) -> tuple[int, ...]:
    """Return the changes of shape through which a product reads a gate."""
    for tensor in product.operator.inputs:
        found: list[int] = []
        while (maker := whole.makers.get(tensor)) is not None and whole.program.operators[maker].kind == "reshape":
            found.append(maker)
            tensor = whole.program.operators[maker].inputs[0]
        if maker == gate:
            return tuple(found)
    return ()


def _gated(whole: ProgramView, item: OperatorView, tensor: int) -> tuple[int, ...]:
    """Return the product whose results a gate and its product alone read, as the array has them."""
    return _tabled(whole, item, tensor, _GATE_AND_PRODUCT) if item.generation is Generation.STREAM else ()


def _tabled(whole: ProgramView, item: OperatorView, tensor: int, readers: int = 1) -> tuple[int, ...]:
    """Return the product, and what it is seen through, that a table behind the array is of, beside a stream processor.

    In 16 bits it may be a layer of one row, and what is in its bias; of unsigned bytes and of fixed point such a layer
    with a bias, or of two elements (others of 3 to 24 are stored before), or an average.
    """
    chain = product_before(whole, tensor, ("reshape",), _CONVOLUTIONS, readers)
    if chain:
        return chain if reads_array(item, whole.operators[chain[0]]) else ()
    if item.made().dtype is DType.I16:
        row = row_before(whole, tensor, readers) or biased_before(whole, tensor, readers)
        return row or _average_before(whole, tensor, readers)
    if not reads_bytes(item) or (item.made().dtype is DType.I8 and not item.in_fixed_point):
        return ()
    row = row_before(whole, tensor, readers)
    if row and whole.operators[row[0]].shape()[-1] == _PAIR:
        return row
    return biased_before(whole, tensor, readers) or _average_before(whole, tensor, readers)


def _slope(whole: ProgramView, index: int) -> tuple[int, ...]:
    """Return the product whose affine bytes a LeakyRelu would scale: the array's output does, in newer parts.

    It is a convolution without groups, perhaps seen with another shape, or a layer of one row, and with it the constant
    in its bias.
    """
    item = whole.operators[index]
    if item.generation in CONVERTING or not item.is_stored or item.in_fixed_point or item.made().dtype is DType.I16:
        return ()
    data = item.operator.inputs[0]
    biased = _biased_one_of(whole, data, _UNGROUPED | LAYERS)
    found = product_before(whole, data, ("reshape",), _UNGROUPED) or row_before(whole, data) or biased
    average = _average_before(whole, data)
    return found or (average if len(average) > 1 else ())


def _slopes(whole: ProgramView, index: int) -> tuple[int, ...]:
    """Return the product whose affine unsigned bytes a PRelu would scale, as LeakyRelu does; signed ones are stored."""
    item = whole.operators[index]
    if item.generation in CONVERTING or not item.is_stored or item.made().dtype is not DType.U8:
        return ()
    data = item.operator.inputs[0]
    return (
        product_before(whole, data, (), _UNGROUPED)
        or row_before(whole, data)
        or _biased_one_of(whole, data, _UNGROUPED)
    )


def _biased_one_of(whole: ProgramView, tensor: int, kinds: Container[str]) -> tuple[int, ...]:
    """Return the product of some kinds and the sum with a constant that make a tensor."""
    chain = biased_before(whole, tensor)
    return chain if chain and whole.operators[chain[0]].operator.kind in kinds else ()


def _conversion(whole: ProgramView, index: int) -> tuple[int, ...]:
    """Return the convolution of 16 bits, and its ReLU, whose result is stored once more: the array stores it so."""
    item = whole.operators[index]
    if not item.is_stored or item.kind().dtype is not DType.I16 or item.made().dtype is not DType.I16:
        return ()
    if item.operator.inputs[0] in item.kept:
        return ()
    chain = product_before(whole, item.operator.inputs[0], ("relu",))
    return chain if chain and route_of(whole.operators[chain[0]]) is Route.ARRAY else ()


def _clamp(whole: ProgramView, index: int) -> tuple[int, ...]:
    """Return the convolution that a ReLU clamps, perhaps seen with another shape: it is stored once, as the ReLU is.

    Affine signed bytes are stored before where the shape changes, and in parts that convert them. Parts without a
    stream processor join no clamp with an upper bound.
    """
    item = whole.operators[index]
    bounded = item.operator.kind == "clip" and (item.generation is not Generation.STREAM or item.floats[0] != 0.0)
    if not item.is_stored or bounded or item.kind().dtype is not item.made().dtype:
        return ()
    data = item.operator.inputs[0]
    chain = product_before(whole, data, ("reshape",)) or _average_before(whole, data)
    if not chain or item.kind().quant == item.made().quant:
        return ()
    affine = item.made().dtype is DType.I8 and not item.in_fixed_point
    product = whole.operators[chain[0]].operator.kind in PRODUCTS
    if affine and (len(chain) > 1 or item.generation in CONVERTING or not product):
        return ()
    return chain if route_of(whole.operators[chain[0]]) is Route.ARRAY else ()


def _function(whole: ProgramView, index: int) -> tuple[int, ...]:
    """Return the product whose results a function reads as the array has them, beside a stream processor."""
    item = whole.operators[index]
    alike = item.is_stored and item.kind().dtype is item.made().dtype
    return _tabled(whole, item, item.operator.inputs[0]) if alike and item.generation is Generation.STREAM else ()


def _added(whole: ProgramView, index: int) -> tuple[int, ...]:
    """Return what a sum with a constant is computed with: what a convolution averages, or channels times a constant.

    Those are a bias, and a batch normalisation. Not of affine signed bytes, whose constants are converted first.
    """
    item = whole.operators[index]
    joins = joined_operators(whole, index)
    affine = item.made().dtype is DType.I8 and not item.in_fixed_point
    if joins or affine or not item.is_stored:
        return joins
    for position, tensor in enumerate(item.operator.inputs):
        maker = _only_maker(whole, tensor)
        if maker is None or not item.is_constant(1 - position):
            continue
        source, each = whole.operators[maker], item.is_of_channels(1 - position)
        scaled = each and source.operator.kind == "mul" and any(source.is_of_channels(side) for side in (0, 1))
        if scaled or (_is_averaged_by_array(source) and _fits_bias(source, item, 1 - position)):
            return (maker,)
        if _is_added_behind(source, item):
            return (maker,)
    return _paired_average(whole, item)


def _extreme(whole: ProgramView, index: int) -> tuple[int, ...]:
    """Return the convolution or the average that an extreme of two tensors reads as the array has it, or none.

    Beside a stream processor only, and not of affine signed bytes, which are kept. The other operand is stored before;
    of a convolution and an average that is the average.
    """
    item = whole.operators[index]
    affine = item.made().dtype is DType.I8 and not item.in_fixed_point
    if item.generation is not Generation.STREAM or affine or not has_two_alike(item):
        return ()
    chains = [chain for tensor in item.operator.inputs if (chain := summed_before(whole, tensor))]
    return first_visited(whole, chains) or _paired_average(whole, item)


def _paired_average(whole: ProgramView, item: OperatorView) -> tuple[int, ...]:
    """Return the average that an operator of two tensors reads as the array has it, or none.

    As convolutions are; what is subtracted is stored before, and sums of unsigned bytes read a copy. Of newer parts
    without a stream processor it is sums of bytes in fixed point alone.
    """
    operator, made = item.operator, item.made()
    fixed_bytes, added = made.dtype is DType.I8 and item.in_fixed_point, operator.kind in _SUMS
    if item.generation is Generation.STREAM:
        reads = fixed_bytes or made.dtype is DType.I16 or (made.dtype is DType.U8 and not added)
    else:
        reads = item.generation in NEWEST and fixed_bytes and added
    if not reads or not has_two_alike(item) or operator.inputs[0] == operator.inputs[1]:
        return ()
    if item.is_constant(0) or item.is_constant(1):
        return ()
    inputs = operator.inputs[:1] if operator.kind == "sub" else operator.inputs
    through = () if operator.kind in _EXTREMES else ("relu",)
    return first_visited(whole, [chain for tensor in inputs if (chain := _average_behind(whole, tensor, through))])


def _average_behind(whole: ProgramView, tensor: int, through: Container[str]) -> tuple[int, ...]:
    """Return the average that makes a tensor for one reader, and what it may go `through`."""
    maker = _only_maker(whole, tensor)
    if maker is None or whole.operators[maker].operator.kind not in through:
        return _average_before(whole, tensor)
    average = _average_before(whole, whole.operators[maker].operator.inputs[0])
    return (*average, maker) if average else ()


def _subtracted(whole: ProgramView, index: int) -> tuple[int, ...]:
    return joined_operators(whole, index) or _paired_average(whole, whole.operators[index])


def _is_added_behind(average: OperatorView, item: OperatorView) -> bool:
    """Tell whether the adder adds to an average that is no single window: of 16 bits beside a stream processor only.

    Fewer than four channels are stored first elsewhere: measured on V853 and A733 with 1 to 6.
    """
    if not is_average(average) or route_of(average) is not Route.ARRAY or _is_averaged_by_array(average):
        return False
    channels, stream = average.made_shape()[1], item.generation is Generation.STREAM
    fits = stream or (item.made().dtype is DType.U8 and channels >= _FEWEST_ADDED)
    return fits and channels > 1 and item.shape(0) == item.shape(1)


def _fits_bias(average: OperatorView, item: OperatorView, index: int) -> bool:
    """Tell whether a constant goes into the bias of an average: one number, or one a channel.

    Of several windows a plane the latter is added by a shader in older parts, in 16 bits and in fixed point.
    """
    if math.prod(item.shape(index)) == 1:
        return True
    shape = average.made_shape()
    single = math.prod(shape[2:]) == 1 or len(shape) <= _PLANE
    shaded = item.generation in CONVERTING or item.made().dtype is DType.I16 or item.in_fixed_point
    return item.is_of_channels(index) and (single or not shaded)


def _average_before(whole: ProgramView, tensor: int, readers: int = 1) -> tuple[int, ...]:
    """Return the average on the array, and the sum with a constant in its bias, that make a tensor for its readers."""
    maker = _only_maker(whole, tensor, readers)
    if maker is None or not whole.operators[maker].is_stored:
        return ()
    if _is_averaged_by_array(whole.operators[maker]):
        return (maker,)
    item = whole.operators[maker]
    biased = item.operator.kind == "add" and any(item.is_constant(side) for side in (0, 1))
    added = _added(whole, maker) if biased else ()
    return (*added, maker) if len(added) == 1 and _is_averaged_by_array(whole.operators[added[0]]) else ()


def _only_maker(whole: ProgramView, tensor: int, readers: int = 1) -> int | None:
    """Return the operator that makes a tensor for so many readers only."""
    return whole.makers.get(tensor) if whole.reader_count(tensor) == readers and tensor not in whole.edges else None


def _is_averaged_by_array(item: OperatorView) -> bool:
    """Tell whether an average is one convolution, which others are computed with.

    Parts that only count elements have another form of means over what is no window of their array. Measured on V853
    with 71 rows and 97 planes.
    """
    if not is_average(item) or route_of(item) is not Route.ARRAY:
        return False
    made = math.prod(item.made_shape())
    return item.operator.kind == "pool2d" or made == 1 or is_window(math.prod(item.shape()) // made, WIDEST_WINDOW)


_JOINED_FUNCTIONS = (
    "atan",
    "celu",
    "elu",
    "erf",
    "gelu",
    "hard_swish",
    "mish",
    "reciprocal",
    "selu",
    "sigmoid",
    "softplus",
    "softsign",
    "tanh",
)
_JOINED = {
    **dict.fromkeys(_JOINED_FUNCTIONS, _function),
    "add": _added,
    "clip": _clamp,
    "data_convert": _conversion,
    "leaky_relu": _slope,
    "maximum": _extreme,
    "minimum": _extreme,
    "mul": _gate,
    "prelu": _slopes,
    "relu": _clamp,
    "sub": _subtracted,
}
"""Operators that the vendor's compiler joins with earlier ones, and which those are."""


def with_routes(program: Program) -> Program:
    """Return the program with what computes each operator, and which are computed together."""
    view = ProgramView(program)
    operators: list[ProgramOperator] = []
    for index, item in enumerate(view.operators):
        kind = item.operator.kind
        joins = _JOINED[kind](view, index) if kind in _JOINED else ()
        # A product with a gate is a table where the gate is one.
        first = view.operators[joins[0]] if joins else item
        summed = kind in _SUMS and joins and joins != biased_layer(view, item)
        paired = summed and joins == _paired_average(view, item)
        behind = summed and (first.operator.kind in PRODUCTS or paired or _is_added_behind(first, item))
        route = Route.ADDER if behind else route_of(first)
        inputs = added_order(item) if kind == "add" and route is Route.ADDER and not joins else item.operator.inputs
        operators.append(replace(item.operator, inputs=inputs, route=route, joins=joins))
    return replace(program, operators=tuple(in_one_sum_each(view, operators)))
