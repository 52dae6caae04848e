"""OpenCV's resize, judged by OpenCV."""

from __future__ import annotations

import cv2
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.data import Interpolation, Preprocess, PreprocessStep, StepKind
from dovetail.data.bilinear import resize_bilinear
from dovetail.data.image import image_of, place
from dovetail.data.preprocess import Channels

_SIDE = st.integers(1, 90)


@settings(max_examples=300, deadline=None)
@given(_SIDE, _SIDE, _SIDE, _SIDE, st.sampled_from(((), (1,), (3,))), st.integers(0, 2**32 - 1))
def test_equal_to_opencv(
    height: int, width: int, to_height: int, to_width: int, trail: tuple[int, ...], seed: int
) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, *trail)).astype(np.uint8)
    wanted = cv2.resize(pixels, (to_width, to_height), interpolation=cv2.INTER_LINEAR)
    found = resize_bilinear(pixels, to_height, to_width)
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_photo_sizes_are_equal_to_opencv() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (480, 641, 3)).astype(np.uint8)
    for height, width in ((416, 312), (224, 224), (960, 1282), (240, 320)):
        wanted = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_LINEAR)
        np.testing.assert_array_equal(resize_bilinear(pixels, height, width), wanted)


def test_preprocessing_takes_it_and_pillow_differs() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (64, 48, 3)).astype(np.uint8)
    image = image_of(pixels, Channels.RGB, "noise")
    step = PreprocessStep(StepKind.RESIZE, 20, 30)
    ours, _ = place(image, Preprocess((step,), interpolation=Interpolation.OPENCV_BILINEAR), "noise")
    pillows, _ = place(image, Preprocess((step,)), "noise")
    np.testing.assert_array_equal(np.asarray(ours), cv2.resize(pixels, (30, 20)))
    assert np.abs(np.asarray(ours, int) - np.asarray(pillows, int)).max() > 20
