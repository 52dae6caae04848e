"""Run every benchmark with short settings, one after the other, and say how each ended.

python benchmarks/run_all.py [--only NAME ...] [--limit-s N]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from zoo.catalogue import models_root
from zoo.table import number, text

_FOLDER = Path(__file__).resolve().parent

COMMANDS: dict[str, tuple[str, ...]] = {
    "partition": ("partition.py",),
    "bookkeeping": ("bookkeeping.py",),
    "runtime": ("runtime.py", "--rounds", "10"),
    "runtime_numbers": ("runtime_numbers.py", "--rounds", "10"),
    "placement": ("placement.py",),
    "serve_overhead": ("serve_overhead.py", "--requests", "64", "--rounds", "1"),
    "onnx_node_tests": ("onnx_node_tests.py", "--operator", "Conv"),
    "reference_table": ("reference_table.py", "--operator", "Conv"),
    "numerics_table": ("numerics_table.py", "Conv", "Add"),
    "integer_table": ("integer_table.py", "--judge", "onnxruntime"),
    "search": ("search.py", "--task", "digits", "--tool", "dovetail", "--tool", "nncf"),
    "search_cost": ("search_cost.py", "--model", "ultraface"),
    "paddle_log": ("paddle_log.py", "--lines", "10000"),
    "mutations_table": ("mutations_table.py", "--count", "20"),
    "fuzz_importers": ("fuzz_importers.py", "--count", "1000"),
    "import_cost": ("import_cost.py", "--mb", "30"),
    "importers_tasks": ("importers_tasks.py",),
    "importers_table": ("importers_table.py", "--limit", "5"),
    "importers_pairs": ("importers_pairs.py", "--only", "resnet8"),
    "decisions": ("decisions.py", "--model", "kws_dscnn", "--plans", "6"),
    "outputs_table": ("outputs_table.py", "--model", "mobilenet", "--set", "first", "--seeds", "1"),
    "stories": ("stories.py", "--model", "fastest", "--target", "vsi:v853"),
    "preprocess_table": ("preprocess_table.py", "--model", "mobilenet", "--pictures", "4"),
    "models_table": ("models_table.py", "--short"),
    "judge_table": ("judge_table.py", "--case", "resnet8", "--tool", "onnxruntime-u8", "--samples", "40"),
    "exports_table": ("exports_table.py", "--model", "kws_dscnn", "--place", "vsi:a311d@u8"),
    "consumers_table": ("consumers_table.py", "--model", "resnet8", "--format", "onnx-qdq"),
    "hetero_table": ("hetero_table.py", "--model", "resnet8", "--placements", "2"),
    "repair_search": ("repair_search.py", "--model", "resnet8_cifar10", "--target", "vsi:a311d@u8"),
    "repair_table": ("repair_table.py", "--model", "resnet8_cifar10", "--target", "vsi:a311d@u8"),
    "workers": ("workers.py", "--wait-s", "0.5", "--workers", "0", "2"),
    "farm": ("farm.py", "--kills", "4"),
    "bisect_table": ("bisect_table.py",),
    "bisect_paddle": ("bisect_paddle.py", "--count", "1"),
    "bounds_table": ("bounds_table.py",),
    "rewrites_simulated": ("rewrites_simulated.py", "--count", "1", "--only", "LSTM with", "--log", os.devnull),
    "advice_vendor": ("advice_vendor.py", "--model", "kws_dscnn_fp32"),
    "rewrites_table": ("rewrites_table.py", "--count", "1"),
    "verdicts": ("verdicts.py", "--seeds", "1", "--kind", "agreement"),
    "mutants": ("mutants.py", "--count", "4", "--rooms", "partition", "--tests", "tests/partition"),
    "racing": ("racing.py", "--plans", "50"),
    "holdout": ("holdout.py", "--splits", "3", "--fresh", "1000"),
    "evaluators": ("evaluators.py", "--task", "digits"),
    "fit_prices": ("fit_prices.py", "probe", "--seeds", "0"),
    "price_page": ("price_page.py", "ask", "--names", "lenet"),
    "price_others": ("price_others.py", "--places", "vsi:rk1808@u8", "--seeds", "85"),
    "part_figures": ("part_figures.py", "--parts", "VIPNANOQI_PID0X88", "--print"),
    "coverage_fuzz": ("coverage_fuzz.py", "plans", "--runs", "2000"),
    "soak": ("soak.py", "--seconds", "10"),
    "newcomer": ("newcomer.py",),
    "report_browser": ("report_browser.py", "--units", "200", "--rounds", "1"),
    "torture": ("torture.py", "--kills", "2", "--flips", "4", "--files", "8", "--fuzz", "4"),
    "vendor_model": ("vendor_model.py",),
    "vendor_run": ("vendor_run.py", "--targets", "vsi:v853", "--samples", "1"),
    "vendor_models": (
        *("vendor_models.py", "--model", "kws_dscnn", "--target", "vsi:v853", "--precision", "u8"),
        *("--log", os.devnull),
    ),
    "worker_overhead": ("worker_overhead.py", "--rounds", "2", "--runs", "2"),
    "vendor_table": ("vendor_table.py", "--target", "vsi:v853", "--precision", "u8", "--operator", "Conv"),
    "vendor_wild": ("vendor_wild.py", "--operators", "3", "--graphs", "1", "--target", "vsi:v853", "--log", os.devnull),
}
"""Every benchmark of this folder, with what makes it short."""

_NEED_MODELS = (
    "advice_vendor",
    "decisions",
    "judge_table",
    "models_table",
    "outputs_table",
    "vendor_models",
    "preprocess_table",
    "exports_table",
    "consumers_table",
    "hetero_table",
    "repair_search",
    "repair_table",
    "search_cost",
    "stories",
    "importers_tasks",
    "importers_pairs",
    "importers_table",
)


def main() -> int:
    """Run what was asked for; the exit code is 1 when a benchmark failed."""
    options = _arguments()
    rows: list[list[str]] = []
    failed = 0
    for name in options.only or COMMANDS:
        if name in _NEED_MODELS and not models_root().is_dir():
            rows.append([name, "skipped: the collected models are not here", "-"])
            continue
        print(f"== {name}: python benchmarks/{' '.join(COMMANDS[name])}", flush=True)
        start = time.perf_counter()
        outcome = _run(COMMANDS[name], options.limit_s)
        failed += outcome != "done"
        rows.append([name, outcome, number(time.perf_counter() - start, 1)])
        print(flush=True)
    print(text(("benchmark", "outcome", "wall s"), rows))
    return 1 if failed else 0


def _run(command: Sequence[str], limit_s: float) -> str:
    try:
        done = subprocess.run([sys.executable, str(_FOLDER / command[0]), *command[1:]], timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return f"stopped after {limit_s:.0f} s"
    return "done" if done.returncode == 0 else f"exit code {done.returncode}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run every benchmark with short settings.")
    parser.add_argument("--only", action="append", choices=tuple(COMMANDS), help="only this one; may be repeated")
    parser.add_argument("--limit-s", type=float, default=300.0, help="longest run of one (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
