"""The net of the runtime's benchmarks, how it is cut, and the ways to run it that they share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np
import openvino

from dovetail.backend.protocols import CompileOptions
from dovetail.backends.openvino.core import core, register_plugin
from dovetail.bundle import Bundle
from dovetail.compile import CompileRequest, compile_model
from dovetail.exporters import to_onnx
from dovetail.formats.openvino import apply_affinities
from dovetail.ir import AnyArray, Graph
from dovetail.ir.macs import node_macs
from dovetail.ir.precision import Precision
from dovetail.partition import PartitionedGraph, partition
from dovetail.plan import Override, Placement, Plan
from dovetail.quantize import Ranges, quantize
from dovetail.runtime import Session, open_session
from dovetail.testing.networks import Network

Call = Callable[[], object]

ONE_THREAD = {"INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"}
DEVICES = ("openvino:CPUA", "openvino:CPUB")
_REQUEST = CompileRequest(CompileOptions(threads=1))
_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))


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


def image_for(side: int) -> AnyArray:
    """Return one image of noise."""
    return np.random.default_rng(0).normal(size=(1, 3, side, side)).astype(np.float32)


def two_devices() -> None:
    """Register OpenVINO's CPU plug-in twice."""
    for target in DEVICES:
        register_plugin(target.partition(":")[2], "openvino_intel_cpu_plugin")


def cut(graph: Graph, shares: Sequence[float], targets: Sequence[str]) -> tuple[Plan, PartitionedGraph]:
    """Cut the chain where these shares of the work are done, on the targets in turn.

    A cut is before a convolution; an activation stays with its convolution.
    """
    work = [node_macs(graph, node) or 0 for node in graph.nodes]
    total, done, index = sum(work), 0, 0
    places: dict[str, Override] = {}
    for node, macs in zip(graph.nodes, work, strict=True):
        if node.op == "Conv" and index < len(shares) and done >= shares[index] * total:
            index += 1
        places[node.name] = Override(Placement(targets[index % len(targets)], Precision.FP32), "a piece")
        done += macs
    default = Placement(targets[0], Precision.FP32)
    plan = Plan(graph.digest, default, {name: item for name, item in places.items() if item.placement != default})
    return plan, partition(quantize(graph, plan, Ranges(graph.digest, "", 0, {})))


def even(pieces: int) -> list[float]:
    """Return the shares of the work at which pieces of about equal work are cut."""
    return [index / pieces for index in range(1, pieces)]


def compiled(parts: PartitionedGraph) -> Bundle:
    """Compile the pieces, one thread each."""
    return compile_model(parts, _REQUEST)


def dovetail_session(parts: PartitionedGraph) -> Session:
    """Compile and open the pieces, one thread each."""
    return open_session(compiled(parts))


def hetero(graph: Graph, plan: Plan) -> openvino.CompiledModel:
    """Return OpenVINO's own heterogeneous model with the same placement."""
    network = core().read_model(to_onnx(graph).SerializeToString())
    devices = {target: target.partition(":")[2] for target in plan.targets}
    apply_affinities(network, graph, plan, devices)
    inner = dict.fromkeys(devices.values(), ONE_THREAD)
    return core().compile_model(network, f"HETERO:{','.join(devices.values())}", {"DEVICE_PROPERTIES": inner})


def arguments(about: str) -> argparse.ArgumentParser:
    """Return a parser of the options that both parts have."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--side", type=int, default=224)
    return parser
