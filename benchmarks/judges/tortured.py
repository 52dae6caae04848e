"""A small model with everything that the commands make of it, and commands that run in a child which can be killed."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dovetail.cli.start import main

_METRIC = """
def score(outputs, labels):
    return (outputs["out"][:, 3:].argmax(axis=1) == labels["label"]).astype(float)
"""
_JUDGE = """
import sys
raised = set(open(sys.argv[1]).read().split())
sys.exit(0 if {"join", "scores"} <= raised else 1)
"""
_LOADED_BEFORE = (
    "dovetail",
    "numpy",
    "onnx",
    "onnxruntime",
    "scipy",
    "google",
    "rich",
    "typer",
    "flatbuffers",
    "tflite",
)
_TIMES = ("elapsed", "wall", "_ns", "_s", "recalled", "fresh", "made", "seconds")


@dataclass
class Count:
    """What came of the cases of a campaign: how many ended how, and those that should not have."""

    ended: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    pieces: int = 0
    """Of a campaign that are done."""

    def join(self, other: Count) -> None:
        """Take in the counts of another piece."""
        for how, count in other.ended.items():
            self.ended[how] = self.ended.get(how, 0) + count
        self.problems += other.problems

    def add(self, how: str) -> None:
        """Count a case."""
        self.ended[how] = self.ended.get(how, 0) + 1

    def bad(self, what: str) -> None:
        """Count a case that should not have been."""
        self.add("WRONG")
        self.problems.append(what)

    def text(self) -> str:
        """Return the counts on one line."""
        return f"{sum(self.ended.values())} cases: " + ", ".join(f"{n} {how}" for how, n in sorted(self.ended.items()))


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (negative: the signal), and what it said."""

    code: int
    out: str
    err: str

    @property
    def broke(self) -> bool:
        """Tell whether it ended otherwise than a command may."""
        return "Traceback" in self.err or self.code == 70 or self.code < 0 or self.code not in (0, 1, 2)


class Workshop:
    """A folder with the model, its data, and everything that commands make of them."""

    def __init__(self, folder: Path) -> None:
        importlib.import_module("dovetail.cli.main")  # Every child would have to.
        self.folder = folder
        self.model, self.data = folder / "model.onnx", folder / "data.npz"
        self.ranges, self.plan, self.bundle = folder / "ranges.json", folder / "plan.json", folder / "bundle"
        self.tuned, self.log, self.state = folder / "tuned", folder / "log.jsonl", folder / "bisection"
        self.metric = f"{folder / 'metric.py'}:score"
        self._write()
        made = ("--plan", self.plan, "--ranges", self.ranges)
        for call in (
            ("calibrate", self.model, "--data", self.data, "-o", self.ranges),
            ("plan", self.model, "--place", "vsi:v853@i8pc", "-o", self.plan),
            ("compile", self.model, *made, "-o", self.bundle),
            (*self.tune(self.tuned), "--log", self.log),
            self.bisect_start(self.state),
        ):
            ended = self.run(*call)
            assert ended.code == 0, (call, ended.err)
            _load_what_it_loaded(self.folder / "modules")

    def _write(self) -> None:
        rng = np.random.default_rng(3)
        weights = {
            "trunk_w": rng.normal(size=(8, 4)) * 0.5,
            "trunk_b": rng.normal(size=8) * 0.1,
            "pixel_w": np.abs(rng.normal(size=(3, 8))) * 20,
            "score_w": rng.normal(size=(3, 8)),
        }
        nodes = [
            helper.make_node("Gemm", ["x", "trunk_w", "trunk_b"], ["t"], "trunk", transB=1),
            helper.make_node("Relu", ["t"], ["h"], "trunk_relu"),
            helper.make_node("Gemm", ["h", "pixel_w"], ["pixels"], "pixels", transB=1),
            helper.make_node("Gemm", ["h", "score_w"], ["logits"], "logits", transB=1),
            helper.make_node("Sigmoid", ["logits"], ["scores"], "scores"),
            helper.make_node("Concat", ["pixels", "scores"], ["out"], "join", axis=1),
        ]
        ends = [
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size])]
            for name, size in (("x", 4), ("out", 6))
        ]
        stored = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
        graph = helper.make_graph(nodes, "tiny", ends[0], ends[1], stored)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), self.model)
        x = rng.normal(size=(120, 4)).astype(np.float32)
        hidden = np.maximum(x @ weights["trunk_w"].T + weights["trunk_b"], 0)
        label = (hidden @ weights["score_w"].T).argmax(axis=1).astype(np.int64)
        np.savez(self.data, x=x, label=label)
        (self.folder / "metric.py").write_text(_METRIC)
        (self.folder / "judge.py").write_text(_JUDGE)

    def tune(self, out: Path) -> tuple[object, ...]:
        """Return the call that tunes into a folder."""
        asked = ("--data", self.data, "--metric", self.metric, "--vendor-seconds", 0, "--repair", "none")
        return ("tune", self.model, *asked, "-o", out, "--json")

    def compile(self, out: Path) -> tuple[object, ...]:
        """Return the call that compiles into a folder."""
        return ("compile", self.model, "--plan", self.plan, "--ranges", self.ranges, "-o", out)

    def bisect_start(self, state: Path) -> tuple[object, ...]:
        """Return the call that begins a bisection."""
        candidate = state.with_name(f"{state.name}.txt")
        return ("bisect", "start", "--model", self.model, "--state", state, "--candidate", candidate)

    def bisect_run(self, state: Path) -> tuple[object, ...]:
        """Return the call that finishes a bisection."""
        own, first = state.with_name(f"{state.name}.txt"), self.state.with_name(f"{self.state.name}.txt")
        # A copy of a bisection writes its candidates where the first one does.
        judge = (sys.executable, self.folder / "judge.py", own if own.exists() else first)
        return ("bisect", "run", "--state", state, "--json", "--", *judge)

    def run(
        self,
        *call: object,
        kill_after: float | None = None,
        most_bytes: int | None = None,
        most_memory: int | None = None,
        limit_s: float = 1800.0,
    ) -> Ended:
        """Run a command in a child of this process, which has everything loaded, and kill it where that is asked.

        `most_bytes` bounds each file, `most_memory` what the child gets beyond the memory that it begins with.
        """
        out, err = self.folder / "stdout", self.folder / "stderr"
        child = os.fork()
        if child == 0:
            _become(call, out, err, most_bytes, most_memory)
        deadline = time.monotonic() + (limit_s if kill_after is None else kill_after)
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() >= deadline:
                kill_family(child)
                _, status = os.waitpid(child, 0)
                break
            time.sleep(0.002)
        return Ended(
            os.waitstatus_to_exitcode(status), out.read_text(errors="replace"), err.read_text(errors="replace")
        )

    def run_anew(
        self, *call: object, variables: Mapping[str, str], kill_after: float | None = None, limit_s: float = 1800.0
    ) -> Ended:
        """Run a command in a process of its own with these variables, and kill it where that is asked."""
        command = [sys.executable, "-m", "dovetail.cli", *map(str, call)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, **variables},
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=limit_s if kill_after is None else kill_after)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        return Ended(process.returncode, out, err)


