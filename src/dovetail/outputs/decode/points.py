"""Keypoints: where they are, and how sure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.outputs.decode.planes import Arrays, Floats
from dovetail.outputs.layouts import BinsLayout, HeatmapsLayout, PointsLayout


def find_points(layout: HeatmapsLayout | PointsLayout | BinsLayout, outputs: Arrays) -> tuple[Floats, Floats]:
    """Return the places `[N, K, 2]` (x, y) and the scores `[N, K]` of keypoints.

    Places count in the head's own unit: cells of a map, bins, or what coordinates are given in.
    """
    if isinstance(layout, HeatmapsLayout):
        return _peaks(layout, outputs[layout.output])
    if isinstance(layout, BinsLayout):
        x, y = (_centre_of_bins(outputs[name]) for name in (layout.x, layout.y))
        sure = np.minimum(x[1], y[1])
        return np.stack([x[0], y[0]], axis=-1), sure
    values = np.asarray(outputs[layout.output], np.float64)
    points = values.reshape(len(values), layout.points, layout.width)
    places = points[..., [1, 0]] if layout.order == "yx" else points[..., :2]
    scores = np.ones(points.shape[:2]) if layout.score is None else points[..., layout.score]
    return np.asarray(places, np.float64), np.asarray(scores, np.float64)


def _peaks(layout: HeatmapsLayout, values: NDArray[np.generic]) -> tuple[Floats, Floats]:
    """Return the highest cell of every map, moved a quarter towards its higher neighbours.

    Source of the quarter: Newell et al., "Stacked hourglass networks", 2016.
    """
    maps = np.moveaxis(np.asarray(values, np.float64), layout.point_axis + 1, 1)
    count, points, rows, cols = maps.shape
    flat = np.nan_to_num(maps.reshape(count, points, -1), nan=-np.inf)
    best = flat.argmax(axis=2)
    y, x = np.divmod(best, cols)
    scores = np.take_along_axis(flat, best[..., None], axis=2)[..., 0]
    places = np.stack([x, y], axis=-1).astype(np.float64)
    index = np.arange(count)[:, None], np.arange(points)[None, :]
    across = maps[(*index, y, np.clip(x + 1, 0, cols - 1))] - maps[(*index, y, np.clip(x - 1, 0, cols - 1))]
    down = maps[(*index, np.clip(y + 1, 0, rows - 1), x)] - maps[(*index, np.clip(y - 1, 0, rows - 1), x)]
    return places + 0.25 * np.sign(np.nan_to_num(np.stack([across, down], axis=-1))), scores


def _centre_of_bins(values: NDArray[np.generic]) -> tuple[Floats, Floats]:
    scores = np.nan_to_num(np.asarray(values, np.float64), nan=-np.inf)
    return scores.argmax(axis=-1).astype(np.float64), scores.max(axis=-1)
