"""Prices that a search used are on record: its answer does not depend on who can be asked for them later."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dovetail.backend.modelled import BoardSettings, ModelledGraph, OperatorCycles
from dovetail.backend.protocols import Backend
from dovetail.backend.target import Engine, Target
from dovetail.cli.fitting import FitProgress
from dovetail.cli.render import Screen
from dovetail.compare.task import callable_metric
from dovetail.cost import modelled, probing
from dovetail.cost.probed import FOLDER_VARIABLE
from dovetail.data import split_samples
from dovetail.errors import SearchError
from dovetail.fit.listener import SearchStages
from dovetail.ir import DType, Graph
from dovetail.plan import parse_placement
from dovetail.quantize import calibrate
from dovetail.search import CostOptions, Goal, TuneOptions, TuneRequest, TuneResult, tune
from dovetail.search.log import SCHEMA, read_search_log
from dovetail.search.replay import replay
from dovetail.testing.planted import labelled_samples, planted_detector

from .test_replay import _right

LOW, WIDE = (parse_placement(f"vsi:v853@{name}") for name in ("u8", "i16"))


class Vendor:
    """A model of vsi:v853 by which convolutions are fast at 16 bits and slow at 8, or the other way round."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Backend, tmp_path: Path) -> None:
        self._patch, self._owner, self._tmp_path = monkeypatch, owner, tmp_path
        self.wide_is_fast = True
        self.asked = 0
        self.here = True
        monkeypatch.setattr("clockback._model", self._model)
        for module in (probing, modelled):
            monkeypatch.setattr(module, "model_owner", self._owner_of)
        self.forget()

    def forget(self) -> None:
        """Go on with an empty folder of answers."""
        self._patch.setenv(FOLDER_VARIABLE, str(self._tmp_path / f"prices {self.asked} {self.here}"))

    def _owner_of(self, target: str) -> Backend | None:
        return self._owner if self.here and target == LOW.target else None

    def _model(self, graph: Graph, target: Target, board: BoardSettings) -> ModelledGraph:
        self.asked += 1
        is_wide = any(kind.dtype is DType.I16 for kind in graph.types.values())
        cycles = 1000 if is_wide == self.wide_is_fast else 1_000_000
        rows = [node.name for node in graph.nodes if node.op == "Conv"]
        records = tuple(OperatorCycles(name, "convolution", Engine.NN, cycles, 0, 0, 1, "", "", "") for name in rows)
        return ModelledGraph(target.name, 500.0, 3.5, records, 0, "7.1", {})


@pytest.fixture(scope="module", autouse=True)
def _installed(install: Callable[[str], None]) -> None:
    install("clockback")


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Vendor:
    import clockback

    return Vendor(monkeypatch, clockback.backend, tmp_path)


@pytest.fixture(scope="module")
def request_() -> TuneRequest:
    graph = planted_detector(2)
    source = labelled_samples(graph, 60, "a")
    return TuneRequest(
        graph=graph,
        calibration=calibrate(graph, source),
        samples=source,
        splits=split_samples(source),
        metric=callable_metric(_right),  # type: ignore[arg-type]
        goal=Goal(0.1),
        low=LOW,
        ladder=(WIDE,),
        costs=CostOptions(migrates=False, worthwhile=0.05, vendor_s=20.0),
    )


def _options(request: TuneRequest, options: TuneOptions) -> TuneRequest:
    return replace(request, options=options)


def _raised(result: TuneResult) -> set[str]:
    return {item.unit for item in result.raised}


def test_a_replay_needs_neither_the_vendors_model_nor_its_answers(
    vendor: Vendor, request_: TuneRequest, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    result = tune(_options(request_, TuneOptions(log=log)))
    assert vendor.asked == 2
    vendor.here = False
    vendor.forget()
    # Without these prices the answer is another: they are what the replay has to have.
    assert _raised(tune(request_)) < _raised(result)
    again = replay(request_, log)
    assert again.agrees, again.deviations
    assert again.result is not None
    assert again.result.plan == result.plan
    assert again.result.certificate == result.certificate
    # Nor does a model that says otherwise by now change anything.
    vendor.here, vendor.wide_is_fast = True, False
    assert replay(request_, log).agrees
    assert vendor.asked == 2


def test_a_search_goes_on_with_the_prices_that_it_began_with(
    vendor: Vendor, request_: TuneRequest, tmp_path: Path
) -> None:
    journal = TuneOptions(journal=tmp_path / "journal.sqlite", log=tmp_path / "log.jsonl")
    first = tune(_options(request_, journal))
    vendor.wide_is_fast = False
    vendor.forget()
    second = tune(_options(request_, journal))
    assert second.plan == first.plan
    assert second.cost.fresh_samples == 0
    assert vendor.asked == 2
    assert replay(request_, tmp_path / "log.jsonl").agrees
    # Another question of the same journal is asked by itself.
    tune(_options(replace(request_, ladder=(parse_placement("cpu@fp32"),)), journal))
    assert vendor.asked > 2


def test_prices_that_come_late_are_for_the_next_search(vendor: Vendor, request_: TuneRequest, tmp_path: Path) -> None:
    journal = TuneOptions(journal=tmp_path / "journal.sqlite", log=tmp_path / "log.jsonl")
    vendor.here = False
    first = tune(_options(request_, journal))
    vendor.here = True
    assert tune(_options(request_, journal)).plan == first.plan
    assert replay(request_, tmp_path / "log.jsonl").agrees
    assert vendor.asked == 0
    assert tune(request_).plan != first.plan


def test_a_wait_for_the_vendors_model_is_shown_as_a_stage(
    vendor: Vendor, request_: TuneRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "searching: asking the vendor's model for prices, for 20 s at most"
    shown = []
    for _ in range(2):
        with Screen(machine=True, force_progress=True).progress("loading") as bar:
            journal = TuneOptions(journal=tmp_path / "journal.sqlite")
            tune(_options(request_, journal), SearchStages(FitProgress(bar)))
        shown.append(capsys.readouterr().err.splitlines())
    # It is another stage's turn when the prices are there; they are on record the second time.
    assert shown[0].index(said) < shown[0].index("searching: gate")
    assert said not in shown[1]
    vendor.here = False
    tune(request_, SearchStages(FitProgress(bar)))
    assert said not in capsys.readouterr().err


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"sources": [], "units": {}},
        {"sources": ["s"], "units": [["n0", "vsi:v853", "u8", -1.0, 0]]},
        {"sources": ["s"], "units": [["n0", "vsi:v853", "u8", True, 0]]},
        {"sources": ["s"], "units": [["n0", "vsi:v853", "u8", float("nan"), 0]]},
        {"sources": ["s"], "units": [["n0", "vsi:v853", "u8", 1.0, 1]]},
        {"sources": ["s"], "units": [["n0", "vsi:v853", "u7", 1.0, 0]]},
        {"sources": ["s"], "units": [["n0", "vsi:v853", "u8", 1.0]]},
        {"sources": ["s"], "units": ["n0"]},
    ],
)
def test_damaged_prices_of_a_log_are_refused(record: dict[str, object], tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines = [{"event": "search", "schema": SCHEMA}, {"event": "prices", **record}]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(SearchError, match=r"log\.jsonl:2: no prices: "):
        read_search_log(log).prices()
