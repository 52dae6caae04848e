"""Planes made larger by a whole factor as transposed convolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dovetail.ir import AnyArray, Graph, Node
from dovetail.passes.rewrites.base import Rewrite, Scene

_GRIDS = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


@dataclass(frozen=True)
class ResizeAsDeconv(Rewrite):
    """Write a Resize by whole factors as a transposed convolution whose weights are those of the interpolation.

    Where interpolation looks beyond the border it sees the border's value: that row or column is put there first.
    """

    name: ClassVar[str] = "resize-as-deconv"
    title: ClassVar[str] = "a larger plane by a whole factor as a transposed convolution"
    most: int = 1 << 21
    """Weights: each channel has those of all others beside its own, which are zero."""

    def fits(self, graph: Graph, node: Node) -> bool:
        """Tell whether it makes two axes of known sizes larger by whole factors, by values or lines between them."""
        sizes, made = (
            (graph.types[name].static_shape for name in (node.inputs[0], node.outputs[0]))
            if (node.op == "Resize")
            else (None, None)
        )
        if sizes is None or made is None or len(sizes) != 4 or sizes[:2] != made[:2] or sizes == made:
            return False
        if node.integer("antialias", 0) or not _keeps_ratio(graph, node, sizes, made):
            return False
        axes = [_Axis.of(node, size, big) for size, big in zip(sizes[2:], made[2:], strict=True)]
        weights = sizes[1] ** 2 * math.prod(len(axis.taps) for axis in axes if axis is not None)
        return None not in axes and weights <= self.most

    def build(self, scene: Scene, node: Node) -> None:
        """Put the border's values and the transposed convolution in its place."""
        sizes, made = scene.shape(node.inputs[0]), scene.shape(node.outputs[0])
        found = [
            _Axis.of(node, size, big)
            for size, big in zip(sizes[2:], made[2:], strict=True)
            if isinstance(size, int) and isinstance(big, int)
        ]
        axes = [axis for axis in found if axis is not None]
        scene.remove(node)
        data = node.inputs[0]
        for place, axis in enumerate(axes):
            data = _with_borders(scene, node, data, 2 + place) if axis.borders else data
        channels = sizes[1]
        assert isinstance(channels, int)
        plane = np.multiply.outer(*(axis.taps for axis in axes))
        dtype = scene.draft.types[node.inputs[0]].dtype.carrier
        weight = np.einsum("ab,hw->abhw", np.eye(channels), plane).astype(dtype)
        attributes: dict[str, object] = {
            "kernel_shape": plane.shape,
            "strides": tuple(axis.factor for axis in axes),
            "pads": (*(axis.begin for axis in axes), *(axis.end for axis in axes)),
        }
        scene.end(node, "ConvTranspose", (data, scene.constant(f"{node.name}/taps", weight)), attributes)


@dataclass(frozen=True, slots=True)
class _Axis:
    """How one axis becomes larger: what an element gives to those around its place, and what is cut off then."""

    factor: int
    taps: AnyArray
    begin: int = 0
    end: int = 0
    borders: bool = False

    @classmethod
    def of(cls, node: Node, size: int, made: int) -> _Axis | None:
        """Return how an axis of `size` becomes one of `made`; None where its factor is not whole."""
        mode, grid = node.text("mode", "nearest"), node.text("coordinate_transformation_mode", "half_pixel")
        if size == made:
            return cls(1, np.ones(1))
        if mode not in ("nearest", "linear") or grid not in _GRIDS:
            return None
        if grid == "align_corners":
            factor, rest = divmod(made - 1, size - 1) if size > 1 else (0, 1)
            lines = mode == "linear" and rest == 0 and factor > 0
            return (
                cls(factor, 1 - np.abs(np.arange(1 - factor, factor)) / factor, factor - 1, factor - 1)
                if lines
                else None
            )
        factor, rest = divmod(made, size)
        if rest or factor < 1:
            return None
        shift = 0.5 if grid != "asymmetric" else 0.0
        if mode == "nearest":
            at = (np.arange(factor) + shift) / factor - shift
            return cls(factor, np.ones(factor)) if not _rounded(node, at).any() else None
        places = np.arange(-factor, 2 * factor)
        taps = np.maximum(1 - np.abs((places + shift) / factor - shift), 0)
        used = np.flatnonzero(taps)
        taps = taps[used[0] : used[-1] + 1]
        begin = factor - int(places[used[0]])
        return cls(factor, taps, begin, (size + 1) * factor + len(taps) - begin - made, True)


def _rounded(node: Node, at: AnyArray) -> AnyArray:
    mode = node.text("nearest_mode", "round_prefer_floor")
    if mode == "floor":
        return np.floor(at)
    if mode == "ceil":
        return np.ceil(at)
    return np.asarray(np.ceil(at - 0.5) if mode == "round_prefer_floor" else np.floor(at + 0.5))


def _keeps_ratio(graph: Graph, node: Node, sizes: tuple[int, ...], made: tuple[int, ...]) -> bool:
    """Tell whether its scales, where it has some, are the ratio of the sizes."""
    name = node.inputs[2] if len(node.inputs) > 2 else ""
    if not name:
        return True
    scales = graph.constants.get(name)
    if scales is None:
        return False
    return not scales.size or bool(np.allclose(scales, np.divide(made, sizes)[-len(scales) :], rtol=1e-6))


def _with_borders(scene: Scene, node: Node, data: str, axis: int) -> str:
    """Put the first and the last of an axis before and behind it once more."""
    shape = list(scene.shape(data))
    size = shape[axis]
    assert isinstance(size, int)
    one = [*shape[:axis], 1, *shape[axis + 1 :]]
    ends = []
    for low in (0, size - 1):
        names = [scene.constant(f"{node.name}/border", np.array([value], np.int64)) for value in (low, low + 1, axis)]
        ends.append(scene.add(node, "Slice", (data, *names), one, {}))
    wide = [*shape[:axis], size + 2, *shape[axis + 1 :]]
    return scene.add(node, "Concat", (ends[0], data, ends[1]), wide, {"axis": axis})
