"""Convolutions and matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.generation import NEWEST, Generation
from dovetail.backends.verisilicon.lowering.grouping import copied_for_groups
from dovetail.backends.verisilicon.lowering.padding import pad_apart
from dovetail.backends.verisilicon.lowering.sweeping import (
    check_reach,
    convolve_between,
    even_steps,
    fill_kernel,
    thin_out,
)
from dovetail.backends.verisilicon.lowering.tiny import emit_product
from dovetail.backends.verisilicon.lowering.view import NO_TENSOR, NodeView
from dovetail.backends.verisilicon.program import Quant
from dovetail.backends.verisilicon.translate import fraction_bits
from dovetail.backends.verisilicon.windows import PlaneWindow
from dovetail.ir import AnyArray, DType, Quantization, TensorType

_BYTES = (DType.U8, DType.I8)
_MIDDLE = 128
_FINEST_FACTOR = 2.0**-26
"""The smallest step of 16 bits that a shader's product of two tensors reads: measured on V853 and A311D."""


def read_window(
    view: NodeView, kernel: Sequence[int], sizes: Sequence[int], *, transposed: bool = False, pooled: bool = False
) -> PlaneWindow:
    """Return the window of a node; refuse what the vendor's compiler would run with garbage.

    A window over one axis gets a first one of 1.
    """
    node, rank = view.node, len(sizes)
    view.need(rank in (1, 2), f"{rank} spatial axes (1 and 2 are possible)")
    view.need(len(kernel) == rank, f"a window of {len(kernel)} axes over {rank}")
    strides = node.integers("strides") or (1,) * rank
    dilations = node.integers("dilations") or (1,) * rank
    pads = node.integers("pads") or (0,) * (2 * rank)
    view.need(len(strides) == rank and len(dilations) == rank and len(pads) == 2 * rank, "its window is inconsistent")
    limit = view.draft.part.wide_windows if pooled else view.draft.part.wide_kernels
    spread = [step * (size - 1) + 1 for step, size in zip(dilations, kernel, strict=True)]
    view.need(all(size >= 1 for size in kernel), "a kernel size is not positive")
    view.need(max(kernel) <= limit, f"kernel {'x'.join(map(str, kernel))} > {limit}")
    view.need(all(1 <= step <= 63 for step in strides), f"strides {list(strides)} (1 to 63 are possible)")
    view.need(all(1 <= step <= 63 for step in dilations), f"dilations {list(dilations)} (1 to 63 are possible)")
    mode = node.text("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER") and not transposed:
        pads = _same(sizes, spread, strides, lower=mode == "SAME_LOWER")
    else:
        view.need(mode in ("NOTSET", "VALID"), f"auto_pad={mode!r}")
    view.need(all(pad >= 0 for pad in pads), "a pad is negative")
    narrow = all(pad < size for pad, size in zip(pads, (*spread, *spread), strict=True))
    reach = "x".join(map(str, spread))
    view.need(narrow, f"a pad is as wide as its kernel: {list(pads)} around {reach} (narrower ones are possible)")
    if not transposed:
        for axis, size in enumerate(sizes):
            view.need(spread[axis] <= size + pads[axis] + pads[rank + axis], "its window is larger than its input")
    if rank == 1:
        return PlaneWindow((1, kernel[0]), (1, strides[0]), (1, dilations[0]), ((0, 0), (pads[0], pads[1])))
    pairs = [(sizes[0], sizes[1]) for sizes in (kernel, strides, dilations)]
    return PlaneWindow(pairs[0], pairs[1], pairs[2], ((pads[0], pads[2]), (pads[1], pads[3])))


def _same(sizes: Sequence[int], spread: Sequence[int], strides: Sequence[int], *, lower: bool) -> tuple[int, ...]:
    begins: list[int] = []
    ends: list[int] = []
    for size, wide, stride in zip(sizes, spread, strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + wide - size, 0)
        small, large = total // 2, total - total // 2
        begins.append(large if lower else small)
        ends.append(small if lower else large)
    return (*begins, *ends)


