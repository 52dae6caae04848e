"""Resize by interpolation, one axis at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.backends.reference.kernels.call import Call, Kernels, axes_of
from dovetail.ir import AnyArray


@dataclass(frozen=True, slots=True)
class _Axis:
    """How one axis is resized."""

    size: int
    output: int
    scale: float
    roi: tuple[float, float]

    @property
    def length(self) -> float:
        """Return the size of the result before it is cut to a whole number."""
        return self.size * self.scale


def _positions(call: Call, axis: _Axis) -> AnyArray:
    """Return the coordinate in the input of every output index."""
    at = np.arange(axis.output, dtype=np.float64)
    mode = call.node.text("coordinate_transformation_mode", "half_pixel")
    if mode == "asymmetric":
        return np.asarray(at / axis.scale)
    if mode == "align_corners":
        return np.asarray(at * (axis.size - 1) / (axis.length - 1)) if axis.length != 1 else np.zeros(axis.output)
    if mode == "pytorch_half_pixel" and axis.output <= 1:
        return np.zeros(axis.output)
    if mode == "tf_crop_and_resize":
        first, last = axis.roi
        if axis.output <= 1:
            return np.full(axis.output, 0.5 * (first + last) * (axis.size - 1))
        return np.asarray(first * (axis.size - 1) + at * (last - first) * (axis.size - 1) / (axis.length - 1))
    centred = (at + 0.5) / axis.scale - 0.5
    if mode == "half_pixel_symmetric":
        adjustment = axis.output / axis.length
        centred = axis.size / 2 * (1 - adjustment) + centred
    return np.asarray(centred)


def _nearest(call: Call, at: AnyArray) -> AnyArray:
    mode = call.node.text("nearest_mode", "round_prefer_floor")
    if mode == "floor":
        return np.floor(at)
    if mode == "ceil":
        return np.ceil(at)
    return np.asarray(np.ceil(at - 0.5) if mode == "round_prefer_floor" else np.floor(at + 0.5))


def _linear(distance: AnyArray) -> AnyArray:
    return np.asarray(np.maximum(1.0 - np.abs(distance), 0.0))


def cubic(distance: AnyArray, a: float) -> AnyArray:
    """Return the weights of Keys' cubic convolution at these distances."""
    d = np.abs(distance)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.asarray(np.where(d <= 1, near, np.where(d < 2, far, 0.0)))


def _matrix(call: Call, axis: _Axis) -> AnyArray:
    """Return the `[output, size]` weights of one axis; samples beyond the border take the border's value."""
    mode, at = call.node.text("mode", "nearest"), _positions(call, axis)
    weights = np.zeros((axis.output, axis.size))
    if mode == "nearest":
        index = np.clip(_nearest(call, at), 0, axis.size - 1).astype(np.int64)
        weights[np.arange(axis.output), index] = 1.0
        return weights
    shrink = min(axis.scale, 1.0) if call.node.integer("antialias", 0) else 1.0
    reach = int(np.ceil((2 if mode == "cubic" else 1) / shrink))
    outside = bool(call.node.integer("exclude_outside", 0))
    for offset in range(-reach, reach + 2):
        tap = np.floor(at) + offset
        distance = (at - tap) * shrink
        weight = cubic(distance, call.node.number("cubic_coeff_a", -0.75)) if mode == "cubic" else _linear(distance)
        inside = (tap >= 0) & (tap < axis.size)
        weight = np.where(inside, weight, 0.0) if outside else weight
        index = np.clip(tap, 0, axis.size - 1).astype(np.int64)
        np.add.at(weights, (np.arange(axis.output), index), weight)
    if outside or shrink < 1.0:
        weights = np.asarray(weights / weights.sum(axis=1, keepdims=True))
    return weights


def _plan(call: Call, axes: tuple[int, ...]) -> dict[int, _Axis]:
    """Return how each resized axis changes, from scales (input 2) or sizes (input 3)."""
    shape, sizes = call.x.shape, call.sizes(3)
    scale_input, roi_input = call.optional(2), call.optional(1)
    roi = [0.0] * len(axes) + [1.0] * len(axes)
    if roi_input is not None and roi_input.size == 2 * len(axes):
        roi = [float(value) for value in roi_input.reshape(-1)]
    if sizes:
        scales = [size / shape[axis] for size, axis in zip(sizes, axes, strict=True)]
        policy = call.node.text("keep_aspect_ratio_policy", "stretch")
        outputs = list(sizes)
        if policy != "stretch":
            one = min(scales) if policy == "not_larger" else max(scales)
            scales = [one] * len(axes)
            outputs = [int(np.floor(one * shape[axis] + 0.5)) for axis in axes]
    elif scale_input is not None:
        scales = [float(value) for value in scale_input.reshape(-1)]
        outputs = []
        for index, (scale, axis) in enumerate(zip(scales, axes, strict=True)):
            crop = roi[len(axes) + index] - roi[index] if _crops(call) else 1.0
            outputs.append(int(np.floor(shape[axis] * crop * scale)))
    else:
        raise ValueError("neither scales nor sizes are given")
    return {
        axis: _Axis(shape[axis], outputs[index], scales[index], (roi[index], roi[len(axes) + index]))
        for index, axis in enumerate(axes)
    }


def _crops(call: Call) -> bool:
    return call.node.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"


def _resize(call: Call) -> tuple[AnyArray, ...]:
    x, axes = call.x, axes_of(call.node.integers("axes") or None, call.x.ndim)
    outside: AnyArray = np.zeros(1, np.bool_)
    for axis, plan in _plan(call, axes).items():
        if plan.size == plan.output and plan.scale == 1.0 and not _crops(call):
            continue
        if call.node.text("mode", "nearest") == "nearest":
            x = np.take(x, _matrix(call, plan).argmax(axis=1), axis=axis)
        else:
            x = np.moveaxis(np.tensordot(_matrix(call, plan), x, axes=(1, axis)), 0, axis)
        if _crops(call):
            at = _positions(call, plan)
            shape = [1] * x.ndim
            shape[axis] = -1
            outside = outside | ((at < 0) | (at > plan.size - 1)).reshape(shape)
    if np.any(outside):
        x = np.where(outside, call.node.number("extrapolation_value", 0.0), x)
    return (x,)


KERNELS: Kernels = {"Resize": _resize}
