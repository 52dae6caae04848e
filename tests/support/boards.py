"""A board that is not there: an environment with the board's wheel and numpy, and bundles for it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import dovetail
from dovetail.bundle import Bundle
from dovetail.compile import CompileRequest
from dovetail.ir import Graph
from dovetail.kit import write_board_wheel
from dovetail.testing.networks import Network

NPU = "vsi:v853"
NUMPY_ONLY = {"cpu": "reference", NPU: "npusim"}
"""Backends that need nothing but numpy where a bundle runs."""


@dataclass(frozen=True)
class Board:
    """An environment of Python."""

    python: Path
    folder: Path

    def run(self, *arguments: object, module: str = "dovetail.runtime") -> subprocess.CompletedProcess[str]:
        """Run the board's command."""
        return self.python_run("-m", module, *arguments)

    def python_run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run Python on the board, which sees nothing of this environment."""
        words = [str(item) for item in (self.python, *arguments)]
        return subprocess.run(words, cwd=self.folder, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})


def bare_python(folder: Path) -> Board:
    """Make an environment that holds numpy and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    here = Path(sysconfig.get_paths()["purelib"])
    there = next(folder.glob("lib/python3*/site-packages"))
    for name in ("numpy", "numpy.libs"):
        if (here / name).exists():
            (there / name).symlink_to(here / name)
    return Board(folder / "bin" / "python", folder)


def board_of_wheel(folder: Path) -> Board:
    """Make an environment, and install the board's wheel into it without an index."""
    board = bare_python(folder)
    wheel = write_board_wheel(folder / "dist")
    install = ["-m", "pip", "--python", str(board.python), "install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, *install], check=True)
    return board


def small_network(seed: int = 3) -> Graph:
    """Return three convolutions from x `[1, 3, 16, 16]`."""
    net = Network(seed)
    h = net.op("Relu", net.conv(net.input("x", 1, 3, 16, 16), 8, 3))
    h = net.op("Relu", net.conv(h, 8, 3))
    return dovetail.normalize(net.graph(net.op("Sigmoid", net.conv(h, 4))))


@dataclass(frozen=True)
class Fitted:
    """A graph and where it goes."""

    graph: Graph
    place: str = f"{NPU}@i8pc"
    backends: Mapping[str, str] = field(default_factory=lambda: NUMPY_ONLY)

    def bundle(self, samples: Path) -> Bundle:
        """Return the graph as compiled with ranges of these samples."""
        source = dovetail.open_samples(str(samples), dovetail.specs_of(self.graph))
        ranges = dovetail.calibrate(self.graph, source).ranges
        placement = dovetail.parse_placement(self.place)
        targets = {placement.target: dovetail.find_target(placement.target)}
        plan = dovetail.make_plan(self.graph, dovetail.Recipe(placement), targets)
        partitioned = dovetail.partition(dovetail.quantize(self.graph, plan, ranges))
        return dovetail.compile_model(partitioned, CompileRequest(backends=self.backends))


def write_samples(path: Path, count: int = 4, seed: int = 0, shape: tuple[int, ...] = (1, 3, 16, 16)) -> Path:
    """Write samples x `[N, ...]`."""
    np.savez(path, x=np.random.default_rng(seed).normal(size=(count, *shape)).astype(np.float32))
    return path
