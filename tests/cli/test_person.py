"""The person at the terminal: edits stay, answers are not mixed up, options are found, signals are understood."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import work

from .conftest import Said, Tiny, tiny_model

Run = Callable[..., Said]
COMMAND = Path(sys.executable).parent / "dovetail"


def tune(tiny: Tiny, out: Path, *more: object) -> tuple[object, ...]:
    """Return the call that tunes the tiny model into a folder."""
    return ("tune", tiny.model, "--data", tiny.data, "--metric", tiny.metric, "-o", out, *(more or ("--stay",)))


def test_a_rerun_keeps_what_was_edited(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(*tune(tiny, out)).code == 0
    recipe = out / "recipe.toml"
    first = recipe.read_text()
    recipe.write_text(first + "# MY EDIT\n")
    said = run(*tune(tiny, out))
    assert said.code == 0
    assert "recipe.new.toml" in said.err
    assert recipe.read_text() == first + "# MY EDIT\n"
    assert (out / "recipe.new.toml").read_text() == first
    # A third one does not take its own files for edits.
    assert run(*tune(tiny, out)).code == 0
    assert sorted(path.name for path in out.glob("*.new.*")) == ["recipe.new.toml"]
    assert recipe.read_text().endswith("# MY EDIT\n")
    assert run(*tune(tiny, out, "--replace")).code == 0
    assert recipe.read_text() == first


def test_a_folder_belongs_to_one_question(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other.onnx"
    onnx.save(tiny_model(seed=4), other)
    assert run(*tune(tiny, out)).code == 0
    plan = (out / "plan.json").read_text()
    asked = ("tune", other, "--data", tiny.data, "--metric", tiny.metric, "-o", out, "--max-drop", "50%")
    said = run(*asked)
    assert (said.code, said.out) == (2, "")
    assert "another question" in said.err
    assert str(tiny.model) in said.err
    assert "--replace" in said.err
    assert (out / "plan.json").read_text() == plan
    assert run(*tune(tiny, out, "--max-drop", "2%")).code == 2
    run(*asked, "--replace")
    assert (out / "plan.json").read_text() != plan


def test_a_kill_before_the_question_had_its_name_is_gone_on_from(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    (tmp_path / ".request.json.x7_w2k1").write_text('{"schema": 1, "ki')
    call = ("tune", tiny.model, "--data", tiny.data, "--metric", tiny.metric, "--vendor-seconds", "0", "-o", tmp_path)
    assert run(*call).code == 0
    other = tmp_path / "others"
    other.mkdir()
    (other / ".request").write_text("mine")
    said = run(*call[:-1], other)
    assert said.code == 2
    assert "did not make" in said.err


def test_a_damaged_question_is_refused(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(*tune(tiny, out)).code == 0
    request = out / "request.json"
    request.write_text(request.read_text().replace('"recipe.toml"', '"recipf.toml"'))
    said = run(*tune(tiny, out))
    assert (said.code, said.out) == (2, "")
    assert "request.json: damaged" in said.err


def test_the_same_question_may_be_spelled_otherwise(
    tiny: Tiny, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert run(*tune(tiny, out)).code == 0
    monkeypatch.chdir(tiny.folder)
    again = ("tune", tiny.model.name, "--data", f"./{tiny.data.name}", "--metric", tiny.metric, "-o", out)
    assert run(*again).code == 0


NOISY = """
import os

def score(outputs, labels):
    print("from Python")
    os.write(1, b"from C\\n")
    os.system("echo from a child")
    return (outputs["out"][:, 3:].argmax(axis=1) == labels["label"]).astype(float)
