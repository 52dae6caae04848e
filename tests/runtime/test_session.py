"""Compiling and running: mixed plans on real backends, and every wrong use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.backend.protocols import CompileOptions, Fidelity, Signature
from dovetail.backend.registry import backend, find_device, find_target, known_targets
from dovetail.backends.reference import run_graph
from dovetail.bundle import Bundle, load_bundle, save_bundle
from dovetail.compile import CompileRequest, compile_model
from dovetail.errors import BundleError, DeviceError, DeviceNotFound
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.partition import PartitionedGraph, partition
from dovetail.plan import Override, Placement, Plan, Recipe, Rule, make_plan
from dovetail.quantize import QuantizedGraph, Range, Ranges, quantize
from dovetail.runtime import open_session
from dovetail.testing.networks import Network, networks

NPU = Placement("vsi:v853", Precision.I8PC)
CPU = Placement("cpu", Precision.FP32)
ONE = CompileRequest(CompileOptions(threads=1))


def _feeds(graph: Graph, seed: int = 0) -> dict[str, AnyArray]:
    rng = np.random.default_rng(seed)
    feeds: dict[str, AnyArray] = {}
    for name in graph.inputs:
        shape = [dim if isinstance(dim, int) else 3 for dim in graph.types[name].shape or ()]
        feeds[name] = np.asarray(rng.normal(size=shape).astype(np.float32))
    return feeds


def _quantized(graph: Graph, plan: Plan) -> QuantizedGraph:
    feeds = _feeds(graph)
    everything = tuple(tensor for node in graph.nodes for tensor in node.outputs)
    values = {**feeds, **run_graph(graph.evolve(outputs=everything), feeds)}
    limits = {
        name: Range(float(value.min()), float(value.max()))
        for name, value in values.items()
        if graph.types[name].holds_reals
    }
    return quantize(graph, plan, Ranges(graph.digest, "minmax", 1, limits))


def _graph() -> Graph:
    net = Network()
    made = net.op("Relu", net.conv(net.input("x", 1, 2, 4, 4), 4, 3))
    soft = net.op("Softmax", made, axis=1)
    # No sum: the silicon adds bytes otherwise where a cut keeps them in memory.
    return net.graph(net.op("Mul", net.conv(soft, 4), made), soft)


def _mixed(graph: Graph) -> QuantizedGraph:
    return _quantized(graph, Plan(graph.digest, NPU, {"n2": Override(CPU, "test")}))


def _cut(graph: Graph) -> PartitionedGraph:
    return partition(_mixed(graph))


def _whole(graph: Graph, feeds: dict[str, AnyArray], taps: tuple[str, ...] = ()) -> dict[str, AnyArray]:
    """Run a whole quantised graph on the simulator, float nodes too."""
    blob = backend("npusim").compile(graph, find_target("vsi:v853"), CompileOptions(Fidelity.EXACT, 1))
    signature = Signature.of(graph)
    executable = find_device("npusim", "vsi:v853").load(blob, signature)
    return dict(executable.run(feeds, taps))


def test_a_mixed_plan_gives_what_the_whole_graph_gives(tmp_path: Path) -> None:
    graph = _graph()
    cut, feeds = _cut(graph), _feeds(graph)
    bundle = compile_model(cut, ONE)
    assert [part.target for part in bundle.partitions] == ["cpu", "vsi:v853", "cpu", "vsi:v853", "cpu"]
    save_bundle(bundle, tmp_path / "b")
    expected = _whole(cut.source.graph, feeds)
    for one in (bundle, load_bundle(tmp_path / "b")):
        with open_session(one) as session:
            run = session.run(feeds)
        assert set(run.outputs) == set(graph.outputs)
        for name in graph.outputs:
            np.testing.assert_allclose(run.outputs[name], expected[name], atol=1e-5)


def test_every_partition_is_timed() -> None:
    graph = _graph()
    with open_session(compile_model(_cut(graph), ONE)) as session:
        run = session.run(_feeds(graph))
    assert [(item.index, item.target) for item in run.timings] == [
        *((0, "cpu"), (1, "vsi:v853"), (2, "cpu"), (3, "vsi:v853"), (4, "cpu"))
    ]
    assert all(item.elapsed_ns > 0 for item in run.timings)
    assert [item.device for item in run.timings][:2] == ["cpu", "npusim"]


def test_any_tensor_can_be_tapped() -> None:
    graph = _graph()
    cut, feeds = _cut(graph), _feeds(graph)
    source = cut.source.graph
    taps = (*source.inputs, *(tensor for node in source.nodes for tensor in node.outputs))
    expected = {**feeds, **_whole(source, feeds, taps)}
    with open_session(compile_model(cut, ONE)) as session:
        run = session.run(feeds, taps)
        for name in taps:
            alone = session.run(feeds, [name]).taps[name]
            np.testing.assert_array_equal(alone, run.taps[name])
    assert set(run.taps) == set(taps)
    for name in taps:
        assert run.taps[name].dtype == source.types[name].dtype.carrier
        # The CPU's Softmax may differ in its last bits, and so move a value of the next tensor by one step.
        slack = 1 if source.types[name].quant is not None else 0.05
        np.testing.assert_allclose(run.taps[name], expected[name], atol=slack)
        real = run.real(name)
        assert real.dtype == np.float32
        np.testing.assert_allclose(real, np.asarray(_real_value(graph, name, feeds, source)), atol=0.1)


def _real_value(graph: Graph, name: str, feeds: dict[str, AnyArray], source: Graph) -> AnyArray:
    """Return a tensor of the float model by its name in the quantised one, clamped where it is stored so."""
    original = source.origin_of(name)
    if original in feeds:
        return feeds[original]
    value = run_graph(graph.evolve(outputs=(original,)), feeds)[original]
    return np.maximum(value, 0) if original == "t0" else value


@settings(max_examples=25, deadline=None)
@given(networks(), st.data())
def test_any_mixed_plan_gives_what_the_whole_graph_gives(graph: Graph, data: st.DataObject) -> None:
    targets = {target.name: target for target in known_targets()}
    chosen = data.draw(st.lists(st.sampled_from([node.name for node in graph.nodes]), unique=True, max_size=4))
    plan = make_plan(graph, Recipe(NPU, (CPU,), tuple(Rule(CPU, name) for name in chosen)), targets)
    quantized, feeds = _quantized(graph, plan), _feeds(graph, 1)
    expected = _whole(quantized.graph, feeds)
    with open_session(compile_model(partition(quantized), ONE)) as session:
        run = session.run(feeds)
    kinds = [quantized.graph.types[node.outputs[0]].quant for node in quantized.graph.nodes]
    steps = [quant.scale[0] for quant in kinds if quant is not None]
    slack = 2 * max(steps, default=0.0) + 1e-4
    for name in graph.outputs:
        np.testing.assert_allclose(run.outputs[name], expected[name], atol=slack, rtol=0.05)


def _float_bundle(*targets: str) -> tuple[Graph, Bundle]:
    net = Network()
    made = net.input("x", "n", 4)
    for index in range(max(1, len(targets))):
        made = net.op(("Relu", "Sigmoid", "Abs")[index % 3], made)
    graph = net.graph(made)
    places = {f"n{i}": Override(Placement(target, Precision.FP32), "") for i, target in enumerate(targets)}
    plan = Plan(graph.digest, CPU, places)
    return graph, compile_model(partition(quantize(graph, plan, Ranges(graph.digest, "", 0, {}))), ONE)


def test_symbolic_batches_run_one_after_the_other() -> None:
    graph, bundle = _float_bundle("cpu", "vsi:v853", "reference")
    with open_session(bundle) as session:
        for count in (1, 5, 2):
            x = np.linspace(-2, 2, count * 4, dtype=np.float32).reshape(count, 4)
            (name,) = graph.outputs
            expected = np.abs(1 / (1 + np.exp(-np.maximum(x, 0))))
            np.testing.assert_allclose(session.run({"x": x}).outputs[name], expected, rtol=1e-5)


GOOD = np.zeros((1, 4), np.float32)


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({}, "input 'x' is missing"),
        ({"x": GOOD, "y": GOOD}, "input 'y' is unknown"),
        ({"x": GOOD.astype(np.float64)}, "input 'x' is float64; float32 is expected"),
        ({"x": GOOD.tolist()}, "input 'x' is list; float32 is expected"),
        ({"x": np.zeros((1, 5), np.float32)}, r"input 'x' has shape \[1, 5\]; \[n, 4\] is expected"),
        ({"x": np.zeros(4, np.float32)}, r"input 'x' has shape \[4\]"),
        ({"x": np.array(1.0, np.float32)}, r"input 'x' has shape \[\]"),
        ({"x": None}, "input 'x' is NoneType"),
    ],
)
def test_wrong_inputs(inputs: dict[str, AnyArray], says: str) -> None:
    with open_session(_float_bundle("cpu")[1]) as session, pytest.raises(DeviceError, match=says) as caught:
        session.run(inputs)
    assert "\n" not in str(caught.value)


def test_one_symbol_is_one_size_in_all_inputs() -> None:
    net = Network()
    graph = net.graph(net.op("Add", net.input("x", "n", 4), net.input("y", "n", 4)))
    bundle = compile_model(partition(quantize(graph, Plan(graph.digest, CPU), Ranges(graph.digest, "", 0, {}))), ONE)
    with open_session(bundle) as session, pytest.raises(DeviceError, match="input 'y' has shape"):
        session.run({"x": np.zeros((2, 4), np.float32), "y": np.zeros((3, 4), np.float32)})


def test_an_unknown_tap() -> None:
    with open_session(_float_bundle("cpu")[1]) as session, pytest.raises(DeviceError, match="tap 'ghost'"):
        session.run({"x": GOOD}, ["ghost"])


def test_the_inputs_are_left_as_they_are_and_outputs_are_the_callers() -> None:
    x = np.array([[-1.0, 2.0, -3.0, 4.0]], np.float32)
    kept = x.copy()
    with open_session(_float_bundle("cpu", "reference")[1]) as session:
        first = session.run({"x": x}).outputs["t1"]
        before = first.copy()
        session.run({"x": x * 2})
    np.testing.assert_array_equal(x, kept)
    np.testing.assert_array_equal(first, before)


def test_two_sessions_at_once() -> None:
    _, bundle = _float_bundle("cpu", "vsi:v853")
    with open_session(bundle) as one, open_session(bundle) as other:
        first = one.run({"x": GOOD}).outputs["t1"]
        np.testing.assert_array_equal(first, other.run({"x": GOOD}).outputs["t1"])
        other.close()
        np.testing.assert_array_equal(first, one.run({"x": GOOD}).outputs["t1"])


@pytest.mark.parametrize("target", ["cpu", "vsi:v853", "reference"])
def test_a_closed_session_runs_nothing_and_closes_again(target: str) -> None:
    with open_session(_float_bundle(target)[1]) as session:
        session.run({"x": GOOD})
    session.close()
    with pytest.raises(DeviceError, match="closed"):
        session.run({"x": GOOD})


def test_a_bundle_of_another_backend_version() -> None:
    _, bundle = _float_bundle("cpu")
    old = replace(bundle.partitions[0], backend_version="0")
    with pytest.raises(BundleError, match="partition 0 was compiled by cpu 0") as caught:
        open_session(replace(bundle, partitions=(old,)))
    assert "dovetail compile" in str(caught.value)


def test_an_unknown_backend_in_a_bundle() -> None:
    _, bundle = _float_bundle("cpu")
    with pytest.raises(DeviceNotFound, match="backend 'cqu' is not installed") as caught:
        open_session(replace(bundle, partitions=(replace(bundle.partitions[0], backend="cqu"),)))
    assert "Did you mean 'cpu'" in str(caught.value)


def test_a_target_that_the_backend_has_no_device_for() -> None:
    _, bundle = _float_bundle("cpu")
    with pytest.raises(DeviceNotFound, match="no device for target 'vsi:v853'"):
        open_session(replace(bundle, partitions=(replace(bundle.partitions[0], target="vsi:v853"),)))


def test_partitions_that_are_open_already_are_closed_when_a_later_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    _, bundle = _float_bundle("reference", "cpu")
    closed: list[str] = []
    from dovetail.backends.reference.plugin import ReferenceExecutable

    monkeypatch.setattr(ReferenceExecutable, "close", lambda self: closed.append("reference"))
    broken = replace(bundle.partitions[1], backend_version="0")
    with pytest.raises(BundleError):
        open_session(replace(bundle, partitions=(bundle.partitions[0], broken)))
    assert closed == ["reference"]


def test_a_damaged_blob() -> None:
    for target in ("cpu", "vsi:v853", "reference"):
        _, bundle = _float_bundle(target)
        part = bundle.partitions[0]
        for payload in (b"", part.blob.payload[: len(part.blob.payload) // 2], b"\xff" * 64):
            with pytest.raises(DeviceError) as caught:
                open_session(replace(bundle, partitions=(replace(part, blob=replace(part.blob, payload=payload)),)))
            assert "\n" not in str(caught.value)


def test_an_output_that_is_an_input_and_one_that_is_a_constant() -> None:
    kind = TensorType(DType.F32, (1, 4))
    constant = np.arange(4, dtype=np.float32).reshape(1, 4)
    nodes = (Node("a", "Relu", ("x",), ("y",)),)
    graph = Graph("odd", nodes, ("x",), ("y", "x", "k"), {"x": kind, "y": kind, "k": kind}, {"k": constant})
    for target in ("cpu", "vsi:v853", "reference"):
        plan = Plan(graph.digest, Placement(target, Precision.FP32))
        bundle = compile_model(partition(quantize(graph, plan, Ranges(graph.digest, "", 0, {}))), ONE)
        with open_session(bundle) as session:
            run = session.run({"x": GOOD - 1})
        assert list(run.outputs) == ["y", "x", "k"]
        np.testing.assert_array_equal(run.outputs["k"], constant)
        np.testing.assert_array_equal(run.outputs["x"], GOOD - 1)
