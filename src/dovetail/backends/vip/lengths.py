"""Euclidean lengths (ReduceL2): squares, their sum and its root, with floats stored in between.

Squares of bytes come from the tensor processor's table and are stored in half precision, those of 16 bits in float32;
what is stored at the end is cut, not rounded. Checked on the vendor's simulator with rows of bytes and of 16 bits:
equal on each of 18992 lengths, over one axis and over two.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy import float32

from dovetail.backend.arithmetic import Vip
from dovetail.backends.vip.array import centred, stored_from
from dovetail.backends.vip.scene import Rule, Scene, Values
from dovetail.backends.vip.singles import in_turn
from dovetail.backends.vip.table import squares
from dovetail.ir import AnyArray, DType


def length_rule(scene: Scene) -> Rule | None:
    """Return how ReduceL2 is computed, or None where that is not known: the newest roots are tables of their own."""
    kind, made = scene.kind(0), scene.made
    wide = kind.dtype is DType.I16
    blocks = _blocks(_axes(scene), kind.rank or 1)
    unknown = scene.vip is Vip.STREAM or (wide and scene.vip is Vip.VIP9000_PLUS)
    if unknown or kind.dtype is not made.dtype or not blocks:
        return None
    assert kind.quant is not None
    assert made.quant is not None
    scale, inverse = kind.quant.scale[0], float32(1.0 / made.quant.scale[0])
    keep = bool(scene.node.integer("keepdims", 1))
    scales = replace(scene.scales()[0], scale_in=scale)

    def rule(values: Values) -> AnyArray:
        stored = values[0]
        assert stored is not None
        steps = centred(stored, kind)
        if wide:
            held = np.square(steps.astype(float32) * float32(scale))
        else:
            held = squares(steps.astype(np.float64), scales).astype(np.float16).astype(float32)
        total = held
        for block in blocks:
            total = _added(total, block)
        lengths = stored_from(np.floor(np.sqrt(total) * inverse).astype(np.float64), made)
        return lengths if keep else np.squeeze(lengths, tuple(axis for block in blocks for axis in block))

    return rule


def _blocks(axes: tuple[int, ...], rank: int) -> list[list[int]]:
    """Return axes in runs of neighbours, the fastest run first: each run is one sum."""
    blocks: list[list[int]] = []
    for axis in sorted({axis % rank for axis in axes}):
        if blocks and blocks[0][-1] == axis - 1:
            blocks[0].append(axis)
        else:
            blocks.insert(0, [axis])
    return blocks


def _added(values: AnyArray, block: list[int]) -> AnyArray:
    """Add float32 over neighbouring axes, one after another; the axes stay with one element."""
    shape = values.shape
    rows = values.reshape(*shape[: block[0]], -1, *shape[block[-1] + 1 :])
    total = in_turn(np.moveaxis(rows, block[0], -1))
    return total.reshape(*shape[: block[0]], *(1 for _ in block), *shape[block[-1] + 1 :])


def _axes(scene: Scene) -> tuple[int, ...]:
    """Return the axes of a reduction; none where they are not constant."""
    node, rank = scene.node, scene.kind(0).rank
    if rank is None:
        return ()
    given = node.integers("axes")
    if len(node.inputs) > 1 and node.inputs[1]:
        constant = scene.graph.constants.get(node.inputs[1])
        if constant is None:
            return ()
        given = tuple(int(axis) for axis in constant.reshape(-1))
    if not given and not node.integer("noop_with_empty_axes", 0):
        return tuple(range(rank))
    return given