"""


def test_what_a_metric_prints_is_no_json(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    call = ["run", tiny.bundle, "--data", tiny.data, "--metric", f"{tmp_path / 'noisy.py'}:score", "--json"]
    done = subprocess.run([COMMAND, *map(str, call)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict)
    for what in ("from Python", "from C", "from a child"):
        assert what in done.stderr


def test_run_scores_by_labels(tiny: Tiny, run: Run) -> None:
    call = ("run", tiny.bundle, "--data", tiny.data, "--metric", tiny.metric)
    document = json.loads(run(*call, "--json").out)
    compared = run("compare", tiny.model, tiny.bundle, "--data", tiny.data, "--metric", tiny.metric, "--samples", "120")
    (score,) = document["scores"].values()
    assert f"{score:.4g}" in compared.out
    assert 0 <= score <= 1
    whole = json.loads(run("run", tiny.model, "--data", tiny.data, "--metric", tiny.metric, "--json").out)
    assert list(whole["scores"].values()) == [1.0]


@pytest.mark.parametrize("metric", ["decisions", "noise"])
def test_run_has_nothing_to_compare_decisions_with(metric: str, tiny: Tiny, run: Run) -> None:
    said = run("run", tiny.bundle, "--data", tiny.data, "--metric", metric)
    assert said.code == 2
    assert "dovetail compare" in said.err


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (("--min-score", "nan"), "Invalid value for '--min-score': a finite number is expected"),
        (("--workers", "100000"), "Option: --workers."),
        (("--log", "/nowhere/at/all/log.jsonl"), "Option: --log."),
        (("--journal", "/nowhere/at/all/j.sqlite"), "Option: --journal."),
    ],
)
def test_values_that_cannot_be_meant(more: tuple[str, str], what: str, tiny: Tiny, run: Run, tmp_path: Path) -> None:
    said = run(*tune(tiny, tmp_path / "out", *more))
    assert said.code == 2
    assert what in said.err
    assert not Path("/nowhere").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "value", "what"),
    [
        ("--min-sqnr", "nan", "Invalid value for '--min-sqnr': a finite number is expected"),
        ("--max-drop", "-1", "Option: --max-drop."),
        ("--max-drop", "nan", "Invalid value for '--max-drop': a finite number is expected"),
    ],
)
def test_bounds_that_bound_nothing(option: str, value: str, what: str, tiny: Tiny, run: Run) -> None:
    call = ("compare", tiny.model, tiny.bundle, "--data", tiny.data, "--metric", tiny.metric)
    said = run(*call, option, value)
    assert said.code == 2
    assert what in said.err


def test_labels_of_another_length_are_said(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    x = np.load(tiny.data)["x"]
    np.savez(tmp_path / "short.npz", x=x, label=np.zeros(7, np.int64))
    said = run("tune", tiny.model, "--data", tmp_path / "short.npz", "--metric", tiny.metric, "-o", tmp_path / "o")
    assert said.code == 2
    assert "'label' has 7 rows, and there are 120 samples" in said.err


def test_a_metric_that_needs_labels_says_so(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "bare.npz", x=np.load(tiny.data)["x"])
    said = run("run", tiny.bundle, "--data", tmp_path / "bare.npz", "--metric", "top1")
    assert said.code == 2
    assert "there is no" in said.err


def test_integers_need_ranges(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(tiny.plan.read_bytes())
    said = run("compile", tiny.model, "--plan", plan, "-o", tmp_path / "b")
    assert said.code == 2
    assert "there are no ranges" in said.err
    assert "--ranges" in said.err


def test_an_export_over_ones_own_file_names_the_option(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    call = ("export", tiny.plan, "--model", tiny.model, "--format", "aimet", "--no-verify", "-o", tmp_path / "s.json")
    assert run(*call).code == 0
    said = run(*call)
    assert said.code == 2
    assert "--replace" in said.err
    assert run(*call, "--replace").code == 0


def test_a_plan_has_its_own_targets(tiny: Tiny, run: Run) -> None:
    said = run("cost", tiny.model, "--plan", tiny.plan, "--target", "vsi:a311d")
    assert said.code == 2
    assert "--host" in said.err


def test_titles_are_the_file_s_name(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    model = tmp_path / "my-detector.onnx"
    model.write_bytes(tiny.model.read_bytes())
    for call in (
        ("inspect", model),
        ("explain", model, "--target", "vsi:v853"),
        ("plan", model, "--place", "vsi:v853@i8pc", "-o", tmp_path / "p.json"),
        ("cost", model),
    ):
        assert "my-detector.onnx" in run(*call).out.splitlines()[0]
    report = run("tune", model, "--data", tiny.data, "--metric", tiny.metric, "-o", tmp_path / "out").out
    assert "'my-detector.onnx' on vsi:v853" in report


def test_a_bound_says_which_plans_it_is_of(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    words = "units without fault stay on the NPU"
    assert words in " ".join(run(*tune(tiny, tmp_path / "stays")).out.split())
    leaves = " ".join(run(*tune(tiny, tmp_path / "leaves", "--migrate")).out.split())
    assert words not in leaves
    # So small a network is done on the CPU before the NPU has started.
    assert "the NPU is not used, as this network takes longer with it" in leaves


def test_nothing_refused_is_said(tiny: Tiny, run: Run) -> None:
    said = run("explain", tiny.model, "--target", "cpu", "--precision", "fp32")
    assert "None is refused." in said.out


def test_the_three_options_that_matter_come_first(run: Run) -> None:
    text = run("tune", "--help").out
    options = re.findall(r"^  (?:-o, )?(--[a-z-]+)", text, re.MULTILINE)
    assert options[:3] == ["--data", "--target", "--max-drop"]
    headings = re.findall(r"^([A-Z].*):$", text, re.MULTILINE)
    assert headings[:2] == ["Arguments", "What matters first"]
    assert headings[-2:] == ["Reading the model", "Every command"]
    assert "Options" not in headings


def test_help_of_a_verb(run: Run) -> None:
    assert run("help", "explain").out == run("explain", "--help").out
    assert run("help").out == run("--help").out
    assert run("help", "sdk", "status").out == run("sdk", "status", "--help").out


def test_a_missing_argument_names_the_help_of_its_command(run: Run) -> None:
    said = run("sdk", "probe", "--nothing")
    assert said.code == 2
    assert "'dovetail sdk probe --help'" in said.err


_SIGNALLED = """
import importlib.abc, os, signal, sys

