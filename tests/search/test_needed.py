"""What is needed of outputs is found by clipping, and what is not is no reason to raise anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dovetail.compare.decisions import Decision, Decisions
from dovetail.compare.decisions.golden import AgainstFloat
from dovetail.data import split_samples
from dovetail.ir import AnyArray, Graph
from dovetail.plan import parse_placement
from dovetail.quantize import calibrate
from dovetail.repair import CHOICES
from dovetail.search import CostOptions, Goal, TuneOptions, TuneRequest, tune
from dovetail.search.healing import heal_request
from dovetail.search.replay import replay
from dovetail.search.request import SilentSearch
from dovetail.testing.networks import Network
from dovetail.testing.planted import labelled_samples


def _scores(background: float) -> Graph:
    """Return a network that scores places: as they are above 0, far below it where there is nothing."""
    net = Network(2)
    x = net.input("x", 1, 2, 4, 4)
    parts = [
        net.op("Conv", net.op("Relu", _scaled(net, x, sign)), net.constant(np.full((1, 1, 1, 1), gain, np.float32)))
        for sign, gain in ((1.0, 1.0), (-1.0, -background))
    ]
    return net.graph(net.op("Add", *parts))


def _scaled(net: Network, x: str, gain: float) -> str:
    weight = net.constant(np.array([gain, 0.0], np.float32).reshape(1, 2, 1, 1))
    return net.op("Conv", x, weight, shape=(1, 1, 4, 4))


class _Found(AgainstFloat):
    """The share of places with a score that are found with about that score."""

    name = "found"

    def per_sample(self, outputs: Mapping[str, AnyArray], labels: Mapping[str, AnyArray]) -> NDArray[np.float64]:
        (made,), (truth,) = outputs.values(), labels.values()
        right = ((made > 0.4) == (truth > 0.4)) & ((truth <= 0.4) | (np.abs(made - truth) < 0.1))
        return np.asarray(right.reshape(len(made), -1).mean(axis=1), np.float64)


class _Alike(AgainstFloat):
    """The share of places whose value is that of float."""

    name = "alike"

    def per_sample(self, outputs: Mapping[str, AnyArray], labels: Mapping[str, AnyArray]) -> NDArray[np.float64]:
        (made,), (truth,) = outputs.values(), labels.values()
        right = np.abs(made - truth) <= 1e-3 * np.abs(truth)
        return np.asarray(right.reshape(len(made), -1).mean(axis=1), np.float64)


def _request(metric: AgainstFloat, background: float = 300.0, kind: str = "detection") -> TuneRequest:
    graph = _scores(background)
    source = labelled_samples(graph, 40)
    decisions = Decisions((Decision(metric.name, kind, graph.outputs, metric),))
    return TuneRequest(
        graph=graph,
        calibration=calibrate(graph, source),
        samples=source,
        splits=split_samples(source),
        metric=decisions,
        decisions=decisions,
        goal=Goal(0.05),
        low=parse_placement("vsi:a311d@u8"),
        ladder=(parse_placement("vsi:a311d@i16"),),
        options=TuneOptions(repairs=CHOICES["all"]),
        costs=CostOptions(migrates=False),
    )


def test_scores_that_decide_nothing_take_no_steps() -> None:
    request = _request(_Found())
    outcome = heal_request(request, SilentSearch())
    assert outcome.repaired.kinds == ("tighten-ranges",)
    (limits,) = outcome.needed.values()
    assert -20 < limits.low < 0.4
    stored = request.calibration.ranges.tensors[request.graph.outputs[0]]
    assert limits.high == stored.high, "scores count as they are"
    assert outcome.healing.shipped < 0.8
    assert outcome.healing.healed > 0.97
    result = tune(request)
    assert result.accepted
    assert not result.raised


def test_a_metric_that_reads_all_values_cuts_off_none() -> None:
    outcome = heal_request(_request(_Alike()), SilentSearch())
    assert outcome.needed == {}
    assert "tighten-ranges" not in outcome.repaired.kinds


class _Blind(AgainstFloat):
    """A comparison that reads nothing, as one does that takes boxes for logarithms of their sizes."""

    name = "blind"

    def per_sample(self, outputs: Mapping[str, AnyArray], labels: Mapping[str, AnyArray]) -> NDArray[np.float64]:
        (made,) = outputs.values()
        return np.ones(len(made))


def test_what_a_comparison_does_not_read_stays_whole() -> None:
    request = _request(_Blind())
    everything = heal_request(replace(request, metric=_request(_Found()).metric), SilentSearch())
    assert everything.needed == {}
    both = heal_request(replace(request, metric=_request(_Alike()).metric), SilentSearch())
    assert both.needed == {}


def test_the_metric_of_the_search_has_to_bear_it_too() -> None:
    request = replace(_request(_Found()), metric=_request(_Alike()).metric)
    assert heal_request(request, SilentSearch()).needed == {}


def test_a_range_that_is_needed_for_the_most_part_stays() -> None:
    assert heal_request(_request(_Found(), 1.0), SilentSearch()).needed == {}


@pytest.mark.parametrize("kind", ["classification", "segmentation"])
def test_outputs_that_people_read_beside_decisions_stay_whole(kind: str) -> None:
    assert heal_request(_request(_Found(), kind=kind), SilentSearch()).needed == {}


def test_a_replay_needs_no_outputs(tmp_path: Path) -> None:
    request = _request(_Found())
    kept = replace(request, options=replace(request.options, log=tmp_path / "log.jsonl"))
    result = tune(kept)
    assert result.repaired is not None
    assert "tighten-ranges" in result.repaired.kinds
    assert replay(request, tmp_path / "log.jsonl").agrees
