"""What a whole `tune` costs: CPU seconds, wall seconds and the most memory of its process tree, side by side.

python benchmarks/search_cost.py [--model NAME ...] [--workers N ...] [--source NAME=FOLDER ...]

Every run is a process of its own: from a folder of pictures to a plan, with no option but the target (and `--workers`).
A vendor's SDK is not asked for prices: how much it answers in its time hangs on what else the machine does. `--source`
names the `src` folder of another checkout: each model is run with each source, one after the other, and a row says the
ratio to the first. The plan's digest tells whether they gave the same answer. Memory is the sum of the proportional
shares (PSS) of the processes, looked at ten times a second: Linux only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.catalogue import models_root
from zoo.machine import facts
from zoo.table import number, text

_INTERVAL_S = 0.1
_COMMAND = "from dovetail.cli.main import main; raise SystemExit(main())"
_IMAGES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True, slots=True)
class CostCase:
    """A model, the pictures that it is tuned on, and how many of them at most."""

    file: str
    folders: tuple[str, ...]
    target: str
    most: int = 20
    options: tuple[str, ...] = ()


CASES: Mapping[str, CostCase] = {
    "ultraface": CostCase("ultraface_rfb320/version-RFB-320.onnx", ("ultraface_rfb320/imgs",), "vsi:v853"),
    "yolo_fastest": CostCase("yolo_fastest_darknet/yolo-fastest-1.1.weights", ("data_coco20",), "vsi:v853"),
    "yolox": CostCase("yolox_nano/yolox_nano.onnx", ("data_coco20",), "vsi:v853"),
    "yolox_decoded": CostCase("yolox_nano/yolox_nano_decoded.onnx", ("data_coco20",), "vsi:v853"),
    "mobilenet_v2": CostCase(
        "mbv2_uint8_coral/mobilenet_v2_1.0_224_quant.tflite",
        ("data_caltech101/dev", "data_caltech101/calib"),
        "vsi:a311d",
        204,
        ("--max-drop", "0.05"),
    ),
}


@dataclass(frozen=True, slots=True)
class RunCost:
    """What one run took, and what it answered."""

    cpu_s: float
    wall_s: float
    peak_mib: float
    answer: str


def main() -> int:
    """Print a row for every model, number of workers and source."""
    options = _arguments()
    root = models_root()
    if not root.is_dir():
        print(f"skipped: no models in {root}")
        return 0
    sources = [item.partition("=")[::2] for item in options.source] or [("this", "")]
    rows: list[list[str]] = []
    for name in options.model or CASES:
        for workers in options.workers:
            first: RunCost | None = None
            for label, folder in sources:
                cost = measure(CASES[name], root, workers, folder)
                first = first or cost
                ratios = cost.cpu_s / first.cpu_s, cost.peak_mib / first.peak_mib
                figures = [number(value, 1) for value in (cost.cpu_s, cost.wall_s, cost.peak_mib)]
                rows.append([name, str(workers), label, *figures, *(number(ratio, 2) for ratio in ratios), cost.answer])
                print("  ".join(rows[-1]), flush=True)
    heads = ("model", "workers", "source", "cpu s", "wall s", "peak MiB", "cpu ratio", "memory ratio", "plan")
    print(text(heads, rows))
    print("\n".join(facts()))
    return 0


def measure(case: CostCase, root: Path, workers: int, source: str) -> RunCost:
    """Return the cost of one run."""
    with tempfile.TemporaryDirectory() as scratch:
        photos, out = Path(scratch) / "photos", Path(scratch) / "out"
        photos.mkdir()
        for picture in _pictures(root, case):
            (photos / f"{picture.parent.name}_{picture.name}").symlink_to(picture)
        command = [sys.executable, "-c", _COMMAND, "tune", str(root / case.file), "--data", str(photos)]
        command += ["--target", case.target, "--vendor-seconds", "0", "--workers", str(workers), "-o", str(out)]
        path = {"PYTHONPATH": source} if source else {}
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        process = subprocess.Popen(
            [*command, *case.options], env={**os.environ, **path}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        peak = 0
        while process.poll() is None:
            peak = max(peak, _tree_kib(process.pid))
            time.sleep(_INTERVAL_S)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if not (out / "result.json").is_file():
            assert process.stderr is not None
            raise SystemExit(f"{case.file}: exit code {process.returncode}: {process.stderr.read().decode()[-400:]}")
        plan = (out / "plan.json").read_bytes()
        verdict = json.loads((out / "result.json").read_text(encoding="utf-8"))["verdict"]
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        answer = f"{hashlib.sha256(plan).hexdigest()[:12]} {verdict}"
        return RunCost(spent, time.monotonic() - start, peak / 1024, answer)


def _pictures(root: Path, case: CostCase) -> Sequence[Path]:
    found = [path for folder in case.folders for path in sorted((root / folder).rglob("*")) if path.suffix in _IMAGES]
    return found[: case.most]


def _tree_kib(pid: int) -> int:
    """Return the proportional share of memory of a process and all below it, in KiB; 0 for one that has ended."""
    total = 0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                total = int(line.split()[1])
        for task in Path(f"/proc/{pid}/task").iterdir():
            children = (task / "children").read_text(encoding="ascii").split()
            total += sum(_tree_kib(int(child)) for child in children)
    except (OSError, ValueError):
        return total
    return total


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", choices=tuple(CASES), help="only this one; may be repeated")
    parser.add_argument("--workers", type=int, nargs="+", default=[0], help="numbers of worker processes")
    parser.add_argument("--source", action="append", default=[], metavar="NAME=FOLDER", help="a checkout's src folder")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
