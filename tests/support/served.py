"""A real server in a process of its own, a small bundle for it, and its certificates."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import work
from onnx import TensorProto, helper, numpy_helper

import dovetail
from dovetail.bundle import Bundle
from dovetail.ir import AnyArray

TOKEN = "a-token-of-the-tests-0123456789"


@dataclass(frozen=True)
class Served:
    """A server that runs: addresses `host:port`, its process, and what it wrote to stderr so far."""

    rest: str
    grpc: str
    process: subprocess.Popen[str]
    said: list[str]

    @property
    def url(self) -> str:
        """The board's URL."""
        return f"grpc://{self.grpc}"

    def peak_bytes(self) -> int:
        """The most memory that the process has had."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", text)
        assert found is not None
        return int(found[1]) * 1024


_IMPATIENT = """
import pathlib, sys
from dovetail.serve import ServeLimits, ServeOptions
from dovetail.serve.server import run
limits = ServeLimits(**{name: float(value) for name, value in (item.split("=") for item in sys.argv[2:])})
options = ServeOptions(pathlib.Path(sys.argv[1]), port=0, grpc_port=0, limits=limits)
say = lambda where: print(f"serving 1 models at {where.rest} and {where.grpc}", file=sys.stderr, flush=True)
run(options, say)
"""
"""A server with other limits of time than the command has."""


@contextmanager
def served(
    folder: Path, options: Sequence[object] = (), impatient: Sequence[str] = (), before: Sequence[object] = ()
) -> Iterator[Served]:
    """Serve a folder until the body ends; then the server has to end by itself when it is asked to.

    It is the command with these options, or a server with the limits `NAME=SECONDS` of `impatient`; `before` are the
    words of a command that becomes it.
    """
    command = [sys.executable, "-m", "dovetail.cli", "serve", folder, "--port", "0", "--grpc-port", "0", *options]
    if impatient:
        command = [sys.executable, "-c", _IMPATIENT, folder, *impatient]
    words = [str(item) for item in (*before, *command)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said: list[str] = []
    try:
        for line in process.stderr:
            said.append(line)
            found = re.match(r"serving \d+ models at https?://(\S+) and grpcs?://(\S+)", line)
            if found is not None:
                break
        else:
            raise AssertionError("".join(said))
        listener = threading.Thread(target=said.extend, args=(process.stderr,), daemon=True)
        listener.start()
        yield Served(found[1], found[2], process, said)
        if process.poll() is None:
            process.terminate()
            assert process.wait(work.PATIENCE_S) == 0
            listener.join(10)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def small_bundle(seed: int = 1, width: int = 4, name: str = "small", elements: int = 8) -> Bundle:
    """Return a bundle `x [N, elements]` -> `y [N, width]` for the CPU, in float."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(width, elements)).astype(np.float32)
    node = helper.make_node("Gemm", ["x", "w"], ["h"], "dense", transB=1)
    relu = helper.make_node("Relu", ["h"], ["y"], "relu")
    graph = helper.make_graph(
        [node, relu],
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", elements])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", width])],
        [numpy_helper.from_array(weights, "w")],
    )
    return bundle_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def slow_bundle(layers: int = 200, size: int = 1024) -> Bundle:
    """Return a bundle `x [N, size]` -> `y [N, size]` that has work for a while: products with one matrix in a row."""
    weights = np.eye(size, dtype=np.float32)[::-1].copy()
    names = ["x", *(f"h{number}" for number in range(1, layers)), "y"]
    pairs = itertools.pairwise(names)
    nodes = [helper.make_node("MatMul", [source, "w"], [made], f"to_{made}") for source, made in pairs]
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name in ("x", "y")]
    initializer = [numpy_helper.from_array(weights, "w")]
    graph = helper.make_graph(nodes, "slow", kinds[:1], kinds[1:], initializer)
    return bundle_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def bundle_of(model: onnx.ModelProto, place: str = "cpu") -> Bundle:
    """Return the bundle of an ONNX model in float, all of it at one place."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        graph = dovetail.normalize(dovetail.load_model(path))
    placement = dovetail.parse_placement(place if "@" in place else f"{place}@fp32")
    targets = {placement.target: dovetail.find_target(placement.target)}
    plan = dovetail.make_plan(graph, dovetail.Recipe(placement), targets)
    empty = dovetail.Ranges(graph.digest, "none", 0, {})
    return dovetail.compile_model(dovetail.partition(dovetail.quantize(graph, plan, empty)))


def inputs_for(bundle: Bundle, rows: int = 1, seed: int = 0) -> dict[str, AnyArray]:
    """Return random inputs; symbolic sizes are `rows`."""
    rng = np.random.default_rng(seed)
    found: dict[str, AnyArray] = {}
    for name, kind in bundle.inputs.items():
        shape = [dim if isinstance(dim, int) else rows for dim in kind.shape or ()]
        found[name] = rng.normal(size=shape).astype(kind.dtype.carrier)
    return found
