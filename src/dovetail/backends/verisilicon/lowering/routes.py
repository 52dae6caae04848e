"""What computes each operator of a program: decided here once, from types, shapes and roles.

Derived on the vendor's simulator, from its records of engines and from what each engine's arithmetic gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dovetail.backends.verisilicon.generation import CONVERTING, NEWEST, OLDEST, Generation
from dovetail.backends.verisilicon.lowering.padding import LONGEST_SWEPT
from dovetail.backends.verisilicon.lowering.sums import (
    CONVOLUTIONS,
    added_order,
    biased_layer,
    in_one_sum_each,
    joined_operators,
    product_before,
    row_before,
    sum_route,
    wide_pair,
)
from dovetail.backends.verisilicon.lowering.tabled import reads_array, reads_bytes
from dovetail.backends.verisilicon.program import Code, Program, ProgramOperator, Quant, Route, TensorRole
from dovetail.backends.verisilicon.reductions import WIDEST_WINDOW, is_window, merged
from dovetail.backends.verisilicon.views import OperatorView, ProgramView, exceeds_tables
from dovetail.ir import DType, TensorType

PRODUCTS = frozenset({"conv2d", "deconv2d", "fully_connected", "grouped_conv2d", "matmul"})
_SUMS = frozenset({"add", "sub"})
_CONVOLUTIONS = CONVOLUTIONS | {"deconv2d"}
_UNGROUPED = frozenset({"conv2d"})
_TABLES = frozenset(
    {
        *("abs", "atan", "celu", "clip", "elu", "erf", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "log"),
        *("mish", "neg", "reciprocal", "relu", "selu", "sigmoid", "softsign", "square", "swish", "tan", "tanh"),
    }
)
"""Functions that the tensor processor has tables of, or copies with."""
_FILLED_BY_DRIVER = frozenset({"abs", "gelu", "hard_swish", "leaky_relu", "relu", "sigmoid", "square", "swish", "tanh"})
"""Those that the driver leaves to a shader where the input has more than 15 bits behind the point."""
_MOVEMENTS = frozenset(
    {
        *("concat", "data_convert", "depth_to_space", "lrn", "pad", "reshape", "reverse", "space_to_depth"),
        *("strided_slice", "tile", "transpose"),
    }
)
"""What else the tensor processor does."""
_SHADED_BESIDE_A_STREAM = frozenset({"acosh", "atanh", "batch_norm", "cos", "exp", "sin"})
"""What a part with a stream processor gives to a shader in 16 bits, or computes as one does (batch_norm)."""
_GATE_AND_PRODUCT = 2
_CHANNELS = 2
"""Where the shape of a plane's tensor has its channels."""
_PLANE = 3
"""Axes that are all 1 where a function is left to a shader: channels, height and width."""
_FLAT = 4
"""Axes of a tensor whose means a stream processor takes."""
_PAIR = 2
"""Elements of a row whose layer is a table with the function behind it."""
_FEWEST_ADDED = 4
"""Channels of an average to which the adder adds at once."""
_MEAN, _COUNTED, _MOST_AVERAGE = 0, 1, 1
"""Codes of a reduction by its mean, of an average that counts its padding, and the last of a pooling that averages."""


def _gate(whole: ProgramView, index: int) -> tuple[int, ...]:
    """Return the sigmoid by which a product gates its own input: the vendor's compiler has a table of both.

    Affine signed bytes that the memory keeps stay two operators; those that it does not are unsigned ones inside.
    """
    item = whole.operators[index]
    if not item.is_stored or (item.made().dtype is DType.I8 and not item.in_fixed_point and item.kept):
        return ()
    gate = whole.rewrites.gates.get(index)
    if gate is None:
        return wide_pair(whole, item)
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
        row = row_before(whole, tensor, readers) or _biased_row(whole, tensor, readers)
        return row or _average_before(whole, tensor, readers)
    if not reads_bytes(item) or (item.made().dtype is DType.I8 and not item.in_fixed_point):
        return ()
    row = row_before(whole, tensor, readers)
    if row and whole.operators[row[0]].shape()[-1] == _PAIR:
        return row
    return _biased_row(whole, tensor, readers) or _average_before(whole, tensor, readers)


