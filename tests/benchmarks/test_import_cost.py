"""A file of 30 MB is imported in under 3 s and in less than three times its size of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from import_cost import MOST_S, MOST_TIMES, costs


@pytest.mark.slow
def test_import_stays_within_its_bounds(tmp_path: Path) -> None:
    found = list(costs(30.0, tmp_path))
    assert [item.format for item in found] == ["onnx", "tflite", "dvg", "prototxt", "cfg"]
    for item in found:
        assert item.file_bytes > 28e6
        assert item.load_s < MOST_S
        assert item.times < MOST_TIMES