def kill_family(child: int) -> None:
    """Kill a forked child and what it started, at whatever moment of its life."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        # Not yet a group of its own: it has started nothing either.
        os.kill(child, signal.SIGKILL)


def _load_what_it_loaded(names: Path) -> None:
    """Import what a command has imported, so that those after it need not: that is most of what small commands do."""
    for name in names.read_text().split():
        if name.partition(".")[0] in _LOADED_BEFORE:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def _become(
    call: tuple[object, ...], out: Path, err: Path, most_bytes: int | None, most_memory: int | None = None
) -> None:
    """Be the command; does not return."""
    code = 71
    try:
        os.setsid()
        for number, path in ((1, out), (2, err)):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, number)
        if most_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))
        if most_memory is not None:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            ceiling = pages * resource.getpagesize() + most_memory
            resource.setrlimit(resource.RLIMIT_AS, (ceiling, resource.RLIM_INFINITY))
        sys.argv = ["dovetail", *map(str, call)]
        code = main()
        if most_bytes is None:
            (out.parent / "modules").write_text("\n".join(sys.modules))
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def answer_of(folder: Path) -> dict[str, object]:
    """Return what the folder of a search, or a bundle, says: all files, but for times and for what is only drawn."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or name.startswith((".", "journal", "report")) or name == "request.json":
            continue
        data = path.read_bytes()
        timed = path.suffix == ".json"
        found[name] = _untimed(json.loads(data)) if timed else data
    return found


def untimed_text(text: str) -> object:
    """Return a JSON answer but for times, paths and what was recalled."""
    try:
        return _untimed(json.loads(text))
    except ValueError:
        return text


def _untimed(value: object) -> object:
    if isinstance(value, Mapping):
        return {
            key: _untimed(item)
            for key, item in value.items()
            if not any(key.endswith(word) or word in key for word in _TIMES)
            and key not in ("files", "checksum", "cost")
        }
    return [_untimed(item) for item in value] if isinstance(value, list) else value


def copies(source: Path, target: Path) -> Path:
    """Return a fresh copy of a file or folder."""
    if target.is_dir():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)
    return target


def files_of(place: Path) -> Iterator[Path]:
    """Yield a file, or the files below a folder."""
    yield from [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())


Ask = Callable[[Path], tuple[Ended, object]]
"""Use a copy of what was damaged: how the command ended, and what it answered."""
