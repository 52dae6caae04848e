"""Our search beside other tools' on the same model, data and goal, in one run.

python benchmarks/search.py [--task digits] [--tool dovetail --tool nncf ...] [--limit-s N] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

import zoo.machine as machine
from zoo.peers import Found, PeerMissing, Runner, left_float_by_nncf, run_exclude_loop, run_floor, run_nncf, run_ours
from zoo.table import number, text
from zoo.tasks import Task, bench_a, digits

_TOOLS = ("floor", "dovetail", "dovetail-cpu", "dovetail-nncf", "nncf", "nncf-1", "ort-quantise-one", "ort-restore-one")
_BENCH_A = Path(__file__).resolve().parents[2] / "shared" / "bench" / "a"
_LOW, _HIGH = "vsi:v853@i8pc", "vsi:v853@i16"


def main() -> int:
    """Run every tool on every task."""
    options = _arguments()
    found: dict[str, list[Found]] = {}
    for task in _tasks(options):
        found[task.name] = []
        for tool in options.tool or _TOOLS:
            try:
                result = _runner(tool, task, options.limit_s)()
            except PeerMissing as missing:
                print(f"{tool}: {missing}", file=sys.stderr)
                continue
            found[task.name].append(result)
            print(f"{task.name}: {result.tool} done in {result.wall_s:.1f} s", file=sys.stderr, flush=True)
    facts = machine.facts(("dovetail", "nncf", "onnxruntime", "onnx", "numpy"))
    if options.json:
        print(
            json.dumps(
                {"facts": facts, "tasks": {name: [asdict(item) for item in rows] for name, rows in found.items()}}
            )
        )
        return 0
    print("\n".join(facts))
    for name, rows in found.items():
        print(f"\n{name}: search split, then the hold-out split that no tool searched on\n")
        print(text(*_table(rows)))
        print("\n".join(f"- {item.tool}: {item.note}" for item in rows if item.note))
    return 0


def _tasks(options: argparse.Namespace) -> list[Task]:
    tasks: list[Task] = []
    if options.task in (None, "digits"):
        tasks.append(digits())
    if options.task in (None, "a"):
        if (options.bench_a / "model.onnx").is_file():
            tasks.append(bench_a(options.bench_a))
        else:
            print(f"{options.bench_a}: no benchmark A here; name its folder with --bench-a.", file=sys.stderr)
    return tasks


def _runner(tool: str, task: Task, limit_s: float) -> Runner:
    runners: dict[str, Runner] = {
        "floor": lambda: run_floor(task),
        "dovetail": lambda: run_ours(task, _LOW, _HIGH),
        "dovetail-cpu": lambda: run_ours(task, _LOW, "cpu@fp32"),
        "dovetail-nncf": lambda: run_ours(task, _LOW, "cpu@fp32", left_float_by_nncf(task)),
        "nncf": lambda: run_nncf(task),
        "nncf-1": lambda: run_nncf(task, one_by_one=True),
        "ort-quantise-one": lambda: run_exclude_loop(task, True, limit_s),
        "ort-restore-one": lambda: run_exclude_loop(task, False, limit_s),
    }
    return runners[tool]


def _table(rows: list[Found]) -> tuple[list[str], list[list[str]]]:
    heads = ["tool", "nodes", "raised", "units", "calls", "evals", "wall s", "cpu s", "search", "hold-out", "ok"]
    return heads, [
        [
            item.tool,
            str(item.nodes_at_start),
            str(item.nodes_raised),
            "-" if item.units_raised is None else str(item.units_raised),
            str(item.calls),
            number(item.full_equivalents, 1),
            number(item.wall_s, 1),
            number(item.cpu_s, 1),
            number(item.search_score),
            number(item.holdout_score),
            "yes" if item.finished else "no",
        ]
        for item in rows
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Our search beside other tools' on the same model, data and goal.",
        epilog="'nodes' are quantised before the search, 'raised' are not 8 bits after it, 'calls' are candidates, "
        "'evals' evaluations of the whole search split that their samples make.",
    )
    parser.add_argument("--task", choices=("digits", "a"), help="only this one")
    parser.add_argument("--tool", action="append", choices=_TOOLS, help="only this tool; may be repeated")
    parser.add_argument("--bench-a", type=Path, default=_BENCH_A, help="folder of benchmark A (default: %(default)s)")
    parser.add_argument("--limit-s", type=float, default=400.0, help="longest ONNX Runtime loop (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
