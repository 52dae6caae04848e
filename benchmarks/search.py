"""Our search beside other tools' on the same model, data and goal, in one run.

python benchmarks/search.py [--task digits] [--tool dovetail --tool nncf ...] [--limit-s N] [--json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import zoo.machine as machine
from zoo.catalogue import CASES, models_root
from zoo.floors import run_check, run_floor
from zoo.peers import (
    Found,
    PeerMissing,
    Runner,
    left_float_by_nncf,
    left_float_by_ort,
    run_ddmin,
    run_exclude_loop,
    run_nncf,
    run_ours,
)
from zoo.search_summary import met, summary
from zoo.table import markdown, number, text
from zoo.tasks import Task, bench_a, digits, from_case

_TOOLS = (
    "floor",
    "dovetail",
    "dovetail-cpu",
    "check",
    "nncf",
    "ort-quantise-one",
    "ddmin",
)
_MORE_TOOLS = ("dovetail-nncf", "dovetail-ort", "nncf-1", "ort-restore-one")
_V853, _A311D = ("vsi:v853@i8pc", "vsi:v853@i16"), ("vsi:a311d@u8", "vsi:a311d@i16")
_MODELS = (
    ("mobilenet_v1_0.25_128", _A311D),
    ("ultraface_rfb320", _A311D),
    ("ppocrv3_det", _A311D),
    ("yolox_nano_decoded", _V853),
    ("kwt1", _V853),
)
"""Models of the collection that break in 8 bits, and the target on which they do."""
_PACKAGES = ("dovetail", "nncf", "onnxruntime", "onnx", "numpy")
_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "search.md"
_BENCH_A = Path(__file__).resolve().parents[2] / "shared" / "bench" / "a"
_CPU = "cpu@fp32"
_NNCF_LIMIT = 10
_LIMIT_HELP = "processor time of an ONNX Runtime loop, a tenth of NNCF's (default: %(default)s)"


def main() -> int:
    """Run every tool on every task."""
    options = _arguments()
    record = _Record(options.page)
    if options.jobs > 1:
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda words: _elsewhere(words, options, record), _shares(options)))
    else:
        for task in _tasks(options):
            _run(task, options, record)
    record.write()
    facts = machine.facts(_PACKAGES)
    if options.json:
        tasks = {name: [asdict(item) for item in rows] for name, rows in record.found.items()}
        print(json.dumps({"facts": facts, "tasks": tasks, "failed": record.failed}))
        return 0
    print("\n".join(facts))
    print("\n".join(record.failed))
    for name, rows in record.found.items():
        print(f"\n{name}: search split, then the hold-out split that no tool searched on\n")
        print(text(*_table(rows)))
        print("\n".join(f"- {item.tool}: {item.note}" for item in rows if item.note))
    print("\n" + "\n".join(summary(record.found, _CPU)))
    return 0


@dataclass
class _Record:
    """Hold what was found so far."""

    page: Path | None
    found: dict[str, list[Found]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, name: str, result: Found) -> None:
        with self.lock:
            self.found.setdefault(name, []).append(result)
            print(f"{name}: {result.tool} done in {result.wall_s:.1f} s", file=sys.stderr, flush=True)

    def fail(self, text: str) -> None:
        with self.lock:
            self.failed.append(text)
            print(text, file=sys.stderr, flush=True)

    def write(self) -> None:
        if self.page is not None:
            order = ("digits", "bench A", *(name for name, _ in _MODELS))
            names = sorted(self.found, key=lambda name: order.index(name.split(",")[0]))
            _write_page(self.page, machine.facts(_PACKAGES), {name: self.found[name] for name in names}, self.failed)


def _run(task: Task, options: argparse.Namespace, record: _Record) -> None:
    for tool in options.tool or _TOOLS:
        try:
            result = _runner(tool, task, options.limit_s)()
        except PeerMissing as missing:
            print(f"{tool}: {missing}", file=sys.stderr)
        except Exception as error:  # a peer that breaks on a model is a finding, not the end
            why = f"{task.name}: {tool} ends with {type(error).__name__}: {' '.join(str(error).split())[:120]}"
            record.fail(why)
            if options.stream:
                print(json.dumps({"failed": why}), flush=True)
        else:
            record.take(task.name, result)
            if options.stream:
                print(json.dumps({"task": task.name, "found": asdict(result)}), flush=True)


def _shares(options: argparse.Namespace) -> list[list[str]]:
    """Return the arguments of a process for each task."""
    shares = [["--task", name] for name in ("digits", "a") if options.task in (None, name)]
    if options.task in (None, "models"):
        shares += [
            ["--task", "models", "--model", name] for name, _ in reversed(_MODELS) if options.model in (None, name)
        ]
    return shares


def _elsewhere(words: Sequence[str], options: argparse.Namespace, record: _Record) -> None:
    """Run one task in a process of its own; its processor time is its own as well."""
    common = ["--limit-s", str(options.limit_s), "--bench-a", str(options.bench_a), "--stream"]
    tools = [word for tool in options.tool or () for word in ("--tool", tool)]
    command = [sys.executable, __file__, *words, *common, *tools]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        for line in process.stdout or ():
            if line.startswith("{"):
                said = json.loads(line)
                if "failed" in said:
                    record.fail(said["failed"])
                else:
                    record.take(said["task"], Found(**said["found"]))
    if process.returncode:
        record.fail(f"{' '.join(words)}: ended with {process.returncode}")


def _tasks(options: argparse.Namespace) -> list[Task]:
    tasks: list[Task] = []
    if options.task in (None, "digits"):
        tasks.append(digits())
    if options.task in (None, "a"):
        if (options.bench_a / "model.onnx").is_file():
            tasks.append(bench_a(options.bench_a))
        else:
            print(f"{options.bench_a}: no benchmark A here; name its folder with --bench-a.", file=sys.stderr)
    if options.task in (None, "models"):
        root = models_root()
        known = {case.name: case for case in CASES if (root / case.file).exists()}
        wanted = [(name, target) for name, target in _MODELS if name in known and options.model in (None, name)]
        tasks += [from_case(known[name], root, "0.03", target) for name, target in wanted]
    return tasks


def _runner(tool: str, task: Task, limit_s: float) -> Runner:
    runners: dict[str, Runner] = {
        "floor": lambda: run_floor(task),
        "dovetail": lambda: run_ours(task, task.high),
        "dovetail-cpu": lambda: run_ours(task, _CPU),
        "dovetail-nncf": lambda: run_ours(task, _CPU, left_float_by_nncf(task), "NNCF"),
        "dovetail-ort": lambda: run_ours(task, _CPU, left_float_by_ort(task), "ORT"),
        "check": lambda: run_check(task),
        "nncf": lambda: run_nncf(task, _NNCF_LIMIT * limit_s),
        "nncf-1": lambda: run_nncf(task, _NNCF_LIMIT * limit_s, one_by_one=True),
        "ort-quantise-one": lambda: run_exclude_loop(task, True, limit_s),
        "ort-restore-one": lambda: run_exclude_loop(task, False, limit_s),
        "ddmin": lambda: run_ddmin(task, limit_s),
    }
    return runners[tool]


_MEETS = "meets the goal on the target"
_HEADS = ("tool", "nodes", "raised", "calls", "evals", "wall s", "cpu s", "search", "hold-out", "ms", "bound", "lost")


def _table(rows: Sequence[Found]) -> tuple[Sequence[str], list[list[str]]]:
    return (*_HEADS, _MEETS), [
        [
            item.tool,
            str(item.nodes_at_start),
            str(item.nodes_raised),
            str(item.calls),
            number(item.full_equivalents, 1),
            number(item.wall_s, 1),
            number(item.cpu_s, 1),
            number(item.search_score),
            number(item.holdout_score),
            number(item.latency_ms, 3),
            number(item.bound_ms, 3),
            number(item.lost),
            met(item),
        ]
        for item in rows
    ]


_PEERS = (
    ("NNCF", "NNCF accuracy control"),
    ("ORT exclude", "ORT exclude, quantise-one"),
    ("ddmin", "ORT exclude, ddmin"),
)


def _verdicts(found: Mapping[str, Sequence[Found]]) -> tuple[Sequence[str], list[list[str]]]:
    """Return every peer's plan beside ours up to the CPU, and the time of both."""
    plans = ("its ms", f"it {_MEETS}", "our ms", f"ours {_MEETS}", "bound", "gap")
    heads = ("model", "peer", *plans, "its cpu s", "our cpu s", "ratio")
    rows: list[list[str]] = []
    for name, items in found.items():
        ours = next((item for item in items if item.tool == f"dovetail, up to {_CPU}"), None)
        for short, tool in _PEERS:
            peer = next((item for item in items if item.tool == tool), None)
            if peer is None or ours is None:
                continue
            costs = [number(peer.latency_ms, 3), met(peer)]
            costs += [number(ours.latency_ms, 3), met(ours), number(ours.bound_ms, 3)]
            times = [number(peer.cpu_s, 1), number(ours.cpu_s, 1), number(ours.cpu_s / peer.cpu_s, 2)]
            rows.append([name, short, *costs, _gap(ours), *times])
    return heads, rows


