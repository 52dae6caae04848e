"""Copies of samples count once, whatever their names are."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dovetail.data import InputSpec, open_samples
from dovetail.data.distinct import distinct_samples

_SPECS = (InputSpec("x", np.dtype(np.float32), (1, 3)),)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=12))
def test_each_pair_of_input_and_label_stays_once_and_in_order(drawn: list[tuple[int, int]]) -> None:
    items: list[dict[str, NDArray[Any]]] = [
        {"x": np.full((1, 3), value, np.float32), "label": np.array(label, np.int64)} for value, label in drawn
    ]
    found, copies = distinct_samples(open_samples(items, _SPECS))
    left = [(int(item.inputs["x"][0, 0]), int(item.labels["label"])) for item in found]
    assert left == list(dict.fromkeys(drawn))
    assert copies == len(drawn) - len(left)


def test_a_sign_of_zero_and_a_shape_are_differences() -> None:
    specs = (InputSpec("x", np.dtype(np.float32), (1, None)),)
    arrays = [np.zeros((1, 2), np.float32), -np.zeros((1, 2), np.float32), np.zeros((1, 4), np.float32)]
    source = open_samples([{"x": array} for array in arrays], specs)
    assert distinct_samples(source) == (source, 0)
