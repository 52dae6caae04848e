"""Bad input of every kind ends with code 2 and one line on stderr, and leaves nothing behind."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

import numpy as np
import onnx
import pytest
from onnx import helper

from dovetail.cli.main import GROUPS, VERBS

from .conftest import Said, Tiny, tiny_model

Run = Callable[..., Said]


def refused(said: Said, *words: str) -> None:
    """Check that a command was refused in one line that has these words."""
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    for word in words:
        assert word in said.err


def test_missing_and_damaged_models(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    refused(run("inspect", tmp_path / "none.onnx"), "none.onnx", "cannot be read")
    refused(run("inspect", tmp_path), str(tmp_path))
    whole = tiny.model.read_bytes()
    for size in (0, 1, 40, len(whole) // 2, len(whole) - 1):
        broken = tmp_path / "broken.onnx"
        broken.write_bytes(whole[:size])
        refused(run("inspect", broken), "broken.onnx")
    (tmp_path / "text.onnx").write_text("no protobuf at all\n" * 9)
    refused(run("inspect", tmp_path / "text.onnx"), "text.onnx")
    (tmp_path / "cut.dvg").write_bytes(b"dovetail graph 1 999\nxyz")
    refused(run("inspect", tmp_path / "cut.dvg"), "cut")


def test_plans_without_a_place_are_refused_with_names_that_can_be_copied(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    """Newcomers know `--target` from the other commands, and no precisions yet."""
    plan = ("plan", tiny.model, "-o", tmp_path / "p.json")
    refused(run(*plan), "--target vsi:v853", "--place vsi:v853@i8pc", "--recipe", "--device", "dovetail devices")
    refused(run(*plan, "--target", "cpu", "--place", "cpu@fp32"), "--target and --place", "one of")
    refused(
        run(*plan, "--place", "vsi:a311d"), "TARGET@PRECISION", "vsi:a311d@u8", "vsi:a311d@i16", "--target vsi:a311d"
    )
    refused(run(*plan, "--place", "a311d"), "TARGET@PRECISION", "Did you mean 'vsi:a311d'?")
    refused(run("explain", tiny.model), "--target", "--target vsi:v853", "dovetail devices")
    assert not (tmp_path / "p.json").exists()


@pytest.mark.parametrize(("target", "place"), [("vsi:v853", "vsi:v853@i8pc"), ("vsi:a311d", "vsi:a311d@u8")])
def test_a_target_alone_is_its_first_8_bits(target: str, place: str, tiny: Tiny, run: Run, tmp_path: Path) -> None:
    for option, value, name in (("--target", target, "a.json"), ("--place", place, "b.json")):
        assert run("plan", tiny.model, option, value, "-o", tmp_path / name).code == 0
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text()


def test_values_of_inputs_are_numbers_of_known_names(tiny: Tiny, run: Run) -> None:
    for value in ("sr", "sr=", "=3", "sr=fast"):
        refused(run("inspect", tiny.model, "--value", value), "INPUT=NUMBER", "sr=16000")
    refused(run("inspect", tiny.model, "--value", "sr=1", "--value", "sr=2"), "given twice")
    refused(run("inspect", tiny.model, "--value", "sr=1"), "the inputs are 'x'")
    refused(run("inspect", tiny.model, "--value", "x=1"), "input of one number")


def test_an_input_that_decides_a_branch_is_said(run: Run, tmp_path: Path) -> None:
    bodies = {
        f"{what}_branch": helper.make_graph(
            [helper.make_node(op, ["x"], [f"{what}_y"])],
            what,
            [],
            [helper.make_tensor_value_info(f"{what}_y", onnx.TensorProto.FLOAT, [2, 3])],
        )
        for what, op in (("then", "Relu"), ("else", "Neg"))
    }
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy"]
    fast = helper.make_tensor_value_info("fast", onnx.TensorProto.BOOL, [])
    graph = helper.make_graph(
        [helper.make_node("If", ["fast"], ["y"], "rates", **bodies)], "g", [ends[0], fast], ends[1:]
    )
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    plan = ("plan", model, "--target", "vsi:v853", "-o", tmp_path / "p.json")
    assert "--value fast=NUMBER" in " ".join(run(*plan).out.split())
    said = run(*plan, "--value", "fast=1")
    assert (said.code, "NUMBER" in said.out, "vsi:v853@i8pc" in said.out) == (0, False, True)


def test_unknown_names_come_with_the_nearest_known_one(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    refused(run("explain", tiny.model, "--target", "vsi:v835"), "vsi:v853")
    refused(run("explain", tiny.model, "--target", "vsi:v853", "--precision", "i8cp"), "i8pc")
    refused(run("explain", tiny.model, "--target", "vsi:v853", "--node", "nowhere*"), "nowhere*")
    refused(run("plan", tiny.model, "--place", "vsi:v853@i8cp", "-o", tmp_path / "p.json"), "i8pc")
    refused(run("plan", tiny.model, "--place", "v853", "-o", tmp_path / "p.json"), "TARGET@PRECISION")
    refused(run("calibrate", tiny.model, "--data", tiny.data, "--method", "minmx", "-o", tmp_path / "r.json"), "minmax")
    refused(run("tune", tiny.model, "--data", tiny.data, "--metric", "top2", "-o", tmp_path / "o"), "top")
    refused(run("tune", tiny.model, "--data", tiny.data, "--target", "vsi:v85", "-o", tmp_path / "o"), "vsi:v853")
    refused(run("plan", tiny.model, "--target", "v853", "-o", tmp_path / "p.json"), "Did you mean 'vsi:v853'?")
    refused(run("tune", tiny.model, "--data", tiny.data, "--max-drop", "much", "-o", tmp_path / "o"), "much")
    refused(run("inspekt"), "inspect")
    refused(run("inspect", tiny.model, "--jsn"), "--json")
    refused(run("inspect"), "MODEL")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "shape", ["x", "x=", "x=1,-4", "y=1,4", "x=1,5", "x=2147483648,4", f"x={9 * 10**18},4", f"x={'9' * 5000},4"]
)
def test_shapes_that_do_not_fit(shape: str, tiny: Tiny, run: Run) -> None:
    refused(run("inspect", tiny.model, "--shape", shape))


def test_data_that_cannot_be_used(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "ranges.json"
    (tmp_path / "empty").mkdir()
    np.savez(tmp_path / "nan.npz", x=np.full((4, 4), np.nan, np.float32))
    np.savez(tmp_path / "wide.npz", x=np.zeros((4, 5), np.float32))
    np.savez(tmp_path / "none.npz", x=np.zeros((0, 4), np.float32))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "cut.npz").write_bytes(tiny.data.read_bytes()[:200])
    for name, words in (
        ("missing.npz", ("no such file",)),
        ("empty", ("empty",)),
        ("nan.npz", ("NaN", "'x'")),
        ("wide.npz", ("[?, 4]", "[5]")),
        ("none.npz", ("empty",)),
        ("objects.npy", ("objects.npy",)),
        ("cut.npz", ("cut.npz",)),
    ):
        refused(run("calibrate", tiny.model, "--data", tmp_path / name, "-o", out), *words)
    refused(run("calibrate", tiny.model, "--data", tiny.data, "--samples", "0", "-o", out), "0 samples")
    refused(run("calibrate", tiny.model, "--data", tiny.data, "--percentile", "0", "--method", "percentile", "-o", out))
    refused(run("tune", tiny.model, "--data", tmp_path / "nan.npz", "-o", tmp_path / "o"), "4 samples", "--anyway")
    refused(run("tune", tiny.model, "--data", tmp_path / "nan.npz", "--anyway", "-o", tmp_path / "o"), "NaN")
    assert not out.exists()


def test_plans_ranges_and_bundles_of_other_models(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.onnx"
    onnx.save(tiny_model(seed=4), other)
    out = tmp_path / "bundle"
    refused(run("compile", other, "--plan", tiny.plan, "--ranges", tiny.ranges, "-o", out), "ranges were made for")
    ranges = tmp_path / "ranges.json"
    assert run("calibrate", other, "--data", tiny.data, "-o", ranges).code == 0
    refused(run("compile", other, "--plan", tiny.plan, "--ranges", ranges, "-o", out), "plan was made for")
    refused(run("compare", other, tiny.bundle, "--data", tiny.data), "plan was made for")
    refused(run("quantize", tiny.model, "--plan", tiny.ranges, "--ranges", tiny.ranges, "-o", tmp_path / "q.onnx"))
    refused(run("quantize", tiny.model, "--plan", tiny.plan, "--ranges", tiny.plan, "-o", tmp_path / "q.onnx"))
    refused(run("quantize", tiny.model, "--plan", tiny.plan, "--ranges", tiny.ranges, "-o", tmp_path / "q.txt"), ".dvg")
    (tmp_path / "bad.json").write_text('{"kind": "dovetail-plan", "schema": 1, "graph": 3, "overrides": []}')
    refused(run("compile", tiny.model, "--plan", tmp_path / "bad.json", "--ranges", tiny.ranges, "-o", out), "bad.json")
    assert not out.exists()


def test_damaged_bundles(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    refused(run("run", tmp_path / "none", "--data", tiny.data), "no such bundle")
    for name in sorted(path.name for path in tiny.bundle.iterdir()):
        broken = tmp_path / f"broken-{name}"
        shutil.copytree(tiny.bundle, broken)
        (broken / name).write_bytes((broken / name).read_bytes()[:-7] + b"garbage")
        refused(run("run", broken, "--data", tiny.data), str(broken))
        (broken / name).unlink()
        refused(run("run", broken, "--data", tiny.data), str(broken))
    refused(run("run", tiny.bundle, "--data", tiny.data, "--tap", "nowhere"), "nowhere")
    refused(run("run", tiny.model, "--data", tiny.data, "--tap", "nowhere"), "nowhere")
    newer = tmp_path / "newer"
    shutil.copytree(tiny.bundle, newer)
    manifest = json.loads((newer / "manifest.json").read_text())
    del manifest["checksum"]
    (newer / "manifest.json").write_text(json.dumps({**manifest, "schema": 99}))
    refused(run("run", newer, "--data", tiny.data), "99")


def test_comparisons_that_make_no_sense(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", y=np.ones((3, 4)))
    np.savez(tmp_path / "b.npz", y=np.ones((3, 5)))
    np.savez(tmp_path / "text.npz", y=np.array(["a", "b"]))
    refused(run("compare", tmp_path / "a.npz", tmp_path / "b.npz"), "shapes differ")
    refused(run("compare", tmp_path / "a.npz", tmp_path / "none"), "no such file")
    refused(run("compare", tmp_path / "a.npz", tmp_path), "one is a folder")
    refused(run("compare", tmp_path / "a.npz", tmp_path / "text.npz"))
    refused(run("compare", tiny.model, tiny.bundle), "--data")
    refused(run("compare", tiny.model, tmp_path, "--data", tiny.data), "no such bundle")


def test_what_is_not_ours_stays(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    diary = tmp_path / "diary.json"
    diary.write_text("dear diary")
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "one.txt").write_text("dear all")
    made = ("--plan", tiny.plan, "--ranges", tiny.ranges)
    refused(run("calibrate", tiny.model, "--data", tiny.data, "-o", diary), "nothing in it says that dovetail made it")
    refused(
        run("plan", tiny.model, "--place", "vsi:v853@i8pc", "-o", diary), "nothing in it says that dovetail made it"
    )
    refused(run("plan", tiny.model, "--place", "vsi:v853@i8pc", "-o", folder), "is a folder")
    refused(run("compile", tiny.model, *made, "-o", folder), "letters")
    refused(run("run", tiny.bundle, "--data", tiny.data, "--save", folder), "letters")
    site = tmp_path / "site"
    site.mkdir()
    (site / "manifest.json").write_text('{"kind": "web-app", "schema": "none"}')
    refused(run("compile", tiny.model, *made, "-o", site), "site")
    refused(run("run", tiny.bundle, "--data", tiny.data, "--save", site), "site")
    assert [path.name for path in site.iterdir()] == ["manifest.json"]
    refused(run("tune", tiny.model, "--data", tiny.data, "-o", folder), "letters")
    refused(run("tune", tiny.model, "--data", tiny.data, "-o", diary), "no folder")
    assert diary.read_text() == "dear diary"
    assert [path.name for path in folder.iterdir()] == ["one.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["diary.json", "letters", "site"]


def test_a_failing_run_keeps_the_older_result(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    assert run("run", tiny.bundle, "--data", tiny.data, "--samples", "3", "--save", saved).code == 0
    before = sorted((path.name, path.read_bytes()) for path in saved.rglob("*") if path.is_file())
    x = np.zeros((4, 4), np.float32)
    x[3] = np.nan
    np.savez(tmp_path / "late.npz", x=x)
    refused(run("run", tiny.bundle, "--data", tmp_path / "late.npz", "--save", saved), "NaN")
    assert sorted((path.name, path.read_bytes()) for path in saved.rglob("*") if path.is_file()) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["late.npz", "saved"]


def test_a_metric_that_fails_names_itself(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def broken(outputs, labels):\n    return outputs['nothing']\n")
    said = run("tune", tiny.model, "--data", tiny.data, "--metric", f"{tmp_path / 'm.py'}:broken", "-o", tmp_path / "o")
    refused(said, "broken")
    said = run("tune", tiny.model, "--data", tiny.data, "--metric", f"{tmp_path / 'm.py'}:absent", "-o", tmp_path / "p")
    refused(said, "absent")
    said = run("tune", tiny.model, "--data", tiny.data, "--metric", f"{tmp_path / 'no.py'}:f", "-o", tmp_path / "q")
    refused(said, "no.py")


def test_an_error_comes_with_the_option_that_mends_it(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    tune = ("tune", tiny.model, "--data", tiny.data, "--metric", tiny.metric, "-o", tmp_path / "o")
    refused(run(*tune, "--min-score", "2"), "below 2", "Option: --min-score.")
    refused(run(*tune, "--workers", "-1"), "0 or more", "Option: --workers.")
    refused(run(*tune, "--trial-timeout", "5"), "only other processes", "Option: --workers.")
    refused(run(*tune, "--search-seconds", "-1"), "no time for a search", "Option: --search-seconds.")
    refused(run(*tune, "--resource", "npu=1"), "Dask cluster", "Option: --dask.")
    (tmp_path / "journal").write_text("no database, and long enough to be taken for something else than one")
    refused(run(*tune, "--journal", tmp_path / "journal"), "journal", "Option: --journal.")
    refused(run("tune", tiny.model, "--data", tiny.data, "--holdout", "1"), "hold-out share of 1")


def test_defects_are_one_line_and_debug_shows_more(tiny: Tiny, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("dovetail.report.model.graph_macs", broken)
    said = run("inspect", tiny.model)
    assert said.code == 70
    assert said.err.startswith("error: unexpected ZeroDivisionError: boom")
    assert "--debug" in said.err
    assert "Traceback" not in said.err
    assert "Traceback" in run("inspect", tiny.model, "--debug").err


def test_names_cannot_drive_the_terminal(run: Run, tmp_path: Path) -> None:
    model = tiny_model()
    model.graph.node[-1].name = "join\x1b[2J\nerror: fake"
    model.graph.name = "tiny\x1b[31m"
    onnx.save(model, tmp_path / "evil.onnx")
    for call in (("inspect",), ("explain", "--target", "vsi:v853", "--node", "join*")):
        said = run(call[0], tmp_path / "evil.onnx", *call[1:])
        assert "\x1b" not in said.out + said.err
        assert "\nerror: fake" not in said.out + said.err


def test_a_backend_for_a_target_that_the_plan_lacks(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    made = ("--plan", tiny.plan, "--ranges", tiny.ranges, "-o", tmp_path / "bundle")
    refused(
        run("compile", tiny.model, *made, "--backend", "vsi:a733=npusim"), "places nothing on 'vsi:a733'", "It has "
    )
    assert not (tmp_path / "bundle").exists()


def test_a_shape_that_is_given_twice(tiny: Tiny, run: Run) -> None:
    refused(run("inspect", tiny.model, "--shape", "x=1,4", "--shape", "x=2,4"), "'x' is given twice")


def test_numbers_that_mean_nothing(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    made = ("--plan", tiny.plan, "--ranges", tiny.ranges)
    for limit in ("0", "-1", "nan", "inf"):
        refused(run("compile", tiny.model, *made, "-o", tmp_path / "b", "--compile-limit", limit), "--compile-limit")
        refused(run("reduce", tiny.model, *made, "-o", tmp_path / "r", "--compile-limit", limit), "--compile-limit")
    refused(run("verify", tiny.model, *made, "--against", "npusim", "--seed", "-1"), "seed -1", "Option: --seed.")
    kit = ("board", "kit", tiny.bundle, "--data", tiny.data, "-o", tmp_path / "kit.tar")
    refused(run(*kit, "--runs", "-1"), "-1 runs", "Option: --runs.")
    call = ("calibrate", tiny.model, "--data", tiny.data, "-o", tmp_path / "r.json")
    refused(run(*call, "--percentile", "99"), "for the method 'percentile'", "--method percentile")
    assert list(tmp_path.iterdir()) == []


def test_no_output_takes_the_place_of_what_dovetail_did_not_make(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    model, samples, tar = tmp_path / "model.onnx", tmp_path / "samples.npz", tmp_path / "mine.tar"
    shutil.copy(tiny.model, model)
    shutil.copy(tiny.data, samples)
    with tarfile.open(tar, "w") as archive:
        archive.add(tiny.model, "thesis.tex")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kit = ("board", "kit", tiny.bundle, "--data", tiny.data, "-o")
    for path in (model, samples, tar):
        refused(run("bundle", "pack", tiny.bundle, "-o", path), path.name, "not a bundle")
        refused(run(*kit, path), path.name, "not a kit")
    tune = ("tune", tiny.model, "--data", tiny.data, "--metric", tiny.metric, "--vendor-seconds", "0")
    refused(run(*tune, "-o", tmp_path / "o", "--log", model), "model.onnx", "dovetail made it")
    shutil.rmtree(tmp_path / "o")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    for call in (("bundle", "pack", tiny.bundle, "-o", tmp_path / "own.dvb"), (*kit, tmp_path / "own.tar")):
        assert [run(*call).code for _ in range(2)] == [0, 0]
    log = tmp_path / "log.jsonl"
    assert [run(*tune, "-o", tmp_path / "o", "--log", log).code for _ in range(2)] == [0, 0]


def test_a_mistyped_goal_takes_no_folder(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    call = ("tune", tiny.model, "--data", tiny.data, "--metric", tiny.metric, "--vendor-seconds", "0", "-o", tmp_path)
    refused(run(*call, "--max-drop", "150%"), "any plan would do", "Option: --max-drop.")
    assert run(*call).code == 0
    refused(run(*call, "--max-drop", "2%"), "answers another question", "Option: --replace.")


def test_another_questions_folder_is_refused_before_samples_are_read(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    data = tmp_path / Path(tiny.data).name
    shutil.copy(tiny.data, data)
    call = ("tune", tiny.model, "--data", data, "--metric", tiny.metric, "--vendor-seconds", "0", "-o", tmp_path / "o")
    assert run(*call).code == 0
    data.write_bytes(b"no samples")
    refused(run(*call, "--max-drop", "2%"), "answers another question", "Option: --replace.")
    refused(run(*call), data.name)


def test_names_that_are_no_text_are_refused_where_they_would_be_written(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    model = tmp_path / "bad\udcff.onnx"
    shutil.copy(tiny.model, model)
    assert run("inspect", model).code == 0
    assert run("inspect", model, "--json").code == 0
    out = tmp_path / "o"
    refused(run("tune", model, "--data", tiny.data, "--vendor-seconds", "0", "-o", out), "no text in UTF-8", "Rename")


def test_a_program_is_no_json(tiny: Tiny, run: Run) -> None:
    refused(run("tune", tiny.model, "--data", tiny.data, "--show-python", "--json"), "--json prints JSON only")


def test_an_empty_path_is_no_path(tiny: Tiny, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = ("--plan", tiny.plan, "--ranges", tiny.ranges)
    refused(run("plan", tiny.model, "--place", "vsi:v853@i8pc", "-o", ""), "'--output'", "an empty path")
    refused(run("plan", tiny.model, "--place", "vsi:v853@i8pc", "--output="), "'--output'", "an empty path")
    refused(run("compile", tiny.model, *made, "-o", ""), "an empty path")
    refused(run("tune", tiny.model, "--data", tiny.data, "-o", ""), "an empty path")
    refused(run("tune", tiny.model, "--data", "", "-o", "o"), "--data", "empty")
    refused(run("inspect", ""), "'MODEL'", "an empty path")
    refused(run("report", tiny.folder / "tuned", "", "-o", "r.html"), "an empty path")
    assert list(tmp_path.iterdir()) == []
    assert run("bisect", "log", "--state", tiny.bisection, "--metric-regex", "").code == 0


def figures() -> list[tuple[tuple[str, ...], str]]:
    """Return the words of every command with each of its options that is a figure."""
    verbs: list[tuple[tuple[str, ...], type]] = [((name,), kind) for name, kind in VERBS.items()]
    verbs += [((group, name), kind) for group, (_, kinds) in GROUPS.items() for name, kind in kinds.items()]
    found: list[tuple[tuple[str, ...], str]] = []
    for words, kind in verbs:
        for hint in get_type_hints(kind, include_extras=True).values():
            if get_origin(hint) is Annotated and float in (get_args(hint)[0], *get_args(get_args(hint)[0])):
                spelled = get_args(hint)[1]
                names = (spelled.default, *(spelled.param_decls or ()))
                found.append((words, next(str(name) for name in names if str(name).startswith("--"))))
    return found


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_figures_that_bound_nothing(value: str, run: Run) -> None:
    """Every option that is a figure, of every command: none takes what is no finite number."""
    options = figures()
    assert (("bisect",), "--at-least") in options
    assert len(options) > 20
    for words, option in options:
        refused(run(*words, f"{option}={value}"), option, "a finite number is expected")


def test_a_figure_that_is_text_is_told_as_before(tiny: Tiny, run: Run) -> None:
    refused(run("tune", tiny.model, "--data", tiny.data, "--min-score", "much"), "--min-score", "number")


def test_what_is_known_is_never_an_empty_list(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    refused(run("board", "remove", "desk"), "'desk'", "None is known.")


def test_jobs_are_not_listed_from_a_file(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    for call in (("list",), ("show", "abc"), ("resume", "abc"), ("remove", "abc")):
        refused(run("job", *call, "--jobs", tiny.data), "no folder of jobs", "Option: --jobs.")
    assert run("job", "list", "--jobs", tmp_path / "not-yet").code == 0
