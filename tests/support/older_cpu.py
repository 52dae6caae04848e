"""Environments in which programs see an older processor than the one that is here."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import needs

_SOURCE = Path(__file__).with_suffix(".c")
KINDS = ("avx", "avx2", "avx512")
"""Without AVX2; without AVX-512 and VNNI; with AVX-512 and without VNNI."""


def older_cpu(kind: str, folder: Path) -> dict[str, str]:
    """Return the environment that shows programs this kind of processor; skip where the machine cannot do it.

    `folder` is where the library that does it is built.
    """
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        needs.without("cpuid-fault", f"{platform.system()} on {platform.machine()}")
    library = folder / "older_cpu.so"
    compiler = needs.program("cc", "compiler")
    command = [compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), "OLDER_CPU": kind}
    done = subprocess.run(["true"], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        needs.without("cpuid-fault", done.stderr.strip())
    return environment
