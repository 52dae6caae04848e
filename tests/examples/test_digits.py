"""Check the committed digit detector against its own README, with ONNX's checker and ONNX Runtime."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "digits"
CELLS, COLUMNS = 25, 15
BOX = (320.0, 240.0, 200.0, 300.0)


def _metric() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits_metric", FOLDER / "metric.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


metric = _metric()


def _load(name: str) -> dict[str, npt.NDArray[np.generic]]:
    with np.load(FOLDER / name, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def _run(images: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(FOLDER / "digits.onnx", options, providers=["CPUExecutionProvider"])
    (rows,) = session.run([metric.OUTPUT], {"images": images.astype(np.float32)})
    return np.asarray(rows)


def _detection(
    digit: int, box: tuple[float, float, float, float] = BOX, confidence: float = 0.9
) -> npt.NDArray[np.float32]:
    """Return one sample [1, 25, 15] with one detection in cell 7."""
    rows = np.zeros((1, CELLS, COLUMNS), np.float32)
    rows[0, :, 2:4] = 1.0
    rows[0, 7, :4] = box
    rows[0, 7, 4], rows[0, 7, 5 + digit] = 1.0, confidence
    return rows


def _points(rows: npt.NDArray[np.float32], digit: int = 3) -> list[float]:
    labels: Mapping[str, npt.NDArray[np.generic]] = {
        "label": np.array([digit]),
        "box": np.array([BOX], np.float32),
    }
    return [float(p) for p in metric.score({metric.OUTPUT: rows}, labels)]


def test_model_is_valid_small_and_has_a_free_batch() -> None:
    model = onnx.load(FOLDER / "digits.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert (FOLDER / "digits.onnx").stat().st_size < 1_000_000
    assert 35 <= len(model.graph.node) <= 60
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    names = [node.name for node in model.graph.node]
    assert all(names)
    assert len(set(names)) == len(names)


def test_data_is_small_and_fits_the_model() -> None:
    calib, held = _load("calib.npz"), _load("eval.npz")
    assert sum((FOLDER / name).stat().st_size for name in ("calib.npz", "eval.npz")) < 3_000_000
    assert set(calib) == {"images"}
    assert set(held) == {"images", "label", "box"}
    count = len(held["images"])
    assert held["images"].shape == (count, 1, 40, 40)
    assert calib["images"].shape[1:] == (1, 40, 40)
    assert calib["images"].dtype == held["images"].dtype == np.uint8
    assert held["label"].shape == (count,)
    assert held["box"].shape == (count, 4)
    assert set(np.asarray(held["label"]).tolist()) == set(range(10))
    box = np.asarray(held["box"], np.float64)
    assert (box[:, :2] - box[:, 2:] / 2 >= 0).all()
    assert (box[:, :2] + box[:, 2:] / 2 <= 640).all()


def test_float_score_is_the_one_in_the_readme() -> None:
    found = re.search(r"float score: (\d\.\d+)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    held = _load("eval.npz")
    measured = metric.score({metric.OUTPUT: _run(held["images"])}, held).mean()
    assert measured == pytest.approx(float(found[1]), abs=0.001)


def test_output_mixes_pixels_and_scores_in_one_tensor() -> None:
    rows = _run(_load("calib.npz")["images"])
    assert rows.shape[1:] == (CELLS, COLUMNS)
    assert rows[:, :, :4].max() > 255  # one 8-bit step over this range is wider than every score
    assert rows[:, :, 4:].min() >= 0
    assert rows[:, :, 4:].max() <= 1


def _channel_spread(tensor: str) -> float:
    """Return the ratio of the largest to the smallest channel's peak over the calibration images."""
    model = onnx.load(FOLDER / "digits.onnx")
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(tensor))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (values,) = session.run([tensor], {"images": _load("calib.npz")["images"].astype(np.float32)})
    peaks = np.asarray(values).max(axis=(0, 2, 3))
    alive = peaks[peaks > 1e-6]
    return float(alive.max() / alive.min())


@pytest.mark.parametrize(("tensor", "decades"), [("b2/expand_relu_out", 3.0), ("b4/dw_relu_out", 3.4)])
def test_channels_are_unbalanced_where_the_readme_says(tensor: str, decades: float) -> None:
    assert np.log10(_channel_spread(tensor)) == pytest.approx(decades, abs=0.05)


@pytest.mark.parametrize("tensor", ["b1/expand_relu_out", "b3/dw_relu_out", "b6/expand_relu_out"])
def test_other_channels_stay_balanced(tensor: str) -> None:
    assert _channel_spread(tensor) < 100


def test_right_digit_in_the_right_place_scores() -> None:
    assert _points(_detection(3)) == [1.0]


def test_wrong_digit_scores_nothing() -> None:
    assert _points(_detection(4)) == [0.0]


@pytest.mark.parametrize(("shift", "points"), [(0.0, 1.0), (60.0, 1.0), (70.0, 0.0), (200.0, 0.0), (5000.0, 0.0)])
def test_box_needs_half_an_overlap(shift: float, points: float) -> None:
    # A shift by s of a box 200 wide leaves an IoU of (200 - s) / (200 + s): one half at 66.7.
    assert _points(_detection(3, (BOX[0] + shift, *BOX[1:]))) == [points]


@pytest.mark.parametrize(("confidence", "points"), [(0.26, 1.0), (0.24, 0.0), (0.0, 0.0)])
def test_unsure_detection_scores_nothing(confidence: float, points: float) -> None:
    assert _points(_detection(3, confidence=confidence)) == [points]


def test_only_the_most_confident_cell_counts() -> None:
    rows = _detection(3)
    rows[0, 8, 4], rows[0, 8, 5 + 6] = 1.0, 0.95
    assert _points(rows) == [0.0]


def test_confidence_is_object_times_class() -> None:
    rows = _detection(3)
    rows[0, 8, 4], rows[0, 8, 5 + 6] = 0.5, 1.0
    assert _points(rows) == [1.0]


@pytest.mark.parametrize("column", [0, 2, 4, 8])
def test_nan_scores_nothing(column: int) -> None:
    rows = _detection(3)
    rows[0, 7, column] = np.nan
    assert _points(rows) == [0.0]


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        _points(np.zeros((2, CELLS, COLUMNS), np.float32))
    with pytest.raises(ValueError, match="do not fit"):
        _points(np.zeros((1, COLUMNS), np.float32))