def _gap(item: Found) -> str:
    if item.latency_ms is None or item.bound_ms is None:
        return "-"
    return f"{max(0.0, 1 - item.bound_ms / item.latency_ms):.1%}"


_MADE = (
    "Made by `python benchmarks/search.py --page`; do not edit. One run, the same files, samples, goal, batches and "
    "one thread for every tool; the machine is shared, so that `cpu s` tells more than `wall s`."
)
_COLUMNS = (
    "`nodes` are quantised before the search, `raised` are not 8 bits after it, `calls` are candidates, `evals` "
    "evaluations of the whole search split that their samples make. `search` and `hold-out` are each tool's own "
    "scores; no tool searched on the second split. `ms` is what our cost model says of the plan, everything that is "
    "not 8 bits on the CPU in float (16 bits on the NPU where it says so); a clamp or a move that the NPU runs as one "
    "with the operator before it is 8 bits where that is. `bound` is what no plan that passes can be below if raising "
    "a unit never harms: only we have one. `lost` is the plan's loss on the hold-out split in exact simulation of the "
    "target, by one evaluator for every tool; the last column says whether the goal allows it. Precisions are those "
    "of the target: `i8pc` is signed with a scale "
    "for each channel of weights, `u8` unsigned with one for each tensor (NNCF has no asymmetric weights in ONNX; "
    "symmetric)."
)
_SAME = (
    "Other tools choose between 8 bits and float, and leave some operators float from the start; on an NPU without "
    "float that is the CPU. So each of their plans is one that our search up to the CPU can find as well, and is shown "
    "beside it. A peer whose plan does not meet the goal on the target has solved another problem: it emulates 8 bits "
    "between the operators "
    "that it quantises, and on the target the result of such an operator is 8 bits wide whoever reads it. `ratio` is "
    "our processor time over the peer's."
)


