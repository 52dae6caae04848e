"""The main job on the example: it breaks in 8 bits, and the plan that is found keeps its promises."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import work

import dovetail
from dovetail.compare import load_metric
from dovetail.cost import make_cost_model
from dovetail.data import open_samples, specs_of, split_samples
from dovetail.plan import find_units, parse_placement
from dovetail.search import CostOptions, parse_goal

FOLDER = Path(__file__).parents[2] / "examples" / "digits"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """Run the demo in an empty folder as its user does.

    There is no vendor's SDK: how many prices its model gives in time depends on how busy the machine is.
    """
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "dovetail.cli", "demo", "--json"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "VIVANTE_SDK_DIR": str(folder / "none")},
        capture_output=True,
        text=True,
        check=True,
        timeout=work.PATIENCE_S,
    )
    return json.loads(done.stdout), folder / "dovetail-out"


def test_eight_bits_lose_more_than_half_and_the_plan_at_most_a_hundredth(demo: tuple[dict[str, Any], Path]) -> None:
    scores = next(row for row in demo[0]["scores"] if row["name"] == "holdout")
    assert scores["low"] < scores["float_score"] / 2
    assert scores["tuned_exact"] >= scores["float_score"] * 0.99
    assert demo[0]["accepted"]


def test_few_units_are_raised_and_each_removal_is_on_record(demo: tuple[dict[str, Any], Path]) -> None:
    report, out = demo
    units = {row["unit"] for row in report["culprits"]}
    assert len(units) <= 5
    assert report["one_minimal"]
    companions = {row["unit"] for row in report["companions"]}
    assert {row["unit"] for row in report["evidence"]} == units | companions
    journal = sqlite3.connect(f"file:{out / 'journal.sqlite'}?mode=ro", uri=True)
    try:
        trials = set(journal.execute("SELECT plan, status FROM trial WHERE stage = 'search'").fetchall())
    finally:
        journal.close()
    for row in report["evidence"]:
        # A companion goes along because that is cheaper, not because the plan fails without it.
        status = "pass" if row["unit"] in companions else "fail"
        assert (row["trial"]["plan_digest"], status) in trials, row["unit"]


def test_the_search_costs_at_most_twelve_evaluations(demo: tuple[dict[str, Any], Path]) -> None:
    assert demo[0]["cost"]["full_equivalents"] <= 12


def _request(costs: CostOptions) -> dovetail.TuneRequest:
    graph = dovetail.normalize(dovetail.load_model(FOLDER / "digits.onnx"))
    with np.load(FOLDER / "calib.npz", allow_pickle=False) as file:
        calibration = [image[None].astype(np.float32) for image in file["images"]]
    samples = open_samples(FOLDER / "eval.npz", specs_of(graph))
    return dovetail.TuneRequest(
        graph=graph,
        calibration=dovetail.calibrate(graph, open_samples(calibration, specs_of(graph))),
        samples=samples,
        splits=split_samples(samples),
        metric=load_metric(f"{FOLDER / 'metric.py'}:score"),
        goal=parse_goal("1%"),
        low=parse_placement("vsi:v853@i8pc"),
        ladder=(parse_placement("vsi:v853@i16"),),
        costs=costs,
    )


def test_a_unit_that_does_not_break_goes_along_only_where_that_is_worth_it() -> None:
    requests = [_request(CostOptions()), _request(CostOptions(worthwhile=0.0))]
    plain, any_gain = (dovetail.tune(request) for request in requests)
    assert plain.certificate is not None
    assert any_gain.certificate is not None
    assert {item.unit for item in plain.culprits} <= {item.unit for item in any_gain.raised}
    assert any_gain.certificate.gap == pytest.approx(0.0, abs=1e-9)
    latency_ns = plain.certificate.cost.latency_ns
    assert any_gain.certificate.cost.latency_ns <= latency_ns
    assert 0 <= plain.certificate.gap <= 0.005
    along = {node for item in plain.companions for node in item.nodes}
    kept = {node: override for node, override in plain.plan.overrides.items() if node not in along}
    graph, targets = requests[0].graph, [dovetail.find_target(name) for name in ("vsi:v853", "cpu")]
    costs = make_cost_model(graph, find_units(graph), targets)
    assert costs.plan_cost(plain.plan).latency_ns == pytest.approx(latency_ns)
    without = costs.plan_cost(replace(plain.plan, overrides=kept)).latency_ns
    assert not along or without > 1.005 * latency_ns
