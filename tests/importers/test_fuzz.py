"""Ten thousand damaged files of every format: each loads or is refused, none takes long, none ends otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz_importers import fuzz
from judges.fuzz_corpus import specimens

_FORMATS = (
    *(
        "onnx",
        "dovetail",
        "tflite",
        "tflite integer",
        "tflite hybrid",
        "caffe .prototxt",
        "caffe .caffemodel",
        "darknet .cfg",
        "darknet .weights",
    ),
    *(".pt", ".pt2", ".keras", ".pb", ".pdmodel"),
)
_COUNT = 10_000 // len(_FORMATS) + 1


def test_whole_files_load(tmp_path: Path) -> None:
    found = list(specimens(tmp_path))
    assert tuple(item.format for item in found) == _FORMATS
    for item in found:
        assert item.load(item.data) is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", _FORMATS)
def test_damaged_files_load_or_are_refused(tmp_path: Path, name: str) -> None:
    item = next(item for item in specimens(tmp_path) if item.format == name)
    ends, broken = fuzz(item.data, item.load, _COUNT, seed=7)
    assert not broken
    assert ends["refused"] > _COUNT // 20
