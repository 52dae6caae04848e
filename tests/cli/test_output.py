"""Standard output that is closed, full, or read by nobody any more; completion of commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.cli.inspect import _unsure_note

from .conftest import Said, Tiny

Run = Callable[..., Said]

COMMAND = Path(sys.executable).parent / "dovetail"


def ended(line: str, **names: object) -> tuple[int, str]:
    """Return how the first command of a line of bash ended, and what was said on stderr."""
    text = line.format(dovetail=COMMAND, **names)
    done = subprocess.run(["bash", "-c", f"{text}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize("more", ["", " --json"])
def test_a_closed_output_changes_no_answer(more: str, tiny: Tiny) -> None:
    assert ended("{dovetail} inspect {model}" + more + " >&-", model=tiny.model) == (0, "")
    other = tiny.folder / "tuned"
    assert ended("{dovetail} diff {a} {b}" + more + " >&-", a=tiny.plan, b=other) == (1, "")


@pytest.mark.parametrize("call", ["inspect {model}", "inspect {model} --json", "--help", "tune --help", "--version"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="-: there is no /dev/full")
def test_a_full_output_is_one_line(call: str, tiny: Tiny) -> None:
    code, said = ended("{dovetail} " + call + " > /dev/full", model=tiny.model)
    assert code == 2
    assert len(said.splitlines()) == 1
    assert "No space left" in said


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full", "2>&- >&- <&-"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="-: there is no /dev/full")
def test_that_nobody_hears_an_error_changes_no_exit_code(where: str, tiny: Tiny) -> None:
    assert ended("{dovetail} inspect {model} " + where, model=tiny.folder / "nowhere.onnx") == (2, "")
    assert ended("{dovetail} inspect --no-such-option " + where) == (2, "")
    other = tiny.folder / "tuned"
    assert ended("{dovetail} diff {a} {b} " + where, a=tiny.plan, b=other) == (1, "")


def test_files_do_not_get_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    code = "import os, sys; from dovetail.cli.output import hold_streams; hold_streams(); "
    code += f"print(open({str(tmp_path / 'f')!r}, 'w').fileno() > 2)"
    done = subprocess.run(["bash", "-c", '"$0" -c "$1" 2>&- <&-', sys.executable, code], capture_output=True, text=True)
    assert done.stdout == "True\n", done


@pytest.mark.parametrize("call", ["inspect {model} | true", "inspect {model} --json | true", "--help | true"])
def test_a_reader_who_goes_changes_no_answer(call: str, tiny: Tiny) -> None:
    # The reader ends before it gets anything.
    waiting = call.replace("| true", "| (exec 0<&-; sleep 5)")
    assert ended("{dovetail} " + waiting, model=tiny.model) == (0, "")


def test_commands_are_completed() -> None:
    environment = {**os.environ, "_DOVETAIL_COMPLETE": "complete_bash", "COMP_WORDS": "dovetail ex", "COMP_CWORD": "1"}
    done = subprocess.run([COMMAND], env=environment, capture_output=True, text=True)
    assert set(done.stdout.split()) == {"explain", "explain-diff", "export"}


def test_a_metric_that_exits_is_bad_input(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("def score(outputs, labels):\n    raise SystemExit(3)\n")
    call = (
        "tune",
        tiny.model,
        "--data",
        tiny.data,
        "--metric",
        f"{tmp_path / 'ends.py'}:score",
        "-o",
        tmp_path / "out",
    )
    said = run(*call)
    assert (said.code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(("drop", "asked"), [("1", "Was 1% meant?"), ("500%", "Allow less.")])
def test_a_goal_that_anything_meets_is_asked_about(drop: str, asked: str, tiny: Tiny, run: Run, tmp_path: Path) -> None:
    call = ("tune", tiny.model, "--data", tiny.data, "--metric", tiny.metric, "--max-drop", drop)
    said = run(*call, "-o", tmp_path / "out")
    assert (said.code, said.out) == (2, "")
    assert asked in said.err
    assert "--max-drop" in said.err
    assert not (tmp_path / "out" / "plan.json").exists()


def test_outputs_that_nothing_recognises_get_no_empty_line_to_say() -> None:
    assert "--decisions 'scores=y,kind=classification'" in _unsure_note("scores=y,kind=classification")
    bare = _unsure_note("")
    assert "--decisions" not in bare
    assert "--metric noise" in bare
