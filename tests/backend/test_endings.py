"""How processes end: what says something about the graph, and what does not."""

from __future__ import annotations

import signal

import pytest

from dovetail.backend.endings import ending_of
from dovetail.errors import CompileFailure


@pytest.mark.parametrize(
    ("code", "said", "failure", "cause"),
    [
        (-signal.SIGSEGV, "", CompileFailure.CRASHED, "SIGSEGV"),
        (-signal.SIGABRT, "assertion failed", CompileFailure.CRASHED, "SIGABRT"),
        (-signal.SIGABRT, "terminate called after throwing 'std::bad_alloc'", CompileFailure.KILLED, "SIGABRT"),
        (-signal.SIGKILL, "", CompileFailure.KILLED, "SIGKILL"),
        (-signal.SIGTERM, "", CompileFailure.KILLED, "SIGTERM"),
        (-signal.SIGINT, "", CompileFailure.KILLED, "SIGINT"),
        (-signal.SIGXCPU, "", CompileFailure.HUNG, "it used up its processor time (SIGXCPU)"),
        (-99, "", CompileFailure.CRASHED, "signal 99"),
        (3, "", CompileFailure.CRASHED, "exit code 3"),
        (1, "MemoryError", CompileFailure.KILLED, "exit code 1"),
        (2, "write: No space left on device", CompileFailure.KILLED, "exit code 2"),
        (None, "", CompileFailure.HUNG, "it stopped answering"),
    ],
)
def test_an_ending_is_told_and_sorted(code: int | None, said: str, failure: CompileFailure, cause: str) -> None:
    ending = ending_of(code, said)
    assert (ending.failure, ending.cause) == (failure, cause)
