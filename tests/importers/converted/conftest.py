"""Environments for tests: those that are there; nothing is installed by a test run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import needs
import pytest
import work

from dovetail.environments import EnvironmentState, State, find_environment, state_of

Ready = Callable[[str], EnvironmentState]


@pytest.fixture(scope="session")
def ready() -> Ready:
    """Return an environment by name; skip where it is not there."""

    def find(name: str) -> EnvironmentState:
        if os.environ.get("DOVETAIL_TEST_ENVS", "1") == "0":
            needs.without(name, "DOVETAIL_TEST_ENVS=0")
        state = state_of(find_environment(name))
        if state.state is not State.READY:
            needs.without(name, f"the environment is {state.state.value}: dovetail env install {name}")
        return state

    return find


def run_there(state: EnvironmentState, program: str, folder: Path) -> str:
    """Run a program in an environment, outside of Dovetail's own worker: it makes models and judges them."""
    # From a file: both PyTorch and Paddle read the source of what they compile.
    script = folder / "program.py"
    script.write_text(program)
    done = subprocess.run(
        [str(state.python), str(script)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=work.PATIENCE_S,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "2", "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
