"""Our search beside other tools' on the same model, data and goal, in one run.

python benchmarks/search.py [--task digits] [--tool dovetail --tool nncf ...] [--limit-s N] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import zoo.machine as machine
from zoo.catalogue import CASES, models_root
from zoo.peers import (
    Found,
    PeerMissing,
    Runner,
    left_float_by_nncf,
    run_ddmin,
    run_exclude_loop,
    run_floor,
    run_nncf,
    run_ours,
)
from zoo.table import markdown, number, text
from zoo.tasks import Task, bench_a, digits, from_case

_TOOLS = (
    "floor",
    "dovetail",
    "dovetail-cpu",
    "dovetail-nncf",
    "nncf",
    "nncf-1",
    "ort-quantise-one",
    "ort-restore-one",
    "ddmin",
)
_MODELS = ("resnet8_cifar10", "vww_mobilenet_v1_0.25", "kws_dscnn", "kwt1", "mobilenet_v1_0.25_128")
_PACKAGES = ("dovetail", "nncf", "onnxruntime", "onnx", "numpy")
_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "search.md"
_BENCH_A = Path(__file__).resolve().parents[2] / "shared" / "bench" / "a"
_LOW, _HIGH = "vsi:v853@i8pc", "vsi:v853@i16"


def main() -> int:
    """Run every tool on every task."""
    options = _arguments()
    found: dict[str, list[Found]] = {}
    failed: list[str] = []
    for task in _tasks(options):
        found[task.name] = []
        for tool in options.tool or _TOOLS:
            try:
                result = _runner(tool, task, options.limit_s)()
            except PeerMissing as missing:
                print(f"{tool}: {missing}", file=sys.stderr)
                continue
            except Exception as error:  # a peer that breaks on a model is a finding, not the end
                failed.append(
                    f"{task.name}: {tool} ends with {type(error).__name__}: {' '.join(str(error).split())[:120]}"
                )
                print(failed[-1], file=sys.stderr, flush=True)
                continue
            found[task.name].append(result)
            if options.page is not None:
                # Written as it grows: a run takes long.
                _write_page(options.page, machine.facts(_PACKAGES), found, failed)
            print(f"{task.name}: {result.tool} done in {result.wall_s:.1f} s", file=sys.stderr, flush=True)
    facts = machine.facts(_PACKAGES)
    if options.json:
        print(
            json.dumps(
                {"facts": facts, "tasks": {name: [asdict(item) for item in rows] for name, rows in found.items()}}
            )
        )
        return 0
    if options.page is not None:
        _write_page(options.page, facts, found, failed)
    print("\n".join(facts))
    print("\n".join(failed))
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
    if options.task in (None, "models"):
        root = models_root()
        known = {case.name: case for case in CASES if (root / case.file).exists()}
        tasks += [from_case(known[name], root, "0.03") for name in _MODELS if name in known]
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
        "ddmin": lambda: run_ddmin(task, limit_s),
    }
    return runners[tool]


def _table(rows: list[Found]) -> tuple[list[str], list[list[str]]]:
    heads = [
        "tool",
        "nodes",
        "raised",
        "units",
        "calls",
        "evals",
        "wall s",
        "cpu s",
        "search",
        "hold-out",
        "ok",
        "ms",
        "bound",
    ]
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
            number(item.latency_ms, 3),
            number(item.bound_ms, 3),
        ]
        for item in rows
    ]


def _write_page(page: Path, facts: Sequence[str], found: Mapping[str, Sequence[Found]], failed: Sequence[str]) -> None:
    parts = [
        "# Search beside other tools",
        "Made by `python benchmarks/search.py --page`; do not edit. One run, the same samples, goal and one thread for "
        "every tool; the machine is shared, so that `cpu s` tells more than `wall s`.",
        "\n".join(f"- {fact}" for fact in facts),
        "`nodes` are quantised before the search, `raised` are not 8 bits after it, `calls` are candidates, `evals` "
        "evaluations of the whole search split that their samples make. `search` and `hold-out` are scores; no tool "
        "searched on the second split. `ms` is what our cost model says of the plan, `bound` what no plan that passes "
        "can be below if raising a unit never harms: only we have either. The operators that the tools quantise "
        "differ: compare `raised` with `nodes`.",
    ]
    for name, rows in found.items():
        parts += [f"## {name}", markdown(*_table(list(rows)))]
        notes = [f"- {item.tool}: {item.note}" for item in rows if item.note]
        parts += ["\n".join(notes)] if notes else []
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
    parser.add_argument("--tool", action="append", choices=_TOOLS, help="only this tool; may be repeated")
    parser.add_argument("--bench-a", type=Path, default=_BENCH_A, help="folder of benchmark A (default: %(default)s)")
    parser.add_argument("--limit-s", type=float, default=400.0, help="longest ONNX Runtime loop (default: %(default)s)")
    parser.add_argument("--page", type=Path, nargs="?", const=_PAGE, help="write the reference page")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
