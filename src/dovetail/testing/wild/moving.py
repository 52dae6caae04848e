"""Random operators that move values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dovetail.ir import DType
from dovetail.testing.operator_case import Exactly, Omitted, Operand, OperatorCase
from dovetail.testing.wild.values import Draw, integers

Drawing = Callable[[Draw], OperatorCase]


def _plain(draw: Draw) -> OperatorCase:
    return draw.case(draw.data(draw.shape()))


def _transpose(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    order = tuple(int(axis) for axis in draw.rng.permutation(len(shape)))
    return draw.case(draw.data(shape), **({"perm": order} if draw.chance(0.8) else {}))


def _concat(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    axis = draw.axis(len(shape))
    operands: list[Operand] = []
    for index in range(draw.pick(1, 2, 2, 3, 5)):
        sizes = list(shape)
        sizes[axis] = draw.pick(1, 3, shape[axis])
        operands.append(draw.operand(tuple(sizes)) if index else draw.data(tuple(sizes)))
    return draw.case(*operands, axis=axis)


def _split(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    axis = draw.axis(len(shape))
    cuts = sorted({0, shape[axis], *(draw.whole(0, shape[axis]) for _ in range(draw.pick(1, 2)))})
    parts = [after - before for before, after in pairwise(cuts)]
    return replace(draw.case(draw.data(shape), integers(*parts), axis=axis), outputs=(DType.F32,) * len(parts))


def _reshape(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    rest, sizes = math.prod(shape), []
    for _ in range(draw.whole(0, 4)):
        size = draw.pick(*(part for part in range(1, rest + 1) if rest % part == 0))
        sizes.append(size)
        rest //= size
    return draw.case(draw.data(shape), integers(*sizes, draw.pick(rest, -1)))


def _flatten(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    return draw.case(draw.data(shape), axis=draw.whole(-len(shape), len(shape)))


def _squeeze(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    ones = [place for place, size in enumerate(shape) if size == 1]
    return draw.case(draw.data(shape), integers(*ones)) if ones else draw.case(draw.data(shape))


def _unsqueeze(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    return draw.case(draw.data(shape), integers(draw.axis(len(shape) + 1)))


def _expand(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    small = draw.broadcast(shape)
    return draw.case(draw.data(small), integers(*shape))


def _tile(draw: Draw) -> OperatorCase:
    shape = draw.shape((1, 2, 3, 4))
    return draw.case(draw.data(shape), integers(*(draw.pick(1, 1, 2, 3) for _ in shape)))


def _pad(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    mode = draw.pick("constant", "constant", "edge", "reflect", "wrap")
    most = [min(size - 1, 2) if mode in ("reflect", "wrap") else 2 for size in shape]
    widths = [draw.pick(0, draw.whole(0, width)) for width in (*most, *most)]
    if draw.chance(0.05):
        widths[-1] = -1 if shape[-1] > 1 and mode == "constant" else widths[-1]
    value: tuple[Operand, ...] = ()
    if mode == "constant" and draw.chance(0.5):
        value = (Exactly((draw.pick(0.0, 0.0, 1.5),), DType.F32, ()),)
    return draw.case(draw.data(shape), integers(*widths), *value, mode=mode)


def _slice(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    chosen = sorted(int(axis) for axis in draw.rng.permutation(len(shape))[: draw.whole(1, len(shape))])
    starts, ends, steps, axes = [], [], [], []
    for axis in chosen:
        low, high = sorted((draw.whole(0, shape[axis] - 1), draw.whole(0, shape[axis] - 1)))
        step = draw.pick(1, 1, 1, 2, 3, -1, -2)
        backward = step < 0
        starts.append(high if backward else low)
        ends.append((low - 1 if low else -(2**40)) if backward else draw.pick(high + 1, 2**40))
        steps.append(step)
        axes.append(axis - len(shape) if draw.chance(0.3) else axis)
    return draw.case(draw.data(shape), integers(*starts), integers(*ends), integers(*axes), integers(*steps))


def _depth_to_space(draw: Draw) -> OperatorCase:
    block = draw.pick(1, 2, 3)
    shape = (draw.pick(1, 2), block * block * draw.pick(1, 3, 5), draw.whole(1, 7), draw.whole(1, 7))
    return draw.case(draw.data(shape), blocksize=block, mode=draw.pick("DCR", "CRD"))


def _space_to_depth(draw: Draw) -> OperatorCase:
    block = draw.pick(1, 2, 3)
    shape = (draw.pick(1, 2), draw.pick(1, 3, 5), block * draw.whole(1, 6), block * draw.whole(1, 6))
    return draw.case(draw.data(shape), blocksize=block)


def _resize(draw: Draw) -> OperatorCase:
    shape = draw.shape((3, 4, 4, 4, 4))
    mode = draw.pick("nearest", "linear", "linear", "cubic")
    grids = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    attributes: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": draw.pick(*grids)}
    if mode == "nearest" and draw.chance(0.7):
        roundings = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
        attributes["nearest_mode"] = draw.pick(*roundings)
    if draw.chance(0.5):
        factor = draw.pick(2.0, 3.0, 1.5, 0.5)
        scales = [1.0] * 2 + [factor if size * factor >= 1 else 1.0 for size in shape[2:]]
        return draw.case(draw.data(shape), Omitted(), Exactly(tuple(scales), DType.F32), **attributes)
    sizes = [*shape[:2], *(draw.pick(size, 2 * size, draw.whole(1, 20)) for size in shape[2:])]
    return draw.case(draw.data(shape), Omitted(), Omitted(), integers(*sizes), **attributes)


def _places(draw: Draw, bound: int, shape: tuple[int, ...]) -> Exactly:
    drawn = draw.rng.integers(-bound, bound, shape)
    return Exactly(tuple(int(value) for value in drawn.reshape(-1)), shape=shape)


def _gather(draw: Draw) -> OperatorCase:
    shape = draw.shape((1, 2, 3, 4))
    axis = draw.axis(len(shape))
    return draw.case(draw.data(shape), _places(draw, shape[axis], draw.pick((), (1,), (3,), (2, 2))), axis=axis)


def _gather_elements(draw: Draw) -> OperatorCase:
    shape = draw.shape((1, 2, 3, 4))
    axis = draw.axis(len(shape))
    return draw.case(draw.data(shape), _places(draw, shape[axis], shape), axis=axis)


def _rows(draw: Draw, shape: tuple[int, ...], count: int) -> Exactly:
    """Return index tuples, each once."""
    depth = draw.whole(1, len(shape))
    total = math.prod(shape[:depth])
    flat = draw.rng.permutation(total)[: min(count, total)]
    found = np.stack(np.unravel_index(flat, shape[:depth]), axis=-1)
    return Exactly(tuple(int(value) for value in found.reshape(-1)), shape=tuple(found.shape))


def _gather_nd(draw: Draw) -> OperatorCase:
    shape = draw.shape((1, 2, 3, 4))
    return draw.case(draw.data(shape), _rows(draw, shape, draw.pick(1, 2, 5)))


def _scatter_nd(draw: Draw) -> OperatorCase:
    shape = draw.shape((1, 2, 3, 4))
    rows = _rows(draw, shape, draw.pick(1, 2, 5))
    assert rows.shape is not None
    return draw.case(draw.data(shape), rows, draw.operand((*rows.shape[:-1], *shape[rows.shape[-1] :])))


def _reverse_sequence(draw: Draw) -> OperatorCase:
    shape = draw.shape((2, 3, 4))
    time = draw.pick(0, 1)
    lengths = [draw.whole(1, shape[time]) for _ in range(shape[1 - time])]
    return draw.case(draw.data(shape), integers(*lengths), time_axis=time, batch_axis=1 - time)


MOVING: dict[str, Drawing] = {
    **dict.fromkeys(("Dropout", "Identity"), _plain),
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
    "ReverseSequence": _reverse_sequence,
    "ScatterND": _scatter_nd,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