def _slope(whole: ProgramView, index: int) -> tuple[int, ...]:
    """Return the product whose affine bytes a LeakyRelu would scale: the array's output does, in newer parts.

    It is a convolution without groups, perhaps seen with another shape, or a layer of one row, and with it the constant
    in its bias.
    """
    item = whole.operators[index]
    if item.generation in CONVERTING or not item.is_stored or item.in_fixed_point or item.made().dtype is DType.I16:
        return ()
    data = item.operator.inputs[0]
    found = product_before(whole, data, ("reshape",), _UNGROUPED) or row_before(whole, data) or _biased_row(whole, data)
    average = _average_before(whole, data)
    return found or (average if len(average) > 1 else ())


def _slopes(whole: ProgramView, index: int) -> tuple[int, ...]:
    """Return the product whose affine unsigned bytes a PRelu would scale, as LeakyRelu does; signed ones are stored."""
    item = whole.operators[index]
    if item.generation in CONVERTING or not item.is_stored or item.made().dtype is not DType.U8:
        return ()
    data = item.operator.inputs[0]
    return product_before(whole, data, (), _UNGROUPED) or row_before(whole, data)


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


def _biased_row(whole: ProgramView, tensor: int, readers: int = 1) -> tuple[int, ...]:
    """Return the layer of one row, its reshaping, and the sum with a constant that make a tensor for its readers."""
    maker = whole.makers.get(tensor)
    if maker is None or whole.operators[maker].operator.kind != "add":
        return ()
    layer = biased_layer(whole, whole.operators[maker])
    alone = whole.reader_count(tensor) == readers and tensor not in whole.edges
    return (*layer, maker) if alone and layer else ()


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
        source, each = whole.operators[maker], _is_of_channels(item, 1 - position)
        scaled = each and source.operator.kind == "mul" and any(_is_of_channels(source, side) for side in (0, 1))
        if scaled or (_is_averaged_by_array(source) and _fits_bias(source, item, 1 - position)):
            return (maker,)
        if _is_added_behind(source, item):
            return (maker,)
    return ()


def _is_added_behind(average: OperatorView, item: OperatorView) -> bool:
    """Tell whether the adder adds to an average that is no single window: of 16 bits beside a stream processor only.

    Fewer than four channels are stored first elsewhere: measured on V853 and A733 with 1 to 6.
    """
    if not _is_average(average) or route_of(average) is not Route.ARRAY or _is_averaged_by_array(average):
        return False
    channels, stream = average.made_shape()[1], item.generation is Generation.STREAM
    fits = stream or (item.made().dtype is DType.U8 and channels >= _FEWEST_ADDED)
    return fits and channels > 1 and item.shape(0) == item.shape(1)


def _fits_bias(average: OperatorView, item: OperatorView, index: int) -> bool:
    """Tell whether a constant goes into the bias of an average: one number, or one a channel.

    Of several windows a plane the latter is added by a shader in older parts, and in 16 bits.
    """
    if math.prod(item.shape(index)) == 1:
        return True
    shape = average.made_shape()
    single = math.prod(shape[2:]) == 1 or len(shape) <= _PLANE
    shaded = item.generation in CONVERTING or item.made().dtype is DType.I16
    return _is_of_channels(item, index) and (single or not shaded)


def _average_before(whole: ProgramView, tensor: int, readers: int = 1) -> tuple[int, ...]:
    """Return the average on the array, and the sum with a constant in its bias, that make a tensor for its readers."""
    maker = _only_maker(whole, tensor, readers)
    if maker is None or not whole.operators[maker].is_stored:
        return ()
    if _is_averaged_by_array(whole.operators[maker]):
        return (maker,)
    added = _added(whole, maker) if whole.operators[maker].operator.kind == "add" else ()
    return (*added, maker) if len(added) == 1 and _is_averaged_by_array(whole.operators[added[0]]) else ()


def _only_maker(whole: ProgramView, tensor: int, readers: int = 1) -> int | None:
    """Return the operator that makes a tensor for so many readers only."""
    return whole.makers.get(tensor) if whole.reader_count(tensor) == readers and tensor not in whole.edges else None


