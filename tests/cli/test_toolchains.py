"""The commands about other toolchains' files: exit codes, JSON, what is refused, what is kept."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Said, Tiny

Run = Callable[..., Said]
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
PADDLE, ACUITY = HOW_TO / "fastdeploy", HOW_TO / "acuity"
LOG, RULES = PADDLE / "log.txt", PADDLE / "subgraph.txt"


def calls(out: Path) -> dict[str, tuple[list[object], int]]:
    """Return one call of every grouped command, and its exit code."""
    return {
        "paddle lint": (["paddle", "lint", RULES, "--log", LOG], 1),
        "paddle fix": (["paddle", "fix", RULES, "-o", out / "fixed.txt"], 0),
        "paddle match": (["paddle", "match", RULES, "--log", LOG], 0),
        "paddle from-log": (["paddle", "from-log", LOG, "-o", out / "all.txt"], 0),
        "acuity compare": (["acuity", "compare", ACUITY / "golden", ACUITY / "quantised", "--slice", "class=4:"], 1),
        "acuity lint": (["acuity", "lint", ACUITY / "digits.quantize", "--network", ACUITY / "digits.json"], 1),
    }


NAMES = sorted(calls(Path()))


@pytest.mark.parametrize("name", NAMES)
def test_json_and_exit_codes(name: str, run: Run, tmp_path: Path) -> None:
    arguments, code = calls(tmp_path)[name]
    said = run(*arguments, "--json")
    assert (said.code, said.err) == (code, "")
    assert isinstance(json.loads(said.out), dict)


def test_lint_names_every_line(run: Run) -> None:
    found = json.loads(run("paddle", "lint", RULES, "--log", LOG, "--json").out)["findings"]
    assert [(item["code"], item["line"]) for item in found if item["severity"] == "error"] == [
        *(("E01", line) for line in range(1, 6)),
        ("E03", 5),
    ]


def test_match_finds_nothing_before_the_repair_and_five_after(run: Run, tmp_path: Path) -> None:
    assert json.loads(run("paddle", "match", RULES, "--log", LOG, "--json").out)["matched"] == []
    run("paddle", "fix", RULES, "-o", tmp_path / "fixed.txt")
    found = json.loads(run("paddle", "match", tmp_path / "fixed.txt", "--log", LOG, "--json").out)
    assert len(found["matched"]) == 5
    assert found["subgraphs"] == {"before": 1, "after": 4}


def test_operators_of_the_mixed_precision_file_stay_on_the_npu(run: Run, tmp_path: Path) -> None:
    run("paddle", "fix", RULES, "-o", tmp_path / "mixed.txt")
    (tmp_path / "none.txt").write_text("\n")
    (tmp_path / "one.txt").write_text("exp\n")
    match = ["paddle", "match", "--log", LOG, "--mixed", tmp_path / "mixed.txt", "--json"]
    found = json.loads(run(*match, tmp_path / "none.txt").out)
    assert (len(found["matched"]), len(found["mixed"])) == (0, 5)
    assert found["subgraphs"] == {"before": 1, "after": 1}
    found = json.loads(run(*match, tmp_path / "one.txt").out)
    assert (len(found["matched"]), len(found["mixed"])) == (1, 4)
    lint = ["paddle", "lint", tmp_path / "mixed.txt", "--log", LOG, "--json"]
    codes = [{item["code"] for item in json.loads(run(*lint, *more).out)["findings"]} for more in ((), ("--mixed",))]
    assert codes == [{"W05", "W06"}, {"W05"}]


def test_what_is_said_of_many_lines_is_said_once(run: Run) -> None:
    said = run("paddle", "lint", RULES).out
    assert "E01 lines 1, 2, 3, 4, 5: a carriage return" in said
    assert said.count("a carriage return") == 1


def test_from_log_counts_and_puts_everything_on_the_cpu(run: Run, tmp_path: Path) -> None:
    found = json.loads(run("paddle", "from-log", LOG, "-o", tmp_path / "all.txt", "--json").out)
    where = [item["where"] for item in found["operators"]]
    assert where.count("cpu") == 2
    assert (found["noise"], found["truncated"]) == (1, False)
    matched = json.loads(run("paddle", "match", tmp_path / "all.txt", "--log", LOG, "--json").out)["matched"]
    assert len(matched) == len(where)


@pytest.mark.parametrize("content", [b"", b"nothing\n", bytes(range(256))])
def test_a_log_without_operators_is_bad_input_and_says_why(content: bytes, run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(content)
    said = run("paddle", "from-log", tmp_path / "empty.txt", "-o", tmp_path / "all.txt")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert "2>&1" in said.err
    assert not (tmp_path / "all.txt").exists()
    said = run("paddle", "match", RULES, "--log", tmp_path / "empty.txt")
    assert said.code == 2
    assert said.err.count("\n") == 1


def test_what_is_not_ours_stays_unless_it_is_asked_for(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "subgraph.txt"
    target.write_text("relu\n")
    said = run("paddle", "fix", RULES, "-o", target)
    assert (said.code, target.read_text()) == (2, "relu\n")
    assert run("paddle", "fix", RULES, "-o", target, "--replace").code == 0
    assert target.read_text() != "relu\n"


def test_a_plan_that_a_format_cannot_say(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('default = "vsi:v853@i8pc"\n[[rule]]\nnode = "join"\nplace = "vsi:v853@i16"\n')
    plan = tmp_path / "plan.json"
    assert run("plan", tiny.model, "--recipe", recipe, "-o", plan).code == 0
    export = ["export", plan, "--model", tiny.model, "--format", "nncf", "-o", tmp_path / "scope.json"]
    said = run(*export)
    assert said.code == 2
    assert "'join' (vsi:v853@i16)" in said.err
    assert "--nearest" in said.err
    assert not (tmp_path / "scope.json").exists()
    said = run(*export, "--nearest", "--json")
    # NNCF never rounds a sigmoid.
    assert json.loads(said.out)["moved"] == ["scores", "join"]
    assert json.loads((tmp_path / "scope.json").read_text()) == {"names": ["scores", "join"]}


def test_import_names_what_is_wrong_on_one_line(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    (tmp_path / "scope.json").write_text('{"names": ["joinn"]}')
    imported = ["import-plan", tmp_path / "scope.json", "--model", tiny.model, "-o", tmp_path / "plan.json"]
    said = run(*imported, "--format", "nncf")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "'join'" in said.err
    assert run(*imported, "--format", "nncff").code == 2
    assert run(*imported, "--format", "nncf", "--beside", "x").code == 2
    assert not (tmp_path / "plan.json").exists()


def test_every_list_format_goes_there_and_back_through_the_commands(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    wanted = json.loads(run("plan", tiny.model, "--place", "vsi:v853@i8pc", "-o", tmp_path / "p.json", "--json").out)
    for name in ("aimet", "ai-edge-quantizer", "nncf", "onnxruntime", "openvino", "rknn", "tflite", "tpu-mlir"):
        file, back = tmp_path / f"{name}.file", tmp_path / f"{name}.plan.json"
        export = ["export", tmp_path / "p.json", "--model", tiny.model, "--format", name, "-o", file, "--nearest"]
        assert run(*export, "--no-verify").code == 0
        said = run("import-plan", file, "--model", tiny.model, "--format", name, "-o", back, "--json")
        assert said.code == 0, said.err
        told = dict(wanted["placements"])
        if name == "nncf":  # It never rounds a sigmoid.
            told = {"vsi:v853@i8pc": told["vsi:v853@i8pc"] - 1, "cpu@fp32": 1}
        assert json.loads(said.out)["placements"] == told


def test_an_ir_gets_the_plans_affinities(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    plan, ir = tmp_path / "plan.json", tmp_path / "net.xml"
    places = ["--place", "vsi:v853@fp32", "--affinity", "join=cpu"]
    assert run("plan", tiny.model, *places, "-o", plan).code == 0
    apply = ["openvino", "apply", plan, "--model", tiny.model]
    said = run(*apply, "-o", ir, "--json")
    assert (said.code, said.err) == (0, "")
    told = json.loads(said.out)
    assert (told["device"], told["refused"]) == ("HETERO:NPU,CPU", [])
    assert sum(told["operators"].values()) == ir.read_text().count("user_data name=")
    assert (tmp_path / "net.bin").stat().st_size > 0
    assert json.loads(run(*apply, "--device", "vsi:v853=GPU", "-o", ir, "--json").out)["device"] == "HETERO:GPU,CPU"
    assert run(*apply, "-o", tmp_path / "net.bin").code == 2
    (tmp_path / "other.xml").write_text("<net/>")
    assert run(*apply, "-o", tmp_path / "other.xml").code == 2
    assert run(*apply, "-o", tmp_path / "other.xml", "--replace").code == 0


def test_acuity_compare_needs_two_alike(run: Run, tmp_path: Path) -> None:
    assert run("acuity", "compare", ACUITY / "golden", tmp_path / "nothing").code == 2
    assert run("acuity", "compare", ACUITY / "golden", LOG).code == 2
    assert run("acuity", "compare", ACUITY / "golden", ACUITY / "golden").code == 0
    first = run("acuity", "compare", ACUITY / "golden", ACUITY / "quantised").out.splitlines()
    assert any(line.startswith("euclidean_distance 654.00") for line in first)
    assert any(line.startswith("cos_similarity 0.978810") for line in first)


def test_inputmeta_is_told_from_a_table_by_its_name(run: Run) -> None:
    said = run("acuity", "lint", ACUITY / "digits_inputmeta.yml", "--json")
    assert said.code == 0
    assert [item["code"] for item in json.loads(said.out)["findings"]] == ["UNEDITED"]


def test_lint_says_that_a_file_is_of_another_model(tiny: Tiny, run: Run, digits: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert run("plan", tiny.model, "--place", "vsi:a311d@u8", "-o", plan).code == 0
    rules = tmp_path / "subgraph.txt"
    rules.write_text("\n")
    lint = ["paddle", "lint", rules, "--plan", plan, "--json", "--model"]
    assert json.loads(run(*lint, tiny.model).out)["findings"] == []
    found = json.loads(run(*lint, digits / "digits.onnx").out)["findings"]
    assert [item["code"] for item in found] == ["W07"]
    assert "given together" in run("paddle", "lint", rules, "--plan", plan).err


def test_lint_says_that_compiled_subgraphs_are_older(run: Run, tmp_path: Path) -> None:
    cache, rules = tmp_path / "cache", tmp_path / "subgraph.txt"
    cache.mkdir()
    rules.write_text("relu:a:b\n")
    lint = ["paddle", "lint", rules, "--cache", cache, "--json"]

    def codes(*more: object) -> list[str]:
        return [item["code"] for item in json.loads(run(*lint, *more).out)["findings"]]

    assert codes() == []
    (cache / "0a1b.nnc").write_bytes(b"compiled")
    os.utime(cache / "0a1b.nnc", ns=(0, 0))
    assert codes() == ["W08"]
    assert codes("--previous", rules) == []
    (tmp_path / "old.txt").write_text("\n")
    assert codes("--previous", tmp_path / "old.txt") == ["W08"]
    assert run("paddle", "lint", rules, "--cache", tmp_path / "nowhere").code == 2


def test_ort_check_loads_and_compares(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert run("plan", tiny.model, "--place", "cpu@fp32", "-o", plan).code == 0
    check = ["ort", "check", tiny.model, "--model", tiny.model, "--plan", plan]
    found = json.loads(run(*check, "--json").out)
    assert set(found["providers"].values()) == {"CPUExecutionProvider"}
    assert found["unreported"] == []
    assert run("plan", tiny.model, "--place", "vsi:v853@i8pc", "-o", plan).code == 0
    said = run(*check, "--provider", "vsi:v853=AzureExecutionProvider")
    assert said.code == 2
    assert "(CPUExecutionProvider, planned AzureExecutionProvider)" in said.err
    assert "vsi:v853=VSINPUExecutionProvider. Option: --provider." in run(*check).err
    assert run(*check, "--provider", "vsi:v853").code == 2


@pytest.mark.parametrize("name", ["x.quantize", "x_inputmeta.yml"])
@pytest.mark.parametrize("content", [b"", b" \n\n", b"junk\n", bytes(range(256))])
def test_what_is_no_file_of_acuity_is_bad_input(name: str, content: bytes, run: Run, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    said = run("acuity", "lint", tmp_path / name)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert name in said.err