def check_formats(view: NodeView, weight: TensorType) -> None:
    """Refuse pairs of formats that the vendor's compiler refuses, or takes for another."""
    data, made = view.kind(0), view.made()
    if data.quant is None and made.quant is None and weight.quant is None:
        view.need(data.dtype is made.dtype, "its input and output are floats of different widths")
        view.need(data.dtype in (DType.F32, DType.F16, DType.BF16), f"it has no {data.dtype.value} form", always=True)
        return
    view.need(
        data.quant is not None and made.quant is not None and weight.quant is not None,
        "some of input, weight and output are quantised and some are not",
    )
    view.need(data.dtype is made.dtype, f"its input is {data.dtype.value} but its output {made.dtype.value}")
    if data.dtype in _BYTES:
        view.need(weight.dtype in _BYTES, f"{data.dtype.value} activations with {weight.dtype.value} weights")
        per_tensor = weight.quant is not None and weight.quant.axis is None
        view.need(not per_tensor or weight.dtype is data.dtype, f"{data.dtype.value} with {weight.dtype.value} weights")
    else:
        view.need(data.dtype is DType.I16, f"{data.dtype.value} activations")
        view.need(weight.dtype is DType.I16, f"16-bit activations with {weight.dtype.value} weights")


def read_weight(view: NodeView) -> tuple[AnyArray, TensorType]:
    """Return the constant weight and its type; refuse formats that the vendor's compiler refuses.

    One output channel has one scale for the tensor: as one per channel with a bias it ends the compiler of VIP9000
    parts (SIGSEGV).
    """
    value, kind = view.constant(1), view.kind(1)
    quant = kind.quant
    if quant is not None and quant.per_channel and len(quant.scale) == 1:
        move = _MIDDLE if view.kind(0).dtype is DType.U8 and kind.dtype is DType.I8 else 0
        dtype = DType.U8 if move else kind.dtype
        value = (value.astype(np.int16) + move).astype(dtype.carrier)
        kind = TensorType(dtype, kind.shape, Quantization(quant.scale, (quant.zero_point[0] + move,)))
    check_formats(view, kind)
    return value, kind


def make_bias(view: NodeView, index: int, weight: TensorType, channels: int) -> int:
    """Return the id of a bias that fits input and weight, or NO_TENSOR when there is none."""
    if not view.has(index):
        return NO_TENSOR
    value, kind = view.constant(index), view.kind(index)
    view.need(value.size == channels and value.ndim <= 2, f"its bias has {value.size} elements for {channels} channels")
    flat = replace(kind, shape=(channels,))
    data = view.kind(0).quant
    if data is None or weight.quant is None:
        view.need(kind.quant is None, "its bias is quantised but its input is not")
        # The shaders read 16-bit floats with a float32 bias.
        return view.hold(value.reshape(-1).astype(np.float32), TensorType(DType.F32, (channels,)))
    view.need(kind.dtype in (DType.I32, DType.I64) and kind.quant is not None, "its bias is not a wide integer")
    assert kind.quant is not None
    products = _products(data, weight.quant)
    wanted = products * (len(kind.quant.scale) if len(products) == 1 else 1)
    fits = len(kind.quant.scale) == len(wanted) and np.allclose(kind.quant.scale, wanted, rtol=1e-5, atol=0.0)
    view.need(fits, "its bias is not at the scale of input times weight")
    fixed = view.form(view.input(0)).quant is Quant.FIXED_POINT
    return view.hold(value.reshape(-1), _bias_type(flat, products), fixed_point=fixed)


def _products(data: Quantization, weight: Quantization) -> tuple[float, ...]:
    """Return the scales of input times weight in float32, none below its smallest normal number."""
    found = np.float32(data.scale[0]) * np.asarray(weight.scale, np.float32)
    return tuple(np.maximum(found, np.finfo(np.float32).tiny).tolist())


def _bias_type(kind: TensorType, products: tuple[float, ...]) -> TensorType:
    """Return a bias type at exactly the product of the scales: the vendor's compiler compares them."""
    zeros = (0,) * len(products)
    quant = Quantization(products, zeros, 0 if len(products) > 1 else None)
    exact = fraction_bits(kind.quant) if kind.quant is not None and kind.quant.axis is None else None
    dtype = DType.I64 if exact is not None and kind.dtype is DType.I64 else DType.I32
    return replace(kind, dtype=dtype, quant=quant)


