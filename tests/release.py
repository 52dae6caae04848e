"""What `make smoke` runs: both wheels in empty environments of every Python that is named, and what users do first.

python tests/release.py DIST PYTHON...
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: list[str]) -> int:
    """Try each Python; return 1 where one fails."""
    folder, pythons = Path(arguments[0]).resolve(), arguments[1:]
    failed = False
    for python in pythons:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                sys.stdout.write(f"{python}: {_tried(python, folder, Path(scratch))}\n")
                sys.stdout.flush()
            except (subprocess.CalledProcessError, AssertionError, StopIteration, OSError) as error:
                said = getattr(error, "stderr", None) or repr(error)
                sys.stdout.write(f"{python}: FAILED: {said.strip()[-2000:]}\n")
                sys.stdout.flush()
                failed = True
    return int(failed)


def _tried(python: str, folder: Path, scratch: Path) -> str:
    """Install and try both wheels with one Python; return its version and what was done."""
    whole, board = scratch / "whole", scratch / "board"
    version = _run(python, "--version").strip()
    for place, name, pins in ((whole, "dovetail-*.whl", True), (board, "dovetail_runtime-*.whl", False)):
        wheel = next(folder.glob(name))
        _run(python, "-m", "venv", str(place))
        pinned = ("-c", str(ROOT / "constraints.txt")) if pins else ()
        _run(f"{place}/bin/python", "-m", "pip", "install", "-q", *pinned, str(wheel))
    program = str(whole / "bin" / "dovetail")
    doctor = json.loads(_run(program, "doctor", "--json"))
    assert doctor, "doctor says nothing"
    _run(program, "demo", "--out", str(scratch / "demo"))
    assert (scratch / "demo" / "report.html").stat().st_size > 10_000, "no report"
    bundle = scratch / "bundle"
    model, data, plan = _made(whole / "bin" / "python", scratch)
    _run(program, "compile", model, "--plan", plan, "--backend", "cpu=reference", "-o", str(bundle))
    outputs = scratch / "y.npz"
    _run(f"{board}/bin/python", "-m", "dovetail.runtime", "run", str(bundle), "-i", data, "-o", str(outputs))
    assert outputs.stat().st_size > 0
    installed = _run(f"{board}/bin/python", "-m", "pip", "list", "--format", "freeze")
    assert not {name for name in ("onnx", "scipy") if name in installed}, installed
    return f"{version}: both wheels installed, doctor, demo with its report, a bundle run by the board's wheel"


_MODEL = """
import sys
import numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper
folder = sys.argv[1]
rng = np.random.default_rng(0)
weight = numpy_helper.from_array(rng.normal(size=(4, 3, 3, 3)).astype(np.float32), "w")
nodes = [
    helper.make_node("Conv", ["x", "w"], ["t"], "conv", pads=[1] * 4),
    helper.make_node("Relu", ["t"], ["y"], "relu"),
]
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size, 8, 8]) for name, size in (("x", 3), ("y", 4))]
graph = helper.make_graph(nodes, "tiny", ends[:1], ends[1:], [weight])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder + "/tiny.onnx")
np.savez(folder + "/x.npz", x=rng.normal(size=(1, 3, 8, 8)).astype(np.float32))
"""


def _made(python: Path, scratch: Path) -> tuple[str, str, str]:
    """Return a small model, one sample and a plan that stays on the CPU."""
    _run(str(python), "-c", _MODEL, str(scratch))
    model, plan = str(scratch / "tiny.onnx"), str(scratch / "plan.json")
    _run(str(python.parent / "dovetail"), "plan", model, "--place", "cpu@fp32", "-o", plan)
    return model, str(scratch / "x.npz"), plan


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=900).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
