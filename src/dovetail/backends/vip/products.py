"""Convolutions of 16 bits that a shader computes: eight products at a time exactly, their sums in float32.

The input is unfolded `[channel, row, column of the kernel]`; a transposed convolution spreads its input first. Checked
on the vendor's simulator with random shapes, strides and scales: equal on every element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import float32

from dovetail.backends.vip.scene import Rule, Scene, Values
from dovetail.backends.vip.singles import cut_single
from dovetail.ir import AnyArray

CONVOLUTIONS = ("Conv", "ConvTranspose")
_TOGETHER = 8


@dataclass(frozen=True, slots=True)
class _Unfolding:
    """Say which elements of `[N, C, H, W]` an output element reads, after spreading by `spread` and padding."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]
    spread: tuple[int, int]
    outputs: tuple[int, int]

    def __call__(self, stored: AnyArray) -> AnyArray:
        """Return `[N, C * kernel, H * W of the output]`."""
        count, channels, *sizes = stored.shape
        wide = [(size - 1) * step + 1 for size, step in zip(sizes, self.spread, strict=True)]
        reach = [
            (self.outputs[axis] - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilations[axis] + 1
            for axis in (0, 1)
        ]
        canvas = np.zeros((count, channels, *(max(reach[axis], self.pads[axis] + wide[axis]) for axis in (0, 1))))
        top, left = self.pads[:2]
        canvas[:, :, top : top + wide[0] : self.spread[0], left : left + wide[1] : self.spread[1]] = stored
        taps = []
        for row in range(self.kernel[0]):
            for column in range(self.kernel[1]):
                begin = row * self.dilations[0], column * self.dilations[1]
                end = [begin[axis] + (self.outputs[axis] - 1) * self.strides[axis] + 1 for axis in (0, 1)]
                taps.append(canvas[:, :, begin[0] : end[0] : self.strides[0], begin[1] : end[1] : self.strides[1]])
        return np.stack(taps, 2).reshape(count, channels * len(taps), -1)


def product_rule(scene: Scene) -> Rule | None:
    """Return how a shader computes a Conv or ConvTranspose `[N, C, H, W]` of 16 bits, or None without a rule."""
    node, constants = scene.node, scene.graph.constants
    weight = constants.get(node.inputs[1])
    if weight is None or weight.ndim != 4 or node.integer("group", 1) != 1:
        return None
    bias = constants.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    quants = [kind.quant for kind in (scene.kind(0), scene.kind(1), scene.made)]
    unfolding = _unfolding(scene, weight)
    if unfolding is None or any(quant is None or quant.per_channel for quant in quants):
        return None
    scales = [quant.scale[0] for quant in quants if quant is not None]
    matrix = weight if node.op == "Conv" else weight.swapaxes(0, 1)[:, :, ::-1, ::-1]
    rows = matrix.reshape(matrix.shape[0], -1).astype(np.float64)
    begin = np.zeros(len(rows), float32) if bias is None else bias.astype(float32)
    multiplier = float32(scales[0] * scales[1] / scales[2])
    # Without a bias it is another kernel: a dot product adds four such sums.
    lanes = 4 if bias is None else 1

    def rule(values: Values) -> AnyArray:
        stored = values[0]
        assert stored is not None
        columns = unfolding(stored)
        sums = np.broadcast_to(begin[:, None], (len(columns), len(rows), columns.shape[2]))
        for start in range(0, columns.shape[1], _TOGETHER * lanes):
            edges = range(start, start + _TOGETHER * lanes, _TOGETHER)
            parts = [cut_single(rows[:, at : at + _TOGETHER] @ columns[:, at : at + _TOGETHER]) for at in edges]
            sums = sums + (parts[0] if lanes == 1 else np.sum(parts, 0, dtype=np.float64).astype(float32))
        lowest, highest = scene.made.dtype.integer_range
        steps = np.clip(np.rint(sums * multiplier), lowest, highest).astype(scene.made.dtype.carrier)
        return np.asarray(steps.reshape(len(columns), len(rows), *unfolding.outputs))

    return rule


def _unfolding(scene: Scene, weight: AnyArray) -> _Unfolding | None:
    node, sizes, made = scene.node, scene.kind(0).shape, scene.made.shape
    if node.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or sizes is None or made is None:
        return None
    if not all(isinstance(size, int) for size in (*sizes[2:], *made[2:])):
        return None
    kernel, outputs = _pair(weight.shape[2:]), _pair([size for size in made[2:] if isinstance(size, int)])
    strides, dilations = _pair(node.integers("strides") or (1, 1)), _pair(node.integers("dilations") or (1, 1))
    pads = node.integers("pads") or (0, 0, 0, 0)
    if node.op == "Conv":
        return _Unfolding(kernel, strides, dilations, (pads[0], pads[1], pads[2], pads[3]), (1, 1), outputs)
    if dilations != (1, 1) or any(pads[axis] > kernel[axis % 2] - 1 for axis in range(4)):
        return None
    before = [kernel[axis] - 1 - pads[axis] for axis in (0, 1)]
    return _Unfolding(kernel, (1, 1), (1, 1), (before[0], before[1], 0, 0), strides, outputs)


def _pair(values: Sequence[int]) -> tuple[int, int]:
    return values[0], values[1]
