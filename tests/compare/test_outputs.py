"""The verdict, and the failure that one global figure hides."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dovetail.compare import (
    TASK_METRICS,
    CompareOptions,
    CompareVerdict,
    Head,
    TaskCheck,
    compare_outputs,
    from_json,
    to_json,
)
from dovetail.compare.decisions import Decision, Decisions
from dovetail.compare.decisions.vectors import EmbeddingAngle
from dovetail.errors import DataError
from dovetail.ir import AnyArray


def detector_output(boxes, seed=0):
    """Make [1, boxes, 85]: four box columns in [0, 643], objectness and 80 classes in [0, 1]."""
    rng = np.random.default_rng(seed)
    box = rng.uniform(0, 643, (1, boxes, 4))
    scores = rng.beta(0.3, 3.0, (1, boxes, 81))
    return np.concatenate([box, scores], axis=2).astype(np.float32)


def as_u8(tensor):
    """Quantise per tensor to 8 bits, as a vendor's concat does: a step of 2.52 erases every score."""
    step = 643 / 255
    return (np.rint(tensor / step) * step).astype(np.float32)


@pytest.mark.parametrize("boxes", [25200, 2100, 100, 25, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_zeroed_class_scores_fail_although_the_cosine_is_near_one(boxes, transposed):
    golden = detector_output(boxes)
    measured = as_u8(golden)
    assert golden[..., 4:].max() > 0.5
    assert not measured[..., 4:].any()
    if transposed:
        golden, measured = golden.transpose(0, 2, 1), measured.transpose(0, 2, 1)
    comparison = compare_outputs({"output": golden}, {"output": measured})
    row = comparison.rows[0]
    assert row.cosine > 0.999
    assert row.sqnr_db > 30
    assert comparison.verdict is CompareVerdict.FAIL
    word = "slices 4-84 of axis 1" if transposed else "columns 4-84 of axis 2"
    assert word in " ".join(comparison.reasons)
    assert row.worst.sqnr_db == pytest.approx(0, abs=1e-6)
    assert 4 <= row.worst.start <= 84


def test_only_the_class_scores_zeroed():
    """The boxes are exact: every global figure is perfect but for the scores."""
    golden = detector_output(1000)
    measured = golden.copy()
    measured[..., 5:] = 0
    comparison = compare_outputs({"output": golden}, {"output": measured})
    assert comparison.rows[0].cosine > 0.99999
    assert comparison.verdict is CompareVerdict.FAIL
    assert "columns 5-84 of axis 2" in comparison.reasons[0]


def test_declared_heads_fail_by_name_and_pass_when_good():
    golden = detector_output(500)
    options = CompareOptions(heads={"output": (Head("box", 0, 4), Head("score", 4, 85))})
    failed = compare_outputs({"output": golden}, {"output": as_u8(golden)}, options)
    assert failed.verdict is CompareVerdict.FAIL
    assert "heads 'score'" in failed.reasons[0]
    fine = golden + np.float32(0.004) * np.random.default_rng(1).standard_normal(golden.shape).astype(np.float32)
    passed = compare_outputs({"output": golden}, {"output": fine}, options)
    assert passed.verdict is CompareVerdict.PASS
    assert "head 'score'" in passed.reasons[0]


def test_the_task_metric_fails_alone():
    golden = np.eye(10, dtype=np.float32) * 0.01 + 1
    measured = np.roll(golden, 1, axis=1)
    labels = {"label": np.arange(10)}
    check = TaskCheck(TASK_METRICS["top1"], max_drop=0.05, minimum=0.9)
    comparison = compare_outputs({"y": golden}, {"y": measured}, CompareOptions(tasks=(check,)), labels)
    assert comparison.rows[0].worst.sqnr_db > 10
    assert comparison.tasks[0].golden == 1
    assert comparison.tasks[0].measured == 0
    assert comparison.verdict is CompareVerdict.FAIL
    assert len(comparison.reasons) == 2


def test_rows_are_sorted_and_integers_counted():
    golden: dict[str, AnyArray] = {name: np.array([[1, 2, 3]], np.int8) for name in "abc"}
    measured = {**golden, "b": np.array([[1, 2, 4]], np.int8), "z": np.zeros(1)}
    del measured["c"]
    options = CompareOptions(
        outputs=("b",), isolated_errors={"b": 0.5, "a": 0.1}, origins={"b": "conv_7"}, min_sqnr_db=5
    )
    comparison = compare_outputs(golden, measured, options)
    assert [row.name for row in comparison.rows] == ["b", "a"]
    assert comparison.rows[0].lsb_histogram == ((0, 2), (1, 1))
    assert comparison.rows[0].origin == "conv_7"
    assert (comparison.missing, comparison.extra, comparison.verdict) == (("c",), ("z",), CompareVerdict.PASS)
    assert compare_outputs(golden, measured).verdict is CompareVerdict.FAIL  # c is judged and missing


def test_nan_fails_and_is_counted():
    golden = np.ones((1, 20), np.float32)
    measured = golden.copy()
    measured[0, 3] = np.nan
    comparison = compare_outputs({"y": golden}, {"y": measured})
    assert comparison.verdict is CompareVerdict.FAIL
    assert comparison.rows[0].non_finite == 1
    assert "1 values are NaN or infinite" in comparison.reasons[0]


def test_errors_name_the_tensor():
    with pytest.raises(DataError, match="tensor 'y': compare: shapes differ"):
        compare_outputs({"y": np.zeros(3)}, {"y": np.zeros(4)})
    with pytest.raises(DataError, match="heads names 'q'"):
        compare_outputs({"y": np.zeros(3)}, {"y": np.zeros(3)}, CompareOptions(heads={"q": ()}))
    with pytest.raises(DataError, match="no golden tensor"):
        compare_outputs({}, {})


def test_json_round_trip_keeps_everything_with_infinities():
    golden = {"f": detector_output(4), "i": np.array([[1, -2]], np.int16)}
    measured = {"f": as_u8(golden["f"]), "i": golden["i"]}
    options = CompareOptions(tasks=(TaskCheck(TASK_METRICS["noise"], None),), isolated_errors={"f": 1.0})
    comparison = compare_outputs(golden, measured, options)
    assert any(row.sqnr_db == np.inf for row in comparison.rows)
    assert from_json(to_json(comparison)) == comparison


def test_a_metric_of_several_decisions_gives_each_its_figure():
    parts = tuple(Decision(name, "embedding", (name,), EmbeddingAngle(name)) for name in ("kept", "turned"))
    golden = {name: np.array([[1.0, 0.0]]) for name in ("kept", "turned")}
    measured = {**golden, "turned": np.array([[1.0, 1.0]])}
    options = CompareOptions(tasks=(TaskCheck(Decisions(parts), 0.1),))
    comparison = compare_outputs(golden, measured, options)
    (task,) = comparison.tasks
    assert (task.name, task.golden, task.measured) == ("decisions", 1.0, pytest.approx(0.5))
    assert [(part.name, round(part.loss, 3), part.unit) for part in task.parts] == [
        ("kept", 0.0, "0.0 degrees"),
        ("turned", 0.5, "45.0 degrees"),
    ]
    text = to_json(comparison)
    assert from_json(text) == comparison
    document = json.loads(text)
    del document["tasks"][0]["parts"]
    assert from_json(json.dumps(document)).tasks[0].parts == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "is not an object"),
        ('{"schema": "dovetail.comparison/2"}', "schema"),
        ('{"schema": "dovetail.comparison/1", "verdict": "maybe"}', "verdict 'maybe'"),
        (
            '{"schema": "dovetail.comparison/1", "verdict": "pass", "reasons": [1]}',
            "reasons is not a list of texts",
        ),
        (
            '{"schema": "dovetail.comparison/1", "verdict": "pass", "reasons": [], "rows": [{"worst": 3}]}',
            r"rows\[0\].worst is not an object",
        ),
    ],
)
def test_wrong_json_is_refused_with_its_place(text, message):
    with pytest.raises(DataError, match=message):
        from_json(text)