class Asked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "dovetail.cli.main":
            os.kill(os.getpid(), getattr(signal, sys.argv.pop(1)))
        return None

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Asked())
from dovetail.cli.start import main
sys.exit(main())
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_before_the_command_is_one_line(name: str, code: int) -> None:
    done = subprocess.run([sys.executable, "-c", _SIGNALLED, name, "devices"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == "error: interrupted: nothing was written.\n"


_SWALLOWED = """
import importlib.abc, os, signal, sys

class Swallows(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == where:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000): pass
            except KeyboardInterrupt:
                raise RecursionError("as numpy, when it is half loaded")
        return None

class Ends:
    def __del__(self):
        if where == "end":
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000): pass

where = sys.argv[1]
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Swallows())
from dovetail.cli.start import main
if where == "end":
    import dovetail.cli.devices as devices, time
    def run(verb, screen):
        Ends()
        time.sleep(20)
    devices.Devices.run = run
sys.argv.pop(1)
sys.argv[0:1] = ["dovetail"]
code = main()
sys.exit(code)
"""


@pytest.mark.parametrize("where", ["dovetail.cli.main", "dovetail.report.page", "end"])
def test_a_signal_that_is_swallowed_ends_the_command(where: str) -> None:
    call = [sys.executable, "-c", _SWALLOWED, where, "devices"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=work.PATIENCE_S)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "error: interrupted: nothing was written.\n"


def test_a_signal_between_the_line_and_its_command_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dovetail.cli.verb._perform", asked)
    said = run("devices")
    assert (said.code, said.out, said.err) == (130, "", "error: interrupted: nothing was written.\n")


def test_a_terminated_search_says_how_to_go_on(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time, pathlib\n"
        "def score(outputs, labels):\n"
        f"    pathlib.Path({str(tmp_path / 'running')!r}).touch()\n"
        "    time.sleep(60)\n"
        "    return 1.0\n"
    )
    call = ["tune", tiny.model, "--data", tiny.data, "--metric", f"{tmp_path / 'slow.py'}:score"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dovetail.cli", *map(str, call), "-o", str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "running").exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate()
    assert process.returncode == 143
    assert said.count("\n") == 1
    assert said.startswith("error: terminated: the journal is kept")
