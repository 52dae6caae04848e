"""A search heals before it raises: on networks with a planted scale, which equalisation undoes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dovetail.compare.task import callable_metric
from dovetail.data import split_samples
from dovetail.ir import AnyArray, Graph
from dovetail.plan import parse_placement
from dovetail.plan.plan import plan_from_json
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize import calibrate, quantize
from dovetail.quantize.statistics import Statistics
from dovetail.repair import CHOICES, Equalise, repaired_for
from dovetail.search import CostOptions, Goal, TuneOptions, TuneRequest, TuneResult, tune
from dovetail.search.evaluator import Rewriter
from dovetail.search.replay import replay
from dovetail.testing.networks import Network
from dovetail.testing.planted import labelled_samples


def _classifier(scale: float) -> Graph:
    """Return a classifier whose channels, one in two, are scaled between two convolutions and back."""
    net = Network(11)
    first = net.op("Relu", net.conv(net.input("x", 1, 2, 4, 4), 16, 3))
    second = net.op("Relu", net.conv(first, 16, 3))
    pooled = net.op("GlobalAveragePool", second, shape=(1, 16, 1, 1))
    graph = net.graph(net.op("Gemm", net.op("Flatten", pooled, shape=(1, 16)), net.uniform(16, 6), shape=(1, 6)))
    steps = tuple(round(16 * np.log2(scale)) * (index % 2) for index in range(16))
    return Equalise().apply(graph, RepairRecord("equalise", {"t0": steps, "t1": steps}))


def _agrees(outputs: dict[str, AnyArray], labels: dict[str, AnyArray]) -> AnyArray:
    (made,) = outputs.values()
    off = np.abs(made - labels["truth"]).reshape(len(made), -1).max(axis=1)
    right: AnyArray = (off < 0.1 * np.abs(labels["truth"]).max()).astype(np.float64)
    return right


def _request(scale: float, **options: object) -> TuneRequest:
    graph = _classifier(scale)
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
        options=TuneOptions(repairs=CHOICES["all"], **options),  # type: ignore[arg-type]
        costs=CostOptions(migrates=False),
    )


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[TuneRequest, TuneResult, Path]:
    log = tmp_path_factory.mktemp("healing") / "log.jsonl"
    request = _request(300.0, log=log, journal=log.with_name("journal.sqlite"))
    return request, tune(request), log


def test_what_can_be_healed_is_not_raised(logged: tuple[TuneRequest, TuneResult, Path]) -> None:
    request, result, _ = logged
    assert result.accepted
    assert not result.raised
    assert result.healing is not None
    assert result.healing.shipped < result.healing.healed - 0.2
    (needed,) = [item for item in result.healing.trials if item.kind.startswith("equalise")]
    assert needed.score_without < needed.score
    without = tune(replace(request, options=TuneOptions()))
    assert without.raised
    assert without.healing is None


def test_the_plan_carries_its_repairs(logged: tuple[TuneRequest, TuneResult, Path]) -> None:
    request, result, _ = logged
    assert result.repaired is not None
    plan = plan_from_json(result.plan.to_json())
    assert plan.digest == result.plan.digest
    healed = repaired_for(plan, request.graph)
    plan.check(healed)
    made = quantize(healed, plan, result.repaired.calibration.ranges).graph
    again = quantize(result.repaired.graph, result.plan, result.repaired.calibration.ranges).graph
    assert made.digest == again.digest


def test_a_replay_heals_alike_without_an_evaluation(
    logged: tuple[TuneRequest, TuneResult, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    request, result, log = logged

    def refuse(self: object, *arguments: object) -> None:
        raise AssertionError("evaluated")

    monkeypatch.setattr(Rewriter, "outputs", refuse)
    replayed = replay(request, log)
    assert replayed.deviations == ()
    assert replayed.result is not None
    assert replayed.result.plan == result.plan
    assert replayed.result.healing == result.healing


def test_the_same_command_evaluates_nothing_again(
    logged: tuple[TuneRequest, TuneResult, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    request, result, _ = logged
    made: list[str] = []
    outputs = Rewriter.outputs

    def counted(self: Rewriter, plan: object, indices: object) -> dict[str, AnyArray]:
        made.append(str(plan))
        return outputs(self, plan, indices)  # type: ignore[arg-type]

    monkeypatch.setattr(Rewriter, "outputs", counted)
    again = tune(replace(request, options=replace(request.options, log=None)))
    assert again.plan == result.plan
    assert not made


def test_where_nothing_breaks_nothing_is_repaired() -> None:
    result = tune(_request(1.0))
    assert result.accepted
    assert result.healing is None
    assert result.plan.repairs == ()


def test_workers_heal_alike(logged: tuple[TuneRequest, TuneResult, Path]) -> None:
    from dovetail.search.fanout import FanOut, PoolOptions, local_place

    request, result, _ = logged
    fanout = FanOut(local_place(1), PoolOptions())
    apart = tune(replace(request, options=TuneOptions(repairs=CHOICES["all"], fanout=fanout)))
    assert apart.plan == result.plan
    assert (apart.search, apart.holdout) == (result.search, result.holdout)


def test_a_repair_that_breaks_its_claim_is_left_out_and_said() -> None:
    request = _request(300.0)
    tensors = dict(request.calibration.statistics.tensors)
    tensors["t1"] = tuple(
        replace(power, low=np.zeros_like(power.low), high=np.where(np.arange(len(power.high)) == 2, 0.0, power.high))
        for power in tensors["t1"]
    )
    claimed = replace(request, calibration=replace(request.calibration, statistics=Statistics(tensors)))
    result = tune(claimed)
    assert result.healing is not None
    assert result.healing.refused[0].startswith("dead-channels: float outputs move by")
    assert "dead-channels" not in {item.kind for item in result.healing.trials}
    assert not result.raised
