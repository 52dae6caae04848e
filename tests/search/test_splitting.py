"""Where much has to be raised, splits of all nodes compete with more bits: those that promise the cheapest plan."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dovetail.compare.task import Arrays, callable_metric
from dovetail.data import Sample, split_samples
from dovetail.ir import AnyArray, Graph
from dovetail.plan import Recipe, parse_placement
from dovetail.plan.limits import Limits
from dovetail.quantize import calibrate
from dovetail.quantize.calibrate import load_float
from dovetail.repair import CHOICES
from dovetail.search import Goal, SearchPolicy, TuneOptions, TuneRequest, tune
from dovetail.search.policy import CulpritPolicy
from dovetail.search.replay import replay
from dovetail.search.splitting import SplitTerms, choose_splits
from dovetail.search.variants import PricedFigures, VariantFigures
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples

_TERMS = SplitTerms(least_score=0.9, latency_ns=400.0, low_ns=200.0, errors=1.0, worthwhile=0.01)
_NAMES = [f"n{index}" for index in range(6)]


def _figures(score: float, latency_ns: float) -> PricedFigures:
    return PricedFigures(VariantFigures(score, None, 0.0), latency_ns)


def _chosen(scores: Sequence[float], prices: Sequence[float], terms: SplitTerms = _TERMS) -> tuple[int, list[int]]:
    """Return how many of six nodes are split, and what was tried, where `i + 1` splits give the figures `i`."""
    tried: list[int] = []

    def measure(nodes: frozenset[str]) -> PricedFigures:
        tried.append(len(nodes))
        assert nodes == set(_NAMES[: len(nodes)])
        return _figures(scores[len(nodes) - 1], prices[len(nodes) - 1])

    return len(choose_splits(_NAMES, _figures(0.7, 100.0), measure, terms)), tried


def test_all_are_split_where_each_gains_more_than_it_takes() -> None:
    scores, prices = [0.72, 0.75, 0.78, 0.82, 0.84, 0.88], [101.0, 102, 103, 104, 105, 106]
    assert _chosen(scores, prices) == (6, [6, 4])


def test_fewer_are_split_where_the_rest_gains_less_than_it_takes() -> None:
    scores, prices = [0.80, 0.88, 0.89, 0.89, 0.89, 0.89], [101.0, 104, 130, 150, 170, 190]
    assert _chosen(scores, prices) == (2, [6, 4, 2, 1])


def test_none_is_split_where_that_gains_nothing_or_takes_too_long() -> None:
    assert _chosen([0.7] * 6, [101.0] * 6) == (0, [6, 4, 2, 1])
    assert _chosen([0.8] * 6, [180.0] * 6) == (0, [6, 4, 2, 1])


def test_none_is_split_where_these_samples_miss_nothing() -> None:
    assert _chosen([0.8] * 6, [101.0] * 6, replace(_TERMS, least_score=0.6)) == (0, [])


def test_prices_of_variants_need_not_be_those_of_the_plan() -> None:
    scores, prices = [0.80, 0.88, 0.89, 0.89, 0.89, 0.89], [101.0, 104, 130, 150, 170, 190]
    dearer = replace(_TERMS, latency_ns=4000.0, low_ns=2000.0)
    assert _chosen(scores, prices, dearer) == _chosen(scores, prices)


def test_what_cannot_be_tested_is_not_split() -> None:
    assert choose_splits(_NAMES, _figures(0.7, 100.0), lambda nodes: None, _TERMS) == frozenset()


def _chain(seed: int, layers: int = 6, channels: int = 32, size: int = 12) -> Graph:
    """Return convolutions in a row whose every fifth channel reads faint inputs by large weights.

    HardSwish lets no scale through, so that no equalisation heals them.
    """
    net, shape, odd = Network(seed), (1, channels, size, size), np.arange(channels) % 2
    made, read = net.input("x", 1, 3, size, size), 3
    for _ in range(layers):
        weight = net.rng.normal(0, 1.2, (channels, read, 3, 3)) / np.sqrt(9 * read)
        if read == channels:
            weight[::5] *= (1 + 31 * odd).reshape(1, -1, 1, 1)
        weight *= np.where(odd, 1 / 32, 1.0).reshape(-1, 1, 1, 1)
        bias = net.uniform(channels, low=-0.1, high=0.1)
        made = net.op("Conv", made, net.constant(weight), bias, shape=shape, pads=(1, 1, 1, 1))
        made, read = net.op("HardSwish", made), channels
    pooled = net.op("GlobalAveragePool", made, shape=(1, channels, 1, 1))
    flat = net.op("Flatten", pooled, shape=(1, channels))
    return net.graph(net.op("Gemm", flat, net.uniform(channels, 6), net.uniform(6), shape=(1, 6)))


def _nearness(outputs: Arrays, labels: Arrays) -> AnyArray:
    (made,), truth = outputs.values(), labels["truth"]
    off = np.abs(made - truth).reshape(len(made), -1).max(axis=1) / np.abs(truth).max()
    return np.clip(1 - off / 0.3, 0.0, 1.0).astype(np.float64)


def _request(graph: Graph, repairs: tuple[str, ...], log: Path | None = None) -> TuneRequest:
    rng, shape = np.random.default_rng(5), graph.types["x"].static_shape
    inputs = [{"x": rng.normal(size=shape).astype(np.float32)} for _ in range(40)]
    with closing(load_float(graph)) as model:
        truths = [model.run(item)[graph.outputs[0]][0] for item in inputs]
    source = HeldSamples([Sample(f"s{index}", item, {"truth": truths[index]}) for index, item in enumerate(inputs)])
    low = parse_placement("vsi:a311d@u8")
    # Four raised units are many here: a network of more would take long.
    policy = SearchPolicy(culprits=CulpritPolicy(many=4))
    return TuneRequest(
        graph=graph,
        calibration=calibrate(graph, source),
        samples=source,
        splits=split_samples(source),
        metric=callable_metric(_nearness),
        goal=Goal(0.05),
        low=low,
        ladder=(parse_placement("vsi:a311d@i16"),),
        wishes=Recipe(low, limits=Limits(forbid=("cpu",))),
        options=TuneOptions(repairs=repairs, policy=policy, log=log),
    )


@pytest.mark.slow
def test_where_much_is_raised_splits_make_the_plan_cheaper(tmp_path: Path) -> None:
    graph = _chain(10)
    rest = tuple(kind for kind in CHOICES["exact"] if kind != "split-ranges")
    request = _request(graph, CHOICES["exact"], tmp_path / "log.jsonl")
    without, split = tune(_request(graph, rest)), tune(request)
    assert len(without.raised) >= 4
    assert split.accepted
    assert split.repaired is not None
    assert split.repaired.kinds == ("split-ranges",)
    assert without.certificate is not None
    assert split.certificate is not None
    assert split.certificate.cost.latency_ns < 0.95 * without.certificate.cost.latency_ns
    replayed = replay(request, tmp_path / "log.jsonl")
    assert replayed.deviations == ()
    assert replayed.result is not None
    assert replayed.result.plan == split.plan
