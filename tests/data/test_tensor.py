"""The picture that a tensor was made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dovetail.data import Channels, InputSpec, Preprocess
from dovetail.data.tensor import to_image, to_tensor


@given(
    st.sampled_from(Channels),
    st.floats(-200, 200),
    st.floats(1e-3, 2).flatmap(lambda scale: st.sampled_from([scale, -scale])),
    st.booleans(),
)
def test_pixels_are_the_same_again(channels: Channels, mean: float, scale: float, last: bool) -> None:
    preprocess = Preprocess(channels=channels, mean=(mean,), scale=(scale,))
    count = preprocess.channel_count
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels[..., 0] if count == 1 else pixels)
    shape = (1, 5, 7, count) if last else (1, count, 5, 7)
    tensor = to_tensor(picture, preprocess, InputSpec("x", np.dtype(np.float32), shape), "here")
    again = to_image(tensor, preprocess, channels_last=last)
    np.testing.assert_array_equal(np.asarray(again), np.asarray(picture))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_values_that_nobody_explains_are_stretched(channels: int) -> None:
    values = np.random.default_rng(0).normal(size=(channels, 5, 7)).astype(np.float32)
    picture = to_image(values, None, channels_last=False)
    assert picture.mode == ("L" if channels == 1 else "RGB")
    assert picture.size == (7, 5)
    assert picture.getextrema() is not None
    shown = np.asarray(picture)
    assert (shown.min(), shown.max()) == (0, 255)
    values[0, 0, 0] = np.nan
    assert np.asarray(to_image(values, None, channels_last=False)).reshape(5, 7, -1)[0, 0, 0] == 0


def test_bytes_are_pixels() -> None:
    pixels = np.random.default_rng(0).integers(10, 200, (5, 7, 3), dtype=np.uint8)
    np.testing.assert_array_equal(np.asarray(to_image(pixels, None, channels_last=True)), pixels)
