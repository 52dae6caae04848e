"""dovetail check: a plan held to what its search promised."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
import yaml
from onnx import numpy_helper

from dovetail.cli.main import main
from dovetail.data import SampleSource, open_samples, specs_of
from dovetail.importers import load_model
from dovetail.ir import Graph
from dovetail.seal import unsealed

from .conftest import Said, Tiny

Run = Callable[..., Said]
WORKFLOW = Path(__file__).parents[2] / "examples" / "ci" / "dovetail-check.yml"


@pytest.fixture(scope="module")
def tuned(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a search that may not leave the NPU."""
    folder = tmp_path_factory.mktemp("search")
    recipe = folder / "recipe.toml"
    recipe.write_text('default = "vsi:v853@i8pc"\n[limits]\nforbid = ["cpu"]\n')
    command = (
        "tune",
        tiny.model,
        "--data",
        tiny.data,
        "--metric",
        tiny.metric,
        "--recipe",
        recipe,
        "--repair",
        "none",
        "--max-drop",
        "5%",
    )
    assert main([*map(str, command), "-o", str(folder / "out")]) == 0
    return folder / "out"


@pytest.fixture
def kept(tuned: Path, tmp_path: Path) -> Path:
    """Return a folder with what is kept of the search."""
    folder = tmp_path / "kept"
    folder.mkdir()
    for name in ("plan.json", "ranges.json", "run.json"):
        shutil.copy(tuned / name, folder)
    return folder


def findings(run: Run, tiny: Tiny, plan: Path, *more: object, model: Path | None = None) -> tuple[int, dict[str, Any]]:
    """Return how a check ended, and what it found by subject."""
    said = run("check", plan, "--model", model or tiny.model, "--data", tiny.data, *more, "--json")
    assert said.err == ""
    outcomes: dict[str, list[dict[str, str]]] = {}
    for item in json.loads(said.out)["findings"]:
        outcomes.setdefault(item["check"], []).append(item)
    return said.code, outcomes


def failed(outcomes: dict[str, Any]) -> set[str]:
    return {name for name, items in outcomes.items() if any(item["outcome"] == "changed" for item in items)}


def test_what_was_just_tuned_holds(tiny: Tiny, run: Run, kept: Path) -> None:
    code, outcomes = findings(run, tiny, kept / "plan.json")
    assert code == 0
    assert {name: items[0]["outcome"] for name, items in outcomes.items()} == dict.fromkeys(
        ("model", "placement", "refused", "goal", "score", "latency", "integers"), "same"
    )


def test_the_folder_of_a_search_stands_for_its_plan(tiny: Tiny, run: Run, kept: Path) -> None:
    call = ("--model", tiny.model, "--data", tiny.data, "--json")
    assert run("check", kept, *call).out == run("check", kept / "plan.json", *call).out


def test_a_unit_put_back_is_named_and_fails(tiny: Tiny, run: Run, kept: Path) -> None:
    raised = "join"
    assert raised in json.loads((kept / "plan.json").read_text())["overrides"]
    edited = kept / "edited.json"
    assert run("edit", kept / "plan.json", "--model", tiny.model, "--set", f"{raised}=i8pc", "-o", edited).code == 0
    code, outcomes = findings(run, tiny, edited)
    assert code == 1
    assert {"placement", "score", "integers"} <= failed(outcomes)
    move = outcomes["placement"][0]
    assert raised in json.loads((kept / "run.json").read_text())["units"][move["where"]]
    assert move["after"] == "vsi:v853@i8pc"


def test_other_weights_are_another_model_whose_score_counts(tiny: Tiny, run: Run, kept: Path, tmp_path: Path) -> None:
    model = onnx.load(tiny.model)
    for tensor in model.graph.initializer:
        if tensor.name == "trunk_b":
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + np.float32(1e-4), tensor.name))
    onnx.save(model, tmp_path / "again.onnx")
    code, outcomes = findings(run, tiny, kept / "plan.json", model=tmp_path / "again.onnx")
    assert code == 1
    assert "model" in failed(outcomes)
    assert outcomes["goal"][0]["outcome"] == "same"
    allowed = ("--allow", "model,score,latency", "--allow", "integers")
    code, outcomes = findings(run, tiny, kept / "plan.json", *allowed, model=tmp_path / "again.onnx")
    assert (code, failed(outcomes)) == (0, set())


@pytest.mark.parametrize(
    ("name", "change", "outcome"),
    [
        ("latency_ns", lambda old: old / 2, "changed"),
        ("latency_ns", lambda old: old * 2, "note"),
        ("score", lambda old: old + 0.01, "changed"),
        ("score", lambda old: old - 0.01, "note"),
        ("integers", lambda old: dict.fromkeys(old, "0" * 64), "changed"),
    ],
)
def test_each_promise_is_kept_or_fails(
    name: str, change: Callable[[Any], Any], outcome: str, tiny: Tiny, run: Run, kept: Path
) -> None:
    record = unsealed(json.loads((kept / "run.json").read_text()))
    (kept / "run.json").write_text(json.dumps({**record, name: change(record[name])}))
    code, outcomes = findings(run, tiny, kept / "plan.json")
    subject = name.removesuffix("_ns")
    assert outcomes[subject][0]["outcome"] == outcome
    assert code == (1 if outcome == "changed" else 0)
    assert failed(outcomes) == ({subject} if outcome == "changed" else set())