def _is_averaged_by_array(item: OperatorView) -> bool:
    """Tell whether an average is one convolution, which others are computed with.

    Parts that only count elements have another form of means over what is no window of their array. Measured on V853
    with 71 rows and 97 planes.
    """
    if not _is_average(item) or route_of(item) is not Route.ARRAY:
        return False
    made = math.prod(item.made_shape())
    return item.operator.kind == "pool2d" or made == 1 or is_window(math.prod(item.shape()) // made, WIDEST_WINDOW)


def _is_of_channels(item: OperatorView, index: int) -> bool:
    """Tell whether an operand is a constant with a number for each of several channels."""
    shape, made = item.shape(index), item.made_shape()
    several = len(shape) == len(made) and len(made) > 1 and shape[1] == made[1] > 1
    return item.is_constant(index) and several and math.prod(shape) == shape[1]


_JOINED_FUNCTIONS = (
    "elu",
    "erf",
    "gelu",
    "hard_swish",
    "mish",
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
    "mul": _gate,
    "prelu": _slopes,
    "relu": _clamp,
    "sub": joined_operators,
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
        behind = summed and (first.operator.kind in PRODUCTS or _is_added_behind(first, item))
        route = Route.ADDER if behind else route_of(first)
        inputs = added_order(item) if kind == "add" and route is Route.ADDER and not joins else item.operator.inputs
        operators.append(replace(item.operator, inputs=inputs, route=route, joins=joins))
    return replace(program, operators=tuple(in_one_sum_each(view, operators)))


def route_of(item: OperatorView) -> Route:
    """Return what computes an operator by itself."""
    kind = item.operator.kind
    if kind in PRODUCTS:
        fixed = item.is_constant(1)
        return Route.SHADER if product_in_shader(item, fixed=fixed) else Route.ARRAY
    if not item.is_stored:
        return Route.PROCESSOR if kind in _MOVEMENTS and item.made().dtype is not DType.F32 else Route.SHADER
    if kind in _SUMS:
        return sum_route(item)
    if _is_average(item) and _averages_on_array(item):
        return Route.ARRAY
    if kind == "data_convert" and _is_converted_in_shader(item):
        return Route.SHADER
    if item.generation is Generation.STREAM:
        return _beside_a_stream(item)
    single = kind in _TABLES and all(size == 1 for size in item.made_shape()[-_PLANE:])
    if single or (kind in _FILLED_BY_DRIVER and exceeds_tables(item)):
        return Route.SHADER
    return Route.PROCESSOR if kind in _TABLES | _MOVEMENTS else Route.SHADER


def _beside_a_stream(item: OperatorView) -> Route:
    kind, wide = item.operator.kind, item.made().dtype is DType.I16
    fixed = wide or item.in_fixed_point
    spread = kind == "div" and item.shape(0) != item.shape(1)
    shaded = (
        spread or kind == "pow" or (kind in ("lrn", "resize") and fixed) or (kind in _SHADED_BESIDE_A_STREAM and wide)
    )
    return Route.SHADER if shaded else Route.STREAM


def product_in_shader(item: OperatorView, *, fixed: bool) -> bool:
    """Tell whether a shader computes a product, in float32 and without a multiplier of the array; `fixed`: by weights.

    Parts with a stream processor give every product of integers to the array: those of two tensors and padded
    transposed convolutions, too.
    """
    data, weight = item.kind(0), item.kind(1)
    if data.quant is None or weight.quant is None:
        return True
    if item.operator.kind == "deconv2d" and item.generation is not Generation.STREAM and _grows_in_shader(item):
        return True
    if item.operator.kind in CONVOLUTIONS and item.generation in OLDEST and max(item.shape()[2:]) > LONGEST_SWEPT:
        return True
    return product_is_shaded(item.generation, data, weight, fixed=fixed)


def product_is_shaded(generation: Generation, data: TensorType, weight: TensorType, *, fixed: bool) -> bool:
    """Tell whether a shader computes a product of integers of these types; `fixed` where the second is constant."""
    if generation is Generation.STREAM:
        return False
    wide = data.dtype is DType.I16
    if not fixed:
        return wide or generation in CONVERTING
    per_channel = weight.quant is not None and len(weight.quant.scale) > 1
    return (per_channel and generation in CONVERTING) or (wide and generation is Generation.V7_BYTES)


def _grows_in_shader(item: OperatorView) -> bool:
    """Tell whether a transposed convolution has output padding, and its kernels lie side by side, unpadded.

    Only then is more than they give new. Measured on kernels of 2, 3 and 4 with strides of 2 and 3.
    """
    kernel, strides, pads, extra = item.ints[:2], item.ints[2:4], item.ints[4:8], item.ints[8:10]
    plain = not any(pads) and any(extra)
    return plain and all(size % step == 0 for size, step in zip(kernel, strides, strict=True))


def _is_average(item: OperatorView) -> bool:
    kind = item.operator.kind
    return (kind == "pool2d" and item.ints[0] <= _MOST_AVERAGE) or (kind == "reduce" and item.ints[0] == _MEAN)


def _averages_on_array(item: OperatorView) -> bool:
    """Tell whether an average is a convolution there: with strides of 1 or 2, over a small window.

    It is unpadded, or counts its padding. The oldest parts have a shader for pairs along a row.
    """
    if item.kind(0).dtype is DType.I16 and item.generation is Generation.V7_BYTES:
        return False
    widest = 11 if item.generation in OLDEST else WIDEST_WINDOW
    if item.operator.kind == "pool2d":
        kernel, strides, rest = item.ints[1:3], item.ints[3:5], item.ints[5:]
        whole = not any(rest) or (item.ints[0] == _COUNTED and not rest[-1])
        paired = kernel == (2, 1) and strides == (1, 1) and item.generation in OLDEST
        return whole and strides in ((1, 1), (2, 2)) and max(kernel) <= widest and not paired
    sizes = item.shape()[::-1]
    if len(sizes) == _FLAT and item.generation is Generation.STREAM:
        return False
    # A row of what is then a tensor of three axes.
    seen = merged(sizes, item.ints[2:])
    return seen.places == (0,) and seen.rank == _PLANE and _count_on_array(item, _count(sizes, seen.axes[0]), widest)


def _count(sizes: Sequence[int], axes: Sequence[int]) -> int:
    return math.prod(sizes[axis] for axis in axes)


def _count_on_array(item: OperatorView, count: int, widest: int) -> bool:
    """Tell whether the mean of so many elements is a convolution: of a row of a tensor of three axes, or of a plane.

    Of a plane that is a row or a column it is none. Older parts may see the elements with other sides, newer ones count
    them. Measured on nine parts with 85 planes with sides from 1 to 29, in 16 bits, where 7 bits of a weight tell the
    array's mean from the exact one, and on five parts with 12 rows of 2 to 226 elements.
    """
    if item.generation in (*NEWEST, Generation.STREAM):
        return count <= widest**2
    return is_window(count, widest)


def _is_converted_in_shader(item: OperatorView) -> bool:
    """Tell whether a shader converts between stored forms: a single element, and affine signed bytes in older parts.

    There they become unsigned ones first, and one conversion is made of both where nothing else reads either. What is
    kept in 16 bits, has several readers or becomes a part of another tensor is copied by the tensor processor. Measured
    with random bytes and 30 kinds of neighbours on A311D and i.MX 8M Plus.
    """
    if math.prod(item.made_shape()) == 1:
        return True
    read = item.whole.program.tensors[item.operator.inputs[0]].form
    signed = read.code is Code.I8 and read.quant is Quant.AFFINE
    if item.generation not in CONVERTING or not signed or item.whole.reader_count(item.operator.inputs[0]) != 1:
        return False
    made = item.made().dtype
    return (made is DType.I16 and _has_one_reader(item)) or (made is DType.I8 and not item.in_fixed_point)


def _has_one_reader(item: OperatorView) -> bool:
    """Tell whether one operator reads a result inside the graph, perhaps seen with another shape, and copies it.

    A sigmoid and the product that it gates are one where the compiler makes one table of them.
    What a concatenation of tensors that are all stored as it is reads is a part of its result from the beginning, and
    what a convolution of groups reads is cut into those.
    """
    whole, tensor = item.whole, item.operator.outputs[0]
    tensors = whole.program.tensors
    while True:
        readers = whole.readers.get(tensor, ())
        if tensors[tensor].role is TensorRole.INNER and _are_gated(whole, readers):
            return True
        if tensors[tensor].role is not TensorRole.INNER or len(readers) != 1:
            return False
        (reader,) = readers
        if reader.kind == "grouped_conv2d" and reader.groups < tensors[tensor].shape[_CHANNELS]:
            return False
        if reader.kind != "reshape":
            return reader.kind != "concat" or len({tensors[one].form for one in (*reader.inputs, *reader.outputs)}) > 1
        tensor = reader.outputs[0]


def _are_gated(whole: ProgramView, readers: Sequence[ProgramOperator]) -> bool:
    """Tell whether operators are a sigmoid and the product with it that become one table."""
    places = {whole.makers[reader.outputs[0]] for reader in readers}
    return any(places == {*pair} for pair in whole.rewrites.gates.items())
