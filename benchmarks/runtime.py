"""What Dovetail's runtime adds: whole, 2 and 8 pieces beside OpenVINO HETERO and hand-made chains; and a pipeline.

python benchmarks/runtime.py [--rounds N] [--side PIXELS] [--part overhead|pipeline]

The net is a MobileNet of 13 separable blocks, width 1, with random weights. It is cut before convolutions into pieces
of about equal work. Both parts run in processes of their own: the overhead on the one core that is idlest at the start,
one thread each; the pipeline on all cores, one thread a stage. `runtimes/overhead.py` and `runtimes/pipeline.py` say
how they measure.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
_PARTS = ("overhead", "pipeline")


def idlest_core() -> int:
    """Return the core, of those that we may use, that worked least in the last half second."""
    before = _busy()
    time.sleep(0.5)
    after = _busy()
    return min(os.sched_getaffinity(0), key=lambda core: after[core] - before[core])


def _busy() -> dict[int, int]:
    rows = [line.split() for line in Path("/proc/stat").read_text(encoding="ascii").splitlines()]
    # user, nice, system, (idle, waiting,) interrupts: proc(5)
    return {
        int(row[0][3:]): sum(map(int, (*row[1:4], *row[6:9]))) for row in rows if row[0][:3] == "cpu" and row[0][3:]
    }


def _run(part: str, cores: set[int], arguments: list[str]) -> int:
    print(f"== {part}, on core {', '.join(map(str, sorted(cores)))}; load average {os.getloadavg()[0]:.1f}", flush=True)
    command = [sys.executable, "-m", f"runtimes.{part}", *arguments]
    # Threads that a library starts on loading keep to the cores only when they are chosen before.
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        code = subprocess.run(command, check=False, cwd=_FOLDER).returncode
    finally:
        os.sched_setaffinity(0, mine)
    print(f"load average at the end {os.getloadavg()[0]:.1f}", flush=True)
    return code


def main() -> int:
    """Run the parts; the exit code is 1 when one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--part", choices=_PARTS, help="Only this one.")
    options = parser.parse_args()
    arguments = ["--rounds", str(options.rounds), "--side", str(options.side)]
    failed = 0
    for part in (options.part,) if options.part else _PARTS:
        cores = {idlest_core()} if part == "overhead" else os.sched_getaffinity(0)
        failed += _run(part, cores, arguments) != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
