"""The metric that a view asks for."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from dovetail.compare import TASK_METRICS, Reference, TaskMetric
from dovetail.compare.decisions import metric_for, refuse_top1, see_random
from dovetail.errors import DataError
from dovetail.outputs import Kind, OutputRole, OutputsView
from dovetail.outputs.layouts import Activation, MaskLayout, ScoresLayout, SignalLayout, VectorLayout
from dovetail.outputs.view import HeadView
from dovetail.passes import normalize
from dovetail.testing.heads import detectors, others


def head(kind, layout, *names, confidence=1.0):
    return HeadView(kind, "", dict.fromkeys(names, OutputRole.UNKNOWN), layout, confidence)


VIEW = OutputsView(
    (
        head(Kind.CLASSIFICATION, ScoresLayout("a", 0, 3, Activation.SOFTMAX), "a"),
        head(Kind.CLASSIFICATION, ScoresLayout("b", 0, 2, Activation.SOFTMAX), "b"),
        head(Kind.EMBEDDING, VectorLayout("e", 4), "e"),
        head(Kind.SIGNAL, SignalLayout("s"), "s"),
        head(Kind.UNKNOWN, None, "u"),
        head(Kind.STATE, None, "h"),
        head(Kind.SEGMENTATION, MaskLayout("m", 0, 2), "m"),
    )
)


def outputs(count=4, seed=0):
    rng = np.random.default_rng(seed)
    shares = {"a": rng.dirichlet(np.ones(3), count), "b": rng.dirichlet(np.ones(2), count)}
    shapes = {"e": (4,), "s": (20,), "u": (3, 5), "h": (2, 6), "m": (2, 8, 8)}
    return {**shares, **{name: rng.normal(size=(count, *shape)) for name, shape in shapes.items()}}


def test_every_head_has_its_figure():
    golden = outputs()
    metric = metric_for(VIEW, golden)
    assert isinstance(metric, TaskMetric)
    assert metric.reference is Reference.GOLDEN
    names = [figure.name for figure in metric.figures(golden, golden)]
    assert names == [
        "classes 1",
        "classes 2",
        "angle",
        "ranking",
        "signal",
        "noise of u",
        "state h",
        "mask",
    ]
    assert [(figure.kind, figure.outputs) for figure in metric.figures(golden, golden)][1:3] == [
        ("classification", ("b",)),
        ("embedding", ("e",)),
    ]
    np.testing.assert_allclose(metric.per_sample(golden, golden), 1)
    measured = outputs(seed=1)
    worst = min(figure.score - figure.float_score for figure in metric.figures(measured, golden))
    assert metric.score(measured, golden) - 1 <= worst + 1e-12


def test_landmarks_count_where_they_are_near_and_weights_of_masks_by_their_noise():
    roles = {
        "a": OutputRole.SCORES,
        "l": OutputRole.LANDMARKS,
        "c": OutputRole.COEFFICIENTS,
        "p": OutputRole.PROTOTYPES,
    }
    seen = HeadView(Kind.DETECTION, "", roles, ScoresLayout("a", 0, 3, Activation.SOFTMAX), 1.0)
    rng = np.random.default_rng(3)
    golden = {"a": rng.dirichlet(np.ones(3), 4), **{name: rng.normal(size=(4, 6)) for name in "lcp"}}
    names = [figure.name for figure in metric_for(OutputsView((seen,)), golden).figures(golden, golden)]
    assert names == ["classes", "values of l", "noise of c", "noise of p"]


def test_a_metric_goes_to_another_process_and_back():
    golden, measured = outputs(), outputs(seed=2)
    metric = metric_for(VIEW, golden)
    copied = pickle.loads(pickle.dumps(metric))
    assert copied == metric
    assert repr(copied) == repr(metric)
    np.testing.assert_array_equal(copied.per_sample(measured, golden), metric.per_sample(measured, golden))


def test_top1_of_what_is_no_classifier_is_refused():
    detector = OutputsView((head(Kind.DETECTION, None, "y"),))
    with pytest.raises(
        DataError, match=r"'top1_agreement': the model is no classifier, its outputs look like detection"
    ):
        refuse_top1(TASK_METRICS["top1_agreement"], detector)
    refuse_top1(TASK_METRICS["noise"], detector)
    refuse_top1(TASK_METRICS["top1"], VIEW)
    refuse_top1(TASK_METRICS["top1"], OutputsView((head(Kind.UNKNOWN, None, "y"),)))


@pytest.mark.parametrize(
    "draw",
    [
        detectors.fastestdet,
        others.segmentation,
        others.text_map,
        others.heat_maps,
        others.simcc,
        others.coordinates,
        others.ctc,
        others.classes,
        others.several_classes,
        others.embedding,
        others.regression,
        others.denoiser,
        others.waves,
    ],
)
def test_a_sample_is_one_observation_within_0_and_1(draw):
    """Bounds of the loss rest on it: a sample's score is in 0..1, and does not depend on the samples beside it."""
    found = see_random(normalize(draw(np.random.default_rng(0)).graph), threads=1)
    metric = metric_for(found.view, found.golden)
    rng = np.random.default_rng(1)
    for share in (0.0, 0.05, 0.5, 50.0):
        measured = {
            name: values + (share * values.std() * rng.normal(size=values.shape)).astype(values.dtype)
            for name, values in found.golden.items()
        }
        scores = metric.per_sample(measured, found.golden)
        assert scores.shape == (3,)
        assert ((scores >= 0) & (scores <= 1)).all()
        assert metric.score(measured, found.golden) == pytest.approx(scores.mean())
        alone = [
            metric.per_sample(
                {name: values[row : row + 1] for name, values in measured.items()},
                {name: values[row : row + 1] for name, values in found.golden.items()},
            )[0]
            for row in range(3)
        ]
        np.testing.assert_allclose(alone, scores, rtol=1e-9, atol=1e-12)