def lower_convolution(view: NodeView) -> None:
    """Lower Conv: dense, grouped or depthwise, over one or two axes."""
    value, weight = read_weight(view)
    sizes, group = view.shape(0), view.node.integer("group", 1)
    view.need(value.ndim == len(sizes), "its weight has another rank than its input")
    channels, made = sizes[1], value.shape[0]
    view.need(group >= 1 and channels % group == 0 and made % group == 0, f"{group} groups of {channels} -> {made}")
    view.need(value.shape[1] == channels // group, f"its weight reads {value.shape[1]} of {channels // group} channels")
    declared = view.node.integers("kernel_shape")
    view.need(not declared or declared == value.shape[2:], "kernel_shape is not the shape of its weight")
    window = read_window(view, value.shape[2:], sizes[2:])
    flat = len(sizes) == 3
    plane = (1, sizes[2]) if flat else sizes[2:]
    result = window.outputs(plane)
    view.expect((sizes[0], made, *(result[1:] if flat else result)))
    data, out = view.input(0), view.output()
    if flat:
        value = value.reshape(made, value.shape[1], 1, -1)
        data = view.reshaped(data, (sizes[0], channels, *plane))
        out = view.new(replace(view.made(), shape=(sizes[0], made, *result)))
    value, window = fill_kernel(view, value, weight, even_steps(window))
    data, window = pad_apart(view, data, replace(view.kind(0), shape=(sizes[0], channels, *plane)), window)
    depthwise = group == channels and group > 1
    check_reach(view, data, weight, window, depthwise=depthwise)
    half = view.kind(0).dtype is DType.F16 and group > 1 and not depthwise
    view.need(not half, "a grouped 16-bit float convolution does not compile")
    grouped = group > 1 and not depthwise
    if grouped:
        data = copied_for_groups(view, data)
    by_channel = weight.quant is not None and weight.quant.axis is not None and view.draft.part.converts_signed_bytes
    told = f"a grouped convolution with a scale per channel over a batch of {sizes[0]} does not compile"
    view.need(not (grouped and by_channel and sizes[0] > 1), f"{told} (one scale, or a batch of 1, is possible)")
    shaded = view.kind(0).dtype is DType.I16 and view.draft.part.generation is Generation.V7_BYTES
    told = f"a grouped convolution at 16 bits over a batch of {sizes[0]} does not compile"
    view.need(not (grouped and shaded and sizes[0] > 1), f"{told} (8 bits, or a batch of 1, is possible)")
    if depthwise:
        weights = _depthwise(view, value, weight)
    else:
        weights = view.hold(value, replace(weight, shape=tuple(value.shape)))
    bias = make_bias(view, 2, weight, made)
    # Without a bias the compiler ends on grouped signed bytes.
    if bias == NO_TENSOR and (
        (depthwise and view.kind(0).dtype is DType.I16) or (grouped and weight.quant is not None)
    ):
        bias = _no_bias(view, weight, made)
    tail = (*window.dilations[::-1], group, made // channels if depthwise else 0, made)
    kind = "grouped_conv2d" if grouped else "conv2d"
    swept = convolve_between(view, weight, window)
    rows_columns = swept.outputs(view.draft.tensors[data].shape[1::-1])
    full = out if swept == window else view.new(replace(view.made(), shape=(sizes[0], made, *rows_columns)))
    view.emit(kind, (data, weights, bias), (full,), (*swept.parameters, *tail))
    if full != out:
        thin_out(view, full, out)
    if flat:
        view.emit("reshape", (out,), (view.output(),), tuple(reversed(view.made_shape())))


def _no_bias(view: NodeView, weight: TensorType, channels: int) -> int:
    """Return the id of a bias of zeros.

    Without one the depthwise 3x3 kernel of 16 bits gives garbage on the part whose shaders compute it (s905d3):
    measured in a process of its own, where 2x2 and 1x1 kernels and those with a bias are right.
    """
    data = view.kind(0).quant
    assert data is not None
    assert weight.quant is not None
    products = _products(data, weight.quant)
    kind = TensorType(DType.I64, (channels,), Quantization(products, (0,) * len(products), weight.quant.axis))
    fixed = view.form(view.input(0)).quant is Quant.FIXED_POINT
    return view.hold(np.zeros(channels, np.int64), _bias_type(kind, products), fixed_point=fixed)


def _depthwise(view: NodeView, value: AnyArray, weight: TensorType) -> int:
    """Return the id of a depthwise weight: channels are its third dimension there, and its fourth is 1."""
    quant = weight.quant
    if quant is not None and quant.axis is not None:
        quant = Quantization(quant.scale, quant.zero_point, 1)
    made, _, height, width = value.shape
    shape = (1, made, height, width)
    return view.hold(value.reshape(shape), TensorType(weight.dtype, shape, quant))


def lower_transposed(view: NodeView) -> None:
    """Lower ConvTranspose over two axes, one group."""
    value, weight = read_weight(view)
    sizes = view.shape(0)
    view.need(len(sizes) == 4 and value.ndim == 4, f"{len(sizes) - 2} spatial axes (2 are possible)")
    view.need(view.node.integer("group", 1) == 1, "groups of a transposed convolution (1 is possible)")
    view.need(value.shape[0] == sizes[1], "its weight reads another number of channels")
    view.need(not view.node.integers("output_shape"), "output_shape is given; give pads")
    window = read_window(view, value.shape[2:], sizes[2:], transposed=True)
    view.need(
        window.dilations == (1, 1), f"dilations {list(window.dilations)} of a transposed convolution (1 is possible)"
    )
    extra = view.node.integers("output_padding") or (0, 0)
    result = [
        step * (size - 1) + grow + wide - sum(pads)
        for step, size, grow, wide, pads in zip(
            window.strides, sizes[2:], extra, window.kernel, window.paddings, strict=True
        )
    ]
    made = value.shape[1]
    view.expect((sizes[0], made, *result))
    quant = weight.quant
    if quant is not None and quant.axis is not None:
        view.need(quant.axis == 1, "its weight has scales along another axis than the output channels")
        quant = Quantization(quant.scale, quant.zero_point, 0)
    turned = value.transpose(1, 0, 2, 3)
    if result == [1, 1]:
        _one_pixel(view, turned, replace(weight, quant=quant), window)
        return
    _check_transposed(view, weight, window, result)
    weights = view.hold(turned, TensorType(weight.dtype, tuple(turned.shape), quant))
    bias = make_bias(view, 2, weight, made)
    ints = (*window.parameters, *extra[::-1], 1, made)
    view.emit("deconv2d", (view.input(0), weights, bias), (view.output(),), ints)


def _check_transposed(view: NodeView, weight: TensorType, window: PlaneWindow, result: Sequence[int]) -> None:
    """Refuse transposed convolutions that end the compiler or the simulator, or are garbage.

    Measured on V853, A311D, RK1808 and i.MX 8M Plus: where padding takes all that strides add (planes of 2 x 2), and
    kernels of 2 x 2 side by side, with a bias and scales of channels, of a single channel.
    """
    generation, (_, channels, *plane) = view.draft.part.generation, view.shape(0)
    grown = window.strides == (1, 1) or list(result) != plane or generation is Generation.STREAM
    told = f"a transposed convolution with strides {list(window.strides)} that makes {plane[0]} x {plane[1]} of as many"
    view.need(grown, f"{told} comes out as garbage, or ends the simulator")
    by_channel = weight.quant is not None and weight.quant.axis is not None and view.draft.part.converts_signed_bytes
    side_by_side = window.kernel == window.strides == (2, 2) and not any(map(any, window.paddings))
    view.need(
        not (by_channel and side_by_side and view.has(2) and channels == 1 and view.made_shape()[1] > 1),
        "a transposed convolution of one channel with kernels of 2 x 2 side by side, a bias and a scale per channel "
        "does not compile (no bias, one scale, or more channels are possible)",
    )


def _one_pixel(view: NodeView, turned: AnyArray, weight: TensorType, window: PlaneWindow) -> None:
    """Emit a transposed convolution of which one pixel is left: a convolution over the whole input.

    The vendor's ends the simulator where that has one channel and is garbage where it has more, but for kernels of
    1 x 1 and of 3 x 3 that do not stride: measured on V853, A311D and i.MX 8M Plus. `turned` is the weight as `[out,
    in, rows, columns]`, of which each input reads what it gives to the pixel.
    """
    made, width, _, _ = turned.shape
    sizes = view.shape(0)[2:]
    limit = view.draft.part.wide_kernels
    view.need(max(sizes) <= limit, f"one pixel is left of {'x'.join(map(str, sizes))} ({limit}x{limit} are possible)")
    zero = 0 if weight.quant is None or weight.quant.per_channel else weight.quant.zero_point[0]
    kernel = np.full((made, width, *sizes), zero, turned.dtype)
    for row, column in np.ndindex(*sizes):
        place = [
            pads[0] - index * step
            for index, step, pads in zip((row, column), window.strides, window.paddings, strict=True)
        ]
        if all(0 <= index < size for index, size in zip(place, window.kernel, strict=True)):
            kernel[:, :, row, column] = turned[:, :, place[0], place[1]]
    weights = view.hold(kernel, replace(weight, shape=tuple(kernel.shape)))
    whole = PlaneWindow((sizes[0], sizes[1]), (1, 1), (1, 1), ((0, 0), (0, 0)))
    ints = (*whole.parameters, *whole.dilations, 1, 0, made)
    view.emit("conv2d", (view.input(0), weights, make_bias(view, 2, weight, made)), (view.output(),), ints)


def lower_gemm(view: NodeView) -> None:
    """Lower Gemm with a constant weight."""
    node = view.node
    value, weight = read_weight(view)
    sizes = view.shape(0)
    view.need(len(sizes) == 2 and value.ndim == 2, "its operands are not matrices")
    view.need(not node.integer("transA", 0), "transA=1 (0 is possible)")
    view.need(
        node.number("alpha", 1.0) == 1.0 and node.number("beta", 1.0) == 1.0,
        "alpha or beta is not 1, which is possible",
    )
    transposed = bool(node.integer("transB", 0))
    _product(view, value if transposed else value.T, _turned(weight, transposed), (sizes[0], sizes[1]))


def _turned(weight: TensorType, transposed: bool) -> TensorType:
    quant = weight.quant
    if quant is None or quant.axis is None:
        return weight
    return replace(
        weight, quant=Quantization(quant.scale, quant.zero_point, quant.axis if transposed else 1 - quant.axis)
    )


def _product(view: NodeView, rows: AnyArray, weight: TensorType, sizes: tuple[int, int]) -> None:
    """Emit a fully connected layer; `rows` is the weight as [out, in]."""
    made, width = rows.shape
    view.need(sizes[1] == width, f"its weight reads {width} of {sizes[1]} values")
    view.need(weight.quant is None or weight.quant.axis in (None, 0), "its weight has scales along its inputs")
    lead = view.shape(0)[:-1]
    view.expect((*lead, made))
    wide = view.kind(0).dtype is DType.I16 and view.draft.part.generation is Generation.V7_BYTES
    if sizes[0] == 1 and min(rows.shape) > 1 and wide:
        _point(view, rows, weight)
        return
    weights = view.hold(rows, replace(weight, shape=(made, width)))
    bias = make_bias(view, 2, weight, made)
    if bias == NO_TENSOR and weight.quant is not None and weight.quant.axis is not None:
        # Older parts write no binary of a product with a scale per channel and no bias.
        bias = _no_bias(view, weight, made)
    data = view.reshaped(view.input(0), sizes)
    out = view.output()
    if len(lead) != 1:
        out = view.new(replace(view.made(), shape=(sizes[0], made)))
    view.emit("fully_connected", (data, weights, bias), (out,), (made, 0))
    if len(lead) != 1:
        view.emit("reshape", (out,), (view.output(),), tuple(reversed(view.made_shape())) or (1,))


def _point(view: NodeView, rows: AnyArray, weight: TensorType) -> None:
    """Emit a layer of one row as a convolution over one point.

    The vendor's layer of one row of 16 bits is garbage on parts whose array takes bytes only: measured with 2 to 24
    values to 3 to 32, of which none was right; the convolution was on all of them.
    """
    made, width = rows.shape
    shape = (made, width, 1, 1)
    data = view.reshaped(view.input(0), (1, width, 1, 1))
    weights = view.hold(rows.reshape(shape), replace(weight, shape=shape))
    out = view.new(replace(view.made(), shape=(1, made, 1, 1)))
    window = PlaneWindow((1, 1), (1, 1), (1, 1), ((0, 0), (0, 0)))
    tail = (*window.dilations, 1, 0, made)
    view.emit("conv2d", (data, weights, make_bias(view, 2, weight, made)), (out,), (*window.parameters, *tail))
    view.emit("reshape", (out,), (view.output(),), tuple(reversed(view.made_shape())))


def _read_by_shader(view: NodeView, index: int) -> int:
    """Return an operand of a product; one of 16 bits with steps that a shader would read as 0 gets coarser ones."""
    kind, shaded = view.kind(index), view.draft.part.generation is not Generation.STREAM
    lost = shaded and kind.dtype is DType.I16 and kind.quant is not None and kind.quant.scale[0] < _FINEST_FACTOR
    if not lost:
        return view.input(index)
    made = view.new(replace(kind, quant=Quantization((_FINEST_FACTOR,), (0,))))
    view.emit("data_convert", (view.input(index),), (made,))
    return made


def _check_constant_factor(view: NodeView, first: Sequence[int], second: Sequence[int]) -> bool:
    """Tell whether a factor is a constant; refuse where its matrices are read wrongly.

    Measured on A311D and i.MX 8M Plus (a constant of one row), and S905D3 (16 bits, all but the first values).
    """
    held = [name in view.graph.constants for name in view.node.inputs[:2]]
    generation = view.draft.part.generation
    wide = view.kind(0).dtype is DType.I16 and generation is Generation.V7_BYTES
    told = f"a constant factor of shape {list(second if held[1] else first)} at 16 bits"
    view.need(not (any(held) and wide), f"{told} (8 bits, or a second factor of two axes, is possible)")
    older = generation not in (*NEWEST, Generation.STREAM)
    told = f"a product of one column and one row, which is a constant of {second[-1]} (Mul is possible)"
    view.need(not (held[1] and older and second[-2] == 1 < second[-1]), told)
    return any(held)


def lower_matmul(view: NodeView) -> None:
    """Lower MatMul: a fully connected layer where the second operand is a constant matrix, else a product of two."""
    one, other = view.shape(0), view.shape(1)
    value = view.graph.constants.get(view.node.inputs[1])
    if value is not None and value.ndim == 2 and len(one) >= 2:
        value, weight = read_weight(view)
        _product(view, value.T, _turned(weight, False), (int(np.prod(one[:-1])), one[-1]))
        return
    check_formats(view, view.kind(1))
    view.need(min(len(one), len(other)) >= 2, "a vector operand")
    view.need(max(len(one), len(other)) <= 4, "more than four dimensions")
    view.need(one[-1] == other[-2], f"shapes {list(one)} and {list(other)} do not fit")
    quant = view.kind(1).quant
    view.need(quant is None or quant.axis is None, "its second operand has a scale per channel")
    rank = max(len(one), len(other))
    first, second = (1,) * (rank - len(one)) + one, (1,) * (rank - len(other)) + other
    view.need(first[:-2] == second[:-2], f"{list(first)} and {list(second)} are broadcast along a batch dimension")
    view.expect((*first[:-1], second[-1]))
    if emit_product(view, first, second):
        return
    held = _check_constant_factor(view, first, second)
    out = view.output()
    if held and len(first) > 3 and first[0] > 1:
        # Of a constant factor along two axes of batches older parts read the first matrices only.
        count = math.prod(first[:-2])
        first, second = (count, *first[-2:]), (count, *second[-2:])
        out = view.new(replace(view.made(), shape=(count, first[-2], second[-1])))
    data = view.reshaped(_read_by_shader(view, 0), first)
    operand = view.reshaped(_read_by_shader(view, 1), second)
    view.emit("matmul", (data, operand), (out,), (0, 0))
    if out != view.output():
        view.emit("reshape", (out,), (view.output(),), tuple(reversed(view.made_shape())))
