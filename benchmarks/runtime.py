"""What Dovetail's runtime adds: whole, 2 and 8 pieces beside OpenVINO HETERO and a hand-made chain of sessions.

python benchmarks/runtime.py [--rounds N] [--side PIXELS]

A MobileNet of 13 separable blocks with random weights, one thread. All contestants take turns in every round, so that a
busy machine hits them alike. The ratios are those of processor time (of all threads), which other work on the machine
hardly touches, to the plain session of the same vendor: of the fastest runs, and the median over the rounds. The wall
time of the fastest run stands beside them. The last line is the throughput of a two-stage pipeline, in wall time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime
import openvino

from dovetail.backend.protocols import CompileOptions
from dovetail.backends.openvino.core import core, register_plugin
from dovetail.compile import CompileRequest, compile_model
from dovetail.exporters import to_onnx
from dovetail.formats.openvino import apply_affinities, count_submodels
from dovetail.ir import AnyArray, Graph
from dovetail.ir.macs import node_macs
from dovetail.ir.precision import Precision
from dovetail.partition import PartitionedGraph, partition
from dovetail.plan import Override, Placement, Plan
from dovetail.quantize import Ranges, quantize
from dovetail.runtime import Session, open_session
from dovetail.testing.networks import Network

_REQUEST = CompileRequest(CompileOptions(threads=1))
_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
_OPENVINO = {"INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"}

Call = Callable[[], object]


@dataclass(frozen=True)
class Contestant:
    """A way to run the net once; `base` names the plain session that it is measured against."""

    name: str
    base: str
    call: Call


def mobilenet(side: int) -> Graph:
    """Return MobileNet of width 1 for images of `[1, 3, side, side]`."""
    net = Network(1)
    made = _conv(net, net.input("image", 1, 3, side, side), 32, (3, 2, 1))
    for channels, stride in _BLOCKS:
        made = _conv(net, made, net.shape(made)[1], (3, stride, net.shape(made)[1]))
        made = _conv(net, made, channels, (1, 1, 1))
    channels = net.shape(made)[1]
    pooled = net.op("GlobalAveragePool", made, shape=(1, channels, 1, 1))
    flat = net.op("Reshape", pooled, net.constant([1, channels]), shape=(1, channels))
    return net.graph(net.op("Gemm", flat, net.uniform(1000, channels, low=-0.1, high=0.1), shape=(1, 1000), transB=1))


def _conv(net: Network, tensor: str, channels: int, how: tuple[int, int, int]) -> str:
    kernel, stride, group = how
    _, read, height, width = net.shape(tensor)
    reach = 2.0 / float(np.sqrt(read // group * kernel * kernel))
    weight = net.uniform(channels, read // group, kernel, kernel, low=-reach, high=reach)
    shape = (1, channels, -(-height // stride), -(-width // stride))
    inputs = (tensor, weight, net.uniform(channels))
    pads, strides = (kernel // 2,) * 4, (stride, stride)
    return net.op("Relu", net.op("Conv", *inputs, shape=shape, pads=pads, strides=strides, group=group))


def cut(graph: Graph, pieces: int, targets: Sequence[str]) -> tuple[Plan, PartitionedGraph]:
    """Cut a chain into pieces of about equal work, on the targets in turn; a clamp stays with its convolution."""
    work = [node_macs(graph, node) or 0 for node in graph.nodes]
    total, done, index = sum(work), 0, 0
    places: dict[str, Override] = {}
    for node, macs in zip(graph.nodes, work, strict=True):
        if node.op == "Conv" and done >= (index + 1) * total / pieces:
            index += 1
        places[node.name] = Override(Placement(targets[index % len(targets)], Precision.FP32), "a piece")
        done += macs
    default = Placement(targets[0], Precision.FP32)
    plan = Plan(graph.digest, default, {name: item for name, item in places.items() if item.placement != default})
    return plan, partition(quantize(graph, plan, Ranges(graph.digest, "", 0, {})))


def _dovetail(cut_graph: PartitionedGraph) -> Session:
    return open_session(compile_model(cut_graph, _REQUEST))


def _plain_openvino(model: bytes, device: str, image: AnyArray) -> Call:
    request = core().compile_model(core().read_model(model), device, _OPENVINO).create_infer_request()

    def call() -> object:
        request.set_input_tensor(openvino.Tensor(image, shared_memory=True))
        request.infer()
        return request.get_output_tensor().data.copy()

    return call


def _hetero(graph: Graph, model: bytes, plan: Plan, image: AnyArray) -> tuple[Call, int]:
    network = core().read_model(model)
    devices = {target: target.partition(":")[2] for target in plan.targets}
    apply_affinities(network, graph, plan, devices)
    inner = dict.fromkeys(devices.values(), _OPENVINO)
    names = ",".join(devices.values())
    compiled = core().compile_model(network, f"HETERO:{names}", {"DEVICE_PROPERTIES": inner})
    request = compiled.create_infer_request()

    def call() -> object:
        request.set_input_tensor(openvino.Tensor(image, shared_memory=True))
        request.infer()
        return request.get_output_tensor().data.copy()

    return call, count_submodels(compiled)


def _session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _chain(parts: PartitionedGraph, image: AnyArray) -> Call:
    sessions = [_session(to_onnx(part.graph).SerializeToString()) for part in parts.partitions]

    def call() -> object:
        values = {parts.source.graph.inputs[0]: image}
        for part, session in zip(parts.partitions, sessions, strict=True):
            fed = {name: values[name] for name in part.graph.inputs}
            values |= dict(zip(part.graph.outputs, session.run(list(part.graph.outputs), fed), strict=True))
        return values

    return call


def _contestants(graph: Graph, image: AnyArray) -> list[Contestant]:
    model = to_onnx(graph).SerializeToString()
    feed = {graph.inputs[0]: image}
    plain = _session(model)
    found = [
        Contestant("OpenVINO, plain", "OpenVINO, plain", _plain_openvino(model, "CPUA", image)),
        Contestant("ONNX Runtime, plain", "ONNX Runtime, plain", lambda: plain.run(None, feed)),
    ]
    for pieces in (1, 2, 8):
        plan, parts = cut(graph, pieces, ("openvino:CPUA", "openvino:CPUB"))
        found.append(_ours(f"Dovetail on OpenVINO, {pieces}", "OpenVINO, plain", parts, feed))
        call, count = _hetero(graph, model, plan, image)
        found.append(Contestant(f"HETERO, {count}", "OpenVINO, plain", call))
    for pieces in (1, 2, 8):
        _, parts = cut(graph, pieces, ("cpu", "ort:CPU"))
        found.append(_ours(f"Dovetail on ONNX Runtime, {pieces}", "ONNX Runtime, plain", parts, feed))
        found.append(Contestant(f"chain of sessions, {pieces}", "ONNX Runtime, plain", _chain(parts, image)))
    return found


def _ours(name: str, base: str, parts: PartitionedGraph, feed: Mapping[str, AnyArray]) -> Contestant:
    session = _dovetail(parts)
    return Contestant(name, base, lambda: session.run(feed))


@dataclass(frozen=True)
class Times:
    """Hold the processor and wall times of a contestant in seconds, one a round."""

    processor: list[float]
    wall: list[float]


def measure(contestants: Sequence[Contestant], rounds: int) -> dict[str, Times]:
    """Return the times of every contestant; the order turns round every time, and two rounds warm up."""
    times = {one.name: Times([], []) for one in contestants}
    for number in range(rounds + 2):
        for one in contestants if number % 2 == 0 else reversed(contestants):
            one.call()
            start, wall = time.process_time(), time.perf_counter()
            one.call()
            processor, elapsed = time.process_time() - start, time.perf_counter() - wall
            if number >= 2:
                times[one.name].processor.append(processor)
                times[one.name].wall.append(elapsed)
    return times


def _print_overhead(contestants: Sequence[Contestant], times: Mapping[str, Times]) -> None:
    print(f"{'contestant, pieces':32} {'CPU ms':>8} {'ratio':>7} {'median ratio':>13} {'wall ms':>8}")
    for one in contestants:
        mine, base = times[one.name].processor, times[one.base].processor
        middle = statistics.median(mine) / statistics.median(base)
        best = min(mine)
        print(
            f"{one.name:32} {best * 1e3:8.2f} {best / min(base):7.3f} {middle:13.3f} "
            f"{min(times[one.name].wall) * 1e3:8.2f}"
        )


def _print_pipeline(graph: Graph, image: AnyArray, rounds: int) -> None:
    """Print requests a second one by one and pipelined; the cut is where both stages take as long."""
    feed = {graph.inputs[0]: image}
    best: tuple[float, Session] | None = None
    for share in range(2, 9):
        _, parts = _two(graph, share / 10)
        session = _dovetail(parts)
        session.run(feed)
        runs = [session.run(feed) for _ in range(5)]
        stages = [min(run.timings[index].elapsed_ns for run in runs) for index in (0, 1)]
        if best is None or max(stages) < best[0]:
            best = max(stages), session
    assert best is not None
    session = best[1]
    ratios: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(rounds):
            session.run(feed)
        alone = time.perf_counter() - start
        start = time.perf_counter()
        for _ in session.run_many(feed for _ in range(rounds)):
            pass
        ratios.append(alone / (time.perf_counter() - start))
    print(f"two-stage pipeline: {max(ratios):.2f} x the requests a second (median {statistics.median(ratios):.2f})")


def _two(graph: Graph, share: float) -> tuple[Plan, PartitionedGraph]:
    work = [node_macs(graph, node) or 0 for node in graph.nodes]
    done, second = 0, False
    first_place, other = (Placement(f"openvino:{name}", Precision.FP32) for name in ("CPUA", "CPUB"))
    moved: dict[str, Override] = {}
    for node, macs in zip(graph.nodes, work, strict=True):
        second = second or (node.op == "Conv" and done >= share * sum(work))
        if second:
            moved[node.name] = Override(other, "the second stage")
        done += macs
    plan = Plan(graph.digest, first_place, moved)
    return plan, partition(quantize(graph, plan, Ranges(graph.digest, "", 0, {})))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--side", type=int, default=224)
    options = parser.parse_args()
    for name in ("CPUA", "CPUB"):
        register_plugin(name, "openvino_intel_cpu_plugin")
    graph = mobilenet(options.side)
    image = np.random.default_rng(0).normal(size=(1, 3, options.side, options.side)).astype(np.float32)
    contestants = _contestants(graph, image)
    _print_overhead(contestants, measure(contestants, options.rounds))
    _print_pipeline(graph, image, max(10, options.rounds // 2))


if __name__ == "__main__":
    main()
