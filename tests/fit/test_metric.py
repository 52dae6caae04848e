"""The metric of a fit: named, by labels, or float's own decisions where the outputs are recognised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dovetail.compare.decisions import Decisions, see_random
from dovetail.data import Sample, specs_of
from dovetail.errors import DataError
from dovetail.fit.metric import choose_metric
from dovetail.ir import Graph
from dovetail.outputs.layouts import DenseLayout
from dovetail.passes import normalize
from dovetail.testing.heads.detectors import scrfd, yolox
from dovetail.testing.heads.net import GeneratedHead, HeadNet, stripped
from dovetail.testing.heads.published_detectors import blazeface
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples, labelled_samples, planted_detector


def noise(graph: Graph, count: int = 3) -> HeldSamples:
    """Return random pictures for a graph."""
    rng = np.random.default_rng(0)
    shapes = {spec.name: [size or 1 for size in spec.shape] for spec in specs_of(graph)}
    return HeldSamples(
        [
            Sample(
                str(number), {name: rng.uniform(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}, {}
            )
            for number in range(count)
        ]
    )


def test_the_metric_follows_the_labels() -> None:
    net = Network(3)
    pooled = net.op("GlobalAveragePool", net.conv(net.input("x", 1, 2, 4, 4), 6, 3), shape=(1, 6, 1, 1))
    graph = net.graph(net.op("Softmax", net.op("Flatten", pooled, shape=(1, 6)), axis=1))
    bare = noise(graph)
    labelled = HeldSamples([replace(sample, labels={"label": np.array(1)}) for sample in bare])
    assert choose_metric(None, None, graph, labelled).metric.name == "top1"
    found = choose_metric(None, None, graph, bare)
    assert isinstance(found.metric, Decisions)
    assert [part.name for part in found.metric.parts] == ["classes"]
    assert found.identity.startswith("decisions:classes:classification/")
    assert choose_metric("top5", None, graph, bare).identity == "top5:"


def _classifier(values: int) -> Graph:
    """Return a classifier of the means of so many channels."""
    net = Network(3)
    pooled = net.op("GlobalAveragePool", net.input("x", 1, values, 4, 4), shape=(1, values, 1, 1))
    return net.graph(net.op("Softmax", net.op("Flatten", pooled, shape=(1, values)), axis=1))


@pytest.mark.parametrize("count", [7, 8])
@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("alike", [False, True])
def test_a_classifier_that_tells_no_two_samples_apart_is_told(count: int, classes: int, alike: bool) -> None:
    values = np.zeros((count, 1, classes, 4, 4), np.float32)
    values[np.arange(count), 0, 0 if alike else np.arange(count) % classes] = 1
    samples = HeldSamples([Sample(str(number), {"x": item}, {}) for number, item in enumerate(values)])
    note = choose_metric(None, "kind=classification", _classifier(classes), samples).note
    assert ("float says the same of all 8 samples" in note) is (alike and count > 7 and classes > 1)


def test_a_metric_s_identity_changes_with_its_code(tmp_path: Path) -> None:
    graph = planted_detector()
    samples = labelled_samples(graph, 2)
    identities = []
    for body in ("1.0", "2.0"):
        (tmp_path / "mine.py").write_text(f"def score(outputs, labels):\n    return {body}\n")
        identities.append(choose_metric(f"{tmp_path / 'mine.py'}:score", None, graph, samples).identity)
    assert identities[0] != identities[1]


def test_outputs_are_looked_at_beside_a_metric_of_one_s_own(tmp_path: Path) -> None:
    """Pictures of what is decided need no metric of decisions."""
    (tmp_path / "mine.py").write_text("def score(outputs, labels):\n    return 1.0\n")
    graph = planted_detector()
    found = choose_metric(f"{tmp_path / 'mine.py'}:score", None, graph, labelled_samples(graph, 4))
    assert found.view is not None
    assert found.metric.name == "score"


def test_outputs_that_cannot_be_looked_at_are_no_error_for_a_metric_of_one_s_own(tmp_path: Path) -> None:
    """An output that has another number of axes on other samples fits nothing, but a function may know it."""
    (tmp_path / "mine.py").write_text("def score(outputs, labels):\n    return 1.0\n")
    net = Network(0)
    graph = net.graph(net.op("Relu", net.input("x", 1, 7)))
    found = choose_metric(f"{tmp_path / 'mine.py'}:score", None, graph, HeldSamples([]))
    assert found.seen is None
    assert found.note.startswith("outputs: not looked at: ")


@pytest.mark.parametrize("family", [scrfd, yolox])
def test_top1_of_a_detector_is_refused_with_labels_and_without(
    family: Callable[[np.random.Generator], GeneratedHead],
) -> None:
    graph = normalize(family(np.random.default_rng(0)).graph)
    bare = noise(graph)
    labelled = HeldSamples([replace(sample, labels={"label": np.array(1)}) for sample in bare])
    for name, samples in ((None, labelled), ("top1", labelled), ("top1_agreement", bare)):
        with pytest.raises(DataError, match=r"no classifier, .* like detection\. Take the metric 'decisions'") as error:
            choose_metric(name, None, graph, samples)
        assert error.value.option == "metric"
    assert choose_metric("decisions", None, graph, labelled).metric.name == "decisions"


def test_what_is_not_recognised_is_asked_for_in_one_line_to_copy() -> None:
    """Two maps of as many channels may be anything; the line of the error, given back, is taken."""
    net = HeadNet(1)
    feature = net.backbone(net.picture(64, 64), (8,))[0]
    graph = normalize(stripped(net.finish({"a": net.conv(feature, 7)}, {})).graph)
    samples = noise(graph)
    with pytest.raises(DataError, match="are not recognised with confidence: ") as error:
        choose_metric(None, None, graph, samples)
    assert error.value.option == "decisions"
    assert error.value.hint is not None
    line = error.value.hint.split("'")[1]
    found = choose_metric(None, line, graph, samples)
    assert found.view is not None
    assert found.view.heads[0].confidence == 1
    assert f"kind={found.view.heads[0].kind.value}" in line


@pytest.mark.parametrize(("values", "asked"), [(1, False), (700, True)])
def test_a_few_numbers_beside_what_is_recognised_are_compared_as_numbers(values: int, asked: bool) -> None:
    """A flag beside a Softmax of 1,000 classes needs no question; as many numbers again might be what is decided."""
    net = HeadNet(1)
    flat = net.pooled(net.backbone(net.picture(64, 64), (16,))[0])
    graph = normalize(net.finish({"p": net.softmax(net.dense(flat, 1000), 1), "q": net.dense(flat, values)}, {}).graph)
    if asked:
        with pytest.raises(DataError, match="the model's outputs are not recognised with confidence"):
            choose_metric(None, None, graph, noise(graph))
        return
    found = choose_metric(None, None, graph, noise(graph))
    assert found.note.endswith("'q' unknown; what is not recognised is compared as numbers")
    assert found.decisions is not None
    assert [(part.kind, part.outputs) for part in found.decisions.parts] == [
        ("classification", ("p",)),
        ("unknown", ("q",)),
    ]


def test_hints_serve_only_decisions() -> None:
    graph = planted_detector()
    samples = labelled_samples(graph, 2)
    with pytest.raises(DataError, match="serves the metric 'decisions', not 'noise'"):
        choose_metric("noise", "kind=detection", graph, samples)


def test_a_detector_that_sees_nothing_has_no_decision_to_keep() -> None:
    """Where float has no box the agreement of any plan would be perfect."""
    for shift, expected in ((-30.0, None), (0.0, "detections")):
        net = HeadNet(1)
        feature = net.backbone(net.picture(64, 64), (8,))[0]
        scores = net.sigmoid(net.op("Add", net.conv(feature, 3), net.constant(shift)))
        outputs = {"scores": net.rows(scores, 3), "boxes": net.rows(net.conv(feature, 4), 4)}
        graph = normalize(net.finish(outputs, {}).graph)
        if expected is None:
            with pytest.raises(DataError, match=r"float detects nothing in 3 samples: there is no decision"):
                choose_metric(None, "kind=detection", graph, noise(graph))
            continue
        found = choose_metric(None, "kind=detection", graph, noise(graph))
        assert isinstance(found.metric, Decisions)
        assert [part.name for part in found.metric.parts] == [expected]


def test_a_threshold_of_ones_own_is_where_detections_count() -> None:
    """The outputs are recognised as before, scores are remembered by it, and it serves no classifier."""
    graph = normalize(yolox(np.random.default_rng(0)).graph)
    samples = noise(graph)
    usual, own = (choose_metric("decisions", said, graph, samples) for said in (None, "threshold=0.2"))
    assert usual.note.endswith("from a score of 0.25 on")
    assert own.note.endswith("from a score of 0.2 on")
    assert usual.view is not None
    assert own.view is not None
    assert own.view.heads[0].family == usual.view.heads[0].family
    assert own.view.heads[0].confidence == usual.view.heads[0].confidence
    assert own.identity != usual.identity
    net = HeadNet(1)
    flat = net.pooled(net.backbone(net.picture(64, 64), (16,))[0])
    classifier = normalize(net.finish({"p": net.softmax(net.dense(flat, 10), 1)}, {}).graph)
    with pytest.raises(DataError, match=r"serves detections and masks of one score; .* classification"):
        choose_metric(None, "threshold=0.6", classifier, noise(classifier))


@pytest.mark.parametrize(("draw", "limit"), [(blazeface, 0.5), (scrfd, 0.5), (yolox, 0.25)])
def test_detections_count_from_where_published_programs_count_them(
    draw: Callable[[np.random.Generator], GeneratedHead], limit: float
) -> None:
    seen = see_random(normalize(draw(np.random.default_rng(0)).graph), 0, threads=1)
    limits = [head.layout.threshold for head in seen.view.heads if isinstance(head.layout, DenseLayout)]
    assert limits == [limit]
