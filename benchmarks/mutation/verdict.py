"""What becomes of a mutant: killed by the first test that fails, or not."""

from __future__ import annotations

import json
import signal
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

from mutation.child import Job
from mutation.pool import Ended, Slot, Task
from mutation.reach import Batch, Reach
from mutation.sites import Mutant

_PASSED, _FAILED, _INTERRUPTED, _USAGE, _NOTHING_RUN = 0, 1, 2, 4, 5


@dataclass(frozen=True)
class Verdict:
    """How a mutant ended."""

    key: str
    """The mutant's."""
    how: str
    """'fails', 'import', 'time' or 'crash' where it was killed, else 'survived', or 'unreached' where no test could."""
    by: str = ""
    """The test that killed it; empty where none did or where the package cannot even be imported."""
    cpu_s: float = 0.0
    """Processor time of its tests."""
    cap_s: float = 0.0
    """Processor time that they could take: what survived is judged again where they may take more."""

    @property
    def killed(self) -> bool:
        """Whether a test noticed the mutant."""
        return self.how not in ("survived", "unreached")


def judge(mutant: Mutant, batches: Iterable[Batch]) -> Task[Verdict]:
    """Return the task that runs the tests that reach a mutant until one fails."""

    def task(slot: Slot) -> Generator[Job, Ended, Verdict]:
        target = slot.copy / "src" / "dovetail" / mutant.site.file
        original = target.read_text(encoding="utf-8")
        target.write_text(mutant.code, encoding="utf-8")
        cpu_s = 0.0
        try:
            for batch in batches:
                job = _job(slot, batch)
                ended = yield job
                cpu_s += ended.cpu_s
                how, by = _end(ended, job.out)
                if how != "survived":
                    return Verdict(mutant.key, how, by, cpu_s)
        finally:
            target.write_text(original, encoding="utf-8")
        return Verdict(mutant.key, "survived", cpu_s=cpu_s)

    return task


def control(test: str, reach: Reach) -> Task[tuple[str, bool]]:
    """Return the task that runs a test alone on the unchanged code: its name, and whether it passes."""

    def task(slot: Slot) -> Generator[Job, Ended, tuple[str, bool]]:
        ended = yield _job(slot, reach.alone(test))
        return test, ended.code == _PASSED

    return task


def _job(slot: Slot, batch: Batch) -> Job:
    out = slot.scratch.with_name("events.jsonl")
    out.unlink(missing_ok=True)
    return Job(slot.copy, slot.scratch, batch.files, batch.limits, batch.collect_s, out)


def _end(ended: Ended, out: Path) -> tuple[str, str]:
    """Return how a run ended and the test that it ended with."""
    lines = out.read_text(encoding="utf-8").splitlines() if out.is_file() else []
    events = [json.loads(line) for line in lines]
    if ended.code in (_PASSED, _NOTHING_RUN):
        return "survived", ""
    failed = next((event["failed"] for event in events if "failed" in event), "")
    if failed and "::" in failed:
        return "fails", failed
    if failed or (ended.code == _USAGE and "while loading conftest" in ended.printed):
        return "import", ""
    running = next((event["begins"] for event in reversed(events) if "begins" in event), "")
    if ended.signal is not None:
        return ("time" if ended.signal in (signal.SIGXCPU, signal.SIGKILL) else "crash"), running
    raise RuntimeError(f"pytest ended with {ended.code}, and no test failed:\n{ended.printed}")
