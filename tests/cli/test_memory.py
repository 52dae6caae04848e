"""What is freed goes back to the system, and too little memory is said in one line."""

from __future__ import annotations

import errno
import os
import platform
import subprocess
import sys
from collections.abc import Callable

import pytest

from dovetail.cli.verb import ExitCode
from dovetail.errors import DeviceError
from dovetail.plan import Plan, parse_placement
from dovetail.search.fanout.task import Measure, Task, _evaluators, run_task
from dovetail.search.trial import Scores

from .conftest import Said

_PROGRAM = """
import numpy as np
from dovetail.cli.memory import give_memory_back

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

give_memory_back()
first = np.ones(31 << 20, np.uint8)
del first
before = resident()
held = [np.ones(5 << 20, np.uint8) for _ in range(40)]
last = held[-1]
del held
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_large_blocks_go_back_to_the_system() -> None:
    """glibc alone keeps 39 of these 40 blocks of 5 MiB, below the one that is still in use."""
    free = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    kept = {}
    for name, more in (("ours", {}), ("theirs", {"GLIBC_TUNABLES": "glibc.malloc.check=0"})):
        done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, env={**free, **more}, check=True)
        kept[name] = int(done.stdout)
    assert kept["ours"] < 16 << 20 < kept["theirs"]


def test_a_ceiling_that_is_too_low_is_one_line() -> None:
    """Below it OpenBLAS would ask for its buffers for ever."""
    program = "import sys; from dovetail.cli.start import main; sys.argv = ['dovetail', 'formats']; sys.exit(main())"
    for ceiling_mb, code in ((200, 2), (4096, 0)):
        limit = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({ceiling_mb} << 20, -1)); "
        done = subprocess.run([sys.executable, "-c", limit + program], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        if code:
            assert "ulimit -v" in done.stderr
            assert done.stderr.count("\n") == 1


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), ExitCode.BAD_INPUT),
        (RuntimeError("std::bad_alloc"), ExitCode.BAD_INPUT),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), ExitCode.BAD_INPUT),
        (_caused(DeviceError("the blob cannot be loaded: it failed."), MemoryError()), ExitCode.BAD_INPUT),
        (RuntimeError("anything else"), ExitCode.DEFECT),
    ],
)
def test_too_little_memory_is_no_defect(error: Exception, code: ExitCode, failing: Callable[[Exception], Said]) -> None:
    said = failing(error)
    assert (said.code, said.err.count("\n")) == (code, 1)
    assert ("not enough memory: nothing was written" in said.err) is (code == ExitCode.BAD_INPUT)


@pytest.mark.parametrize(("cause", "kept"), [(MemoryError(), False), (ValueError("a shape"), True)])
def test_too_little_memory_is_no_verdict_on_a_plan(cause: Exception, kept: bool) -> None:
    """A search writes verdicts down and believes them later: on a machine with more memory this one would be wrong."""

    class Failing:
        def evaluate(self, plan: Plan, indices: object) -> Scores:
            raise _caused(DeviceError("it cannot be run."), cause)

    plan = Plan("0" * 64, parse_placement("cpu@fp32"))
    task = Task("key", Measure.SCORE, plan.to_json(), (0,))
    _evaluators.by_key["key"] = Failing(), ()  # type: ignore[assignment]
    try:
        if kept:
            scores = run_task(task)
            assert scores is not None
            assert scores.failure == "it cannot be run."
        else:
            with pytest.raises(MemoryError, match="cannot be run"):
                run_task(task)
    finally:
        del _evaluators.by_key["key"]
