"""What is said of a file before, or instead of, converting it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.errors import LoadError
from dovetail.importers import load_model, survey_model
from dovetail.ir import DType
from judges.tflite_graphs import LiteSubgraph, Step, build_model
from judges.tflite_model import LiteTensor


def _file(folder: Path, *customs: str) -> Path:
    names = [f"t{index}" for index in range(len(customs) + 1)]
    tensors = [LiteTensor(name, DType.F32, (2,)) for name in names]
    steps = [
        Step(32, (before,), (after,), custom_name=custom)
        for before, after, custom in zip(names, names[1:], customs, strict=False)
    ]
    path = folder / "model.tflite"
    path.write_bytes(build_model([LiteSubgraph(tensors, steps, (names[0],), (names[-1],))]))
    return path


def test_every_operator_that_is_missing_is_listed(tmp_path: Path) -> None:
    path = _file(tmp_path, "One", "Two", "One")
    assert survey_model(path).unsupported == {"One": 2, "Two": 1}
    with pytest.raises(LoadError, match="One"):
        load_model(path)


@pytest.mark.models
def test_hybrid_kernels_are_said(models: Path) -> None:
    found = survey_model(models / "kws01_dscnn/kws_ref_model_float32.tflite")
    assert any("5 kernels are hybrid" in note for note in found.notes)
    assert found.tensors["int8 per tensor"] == 5
    assert not found.unsupported


@pytest.mark.models
def test_16_bit_activations_and_quantised_lstms_are_said(models: Path) -> None:
    wide = survey_model(models / "kws_dscnn_int16x8/ds_cnn_s_int16x8.tflite")
    assert any("int16x8" in note for note in wide.notes)
    lstm = survey_model(models / "mnist_lstm/trained_lstm_int8.tflite")
    assert any("1 recurrent operators are integer: target reference:tflite computes 1" in note for note in lstm.notes)
    assert any("clip their cells" in note for note in lstm.notes)
    assert not any("int16x8" in note for note in lstm.notes)
