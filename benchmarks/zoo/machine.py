"""What figures depend on: machine and versions."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def facts(packages: tuple[str, ...] = ("dovetail", "onnxruntime", "onnx", "numpy")) -> list[str]:
    """Return lines that say on what a benchmark ran."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = f", load average {os.getloadavg()[0]:.1f} at the end" if hasattr(os, "getloadavg") else ""
    return [
        f"commit: {commit()}",
        f"machine: {_processor()}, {cores} cores, {platform.system()}{load}",
        f"versions: Python {platform.python_version()}, " + ", ".join(f"{name} {_version(name)}" for name in packages),
    ]


def commit() -> str:
    """Return the commit that runs, in short."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
