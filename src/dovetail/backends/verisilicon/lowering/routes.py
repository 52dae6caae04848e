"""What computes each operator of a program: decided here once, from types, shapes and roles.

Derived on the vendor's simulator, from its records of engines and from what each engine's arithmetic gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dovetail.backends.verisilicon.generation import CONVERTING, NEWEST, OLDEST, Generation
from dovetail.backends.verisilicon.lowering.padding import LONGEST_SWEPT
from dovetail.backends.verisilicon.lowering.sums import CONVOLUTIONS, sum_route
from dovetail.backends.verisilicon.program import Code, ProgramOperator, Quant, Route, TensorRole
from dovetail.backends.verisilicon.reductions import WIDEST_WINDOW, is_window, merged
from dovetail.backends.verisilicon.views import OperatorView, ProgramView, exceeds_tables
from dovetail.ir import DType, TensorType

PRODUCTS = frozenset({"conv2d", "deconv2d", "fully_connected", "grouped_conv2d", "matmul"})
_SUMS = frozenset({"add", "sub"})
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
_CHANNELS = 2
"""Where the shape of a plane's tensor has its channels."""
_PLANE = 3
"""Axes that are all 1 where a function is left to a shader: channels, height and width."""
_FLAT = 4
"""Axes of a tensor whose means a stream processor takes."""
_MEAN, _COUNTED, _MOST_AVERAGE = 0, 1, 1
"""Codes of a reduction by its mean, of an average that counts its padding, and the last of a pooling that averages."""


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
    if is_average(item) and _averages_on_array(item):
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


def is_average(item: OperatorView) -> bool:
    """Tell whether an operator is a pooling by averages, or a mean."""
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
