"""Sums of grids."""

from __future__ import annotations

import pytest

from dovetail.outputs.ends import ImageInput
from dovetail.outputs.layouts import Level
from dovetail.outputs.places import grid_level, levels_of_parts, levels_of_sum, rarity_db


def image(rows, cols):
    return ImageInput("x", rows, cols, 3, False)


@pytest.mark.parametrize(
    ("places", "size", "strides", "anchors"),
    [
        (8400, (640, 640), [8, 16, 32], 1),
        (25200, (640, 640), [8, 16, 32], 3),
        (3549, (416, 416), [8, 16, 32], 1),
        (2125, (320, 320), [8, 16, 32, 64], 1),
        (12800, (640, 640), [8], 2),
        (16800, (640, 640), [8, 16, 32], 2),
    ],
)
def test_published_numbers_of_places(places, size, strides, anchors):
    levels = levels_of_sum(places, image(*size))
    assert levels is not None
    assert [round(level.stride_x) for level in levels] == strides
    assert {level.anchors for level in levels} == {anchors}
    assert sum(level.places for level in levels) == places


def test_anchors_may_differ_from_part_to_part():
    levels = levels_of_parts((3600, 600, 160, 60), image(240, 320))
    assert levels is not None
    assert [(round(level.stride_x), level.anchors) for level in levels] == [(8, 3), (16, 2), (32, 2), (64, 3)]
    assert levels_of_parts((3600, 600, 160, 61), image(240, 320)) is None


def test_grids_round_up_and_down():
    assert grid_level(19, 19, image(300, 300)) == Level(300 / 19, 300 / 19, 19, 19)
    assert grid_level(18, 18, image(300, 300)) == Level(300 / 18, 300 / 18, 18, 18)
    assert grid_level(17, 17, image(300, 300)) is None


def test_small_numbers_are_sums_by_accident_more_often():
    assert rarity_db(60, image(320, 320)) < 10 < rarity_db(8400, image(640, 640)) <= 20
