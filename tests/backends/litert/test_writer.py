"""Models that the writer makes, in LiteRT's own kernels, beside the reference; and delegates that are not there."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from dovetail.backend.protocols import CompileOptions
from dovetail.backend.registry import backend, find_target
from dovetail.backends.litert.delegates import Delegate
from dovetail.backends.litert.plugin import left_out, open_interpreter
from dovetail.backends.litert.writer import to_tflite
from dovetail.backends.reference import run_graph
from dovetail.compare.steps import compare_steps
from dovetail.compile import CompileRequest, compile_model
from dovetail.errors import CompileError
from dovetail.ir import AnyArray, Graph
from dovetail.ir.precision import Precision
from dovetail.partition import partition
from dovetail.plan import Placement, Plan
from dovetail.quantize import Range, Ranges, quantize
from dovetail.runtime import open_session
from dovetail.testing.agreement import load_on
from dovetail.testing.networks import Network


def _network(*, small: bool) -> Graph:
    """Return a net with everything that depends on the order of dimensions; `small` keeps to what runs in 8 bits."""
    net = Network(3)
    made = net.op("Relu", net.conv(net.input("x", 1, 3, 9, 7), 6, 3))
    weight, bias = net.uniform(6, 1, 3, 3), net.uniform(6)
    deep = net.op("Conv", made, weight, bias, shape=(1, 6, 5, 4), group=6, pads=(1, 1, 1, 1), strides=(2, 2))
    point = net.conv(net.op("Relu", deep), 6)
    joined = net.op("Add", point, deep)
    pooled = net.op("MaxPool", joined, shape=(1, 6, 2, 2), kernel_shape=(2, 2), strides=(2, 2))
    if small:
        turned = net.op("Transpose", pooled, shape=(1, 2, 2, 6), perm=(0, 2, 3, 1))
        return net.graph(net.op("Reshape", turned, net.constant([1, 24]), shape=(1, 24)), joined)
    both = net.op("Concat", pooled, net.op("Tanh", pooled), shape=(1, 12, 2, 2), axis=1)
    flat = net.op("Reshape", both, net.constant([1, 48]), shape=(1, 48))
    dense = net.op("Gemm", flat, net.uniform(5, 48), net.uniform(5), shape=(1, 5), transB=1)
    mean = net.op("GlobalAveragePool", both, shape=(1, 12, 1, 1))
    return net.graph(net.op("Softmax", dense, axis=-1), mean, net.op("Mul", joined, deep))


def _feed(graph: Graph) -> dict[str, AnyArray]:
    return {"x": np.random.default_rng(1).normal(size=(1, 3, 9, 7)).astype(np.float32)}


def test_float_models_give_what_the_reference_gives() -> None:
    graph = _network(small=False)
    plan = Plan(graph.digest, Placement("litert:CPU", Precision.FP32))
    cut = partition(quantize(graph, plan, Ranges(graph.digest, "", 0, {})))
    expected = run_graph(graph, _feed(graph))
    with open_session(compile_model(cut, CompileRequest(CompileOptions(threads=1)))) as session:
        run = session.run(_feed(graph))
    for name in graph.outputs:
        np.testing.assert_allclose(run.outputs[name], expected[name], atol=1e-5, rtol=1e-4)


def test_8_bit_models_give_what_the_reference_gives_by_tflites_rules() -> None:
    graph = _network(small=True)
    everything = tuple(tensor for node in graph.nodes for tensor in node.outputs)
    values = {**_feed(graph), **run_graph(graph.evolve(outputs=everything), _feed(graph))}
    ranges = {name: Range(float(values[name].min()), float(values[name].max())) for name in ("x", *everything)}
    plan = Plan(graph.digest, Placement("litert:CPU", Precision.I8PC))
    whole = quantize(graph, plan, Ranges(graph.digest, "minmax", 1, ranges)).graph
    ours = load_on(backend("litert"), whole, find_target("litert:CPU"), CompileOptions(threads=1))
    judge = load_on(backend("reference"), whole, find_target("reference:tflite"), CompileOptions())
    expected = judge.run(_feed(graph))
    for name, value in ours.run(_feed(graph)).items():
        quant = whole.types[name].quant
        if quant is None:
            step = max(
                kind.quant.scale[0] for kind in whole.types.values() if kind.quant and not kind.quant.per_channel
            )
            np.testing.assert_allclose(value, expected[name], atol=step)
        else:
            assert compare_steps(value, expected[name]).largest <= 1


def test_what_it_cannot_say_is_refused() -> None:
    net = Network()
    graph = net.graph(net.op("Asinh", net.input("x", 1, 4)))
    with pytest.raises(CompileError, match=r"litert:CPU cannot run it: the target has no operator Asinh"):
        backend("litert").compile(graph, find_target("litert:CPU"), CompileOptions())


def test_a_delegate_that_does_not_load_is_listed_with_the_reason() -> None:
    program = (
        "from dovetail.backend.registry import backend\n"
        "print([(item.name, item.reason) for item in backend('litert').abilities().absent_devices()])\n"
        "print([device.name for device in backend('litert').devices()])\n"
    )
    environment = {**os.environ, "DOVETAIL_LITERT_DELEGATES": "vx=/usr/lib/libvx_no_such.so?device_id=0"}
    environment["PYTHONPATH"] = os.pathsep.join(item for item in sys.path if item)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    absent, present = done.stdout.strip().splitlines()
    assert "litert:vx" in absent
    assert "libvx_no_such.so" in absent
    assert present == "['litert:CPU']"


class _Listing:
    """An interpreter of two operators, of which a delegate took some."""

    def __init__(self, *delegates: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        self._operators = [("CONV_2D", (0,), (1,)), ("TANH", (1,), (2,)), *(("Vx", *edges) for edges in delegates)]

    def _get_ops_details(self) -> list[dict[str, object]]:
        return [{"op_name": name, "inputs": read, "outputs": made} for name, read, made in self._operators]

    def get_output_details(self) -> list[dict[str, object]]:
        return [{"index": 2}]


@pytest.mark.parametrize(
    ("delegates", "whole"),
    [((((0,), (2,)),), True), ((), False), ((((0,), (1,)),), False), ((((1,), (2,)),), False)],
    ids=["all", "nothing", "the first", "the second"],
)
def test_what_a_delegate_leaves_is_told(
    delegates: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...], whole: bool
) -> None:
    listing: Any = _Listing(*delegates)
    assert (left_out(listing, Delegate("vx", "libvx.so")) == []) is whole


def test_a_real_delegate_that_takes_everything() -> None:
    """LiteRT's own for the CPU."""
    interpreter = open_interpreter(to_tflite(_network(small=True)), Delegate("CPU"), {})
    assert left_out(interpreter, Delegate("any", "lib.so")) == []
