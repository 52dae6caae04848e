"""Class metrics, metrics of the user's own, and their errors."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.compare import TASK_METRICS, Reference, TaskMetric, callable_metric, load_metric
from dovetail.errors import DataError

SCORES = np.array([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.2, np.nan, 0.9]])


def each_of(metric, outputs, labels):
    """Return what a metric gives for each sample."""
    scores = metric.per_sample(outputs, labels)
    assert scores is not None
    return list(scores)


def test_top1_with_ids_and_sets():
    top1 = TASK_METRICS["top1"]
    assert each_of(top1, {"y": SCORES}, {"label": np.array([1, 2, 2])}) == [1, 0, 0]
    assert top1.score({"y": SCORES[:2]}, {"any": np.array([[0, 1], [2, -1]])}) == 0.5
    assert TASK_METRICS["top5"].score({"y": SCORES[:2]}, {"label": np.array([0, 2])}) == 1


def test_text_labels_do_not_hide_the_class():
    labels = {"split": np.array(["a", "b"]), "holdout": np.array([True, False]), "ids": np.array([1, 0])}
    assert TASK_METRICS["top1"].score({"y": SCORES[:2]}, labels) == 1


def test_labels_that_do_not_fit_are_refused():
    top1 = TASK_METRICS["top1"]
    with pytest.raises(DataError, match=r"labels 0\.\.3 for 3 classes\. Check for a background class"):
        top1.score({"y": SCORES}, {"label": np.array([0, 1, 3])})
    with pytest.raises(DataError, match="3 outputs, labels"):
        top1.score({"y": SCORES}, {"label": np.array([0, 1])})
    with pytest.raises(DataError, match="2 arrays could be the label"):
        top1.score({"y": SCORES}, {"a": np.array([0, 1, 2]), "b": np.array([0, 1, 2])})


def test_label_free_metrics_compare_with_golden_outputs():
    agreement, noise = TASK_METRICS["top1_agreement"], TASK_METRICS["noise"]
    assert agreement.reference is noise.reference is Reference.GOLDEN
    golden = SCORES[:2]
    measured = golden.copy()
    measured[1] = [0.3, 0.5, 0.2]
    assert each_of(agreement, {"y": measured}, {"y": golden}) == [1, 0]
    assert noise.score({"y": golden}, {"y": golden}) == 1
    per_sample = each_of(noise, {"y": measured}, {"y": golden})
    assert per_sample[0] == 1
    assert per_sample[1] == pytest.approx(1 - np.sqrt(0.08 / 3) / 0.3)


def test_a_map_is_no_list_of_class_scores():
    """The best of 85 x 22 x 22 values is no class: a score made of it would mean nothing."""
    maps = {"y": np.zeros((2, 85, 22, 22))}
    for name, labels in (("top1", {"label": np.zeros(2, int)}), ("top1_agreement", maps)):
        with pytest.raises(
            DataError, match=r"\[2, 85, 22, 22\] is no list of class scores: the best of its 41140 values"
        ):
            TASK_METRICS[name].per_sample(maps, labels)
    assert TASK_METRICS["top1_agreement"].score({"y": np.zeros((2, 5, 1, 1))}, {"y": np.zeros((2, 5, 1, 1))}) == 1


def test_functions_of_the_user(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import numpy as np\n"
        "def each(outputs, labels): return outputs['y'].max(axis=1)\n"
        "def whole(outputs, labels): return 3\n"
        "whole.higher_is_better = False\n"
        "def broken(outputs, labels): return 1 / 0\n"
        "def short(outputs, labels): return np.zeros(1)\n"
        "value = 7\n"
    )
    outputs = {"y": SCORES[:2]}
    each = load_metric(f"{file}:each")
    assert isinstance(each, TaskMetric)
    assert each_of(each, outputs, {}) == [0.7, 0.5]
    assert each.score(outputs, {}) == pytest.approx(0.6)
    whole = load_metric(f"{file}:whole")
    assert (whole.score(outputs, {}), whole.per_sample(outputs, {}), whole.higher_is_better) == (
        3,
        None,
        False,
    )
    with pytest.raises(DataError, match="metric 'broken': ZeroDivisionError"):
        load_metric(f"{file}:broken").score(outputs, {})
    with pytest.raises(DataError, match=r"gave \[1\], not one number or \[2\]"):
        load_metric(f"{file}:short").score(outputs, {})
    for name, message in ((f"{file}:value", "neither a function"), (f"{file}:gone", "has no 'gone'")):
        with pytest.raises(DataError, match=message):
            load_metric(name)


def test_unknown_metrics_name_the_nearest(tmp_path):
    assert load_metric("top1") is TASK_METRICS["top1"]
    with pytest.raises(DataError, match="Did you mean 'top1'"):
        load_metric("top_1")
    with pytest.raises(DataError, match="no file"):
        load_metric(f"{tmp_path}/none.py:f")
    bad = tmp_path / "bad.py"
    bad.write_text("raise KeyError('x')")
    with pytest.raises(DataError, match="KeyError"):
        load_metric(f"{bad}:f")


def test_a_metric_may_not_be_nan():
    with pytest.raises(DataError, match="not finite"):
        callable_metric(lambda outputs, labels: float("nan"), "mine").score({"y": SCORES}, {})
