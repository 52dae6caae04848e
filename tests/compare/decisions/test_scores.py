"""What the metrics without labels score, on cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.compare.decisions.boxes import expected_f1
from dovetail.compare.decisions.classes import ClassAgreement
from dovetail.compare.decisions.enough import pictures_needed
from dovetail.compare.decisions.masks import MaskAgreement, mask_agreement
from dovetail.compare.decisions.noise import AnyNoise, noise_against, values_against
from dovetail.compare.decisions.points import PointAgreement
from dovetail.compare.decisions.symbols import TextAgreement, edit_distance
from dovetail.compare.decisions.vectors import EmbeddingAngle, EmbeddingRanking, SignalAgreement
from dovetail.compare.decisions.worst import Decision, Decisions
from dovetail.errors import DataError
from dovetail.outputs.decode.detections import Detections
from dovetail.outputs.layouts import Activation, MaskLayout, PointsLayout, ScoresLayout, SequenceLayout


def seen(*rows):
    table = np.array(rows, float).reshape(-1, 6)
    return Detections(table[:, :4], table[:, 4], table[:, 5].astype(int))


CAT, DOG = (0, 0, 10, 10), (20, 20, 40, 40)


def test_f1_is_what_float_expects_of_itself():
    """One box of 0.9: at 0.25, 0.5 and 0.75 it counts; 2 x 0.9 hits over one box and 0.9 objects."""
    golden = seen((*CAT, 0.9, 1))
    assert expected_f1(golden, golden, 0.25) == pytest.approx(2 * 0.9 / 1.9)


def test_a_lost_a_false_and_a_wrong_class_cost():
    golden = seen((*CAT, 0.9, 1), (*DOG, 0.8, 2))
    own = expected_f1(golden, golden, 0.25)
    lost = expected_f1(
        golden, golden._replace(boxes=golden.boxes[:1], scores=golden.scores[:1], classes=golden.classes[:1]), 0.25
    )
    extra = expected_f1(golden, seen((*CAT, 0.9, 1), (*DOG, 0.8, 2), (50, 50, 60, 60, 0.9, 1)), 0.25)
    wrong = expected_f1(golden, golden._replace(classes=np.array([1, 3])), 0.25)
    moved = expected_f1(golden, golden._replace(boxes=golden.boxes + 8), 0.25)
    assert wrong < lost < own
    assert extra < own
    assert moved < own
    assert expected_f1(golden, seen(), 0.25) == 0


def test_scores_that_move_on_one_side_of_a_threshold_decide_nothing():
    """Below it nothing is seen before and after: noise in what nobody counts is no loss, and above it neither."""
    assert expected_f1(seen((*CAT, 0.47, 1)), seen((*CAT, 0.41, 1)), 0.5) == 1
    golden = seen((*CAT, 0.72, 1), (*DOG, 0.47, 2))
    own = expected_f1(golden, golden, 0.5)
    assert expected_f1(golden, seen((*CAT, 0.55, 1), (*DOG, 0.41, 2)), 0.5) == own


@pytest.mark.parametrize(("score", "lost"), [(0.49, 0.3), (0.45, 0.7), (0.42, 1.0), (0.1, 1.0), (0.0, 1.0)])
def test_a_score_that_crosses_a_threshold_costs_by_how_far_it_moved(score, lost):
    golden = seen((*CAT, 0.52, 1))
    measured = seen((*CAT, score, 1)) if score else seen()
    expected = 2 * (1 - lost) * 0.52 / (1 - lost + 0.52)
    assert expected_f1(golden, measured, 0.5) == pytest.approx(expected)
    # The other way round something is seen that float does not see, by as much.
    seen_now = expected_f1(seen((*CAT, 0.42, 1)), seen((*CAT, 0.42 + lost / 10 + 1e-9, 1)), 0.5)
    assert seen_now == pytest.approx(1 - lost if lost > 0.8 else 1)


def test_a_box_at_the_threshold_is_a_coin_toss():
    """The box of 0.26 counts, that of 0.24 nearly so: little is lost, and never more than it is worth."""
    golden, measured = seen((*CAT, 0.26, 1)), seen((*CAT, 0.24, 1))
    own = expected_f1(golden, golden, 0.25)
    assert 0 <= own - expected_f1(golden, measured, 0.25) < 0.03
    assert own == pytest.approx(2 * 0.26 / 1.26)


def test_pictures_without_anything():
    assert expected_f1(seen(), seen(), 0.25) == 1
    assert expected_f1(seen(), seen((*CAT, 0.9, 1)), 0.25) == 0
    assert expected_f1(seen(), seen((*CAT, 0.1, 1)), 0.25) == 1


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000))
def test_no_candidate_beats_float(seed):
    rng = np.random.default_rng(seed)

    def some():
        count = int(rng.integers(0, 6))
        low = rng.uniform(0, 50, (count, 2))
        boxes = np.concatenate([low, low + rng.uniform(5, 20, (count, 2))], axis=1)
        return Detections(boxes, rng.uniform(0.1, 1, count), rng.integers(0, 2, count))

    golden, measured = some(), some()
    assert 0 <= expected_f1(golden, measured, 0.25) <= expected_f1(golden, golden, 0.25) + 1e-12 <= 1 + 1e-12


def scores(values):
    return {"y": np.asarray(values, np.float32)}


def test_classes_score_by_floats_probability():
    metric = ClassAgreement(ScoresLayout("y", 0, 3, Activation.SOFTMAX))
    golden = scores([[0.5, 0.4, 0.1], [0.9, 0.05, 0.05], [0.2, 0.3, 0.5]])
    measured = scores([[0.3, 0.6, 0.1], [0.1, 0.8, 0.1], [0.1, np.nan, 0.2]])
    np.testing.assert_allclose(metric.per_sample(golden, golden), [0.5, 0.9, 0.5], rtol=1e-6)
    np.testing.assert_allclose(metric.per_sample(measured, golden), [0.4, 0.05, 0.0], rtol=1e-6)
    logits = ClassAgreement(ScoresLayout("y", 0, 2, Activation.NONE))
    np.testing.assert_allclose(logits.score(scores([[0, 5]]), scores([[0, np.log(3)]])), 0.75, rtol=1e-5)


def test_classes_that_do_not_exclude_each_other():
    metric = ClassAgreement(ScoresLayout("y", 0, 3, Activation.SIGMOID, independent=True))
    golden = scores([[0.9, 0.6, 0.01]])
    np.testing.assert_allclose(metric.per_sample(golden, golden), [(0.9 + 0.6) / 2], rtol=1e-6)
    np.testing.assert_allclose(metric.per_sample(scores([[0.9, 0.4, 0.01]]), golden), [(0.9 + 0.4) / 2], rtol=1e-6)
    np.testing.assert_allclose(
        metric.per_sample(scores([[0.9, 0.6, 0.7]]), golden), [(0.9 + 0.6 + 0.01) / 3], rtol=1e-5
    )
    one = ClassAgreement(ScoresLayout("y", 0, 1, Activation.SIGMOID))
    np.testing.assert_allclose(one.per_sample(scores([[0.2]]), scores([[0.3]])), [0.7], rtol=1e-6)
    ids = ClassAgreement(ScoresLayout("y", 0, 0, labels=True))
    assert ids.per_sample({"y": np.array([3, 4])}, {"y": np.array([3, 5])}).tolist() == [1, 0]


def test_masks_lose_by_class_and_by_margin():
    metric = MaskAgreement(MaskLayout("y", 0, 2))
    golden = np.zeros((1, 2, 4, 4))
    golden[:, 1] = -5.0
    golden[:, 1, :2] = 5.0  # the upper half is class 1, surely
    measured = golden.copy()
    measured[:, 1, 1] = -5.0  # a row of it is lost: 4 of 8
    sure = 1 / (1 + np.exp(-5.0)) - 1 / (1 + np.exp(5.0))
    expected = ((1 - 4 * sure / 8) + (1 - 4 * sure / 12)) / 2
    np.testing.assert_allclose(metric.score({"y": measured}, {"y": golden}), expected)
    doubtful = golden.copy()
    doubtful[:, 1, 1] = 0.01
    assert metric.score({"y": measured}, {"y": doubtful}) > 0.99
    single = MaskAgreement(MaskLayout("y", None, 2, Activation.SIGMOID))
    one = np.zeros((1, 1, 4, 4))
    one[:, :, :2] = 1.0
    assert single.score({"y": one}, {"y": one}) == 1
    assert single.score({"y": np.zeros_like(one)}, {"y": one}) == 0


def test_a_class_that_a_picture_hardly_has_is_held_against_what_it_has_elsewhere():
    """Seven stray pixels of a picture without people are no lost person, as in the mean IoU of a whole set."""
    layout = MaskLayout("y", None, 2, Activation.SIGMOID)
    golden = np.zeros((2, 1, 20, 20))
    golden[0, :, :10] = 1.0  # a person in half of the first picture
    golden[1, :, 0, :7] = 1.0
    measured = golden.copy()
    measured[1] = 0.0
    by_picture = MaskAgreement(layout).per_sample({"y": measured}, {"y": golden})
    assert by_picture.tolist() == [1.0, 0.0]
    metric = mask_agreement(layout, golden)
    typical = (200 + 7) / 800
    assert dict(metric.typical) == {0: 1 - typical, 1: typical}
    np.testing.assert_allclose(metric.per_sample({"y": measured}, {"y": golden}), [1.0, 1 - 7 / (typical * 400)])
    # A whole person that is lost is lost, and stray pixels in a picture with one are as many of its own.
    lost, stray = np.zeros_like(golden), golden.copy()
    stray[0, :, 10] = 1.0
    assert metric.per_sample({"y": lost}, {"y": golden})[0] == 0.0
    np.testing.assert_allclose(metric.per_sample({"y": stray}, {"y": golden})[0], 1 - 20 / 220)


def test_points_count_within_reach_of_their_span():
    metric = PointAgreement(PointsLayout("y", 4, 2))
    golden = np.array([[0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0]])
    measured = golden + np.array([[0, 0, 0.04, 0, 0, 0.08, 0.5, 0]])
    # Reaches of 0.05, 0.1 and 0.2 of a span of 1: three points, two, and three of four.
    np.testing.assert_allclose(metric.score({"y": measured}, {"y": golden}), (2 + 3 + 3) / 12)
    broken = np.where(np.arange(8) == 3, np.nan, golden)
    np.testing.assert_allclose(metric.score({"y": broken}, {"y": golden}), 3 / 4)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=6))
def test_edit_distance_is_that_of_the_definition(first, second):
    def slow(a, b):
        if not a or not b:
            return len(a) + len(b)
        return min(slow(a[1:], b) + 1, slow(a, b[1:]) + 1, slow(a[1:], b[1:]) + (a[0] != b[0]))

    assert edit_distance(first, second) == slow(first, second)


def test_text():
    metric = TextAgreement(SequenceLayout("y", 0, 1, 4, 0))

    def said(*steps):
        return {"y": np.eye(4)[list(steps)][None]}

    assert metric.score(said(1, 0, 2, 3), said(1, 0, 2, 2)) == pytest.approx(1 - 1 / 3)
    assert metric.score(said(0, 0, 0, 0), said(0, 0, 0, 0)) == 1


def test_signals_score_by_energy_whatever_the_loudness():
    rng = np.random.default_rng(0)
    golden = rng.normal(size=(1, 1, 4000))
    noise = rng.normal(size=golden.shape)
    noise -= golden * (golden * noise).sum() / np.square(golden).sum()
    noise *= np.sqrt(np.square(golden).sum() / np.square(noise).sum() / 100)  # 20 dB below
    metric = SignalAgreement("y")
    score = metric.score({"y": 3 * (golden + noise)}, {"y": golden})
    assert score == pytest.approx(100 / 101)
    assert metric.unit(score) == "SI-SDR 20.0 dB"
    assert metric.score({"y": -golden}, {"y": golden}) == 0
    assert metric.score({"y": np.zeros_like(golden)}, {"y": np.zeros_like(golden)}) == 1
    pair = np.concatenate([golden, np.zeros_like(golden)], axis=1)
    channels = SignalAgreement("y", 0)
    assert channels.score({"y": pair + 1e-9}, {"y": pair}) == pytest.approx(1)


def test_embeddings_by_angle_and_ranking():
    golden = np.eye(3)[:, :3] + 0.01 * np.arange(9).reshape(3, 3)
    angle = EmbeddingAngle("y")
    turned = np.array([[1.0, 1.0, 0.0]])
    assert angle.score({"y": turned}, {"y": np.array([[1.0, 0.0, 0.0]])}) == pytest.approx(0.5)
    assert angle.unit(0.5) == "45.0 degrees"
    ranking = EmbeddingRanking("y", tuple(map(tuple, golden.tolist())))
    assert ranking.score({"y": golden}, {"y": golden}) == 1
    swapped = golden[[0, 2, 1]]
    assert ranking.score({"y": swapped}, {"y": golden}) < 1
    assert ranking.per_sample({"y": golden[:2]}, {"y": -golden[:2]}).tolist() == [0, 0]
    alone = [ranking.score({"y": swapped[row : row + 1]}, {"y": golden[row : row + 1]}) for row in range(3)]
    assert ranking.per_sample({"y": swapped}, {"y": golden}).tolist() == alone


def test_a_quiet_channel_cannot_lead():
    """Noise of 1 is 1 % of a range of 100, and 10 % of a range of 2, as that counts as a tenth of 100."""
    rng = np.random.default_rng(1)
    golden = np.zeros((4, 2, 500))
    golden[:, 0] = rng.permutation(np.linspace(0, 100, 2000)).reshape(4, 500)
    golden[:, 1] = rng.permutation(np.linspace(0, 2, 2000)).reshape(4, 500)
    metric = noise_against("y", golden)
    assert metric.ranges == pytest.approx((100, 10))
    for channel, share in ((0, 0.01), (1, 0.1)):
        measured = golden.copy()
        measured[:, channel] += rng.choice([-1.0, 1.0], (4, 500))
        assert metric.score({"y": measured}, {"y": golden}) == pytest.approx(1 - share)
    assert metric.unit(0.99) == "1.00% of the range, 40 dB"
    broken = golden.copy()
    broken[0, 0, 0] = np.nan
    assert metric.per_sample({"y": broken}, {"y": golden})[0] == 0


def test_values_beside_a_decision_count_where_they_are_near():
    """Of a range of 10: 0.4 is near, 1.25 half way from 0.5 to 2, and 3 or no number is far."""
    golden = np.linspace(0, 10, 20).reshape(4, 5)
    metric = values_against("y", golden)
    assert metric.axis is None
    for apart, share in ((0.4, 1.0), (1.25, 0.5), (3.0, 0.0), (np.nan, 0.0)):
        measured = golden.copy()
        measured[2, 1] += apart
        expected = [1.0, 1.0, 1 - (1 - share) / 5, 1.0]
        np.testing.assert_allclose(metric.per_sample({"y": measured}, {"y": golden}), expected)
    unknown = np.where(golden == golden[1, 1], np.nan, golden)
    assert metric.score({"y": golden}, {"y": unknown}) == 1


def test_noise_of_any_output():
    golden = {"a": np.array([[0.0, 1.0], [0.0, 1.0]]), "b": np.array([[5.0], [6.0]])}
    metric = AnyNoise()
    assert metric.score(golden, golden) == 1
    measured = {**golden, "a": np.array([[0.1, 1.1], [0.0, 1.0]])}
    np.testing.assert_allclose(metric.per_sample(measured, golden), [0.9, 1.0])
    with pytest.raises(DataError, match="output 'b' is missing"):
        metric.per_sample({"a": golden["a"]}, golden)


def test_of_several_decisions_the_worst_counts():
    first = Decision("classes", "classification", ("y",), ClassAgreement(ScoresLayout("y", 0, 2, Activation.SOFTMAX)))
    second = Decision("angle", "embedding", ("e",), EmbeddingAngle("e"))
    metric = Decisions((first, second))
    golden = {"y": np.array([[0.6, 0.4], [0.6, 0.4]]), "e": np.array([[1.0, 0.0], [1.0, 0.0]])}
    measured = {"y": np.array([[0.4, 0.6], [0.9, 0.1]]), "e": np.array([[1.0, 0.0], [1.0, 1.0]])}
    np.testing.assert_allclose(metric.per_sample(golden, golden), [1, 1])
    np.testing.assert_allclose(metric.per_sample(measured, golden), [0.8, 0.5])
    figures = metric.figures(measured, golden)
    assert [(item.name, item.kind, item.outputs, round(item.score, 3), round(item.loss, 3)) for item in figures] == [
        ("classes", "classification", ("y",), 0.5, 0.1),
        ("angle", "embedding", ("e",), 0.75, 0.25),
    ]
    assert figures[1].unit == "30.0 degrees"
    alone = Decisions((first,))
    np.testing.assert_allclose(alone.per_sample(golden, golden), [0.6, 0.6])


def test_pictures_that_a_goal_needs():
    """By the rule of three: without a loss, about 3 / n."""

    def rule_of_three(losses):
        return float(losses.mean()) + 3 / len(losses)

    assert pictures_needed(rule_of_three, 0.01) == 300
    assert pictures_needed(rule_of_three, 0.05, np.array([0.0, 0.04])) == 100
    assert pictures_needed(rule_of_three, 0.01, np.array([0.02])) is None
    assert pictures_needed(lambda losses: 1.0, 0.5) is None
