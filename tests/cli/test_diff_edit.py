"""dovetail diff and dovetail edit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from .conftest import Said, Tiny

Run = Callable[..., Said]


def test_a_search_is_the_same_as_its_plan_and_its_bundle(tiny: Tiny, run: Run) -> None:
    tuned = tiny.folder / "tuned"
    for other in (tuned, tuned / "plan.json", tuned / "bundle"):
        said = run("diff", tuned, other)
        assert (said.code, said.err) == (0, "")
        assert said.out.startswith("The same")


def test_a_search_differs_from_everything_low_by_the_units_it_raised(tiny: Tiny, run: Run) -> None:
    tuned = tiny.folder / "tuned"
    said = run("diff", tiny.plan, tuned, "--json")
    assert said.code == 1
    document = json.loads(said.out)
    raised = json.loads((tuned / "plan.json").read_text())["overrides"]
    assert {node for item in document["placements"] for node in item["nodes"]} == set(raised)
    assert all(item["before"] == "vsi:v853@i8pc" for item in document["placements"])


def test_another_calibration_is_other_scales(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    ranges = json.loads(tiny.ranges.read_text())
    del ranges["checksum"]  # Edited by hand, on purpose.
    name = next(iter(ranges["tensors"]))
    ranges["tensors"][name][1] += 1.0
    (tmp_path / "ranges.json").write_text(json.dumps(ranges))
    bundle = tmp_path / "other"
    assert run("compile", tiny.model, "--plan", tiny.plan, "--ranges", tmp_path / "ranges.json", "-o", bundle).code == 0
    said = run("diff", tiny.bundle, bundle, "--json")
    assert said.code == 1
    document = json.loads(said.out)
    assert document["placements"] == []
    assert name in {item["name"] for item in document["scales"]}


def test_recorded_figures_are_compared(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny.folder / "tuned", copy)
    result = json.loads((copy / "result.json").read_text())
    result["proof"]["latency_ns"] += 12345.0
    (copy / "result.json").write_text(json.dumps(result))
    said = run("diff", tiny.folder / "tuned", copy, "--json")
    assert said.code == 1
    assert [item["name"] for item in json.loads(said.out)["figures"]] == ["latency"]


def test_an_edit_is_what_diff_says_it_is(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    edited = tmp_path / "edited.json"
    said = run("edit", tiny.plan, "--model", tiny.model, "--set", "tru*=cpu", "--reason", "by me", "-o", edited)
    assert (said.code, said.err) == (0, "")
    document = json.loads(run("diff", tiny.plan, edited, "--json").out)
    assert {(node, item["after"], item["reason"]) for item in document["placements"] for node in item["nodes"]} == {
        ("trunk", "cpu@fp32", "by me"),
        ("trunk_relu", "cpu@fp32", "by me"),
    }
    bundle = tmp_path / "bundle"
    assert run("compile", tiny.model, "--plan", edited, "--ranges", tiny.ranges, "-o", bundle).code == 0
    assert run("diff", edited, bundle).code == 0


def test_the_folder_of_a_search_names_the_model(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    said = run("edit", tiny.folder / "tuned" / "plan.json", "--set", "scores=cpu", "-o", tmp_path / "edited.json")
    assert (said.code, said.err) == (0, "")


def test_bad_input_is_one_line_and_writes_nothing(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "edited.json"
    damaged = tmp_path / "damaged"
    shutil.copytree(tiny.folder / "tuned", damaged)
    result = json.loads((damaged / "result.json").read_text())
    (damaged / "result.json").write_text(json.dumps({**result, "scores": [7]}))
    calls = [
        ("edit", tiny.plan, "--set", "scores=i16", "-o", out),  # nothing says which model it is for
        ("edit", tiny.plan, "--model", tiny.model, "--set", "scoers=i16", "-o", out),
        ("edit", tiny.plan, "--model", tiny.model, "--set", "scores=vsi:v852@i16", "-o", out),
        ("edit", tiny.plan, "--model", tiny.model, "--set", "scores", "-o", out),
        ("edit", tiny.plan, "--model", tiny.model, "--set", "scores=i16", "-o", tiny.model),
        ("diff", tiny.plan, tmp_path / "none.json"),
        ("diff", tiny.plan, tiny.model),
        ("diff", tiny.plan, tmp_path),
        ("diff", damaged, damaged),
    ]
    for call in calls:
        said = run(*call)
        assert said.code == 2, call
        assert said.out == ""
        assert len(said.err.splitlines()) == 1
        assert not out.exists()
