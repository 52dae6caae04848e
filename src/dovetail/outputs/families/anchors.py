"""Anchors that are usual, for detectors whose file does not hold theirs."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.outputs.layouts import Coding, Level

Sizes = tuple[tuple[float, float], ...]

_YOLO: tuple[Sizes, ...] = (
    ((10, 13), (16, 30), (33, 23)),
    ((30, 61), (62, 45), (59, 119)),
    ((116, 90), (156, 198), (373, 326)),
)
"""YOLOv3's and YOLOv5's anchors for COCO, from the finest stride on."""
_YOLO_TINY: tuple[Sizes, ...] = (((10, 14), (23, 27), (37, 58)), ((81, 82), (135, 169), (344, 319)))
"""YOLOv3-tiny's."""
_SSD_SCALES = (0.2, 0.9)
"""Shares of the picture that the priors of the finest and the coarsest grid have (Liu et al., 2016)."""


def usual_anchors(coding: Coding, levels: Sequence[Level], image: tuple[int, int]) -> tuple[Sizes, ...]:
    """Return width and height in pixels for every anchor of every level.

    Two boxes at one place compare nearly alike whatever the anchor is; how large they are in the picture is a guess.
    """
    ordered = sorted(levels, key=lambda level: level.stride_x)
    counts = [level.anchors for level in ordered]
    if coding is Coding.PRIORS:
        low, high = _SSD_SCALES
        last = max(len(ordered) - 1, 1)
        sizes = [low + (high - low) * index / last for index in range(len(ordered))]
        found = [((image[1] * size, image[0] * size),) * count for size, count in zip(sizes, counts, strict=True)]
    elif counts == [3, 3, 3]:
        found = list(_YOLO)
    elif counts == [3, 3]:
        found = list(_YOLO_TINY)
    else:
        found = [
            tuple((2.0**step * level.stride_x, 2.0**step * level.stride_y) for step in range(1, level.anchors + 1))
            for level in ordered
        ]
    by_level = dict(zip(ordered, found, strict=True))
    return tuple(by_level[level] for level in levels)
