"""Repairs that cost latency: splits and freed gates are kept only where the plan is cheaper with them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dovetail.compare.task import Arrays, callable_metric
from dovetail.data import Sample, split_samples
from dovetail.ir import AnyArray, Graph
from dovetail.ir.roles import joins_parts
from dovetail.plan import Recipe, parse_placement
from dovetail.plan.limits import Limits
from dovetail.plan.recipe import Rule
from dovetail.quantize import calibrate
from dovetail.quantize.calibrate import load_float
from dovetail.repair import CHOICES, repaired_for
from dovetail.report import healing_block
from dovetail.search import CostOptions, Goal, TuneOptions, TuneRequest, TuneResult, tune
from dovetail.search.context import open_search
from dovetail.search.healing import healed_request, trial_of
from dovetail.search.log import open_log
from dovetail.search.offers import RepairOffer, settle
from dovetail.search.replay import replay
from dovetail.search.request import SilentSearch
from dovetail.search.verdict import Verdict
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples, labelled_samples

_CHANNELS = 64


def _planted(scale: float) -> Graph:
    """Return a classifier of which some channels read faint inputs by weights that are larger by a factor.

    HardSwish lets no scale through, so that no equalisation heals it.
    """
    net = Network(7)
    faint = np.where(np.arange(_CHANNELS) % 2, 1 / scale, 1.0)
    first = net.rng.uniform(-0.5, 0.5, (_CHANNELS, 2, 3, 3)) * faint.reshape(-1, 1, 1, 1)
    shape = (1, _CHANNELS, 4, 4)
    start = net.op("Conv", net.input("x", 1, 2, 4, 4), net.constant(first), shape=shape, pads=(1, 1, 1, 1))
    start = net.op("HardSwish", start)
    second = net.rng.uniform(-0.1, 0.1, (_CHANNELS, _CHANNELS, 3, 3))
    second[::5] *= (scale * (np.arange(_CHANNELS) % 2)).reshape(1, -1, 1, 1)
    made = net.op("Conv", start, net.constant(second), net.uniform(_CHANNELS), shape=shape, pads=(1, 1, 1, 1))
    pooled = net.op("GlobalAveragePool", net.op("HardSwish", made), shape=(1, _CHANNELS, 1, 1))
    flat = net.op("Flatten", pooled, shape=(1, _CHANNELS))
    return net.graph(net.op("Gemm", flat, net.uniform(_CHANNELS, 6), net.uniform(6), shape=(1, 6)))


def _agrees(outputs: dict[str, AnyArray], labels: dict[str, AnyArray]) -> AnyArray:
    (made,) = outputs.values()
    off = np.abs(made - labels["truth"]).reshape(len(made), -1).max(axis=1)
    right: AnyArray = (off < 0.05 * np.abs(labels["truth"]).max()).astype(np.float64)
    return right


def _request(scale: float = 45.0, **options: object) -> TuneRequest:
    graph = _planted(scale)
    source = labelled_samples(graph, 60)
    return TuneRequest(
        graph=graph,
        calibration=calibrate(graph, source),
        samples=source,
        splits=split_samples(source),
        metric=callable_metric(_agrees),  # type: ignore[arg-type]
        goal=Goal(0.1),
        low=parse_placement("vsi:a311d@u8"),
        ladder=(parse_placement("vsi:a311d@i16"),),
        wishes=Recipe(parse_placement("vsi:a311d@u8"), limits=Limits(forbid=("cpu",))),
        options=TuneOptions(repairs=CHOICES["exact"], **options),  # type: ignore[arg-type]
        costs=CostOptions(migrates=False),
    )


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[TuneRequest, TuneResult, Path]:
    log = tmp_path_factory.mktemp("splitting") / "log.jsonl"
    request = _request(log=log)
    return request, tune(request), log


def _latency_ns(result: TuneResult) -> float:
    assert result.certificate is not None
    return result.certificate.cost.latency_ns


def test_a_split_that_is_cheaper_than_more_bits_is_kept(logged: tuple[TuneRequest, TuneResult, Path]) -> None:
    request, result, _ = logged
    free = tuple(kind for kind in CHOICES["exact"] if kind != "split-ranges")
    without = tune(replace(request, options=TuneOptions(repairs=free)))
    assert without.raised
    assert result.accepted
    assert _latency_ns(result) < _latency_ns(without)
    assert result.healing is not None
    trial = result.healing.trials[-1]
    assert trial.kind == "split-ranges"
    assert trial.score > trial.score_without + 0.1
    assert trial.latency_ns == _latency_ns(result)
    assert trial.latency_without_ns == pytest.approx(_latency_ns(without))
    assert result.cost.trials > without.cost.trials


def test_the_plan_carries_the_split(logged: tuple[TuneRequest, TuneResult, Path]) -> None:
    request, result, _ = logged
    assert result.repaired is not None
    graph = repaired_for(result.plan, request.graph)
    assert graph.digest == result.repaired.graph.digest
    assert any(joins_parts(graph, node) for node in graph.nodes)
    result.plan.check(graph)


def test_a_replay_splits_alike(logged: tuple[TuneRequest, TuneResult, Path]) -> None:
    request, result, log = logged
    replayed = replay(request, log)
    assert replayed.deviations == ()
    assert replayed.result is not None
    assert replayed.result.plan == result.plan
    assert replayed.result.healing == result.healing


def test_a_split_that_takes_longer_than_what_it_spares_is_left_out() -> None:
    # Beside these prices the network is nothing for a CPU, so that raising everything is cheapest.
    result = tune(replace(_request(60.0), wishes=None))
    assert result.raised
    assert result.healing is not None
    assert [text.split(":")[0] for text in result.healing.unpaid] == ["split-ranges"]
    assert "split-ranges" not in {item.kind for item in result.healing.trials}
    assert result.repaired is None or "split-ranges" not in result.repaired.kinds


def test_a_plan_that_is_not_cheaper_is_not_taken(logged: tuple[TuneRequest, TuneResult, Path]) -> None:
    request, kept, _ = logged
    assert kept.repaired is not None
    free = tuple(kind for kind in CHOICES["exact"] if kind != "split-ranges")
    without = tune(replace(request, options=TuneOptions(repairs=free)))
    offer = RepairOffer(kept.repaired, trial_of(kept.repaired.records[-1], 1.0, 0.5))
    split = healed_request(replace(request, options=TuneOptions()), kept.repaired)
    with open_log(None) as log, open_search(split, SilentSearch(), log) as context:
        settled = settle(context, offer, without, lambda: without)
        missed = replace(kept, assessment=replace(kept.assessment, verdict=Verdict.MISSED))
        worse = settle(context, offer, without, lambda: missed)
        taken = settle(context, offer, without, lambda: kept)
    for result in (settled, worse):
        assert result.plan == without.plan
        assert result.healing is not None
        (text,) = result.healing.unpaid
        assert text.startswith("split-ranges: the plan with it is ")
        assert "Not worth its latency: split-ranges" in repr(healing_block(result.healing, "u8"))
    assert taken.plan == kept.plan
    assert taken.healing is not None
    assert "with split-ranges, and" in repr(healing_block(taken.healing, "u8"))


def test_what_a_recipe_places_stays_there() -> None:
    request = _request()
    assert request.wishes is not None
    place = parse_placement("vsi:a311d@i16")
    result = tune(replace(request, wishes=replace(request.wishes, rules=(Rule(place, node="n2"),))))
    assert result.plan.placement("n2") == place
    assert result.repaired is None or "split-ranges" not in result.repaired.kinds


def test_weights_with_a_scale_by_channel_are_not_split() -> None:
    request = _request(200.0)
    places = {"low": parse_placement("vsi:v853@i8pc"), "ladder": (parse_placement("vsi:v853@i16"),)}
    result = tune(replace(request, wishes=None, **places))  # type: ignore[arg-type]
    kinds = () if result.healing is None else {item.kind for item in result.healing.trials}
    assert "split-ranges" not in kinds
    assert result.repaired is None or "split-ranges" not in result.repaired.kinds


def _gated(size: int = 32, spread: float = 300.0) -> Graph:
    """Return a SiLU between two convolutions, whose channels have ranges from 1 to `spread`; no scale gets through."""
    net = Network(3)
    scales = np.geomspace(1.0, spread, 16).astype(np.float32)
    shape = (1, 16, size, size)
    first = net.rng.uniform(-1, 1, (16, 3, 3, 3)).astype(np.float32) * scales.reshape(-1, 1, 1, 1) / 3
    wide = net.op("Conv", net.input("x", 1, 3, size, size), net.constant(first), shape=shape, pads=(1, 1, 1, 1))
    product = net.op("Mul", net.op("Sigmoid", wide), wide)
    second = net.rng.uniform(-1, 1, (8, 16, 1, 1)).astype(np.float32) / scales.reshape(1, -1, 1, 1)
    made = net.op("Conv", product, net.constant(second), net.uniform(8), shape=(1, 8, size, size))
    return net.graph(net.op("Sigmoid", made))


def _gated_request(**options: object) -> TuneRequest:
    graph, rng = _gated(), np.random.default_rng(5)
    inputs = [{"x": rng.normal(size=(1, 3, 32, 32)).astype(np.float32)} for _ in range(60)]
    with closing(load_float(graph)) as model:
        truths = [model.run(item)[graph.outputs[0]][0] for item in inputs]
    source = HeldSamples([Sample(f"s{index}", item, {"truth": truths[index]}) for index, item in enumerate(inputs)])
    low = parse_placement("vsi:a311d@u8")
    return TuneRequest(
        graph=graph,
        calibration=calibrate(graph, source),
        samples=source,
        splits=split_samples(source),
        metric=callable_metric(_agrees),  # type: ignore[arg-type]
        goal=Goal(0.1),
        low=low,
        ladder=(parse_placement("vsi:a311d@i16"),),
        wishes=Recipe(low, limits=Limits(forbid=("cpu",))),
        options=TuneOptions(**{"repairs": CHOICES["all"], **options}),  # type: ignore[arg-type]
        costs=CostOptions(migrates=False),
    )


def test_freed_gates_are_kept_where_that_is_cheaper_than_more_bits(tmp_path: Path) -> None:
    request = _gated_request(log=tmp_path / "log.jsonl")
    result = tune(request)
    rest = tuple(kind for kind in CHOICES["all"] if kind != "free-gates")
    without = tune(_gated_request(repairs=rest))
    assert {item.unit for item in without.raised} >= {"n0", "n1", "n2"}
    assert not result.raised
    assert result.accepted
    assert _latency_ns(result) < 0.95 * _latency_ns(without)
    assert {"free-gates", "equalise-stored"} <= {record.kind for record in result.plan.repairs}
    assert result.healing is not None
    trial = result.healing.trials[-1]
    assert trial.kind == "free-gates"
    assert (trial.latency_ns, trial.latency_without_ns) == (
        _latency_ns(result),
        pytest.approx(_latency_ns(without)),
    )
    replayed = replay(request, tmp_path / "log.jsonl")
    assert replayed.deviations == ()
    assert replayed.result is not None
    assert replayed.result.plan == result.plan


def test_gates_that_no_plan_raises_are_left_alone() -> None:
    request = _gated_request()
    result = tune(replace(request, low=parse_placement("vsi:a311d@i16"), ladder=(), wishes=None))
    assert not result.raised
    assert "free-gates" not in {record.kind for record in result.plan.repairs}


_FINE = 0.001
"""A mean error that everything in 16 bits has twice over, and a third of it where the gate is free."""


def _nearness(outputs: Arrays, labels: Arrays) -> AnyArray:
    (made,) = outputs.values()
    off = np.abs(made - labels["truth"]).reshape(len(made), -1).mean(axis=1)
    near: AnyArray = 1.0 - np.minimum(off, 1.0)
    return near


def _fine_request(**options: object) -> TuneRequest:
    metric = callable_metric(_nearness)
    return replace(_gated_request(**options), metric=metric, goal=Goal(_FINE))


def test_gates_are_freed_first_where_everything_raised_misses(tmp_path: Path) -> None:
    request = _fine_request(log=tmp_path / "log.jsonl")
    rest = tuple(kind for kind in CHOICES["all"] if kind != "free-gates")
    without = tune(_fine_request(repairs=rest))
    assert without.verdict is Verdict.MISSED
    result = tune(request)
    assert result.verdict.is_within
    assert {"free-gates", "equalise-stored"} <= {record.kind for record in result.plan.repairs}
    assert result.healing is not None
    trial = result.healing.trials[-1]
    assert (trial.kind, trial.latency_ns, trial.latency_without_ns) == ("free-gates", _latency_ns(result), None)
    assert result.healing.healed == trial.score
    text = repr(healing_block(result.healing, "u8"))
    assert "with free-gates; without it, not even everything raised is better than the goal by enough" in text
    replayed = replay(request, tmp_path / "log.jsonl")
    assert replayed.deviations == ()
    assert replayed.result is not None
    assert replayed.result.plan == result.plan
    assert replayed.result.healing == result.healing


def test_an_answer_without_freed_gates_is_looked_for_where_these_do_not_suffice() -> None:
    request = replace(_fine_request(), goal=Goal(_FINE / 10))
    result = tune(request)
    rest = tuple(kind for kind in CHOICES["all"] if kind != "free-gates")
    without = tune(replace(_fine_request(repairs=rest), goal=Goal(_FINE / 10)))
    assert result.verdict is Verdict.MISSED
    assert result.plan == without.plan