def test_other_data_is_scored_whole_and_not_compared(tiny: Tiny, run: Run, kept: Path, tmp_path: Path) -> None:
    arrays = np.load(tiny.data)
    np.savez(tmp_path / "fewer.npz", **{name: arrays[name][:50] for name in arrays})
    said = run("check", kept / "plan.json", "--model", tiny.model, "--data", tmp_path / "fewer.npz", "--json")
    document = json.loads(said.out)
    outcomes = {item["check"]: item for item in document["findings"]}
    assert "50 samples" in outcomes["goal"]["text"]
    assert outcomes["score"]["outcome"] == outcomes["integers"]["outcome"] == "skipped"
    assert any("other data" in note for note in document["notes"])


def test_without_a_record_only_the_goal_counts(tiny: Tiny, run: Run) -> None:
    code, outcomes = findings(run, tiny, tiny.plan, "--metric", tiny.metric)
    assert code == 1  # Everything low is what the search had to mend.
    assert failed(outcomes) == {"goal"}
    assert "placement" not in outcomes


def test_files_say_the_same_as_the_answer(tiny: Tiny, run: Run, kept: Path, tmp_path: Path) -> None:
    record = unsealed(json.loads((kept / "run.json").read_text()))
    (kept / "run.json").write_text(json.dumps({**record, "latency_ns": record["latency_ns"] / 2}))
    files = {name: tmp_path / f"check.{name}" for name in ("junit", "sarif", "markdown")}
    options = [item for name, path in files.items() for item in (f"--{name}", path)]
    for _ in range(2):  # The second writes over the first.
        code, outcomes = findings(run, tiny, kept / "plan.json", *options)
        assert code == 1
    suite = ElementTree.parse(files["junit"]).getroot()
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert cases.keys() == outcomes.keys()
    assert {name for name, case in cases.items() if case.find("failure") is not None} == {"latency"}
    assert suite.get("failures") == "1"
    sarif = json.loads(files["sarif"].read_text())
    (result,) = sarif["runs"][0]["results"]
    rules = sarif["runs"][0]["tool"]["driver"]["rules"]
    assert (result["ruleId"], result["level"]) == ("dovetail/latency", "error")
    assert rules[result["ruleIndex"]]["id"] == "dovetail/latency"
    rows = [line.split(" | ") for line in files["markdown"].read_text().splitlines() if line.startswith("| latency")]
    assert rows[0][1] == "**changed**"


def test_bad_input_is_one_line(tiny: Tiny, run: Run, kept: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    shutil.copy(kept / "plan.json", tmp_path / "empty")
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"kind": "dovetail-run", "schema": 1, "plan": 3}')
    rest = ("--model", tiny.model, "--data", tiny.data)
    calls: list[tuple[object, ...]] = [
        ("check", kept / "none.json", *rest),
        ("check", tmp_path / "empty" / "plan.json", *rest),
        ("check", kept / "plan.json", *rest, "--record", damaged),
        ("check", kept / "plan.json", *rest, "--allow", "scores"),
        ("check", kept / "plan.json", *rest, "--target", "vsi:v852"),
        ("check", kept / "plan.json", *rest, "--max-drop", "much"),
        ("check", kept / "plan.json", "--model", tiny.model, "--data", tmp_path / "none.npz"),
        ("check", kept / "plan.json", *rest, "--junit", tiny.model),
    ]
    for call in calls:
        said = run(*call)
        assert said.code == 2, call
        assert said.out == ""
        assert len(said.err.splitlines()) == 1, said.err


def test_the_workflow_runs_a_command_that_works(
    tiny: Tiny, run: Run, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
    (command,) = (
        step["run"] for step in workflow["jobs"]["check"]["steps"] if step.get("run", "").startswith("dovetail")
    )
    given = {"PLAN": kept / "plan.json", "MODEL": tiny.model, "DATA": tiny.data, "METRIC": tiny.metric}
    assert workflow["env"].keys() == given.keys()
    monkeypatch.chdir(tmp_path)
    words = [str(given.get(word.strip('"$'), word)) for word in command.split()]
    assert run(*words[1:]).code == 0
    assert {path.name for path in tmp_path.glob("check.*")} == {"check.xml", "check.sarif", "check.md"}


def test_the_metric_is_made_of_what_the_search_saw(
    tiny: Tiny, run: Run, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranges that it keeps of the float model's outputs would otherwise be others than the search's."""
    module = importlib.import_module("dovetail.fit.check")
    choose, seen = module.choose_metric, list[int]()

    def watched(name: str | None, said: str | None, graph: Graph, samples: SampleSource) -> object:
        seen.append(len([sample.id for sample in samples]))
        return choose(name, said, graph, samples)

    monkeypatch.setattr(module, "choose_metric", watched)
    code, outcomes = findings(run, tiny, kept / "plan.json")
    assert (code, outcomes["score"][0]["outcome"]) == (0, "same")
    count = sum(1 for _ in open_samples(tiny.data, specs_of(load_model(tiny.model)), None, None))
    assert 0 < seen[0] < count
    assert len(seen) == 1
