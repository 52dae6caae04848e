"""A run over a sample: what is measured, judged and controlled is kept, so that it goes on after an interruption."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from mutation.pool import Slot, Task, make_slot, run_tasks, tracked_files
from mutation.reach import Reach, kept_at, measure, read
from mutation.sites import Mutant
from mutation.verdict import Verdict, control, judge

T = TypeVar("T")

LEFT_OUT = ("tests/repo/", "tests/benchmarks/")
"""Tests that read the text of the code, or test the tools."""
_DEPENDS_ON = ("src/", "tests/", "examples/", "benchmarks/", "pyproject.toml")
_EXCEPT = "benchmarks/mutation/equivalent.toml"


@dataclass(frozen=True)
class Session:
    """Where a run keeps what it knows, and its bounds."""

    root: Path
    """The repository."""
    store: Path
    cap_s: float
    """Processor time that a mutant's tests may take in all on the unchanged code."""
    tests: tuple[str, ...]
    """What the paths of test files begin with."""
    say: Callable[[str], None]
    """Told of each step."""
    slots: list[Slot] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    """What the copies hold: paths below them."""

    def fill_slots(self, count: int) -> None:
        """Make the copies of the repository; from then on the repository itself may change."""
        self.files[:] = tracked_files(self.root)
        self.slots[:] = [make_slot(self.root, self.files, self.store / f"slot{number}") for number in range(count)]

    @property
    def _copy(self) -> Path:
        return self.slots[0].copy

    def reach(self) -> Reach:
        """Return what every test executes: kept measurements, and new ones where there are none."""
        kept_in = self.store / "reach"
        kept_in.mkdir(parents=True, exist_ok=True)
        names = [name for name in self.files if self._is_test_file(name)]
        kept = {name: kept_at(self._copy, name, kept_in) for name in names}
        missing = [name for name in names if not kept[name].is_file()]
        for count, name in enumerate(self._run(measure(name, kept[name]) for name in missing), 1):
            self.say(f"measured {count} of {len(missing)}: {name}")
        return Reach(read(name, kept[name]) for name in names)

    def verdicts(self, mutants: Sequence[Mutant], reach: Reach) -> dict[str, Verdict]:
        """Return what became of each mutant, by key.

        A test that killed one is run alone on the unchanged code. Where it fails there it proves nothing: what it
        killed is judged again without it. What survived tests of less time is judged again, what they killed is not.
        """
        notes = _Notes(self.store / "verdicts" / self._digest(), self.cap_s)
        while True:
            pending = [mutant for mutant in mutants if mutant.key not in notes.verdicts]
            for count, verdict in enumerate(self._judged(pending, reach, notes.unreliable), 1):
                notes.add_verdict(replace(verdict, cap_s=self.cap_s))
                self.say(f"{count} of {len(pending)}: {verdict.key} {verdict.how} {verdict.by} {verdict.cpu_s:.1f} s")
            wanted = {mutant.key for mutant in mutants}
            killers = {verdict.by for key, verdict in notes.verdicts.items() if key in wanted and verdict.by}
            for test, passes in self._run(control(test, reach) for test in sorted(killers - notes.controlled.keys())):
                notes.add_control(test, passes)
                if not passes:
                    self.say(f"fails alone on the unchanged code: {test}")
            if all(mutant.key in notes.verdicts for mutant in mutants):
                return {mutant.key: notes.verdicts[mutant.key] for mutant in mutants}

    def _judged(self, mutants: Sequence[Mutant], reach: Reach, without: frozenset[str]) -> Iterator[Verdict]:
        batches = {mutant.key: list(reach.batches(mutant.site, self.cap_s, without)) for mutant in mutants}
        yield from (Verdict(key, "unreached") for key, needed in batches.items() if not needed)
        yield from self._run(judge(mutant, batches[mutant.key]) for mutant in mutants if batches[mutant.key])

    def _run(self, tasks: Iterable[Task[T]]) -> Iterator[T]:
        return run_tasks(self.slots, tasks)

    def _is_test_file(self, name: str) -> bool:
        is_test = name.startswith(self.tests) and Path(name).name.startswith("test_") and name.endswith(".py")
        return is_test and not name.startswith((*LEFT_OUT, "tests/thirdparty/"))

    def _digest(self) -> str:
        """Return a digest of what verdicts depend on."""
        digest = hashlib.sha256(f"{self.tests}".encode())
        for name in self.files:
            if name.startswith(_DEPENDS_ON) and name != _EXCEPT:
                digest.update(f"|{name}|".encode() + (self._copy / name).read_bytes())
        return digest.hexdigest()[:20]


class _Notes:
    """Verdicts and controls in a folder, a line of JSON for each."""

    def __init__(self, folder: Path, cap_s: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._verdicts, self._controls = folder / "verdicts.jsonl", folder / "controls.jsonl"
        self.controlled: dict[str, bool] = {entry["test"]: entry["passes"] for entry in _lines(self._controls)}
        verdicts = [Verdict(**entry) for entry in _lines(self._verdicts)]
        holding = (verdict for verdict in verdicts if verdict.killed or verdict.cap_s >= cap_s)
        self.verdicts = {verdict.key: verdict for verdict in holding if verdict.by not in self.unreliable}

    @property
    def unreliable(self) -> frozenset[str]:
        """Tests that fail alone on the unchanged code."""
        return frozenset(test for test, passes in self.controlled.items() if not passes)

    def add_verdict(self, verdict: Verdict) -> None:
        """Keep a verdict."""
        self.verdicts[verdict.key] = verdict
        _append(self._verdicts, asdict(verdict))

    def add_control(self, test: str, passes: bool) -> None:
        """Keep whether a test passes alone; drop what it killed if it does not."""
        self.controlled[test] = passes
        _append(self._controls, {"test": test, "passes": passes})
        if not passes:
            self.verdicts = {key: verdict for key, verdict in self.verdicts.items() if verdict.by != test}


def _lines(path: Path) -> list[dict[str, object]]:
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    # A last line without end is what an interruption left.
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _append(path: Path, entry: dict[str, object]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