def _write_page(page: Path, facts: Sequence[str], found: Mapping[str, Sequence[Found]], failed: Sequence[str]) -> None:
    parts = ["# Search beside other tools", _MADE, "\n".join(f"- {fact}" for fact in facts), _COLUMNS]
    parts += ["## Plans and time", _SAME, markdown(*_verdicts(found))]
    for name, rows in found.items():
        parts += [f"## {name}", markdown(*_table(rows))]
        notes = [f"- {item.tool}: {item.note}" for item in rows if item.note]
        parts += ["\n".join(notes)] if notes else []
    parts += ["## Summary", "\n".join(f"- {line}" for line in summary(found, _CPU))]
    parts += ["## What broke", "\n".join(f"- {line}" for line in failed)] if failed else []
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Our search beside other tools' on the same model, data and goal.",
        epilog="'nodes' are quantised before the search, 'raised' are not 8 bits after it, 'calls' are candidates, "
        "'evals' evaluations of the whole search split that their samples make.",
    )
    parser.add_argument("--task", choices=("digits", "a", "models"), help="only this one")
    parser.add_argument("--model", help="with --task models: only this one")
    parser.add_argument("--tool", action="append", choices=_TOOLS + _MORE_TOOLS, help="only this tool; may be repeated")
    parser.add_argument("--bench-a", type=Path, default=_BENCH_A, help="folder of benchmark A (default: %(default)s)")
    parser.add_argument("--limit-s", type=float, default=60.0, help=_LIMIT_HELP)
    parser.add_argument("--jobs", type=int, default=1, help="tasks at once, each in a process (default: %(default)s)")
    parser.add_argument("--stream", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--page", type=Path, nargs="?", const=_PAGE, help="write the reference page")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
