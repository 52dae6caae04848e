"""Linear Resize in float64, one axis at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.backends.npusim.elementwise import RealOperator
from dovetail.backends.npusim.kernel import Values, given
from dovetail.ir import AnyArray, Node

_Coordinates = Callable[[AnyArray, int, int, float], AnyArray]
"""From output indices, input size, output size and scale to places in the input."""


def _aligned(at: AnyArray, size: int, output: int, _: float) -> AnyArray:
    return np.asarray(at * (size - 1) / (output - 1)) if output > 1 else np.zeros(output)


def _pytorch(at: AnyArray, _: int, output: int, scale: float) -> AnyArray:
    return np.asarray((at + 0.5) / scale - 0.5) if output > 1 else np.zeros(output)


_COORDINATES: dict[str, _Coordinates] = {
    "align_corners": _aligned,
    "asymmetric": lambda at, size, output, scale: np.asarray(at / scale),
    "half_pixel": lambda at, size, output, scale: np.asarray((at + 0.5) / scale - 0.5),
    "pytorch_half_pixel": _pytorch,
}


def linear_resize(node: Node) -> RealOperator | None:
    """Return a linear Resize in float64, or None for forms that this module lacks."""
    coordinates = _COORDINATES.get(node.text("coordinate_transformation_mode", "half_pixel"))
    plain = not node.integer("antialias", 0) and node.text("keep_aspect_ratio_policy", "stretch") == "stretch"
    if coordinates is None or not plain or node.text("mode", "nearest") != "linear":
        return None

    def run(values: Values) -> tuple[AnyArray, ...]:
        result = given(values, 0)
        axes = [axis % result.ndim for axis in node.integers("axes") or range(result.ndim)]
        for axis, (output, scale) in zip(axes, _targets(values, axes), strict=True):
            result = _along(
                result, axis, coordinates(np.arange(output, dtype=np.float64), result.shape[axis], output, scale)
            )
        return (result,)

    return run


def _targets(values: Values, axes: list[int]) -> list[tuple[int, float]]:
    """Return the output size and the scale of every resized axis."""
    shape = given(values, 0).shape
    if len(values) > 3 and values[3] is not None:
        sizes = [int(size) for size in given(values, 3)]
        return [(size, size / shape[axis]) for size, axis in zip(sizes, axes, strict=True)]
    scales = [float(scale) for scale in given(values, 2)]
    return [(int(np.floor(shape[axis] * scale)), scale) for scale, axis in zip(scales, axes, strict=True)]


def _along(values: AnyArray, axis: int, places: AnyArray) -> AnyArray:
    size = values.shape[axis]
    if len(places) == size and np.array_equal(places, np.arange(size)):
        return values
    places = np.clip(places, 0.0, size - 1.0)
    low = np.floor(places).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    shape = [1] * values.ndim
    shape[axis] = len(places)
    share = (places - low).reshape(shape)
    return np.asarray(np.take(values, low, axis) * (1.0 - share) + np.take(values, high, axis) * share)
