"""What a run through the worker process costs beside the bare C++ loop, on the vendor's simulator, side by side.

python benchmarks/worker_overhead.py [--rounds N] [--runs N] [--size N]

Both write the inputs, run and read the outputs of the same network: one convolution 3x3 of 8 channels at u8 on
vsi:v853. The loop is the main program of the exported project. Rounds alternate, and the fastest run of each side
counts: whatever else the machine does can only make it slower. The worker's own time is what it measures around these
steps.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from dovetail.backend.project import ProjectStyle
from dovetail.backend.protocols import CompileOptions
from dovetail.backend.registry import find_target
from dovetail.backends.verisilicon.plugin import BlobForm, VsiBackend, VsiExecutable
from dovetail.ir import DType, Graph, Node, Quantization, TensorType
from dovetail.sdk import find_verisilicon
from dovetail.testing.agreement import load_on

_FASTEST = re.compile(r"the fastest ([\d.]+) ms")


def convolution(size: int) -> Graph:
    """Return the network; at 64 it takes about 0.1 s."""

    def kind(shape: tuple[int, ...], scale: float, zero: int) -> TensorType:
        return TensorType(DType.U8, shape, Quantization((float(np.float32(scale)),), (zero,)))

    kinds = {
        "x": kind((1, 8, size, size), 0.05, 120),
        "w": kind((8, 8, 3, 3), 0.02, 128),
        "y": kind((1, 8, size, size), 0.2, 128),
    }
    weight = np.random.default_rng(1).integers(0, 256, (8, 8, 3, 3)).astype(np.uint8)
    node = Node("conv", "Conv", ("x", "w"), ("y",), {"pads": (1, 1, 1, 1)})
    return Graph("conv", (node,), ("x",), ("y",), kinds, {"w": weight})


def main() -> int:
    """Print the times and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", type=int, default=64)
    options = parser.parse_args()
    found = find_verisilicon()
    if not found.usable:
        print(f"skipped: {found.reason}")
        return 0
    vendor, graph, target = VsiBackend(found.folder, BlobForm.GRAPH), convolution(options.size), find_target("vsi:v853")
    sample = np.random.default_rng(2).integers(0, 256, graph.types["x"].static_shape).astype(np.uint8)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_project = vendor.abilities().write_project
        assert write_project is not None
        for path, content in write_project(graph, target, ProjectStyle.OVXLIB, {}).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        np.save(folder / "x.npy", sample)
        sdk = f"-DVIVANTE_SDK_DIR={found.folder.sdk}"
        for command in (["cmake", "-S", ".", "-B", "build", sdk], ["cmake", "--build", "build"]):
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
        executable = load_on(vendor, graph, target, CompileOptions())
        assert isinstance(executable, VsiExecutable)
        loop: list[float] = []
        ours: list[float] = []
        inside: list[float] = []
        executable.run({"x": sample})
        for _ in range(options.rounds):
            done = subprocess.run(
                ["build/network", "x.npy", "--repeat", str(options.runs)],
                cwd=folder,
                check=True,
                capture_output=True,
                text=True,
            )
            times = _FASTEST.search(done.stdout)
            assert times is not None
            loop.append(float(times.group(1)))
            for _ in range(options.runs):
                start = time.perf_counter_ns()
                executable.run({"x": sample})
                ours.append((time.perf_counter_ns() - start) / 1e6)
                inside.append(executable.last_run_ns / 1e6)
        executable.close()
    shares = sorted(one / other for one, other in zip(ours, inside, strict=True))
    print(f"bare C++ loop          {min(loop):9.3f} ms (fastest of {options.rounds} x {options.runs})")
    print(f"through the worker     {min(ours):9.3f} ms (fastest of {options.rounds} x {options.runs})")
    print(f"ratio                  {min(ours) / min(loop):9.4f}")
    print(f"way to the worker      {min(one - other for one, other in zip(ours, inside, strict=True)):9.3f} ms (least)")
    print(f"whole / worker's own   {shares[len(shares) // 2]:9.4f} (median of {len(shares)} runs)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
