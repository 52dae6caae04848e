"""Random convolutions, matrix products and poolings."""

from __future__ import annotations

import math
from collections.abc import Callable

from dovetail.testing.operator_case import Operand, OperatorCase
from dovetail.testing.wild.values import CHANNELS, Draw

_MOST_WEIGHTS, _MOST_PRODUCTS = 40_000, 4_000_000
_PLACES = 65_000
"""Of the padded input of a window: what a large kernel may need."""


def _kernel(draw: Draw, spatial: int) -> tuple[int, ...]:
    side = draw.pick(1, 2, 3, 3, 5, draw.whole(1, 15), draw.whole(1, 20))
    if draw.chance(0.03):
        side = draw.pick(31, 64, 255, 256)
    return tuple(side if draw.chance(0.5) else draw.pick(1, 2, 3, 4, 7) for _ in range(spatial))


def _window(draw: Draw, kernel: tuple[int, ...], *, dilated: bool = True) -> dict[str, object]:
    """Return strides, dilations and pads; pads are uneven and at times as wide as the kernel."""
    rank = len(kernel)
    made: dict[str, object] = {}
    if draw.chance(0.6):
        steps = tuple(draw.pick(1, 1, 2, 3, 4, draw.whole(1, 70)) for _ in range(rank))
        made["strides"] = steps[:1] * rank if draw.chance(0.5) else steps
    if dilated and draw.chance(0.3):
        made["dilations"] = tuple(draw.pick(1, 2, 5, draw.whole(1, 70)) for _ in range(rank))
    if draw.chance(0.6):
        widest = draw.pick(0, 1, 1, 2)
        made["pads"] = tuple(draw.whole(0, max(size // 2, widest)) for size in (*kernel, *kernel))
    elif draw.chance(0.3):
        made["auto_pad"] = draw.pick("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    return made


def _sizes(window: dict[str, object], name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = window.get(name, default)
    assert isinstance(value, tuple)
    return value


def _room(draw: Draw, kernel: tuple[int, ...], window: dict[str, object]) -> tuple[int, ...]:
    """Return spatial sizes in which the window fits once, or at up to 20 places."""
    rank = len(kernel)
    steps, pads = _sizes(window, "dilations", (1,) * rank), _sizes(window, "pads", (0,) * 2 * rank)
    strides = _sizes(window, "strides", (1,) * rank)
    extents = [step * (size - 1) + 1 for step, size in zip(steps, kernel, strict=True)]
    least = [max(extent - pads[axis] - pads[rank + axis], 1) for axis, extent in enumerate(extents)]
    return tuple(
        size + draw.pick(0, 1, draw.whole(0, 20), draw.whole(0, 20) * stride)
        for size, stride in zip(least, strides, strict=True)
    )


def _leaves_something(places: tuple[int, ...], kernel: tuple[int, ...], window: dict[str, object]) -> bool:
    """Tell whether the pads of a transposed convolution are narrower than what it makes."""
    rank = len(kernel)
    steps, pads = _sizes(window, "strides", (1,) * rank), _sizes(window, "pads", (0,) * 2 * rank)
    made = [step * (place - 1) + size for step, place, size in zip(steps, places, kernel, strict=True)]
    return all(size > pads[axis] + pads[rank + axis] for axis, size in enumerate(made))


def _groups(draw: Draw, weights: int) -> tuple[int, int, int]:
    """Return groups and the channels of each on both sides, so that there are at most so many weights."""
    while True:
        group, inner = 1, draw.pick(*CHANNELS)
        outer = draw.pick(*CHANNELS)
        kind = draw.pick("dense", "dense", "depthwise", "multiplied", "grouped")
        if kind in ("depthwise", "multiplied"):
            group, inner, outer = draw.pick(*CHANNELS), 1, 1 if kind == "depthwise" else draw.pick(2, 3)
        elif kind == "grouped":
            group = draw.pick(2, 3, 4)
        if group * inner * outer * weights <= max(_MOST_WEIGHTS, weights):
            return group, inner, outer


def _accumulating(draw: Draw, spatial: int, *, transposed: bool) -> OperatorCase:
    while True:
        kernel = _kernel(draw, spatial)
        window = _window(draw, kernel)
        group, inner, outer = _groups(draw, math.prod(kernel))
        places = _room(draw, kernel, window)
        if transposed:
            places = tuple(min(place, 6) for place in places)
            if not _leaves_something(places, kernel, window):
                continue
        work = group * inner * outer * math.prod(kernel) * math.prod(places)
        if work <= _MOST_PRODUCTS and math.prod(places) * group * max(inner, outer) <= _PLACES:
            break
    batch = draw.pick(1, 1, 2, 3)
    shape = (group * inner, outer, *kernel) if transposed else (group * outer, inner, *kernel)
    operands: list[Operand] = [draw.data((batch, group * inner, *places)), draw.fixed(shape)]
    if draw.chance(0.6):
        operands.append(draw.fixed((group * outer,)))
    if group > 1:
        window["group"] = group
    if transposed and draw.chance(0.3):
        strides = _sizes(window, "strides", (1,) * spatial)
        window["output_padding"] = tuple(draw.whole(0, max(step - 1, 0)) for step in strides)
    if draw.chance(0.3):
        window["kernel_shape"] = kernel
    return draw.case(*operands, **window)


def _convolution(draw: Draw) -> OperatorCase:
    return _accumulating(draw, draw.pick(1, 2, 2, 2, 2, 3), transposed=False)


def _transposed(draw: Draw) -> OperatorCase:
    return _accumulating(draw, draw.pick(1, 2, 2, 2), transposed=True)


def _gemm(draw: Draw) -> OperatorCase:
    rows, width, made = draw.pick(1, 2, 5), draw.pick(*CHANNELS), draw.pick(*CHANNELS)
    turned, flipped = draw.chance(0.1), draw.chance(0.5)
    data = draw.data((width, rows) if turned else (rows, width))
    shape = (made, width) if flipped else (width, made)
    operands: list[Operand] = [data, draw.operand(shape) if draw.chance(0.2) else draw.fixed(shape)]
    if draw.chance(0.6):
        operands.append(draw.fixed(draw.pick((made,), (1, made), (rows, made), (1,), ())))
    attributes: dict[str, object] = {"transA": int(turned), "transB": int(flipped)}
    if draw.chance(0.2):
        attributes["alpha"] = draw.pick(1.0, 0.5)
    if draw.chance(0.2):
        attributes["beta"] = draw.pick(1.0, 2.0)
    return draw.case(*operands, **attributes)


def _matmul(draw: Draw) -> OperatorCase:
    width, made, rows = draw.pick(*CHANNELS), draw.pick(1, 3, 5, 17), draw.pick(1, 3, 5, 17)
    lead = draw.pick((), (1,), (3,), (2, 3), (1, 2, 3))
    first = (width,) if draw.chance(0.1) else (*lead, rows, width)
    second = draw.pick((width, made), (*lead, width, made), (*lead[1:], width, made), (width,))
    return draw.case(draw.data(first), draw.fixed(second) if draw.chance(0.6) else draw.data(second))


def _pool(draw: Draw) -> OperatorCase:
    spatial = draw.pick(1, 2, 2, 2, 3)
    while True:
        kernel = _kernel(draw, spatial)
        window = _window(draw, kernel, dilated=draw.op == "MaxPool" and draw.chance(0.3))
        if "pads" in window:
            # A window over nothing but padding has no average.
            pads = zip(_sizes(window, "pads", ()), (*kernel, *kernel), strict=True)
            window["pads"] = tuple(min(pad, size - 1) for pad, size in pads)
        places, channels = _room(draw, kernel, window), draw.pick(*CHANNELS)
        if math.prod(places) * channels <= _PLACES and math.prod(kernel) <= 4096:
            break
    if draw.chance(0.4):
        window["ceil_mode"] = 1
    if draw.op == "AveragePool" and draw.chance(0.4):
        window["count_include_pad"] = 1
    return draw.case(draw.data((draw.pick(1, 2), channels, *places)), kernel_shape=kernel, **window)


PRODUCTS: dict[str, Callable[[Draw], OperatorCase]] = {
    "AveragePool": _pool,
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MaxPool": _pool,
}
