"""The post-processing of benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))

from dovetail.compare.task import Reference  # noqa: E402
from dovetail.data import Sample  # noqa: E402
from dovetail.outputs.decode.detections import Detections  # noqa: E402
from run_all import COMMANDS  # noqa: E402
from zoo.detection import Ap50, DetectionF1, YoloRows, f1, objects_of, suppress  # noqa: E402
from zoo.detectors import MaskIou  # noqa: E402
from zoo.expected import EXPECTED  # noqa: E402
from zoo.inputs import ENTRIES  # noqa: E402
from zoo.shares import clopper_pearson  # noqa: E402
from zoo.table import markdown, number, text  # noqa: E402
from zoo.views import SHARES, views  # noqa: E402


def detections(*rows: tuple[float, float, float, float, float, int]) -> Detections:
    table = np.array(rows, np.float64).reshape(-1, 6)
    return Detections(table[:, :4], table[:, 4], table[:, 5].astype(np.int64))


def test_suppression_keeps_the_best_of_each_class_and_drops_nan():
    found = detections(
        (0, 0, 10, 10, 0.5, 1), (1, 0, 11, 10, 0.9, 1), (0, 0, 10, 10, 0.4, 2), (0, 0, np.nan, 1, 1.0, 1)
    )
    kept = suppress(found, 0.5)
    assert kept.scores.tolist() == [0.9, 0.4]
    assert kept.classes.tolist() == [1, 2]


def test_f1_counts_pairs_of_one_class():
    real = detections((0, 0, 10, 10, 1, 0), (50, 50, 60, 60, 1, 0))
    assert f1(real, real) == 1.0
    assert f1(detections(), detections()) == 1.0
    assert f1(detections(), real) == 0.0
    twice = detections((0, 0, 10, 10, 1, 0), (0, 0, 10, 10, 1, 0))
    assert f1(twice, real) == pytest.approx(0.5)
    assert f1(detections((0, 0, 10, 10, 1, 3)), real) == 0.0


def yolo(*rows: tuple[float, ...]) -> dict[str, np.ndarray]:
    return {"out": np.array([rows])}


def test_yolo_rows_become_corners():
    found = YoloRows("out", 0.3, 0.5)(yolo((5, 6, 4, 2, 0.9, 0.1, 0.8), (0, 0, 1, 1, 0.1, 1, 1)), 0)
    assert found.boxes.tolist() == [[3, 5, 7, 7]]
    assert found.classes.tolist() == [1]
    assert found.scores.tolist() == [pytest.approx(0.72)]


def test_metrics_of_a_perfect_detector():
    outputs = yolo((5, 5, 10, 10, 1, 0, 1))
    labels = {"boxes": np.array([[[1, 0, 0, 10, 10], [-1] * 5]])}
    decode = YoloRows("out", 0.3, 0.5)
    assert Ap50(decode).score(outputs, labels) == 1.0
    assert DetectionF1(decode, Reference.LABELS).score(outputs, labels) == 1.0
    assert DetectionF1(decode).score(outputs, outputs) == 1.0
    assert len(objects_of(labels["boxes"][0]).classes) == 1


def test_masks_that_are_both_empty_agree():
    golden = {"y": np.array([[[0.0, 0.0]], [[1.0, 1.0]]])}
    measured = {"y": np.array([[[0.1, 0.0]], [[1.0, 0.0]]])}
    assert MaskIou(0.3).per_sample(measured, golden).tolist() == [1.0, 0.5]


def test_every_benchmark_is_run_and_listed():
    files = {path.stem for path in FOLDER.glob("*.py")} - {"run_all", "__init__"}
    assert files == set(COMMANDS)
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [name for name in files if f"`{name}.py`" not in readme] == []


def test_tables():
    assert text(("a", "bb"), [("1", "2")]) == "a  bb\n-  --\n1  2"
    assert markdown(("a",), [("x|y",)]) == "| a |\n| --- |\n| x\\|y |"
    assert (number(None), number(float("nan")), number(0.5, 1)) == ("-", "-", "0.5")


@pytest.mark.parametrize(("hits", "trials"), [(0, 7), (7, 7), (105, 123), (1, 40)])
def test_the_ends_of_an_interval_make_what_was_counted_rare(hits, trials):
    low, high = clopper_pearson(hits, trials)
    assert low == 0 if hits == 0 else binom.sf(hits - 1, trials, low) == pytest.approx(0.025)
    assert high == 1 if hits == trials else binom.cdf(hits, trials, high) == pytest.approx(0.025)


def test_every_model_whose_outputs_are_known_has_inputs():
    files = [item.file for item in EXPECTED]
    assert len(set(files)) == len(files)
    assert {Path(file).name for file in files} <= set(ENTRIES)


def test_labels_stay_on_what_they_label_in_every_view():
    left, top, right, bottom = 8, 16, 28, 48
    pixels = np.full((1, 3, 64, 80), 114.0, np.float32)
    pixels[..., top:bottom, left:right] = 255.0
    boxes = np.array([[2, left, top, right, bottom], [-1, -1, -1, -1, -1]], np.float64)
    found = views([Sample("a", {"x": pixels}, {"boxes": boxes})], 114.0, seed=3)
    assert len(found) == 2 * len(SHARES)
    assert len({sample.id for sample in found}) == len(found)
    for sample in found:
        (_, x, y, z, w), padding = sample.labels["boxes"]
        rows, columns = np.nonzero(sample.inputs["x"][0, 0] > 184.0)
        assert np.allclose([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1], [x, y, z, w], atol=1.0)
        assert padding.tolist() == [-1] * 5
