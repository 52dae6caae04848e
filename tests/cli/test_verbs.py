"""What every command promises: JSON, width, help, speed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from dovetail.cli.main import GROUPS, VERBS

from .conftest import Said, Tiny

GOLDEN = Path(__file__).parent / "golden"
Run = Callable[..., Said]


def commands(tiny: Tiny, out: Path) -> dict[str, list[object]]:
    """Return one call of every command but demo; what is written goes to `out`."""
    made = ["--plan", tiny.plan, "--ranges", tiny.ranges]
    return {
        "inspect": ["inspect", tiny.model, "--ranges", tiny.ranges],
        "load": ["load", tiny.model],
        "explain": ["explain", tiny.model, "--target", "vsi:v853,vsi:a311d"],
        "calibrate": ["calibrate", tiny.model, "--data", tiny.data, "-o", out / "ranges.json"],
        "plan": ["plan", tiny.model, "--place", "vsi:v853@i8pc", "-o", out / "plan.json"],
        "cost": ["cost", tiny.model, "--plan", tiny.plan],
        "quantize": ["quantize", tiny.model, *made, "-o", out / "tiny.qdq.onnx"],
        "compile": ["compile", tiny.model, *made, "-o", out / "bundle"],
        "profile": ["profile", tiny.bundle, "--data", tiny.data, "--runs", "3", "--trace", out / "trace.json"],
        "run": ["run", tiny.bundle, "--data", tiny.data, "--samples", "5", "--save", out / "saved"],
        "compare": ["compare", tiny.model, tiny.bundle, "--data", tiny.data, "--metric", tiny.metric, "--layers"],
        "verify": ["verify", tiny.model, *made, "--against", "npusim", "--data", tiny.data],
        "explain-diff": ["explain-diff", tiny.model, *made, "--data", tiny.data, "--bundle", tiny.bundle],
        "calibrate-cost": [
            *("calibrate-cost", tiny.model, "--ranges", tiny.ranges, "--place", "vsi:v853@i8pc", "--runs", "2"),
            *("--backend", "vsi:v853=npusim", "-o", out / "costs.json"),
        ],
        "judge": [
            *("judge", tiny.quantized, "--data", tiny.data, "--metric", tiny.metric, "--float", tiny.model),
            *("--max-drop", "1.0"),
        ],
        "reduce": ["reduce", tiny.model, *made, "--against", "npusim", "--data", tiny.data, "-o", out / "case"],
        "repair": ["repair", tiny.model, "--data", tiny.data, "--metric", tiny.metric, "-o", out / "healed.onnx"],
        "split": ["split", tiny.model, "--head", "-o", out / "parts"],
        "tune": ["tune", tiny.model, "--data", tiny.data, "--metric", tiny.metric, "-o", out / "tuned"],
        "replay": ["replay", tiny.log],
        "edit": ["edit", tiny.plan, "--model", tiny.model, "--set", "scores=i16", "-o", out / "edited.json"],
        "report": ["report", tiny.folder / "tuned", "-o", out / "report.html"],
        "advise": ["advise", tiny.model, "--target", "vsi:v853,vsi:a311d", "--rewrites"],
        "check": ["check", tiny.folder / "tuned" / "plan.json", "--model", tiny.model, "--data", tiny.data],
        "diff": ["diff", tiny.plan, tiny.folder / "tuned"],
        "bisect": ["bisect", "log", "--state", tiny.bisection],
        "devices": ["devices"],
        "export": [
            "export",
            tiny.plan,
            "--model",
            tiny.model,
            "--format",
            "nncf",
            "--nearest",
            "--no-verify",
            "-o",
            out / "scope.json",
        ],
        "import-plan": [
            *("import-plan", tiny.folder / "scope.json", "--model", tiny.model, "--format", "nncf"),
            *("-o", out / "plan.json"),
        ],
        "formats": ["formats"],
        "doctor": ["doctor", "--no-test"],
    }


NAMES = sorted({*VERBS, "load"} - {"demo", "serve"})
"""Of `serve`, which ends only when it is asked to, see test_boards.py."""


@pytest.mark.parametrize("name", NAMES)
def test_json_is_all_that_goes_to_stdout(name: str, tiny: Tiny, run: Run, tmp_path: Path) -> None:
    said = run(*commands(tiny, tmp_path)[name], "--json")
    assert said.err == ""
    assert said.code == (1 if name in ("compare", "diff", "reduce", "repair") else 0)
    assert isinstance(json.loads(said.out), dict)


@pytest.mark.parametrize("name", NAMES)
def test_lines_fit_a_hundred_columns_and_carry_no_colour(name: str, tiny: Tiny, run: Run, tmp_path: Path) -> None:
    said = run(*commands(tiny, tmp_path)[name])
    assert max(cell_len(line) for line in said.out.splitlines()) <= 100
    assert "\x1b" not in said.out
    assert said.out.strip()


GROUPED = [f"{group} {name}" for group, (_, verbs) in GROUPS.items() for name in verbs]


@pytest.mark.parametrize("name", ["", *sorted(VERBS), *GROUPS, *GROUPED])
def test_help_is_golden(name: str, run: Run) -> None:
    said = run(*name.split(), "--help")
    golden = GOLDEN / f"help-{name.replace(' ', '-') or 'dovetail'}.txt"
    if os.environ.get("DOVETAIL_UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(said.out)
    assert said.code == 0
    assert said.out == golden.read_text()


def test_without_a_command_the_help_is_shown(run: Run) -> None:
    assert run().out.strip() == run("--help").out.strip()
    assert run().code == 0


def test_version(run: Run) -> None:
    said = run("--version")
    assert said.code == 0
    assert re.fullmatch(r"dovetail \d+\.\d+\.\d+\n", said.out)


def test_help_loads_nothing_heavy_and_little_else() -> None:
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "from dovetail.cli.main import main\n"
        "main(['tune', '--help'])\n"
        "print(*set(sys.modules) - before, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert not {"numpy", "onnx", "onnxruntime", "scipy", "PIL", "rich", "grpc", "uvicorn"} & loaded
    assert "dovetail.cli.main" in loaded
    # They were 338 when this was written.
    assert len(loaded) < 400, sorted(loaded)


def test_colours_follow_the_terminal_and_no_color(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run("inspect", tiny.model).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in run("inspect", tiny.model).out


def test_progress_goes_to_stderr_when_asked(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    call = ("calibrate", tiny.model, "--data", tiny.data, "-o", tmp_path / "ranges.json")
    assert run(*call).err == ""
    assert "calibrating" in run(*call, "--progress").err


def test_the_stages_of_a_search_are_shown(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    call = ("tune", tiny.model, "--data", tiny.data, "--metric", tiny.metric, "-o", tmp_path / "out")
    titles = [line.partition(":")[0] for line in run(*call, "--progress").err.splitlines()]
    assert list(dict.fromkeys(titles)) == [
        "loading",
        "outputs",
        "calibrating",
        "searching",
        "compiling",
        "comparing samples",
    ]
    assert run(*call).err == ""
