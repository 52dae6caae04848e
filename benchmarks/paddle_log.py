"""Measure how fast logs and subgraph.txt files of Paddle Lite are read.

    python benchmarks/paddle_log.py [--lines 100000] [--json]

A log of that many operators, a log of as many lines of noise, a lint of as many rules against the log, and one line of
a gigabyte: seconds of processor time, and the peak of memory that Python allocated.
"""

from __future__ import annotations

import argparse
import io
import json
import time
import tracemalloc
from collections.abc import Callable

from dovetail.formats.paddle import LintContext, lint, parse_log

GIGABYTE = 1 << 30


class LongLine(io.RawIOBase):
    """Give one line of many bytes without holding it."""

    def __init__(self, size_bytes: int) -> None:
        self.left = size_bytes

    def read(self, size: int = -1) -> bytes:
        """Return the next piece."""
        piece = min(size, self.left)
        self.left -= piece
        return b"a" * piece


def operators(count: int) -> list[str]:
    """Return the lines of a long chain."""
    return [f"conv2d:t{i}.out,conv{i}.w_0,conv{i}.b_0:t{i + 1}.out" for i in range(count)]


def log_of(lines: list[str]) -> bytes:
    """Return a log with these operators."""
    return ("subgraph operators: \n" + "\n".join(lines) + "\n\n").encode()


def measure(work: Callable[[], object]) -> tuple[float, int]:
    """Return processor seconds (best of three) and the peak of allocated bytes (of a fourth run)."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return min(seconds), peak


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="How fast logs of Paddle Lite are read.")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    lines = operators(chosen.lines)
    log = log_of(lines)
    noise = "[I  1/ 1 00:00:01.  7 ...lite/core/optimizer.h:202 Run] some words: of the driver\n"
    noisy = (noise * chosen.lines).encode()
    context = LintContext(operations=parse_log(log).operations)
    rules = "\n".join(lines).encode()
    jobs: dict[str, Callable[[], object]] = {
        "log of operators": lambda: parse_log(log),
        "log of noise": lambda: parse_log(noisy),
        "lint of as many rules": lambda: lint(rules, context),
        "one line of a gigabyte": lambda: parse_log(LongLine(GIGABYTE)),  # type: ignore[arg-type]
    }
    rows = []
    for name, work in jobs.items():
        seconds, peak = measure(work)
        rows.append(
            {"what": name, "lines": chosen.lines, "seconds": round(seconds, 3), "peak_mib": round(peak / 2**20, 1)}
        )
    if chosen.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{'what':<24}{'seconds':>10}{'peak MiB':>10}   ({chosen.lines} lines)")
    for row in rows:
        print(f"{row['what']:<24}{row['seconds']:>10}{row['peak_mib']:>10}")


if __name__ == "__main__":
    main()
