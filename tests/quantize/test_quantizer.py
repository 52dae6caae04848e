"""Quantised graphs: types, boundaries, shared scales."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.backends.reference import run_graph
from dovetail.errors import PlanError, QuantizeError
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType, dequantize_array
from dovetail.ir.codes import ONNX_CODES
from dovetail.ir.precision import Precision
from dovetail.ir.roles import is_pass_through
from dovetail.plan import Override, Placement, Plan
from dovetail.plan.units import clamp_host
from dovetail.quantize import QuantizedGraph, Quantizer, Range, Ranges, quantize
from dovetail.testing.networks import Network, networks

P = Precision
CPU = Placement("cpu", P.FP32)


def ranges_of(graph: Graph, feeds: Mapping[str, AnyArray]) -> Ranges:
    """Return the ranges of one float run."""
    values = {**feeds, **run_graph(graph.evolve(outputs=_computed(graph)), feeds)}
    reals = {name: value for name, value in values.items() if graph.types[name].holds_reals}
    found = {name: Range(float(value.min()), float(value.max())) for name, value in reals.items()}
    return Ranges(graph.digest, "minmax", 1, found)


def _computed(graph: Graph) -> tuple[str, ...]:
    return tuple(tensor for node in graph.nodes for tensor in node.outputs if tensor)


def _feeds(graph: Graph, seed: int = 0) -> dict[str, AnyArray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=graph.types[name].static_shape).astype(np.float32) for name in graph.inputs}


def _quantized(graph: Graph, default: Placement, **places: Placement) -> QuantizedGraph:
    overrides = {name: Override(place, "test") for name, place in places.items()}
    return quantize(graph, Plan(graph.digest, default, overrides), ranges_of(graph, _feeds(graph)))


def _npu(precision: Precision) -> Placement:
    return Placement("vsi:v853", precision)


def _ops(found: QuantizedGraph) -> list[str]:
    return [f"{node.op}@{found.placements[node.name].target}" for node in found.graph.nodes]


def _line() -> Graph:
    net = Network()
    made = net.op("Relu", net.conv(net.input("x", 1, 2, 4, 4), 3, 3))
    made = net.op("MaxPool", made, kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    return net.graph(net.op("Sigmoid", net.conv(made, 2)))


@pytest.mark.parametrize("precision", list(Precision))
def test_every_precision_on_a_line(precision: Precision) -> None:
    graph = _line()
    found = _quantized(graph, _npu(precision))
    form = precision.activation
    assert (found.graph.inputs, found.graph.outputs) == (graph.inputs, graph.outputs)
    for name in (*graph.inputs, *graph.outputs):
        assert found.graph.types[name] == graph.types[name]
    if precision is P.FP32:
        assert found.graph == graph
        return
    first, last = ("QuantizeLinear", "DequantizeLinear") if precision.is_quantized else ("Cast", "Cast")
    assert [node.op for node in found.graph.nodes] == [*(first, "Conv", "Relu", "MaxPool", "Conv", "Sigmoid", last)]
    assert [found.graph.nodes[at].attributes for at in (0, -1)] == (
        [{}, {}] if precision.is_quantized else [{"to": ONNX_CODES[form.dtype]}, {"to": ONNX_CODES[DType.F32]}]
    )
    inside = [tensor for node in found.graph.nodes[:-1] for tensor in node.outputs]
    assert {found.graph.types[name].dtype for name in inside} == {form.dtype}
    conv = found.graph.node("n0")
    weight, bias = found.graph.types[conv.inputs[1]], found.graph.types[conv.inputs[2]]
    assert weight.dtype is precision.weight.dtype
    assert bias.dtype is precision.bias
    if precision.is_quantized:
        source = found.graph.types[conv.inputs[0]].quant
        assert source is not None
        assert weight.quant is not None
        assert bias.quant is not None
        assert (weight.quant.axis == 0) == precision.weight.per_channel
        product = [float(np.float32(source.scale[0] * scale)) for scale in weight.quant.scale]
        assert list(bias.quant.scale) == product


@pytest.mark.parametrize("precision", [P.U8, P.I8, P.I8PC, P.I8DFP, P.I16, P.W8A16])
def test_clamps_and_movers_share_the_scale_before_them(precision: Precision) -> None:
    found = _quantized(_line(), _npu(precision))
    types = found.graph.types
    assert types["t0"].quant == types["t1"].quant == types["t2"].quant


def test_a_clamped_tensor_is_stored_at_the_range_of_the_clamp() -> None:
    graph = _line()
    ranges = Ranges(graph.digest, "", 1, {name: Range(-100.0, 100.0) for name in ("x", *_computed(graph))})
    ranges = Ranges(graph.digest, "", 1, {**ranges.tensors, "t1": Range(0.0, 2.55)})
    found = quantize(graph, Plan(graph.digest, _npu(P.U8)), ranges)
    quant = found.graph.types["t0"].quant
    assert quant is not None
    assert quant.scale == (float(np.float32(0.01)),)
    assert quant.zero_point == (0,)


def test_a_clamp_elsewhere_does_not_narrow_its_host() -> None:
    graph = _line()
    tensors = {name: Range(-100.0, 100.0) for name in ("x", *_computed(graph))} | {"t1": Range(0.0, 2.55)}
    plan = Plan(graph.digest, _npu(P.U8), {"n1": Override(_npu(P.I16), "")})
    found = quantize(graph, plan, Ranges(graph.digest, "", 1, tensors))
    quant = found.graph.types["t0"].quant
    assert quant is not None
    assert quant.scale[0] > 0.7


def test_an_all_float_plan_changes_nothing() -> None:
    graph = _line()
    for place in (CPU, _npu(P.FP32)):
        found = quantize(graph, Plan(graph.digest, place), Ranges(graph.digest, "", 0, {}))
        assert found.graph == graph
        assert found.boundaries == frozenset()


@settings(max_examples=40, deadline=None)
@given(networks())
def test_an_all_float_plan_changes_no_network(graph: Graph) -> None:
    found = quantize(graph, Plan(graph.digest, CPU), Ranges(graph.digest, "", 0, {}))
    assert found.graph == graph


def test_boundaries_lie_on_the_cpu_so_that_few_bytes_cross() -> None:
    found = _quantized(_line(), _npu(P.I8PC), n4=CPU)
    assert _ops(found) == [
        "QuantizeLinear@cpu",
        "Conv@vsi:v853",
        "Relu@vsi:v853",
        "MaxPool@vsi:v853",
        "Conv@vsi:v853",
        "DequantizeLinear@cpu",
        "Sigmoid@cpu",
    ]
    assert found.boundaries == {node.name for node in found.graph.nodes if node.op.endswith("Linear")}


def test_from_float_on_the_npu_the_conversion_stays_there() -> None:
    found = _quantized(_line(), _npu(P.I8PC), n4=_npu(P.FP16))
    assert _ops(found)[5:] == ["DequantizeLinear@vsi:v853", "Sigmoid@vsi:v853", "Cast@cpu"]
    assert found.graph.types[found.graph.node("n4").inputs[0]].dtype is DType.F16


def test_between_integer_formats_a_requantise_stands() -> None:
    found = _quantized(_line(), _npu(P.I8PC), n3=_npu(P.I16))
    assert _ops(found)[4:] == [
        *("Requantize@vsi:v853", "Conv@vsi:v853", "Requantize@vsi:v853", "Sigmoid@vsi:v853", "DequantizeLinear@cpu")
    ]


@pytest.mark.parametrize(("one", "other"), [(P.I8, P.I8PC), (P.I8PC, P.I8)])
def test_precisions_with_equal_activations_need_no_boundary(one: Precision, other: Precision) -> None:
    found = _quantized(_line(), _npu(one), n3=_npu(other))
    assert Counter(node.op for node in found.graph.nodes)["Requantize"] == 0


def test_between_devices_with_equal_formats_nothing_is_converted() -> None:
    found = _quantized(_line(), _npu(P.I8PC), n3=Placement("cpu", P.I8PC))
    assert len(found.boundaries) == 2


def test_a_mixed_add_gets_one_boundary() -> None:
    net = Network()
    x = net.input("x", 1, 2, 4, 4)
    left, right = net.conv(x, 2), net.conv(x, 2)
    graph = net.graph(net.op("Add", left, right))
    found = _quantized(graph, _npu(P.I8PC), n0=_npu(P.I16))
    between = [node for node in found.graph.nodes if node.op == "Requantize"]
    assert [node.inputs for node in between] == [("t0",)]
    add = found.graph.node("n2")
    assert {found.graph.types[name].dtype for name in (*add.inputs, *add.outputs)} == {DType.I8}
    assert found.graph.types[between[0].inputs[0]].dtype is DType.I16


def test_one_tensor_is_converted_once_for_all_its_readers() -> None:
    net = Network()
    made = net.conv(net.input("x", 1, 2, 4, 4), 2)
    graph = net.graph(net.op("Sigmoid", made), net.op("Tanh", made), net.op("Abs", made))
    found = _quantized(graph, _npu(P.I8), n1=CPU, n2=CPU, n3=_npu(P.I16))
    reading = [node.op for node in found.graph.nodes if node.inputs[0] == "t0"]
    assert sorted(reading) == ["DequantizeLinear", "Requantize"]


def test_an_output_that_is_read_inside_too_is_converted_once() -> None:
    net = Network()
    made = net.conv(net.input("x", 1, 2, 4, 4), 2)
    graph = net.graph(made, net.op("Sigmoid", made))
    found = _quantized(graph, _npu(P.I8), n1=CPU)
    assert sum(node.op == "DequantizeLinear" for node in found.graph.nodes) == 1
    assert found.graph.types["t0"] == graph.types["t0"]
    assert found.graph.node("n1").inputs == ("t0",)
    inside = found.graph.node("n0").outputs[0]
    assert found.graph.origin_of(inside) == "t0"


def test_an_input_wired_to_an_output_is_left_alone() -> None:
    net = Network()
    x = net.input("x", 1, 2, 4, 4)
    graph = net.graph("x", net.conv(x, 2))
    found = _quantized(graph, _npu(P.I8))
    assert found.graph.outputs == ("x", "t0")


def _choice(pick: str = "t0") -> Graph:
    net = Network()
    made = net.conv(net.input("x", 1, 2, 4, 4), 2)
    kind = net.types[made]
    net.types |= {"sum": TensorType(DType.F32, ()), "flag": TensorType(DType.BOOL, ()), "y": kind}
    net.nodes.append(Node("sum", "ReduceSum", (made,), ("sum",), {"keepdims": 0}))
    net.nodes.append(Node("test", "Greater", ("sum", net.constant(0.0)), ("flag",)))
    bodies: dict[str, object] = {
        key: Graph(key, (Node(op, op, (pick,), ("r",)),), (), ("r",), {pick: kind, "r": kind}, captures=(pick,))
        for key, op in (("then_branch", "Abs"), ("else_branch", "Neg"))
    }
    net.nodes.append(Node("choose", "If", ("flag",), ("y",), bodies))
    return net.graph(net.op("Sigmoid", "y"))


def test_bodies_read_captured_tensors_as_the_source_has_them() -> None:
    graph = _choice()
    found = _quantized(graph, _npu(P.I8), choose=CPU, sum=CPU, test=CPU)
    (body,) = {node.captures for node in found.graph.node("choose").bodies()}
    for captured in body:
        assert found.graph.types[captured] == graph.types["t0"]
    feeds = _feeds(graph)
    quantised, real = run_graph(found.graph, feeds), run_graph(graph, feeds)
    np.testing.assert_allclose(quantised["t4"], real["t4"], atol=0.02)


@pytest.mark.parametrize("place", [CPU, _npu(P.I8), _npu(P.FP16)])
def test_what_only_a_body_reads_is_as_the_source_has_it_wherever_the_body_is(place: Placement) -> None:
    net = Network()
    made = net.conv(net.input("x", 1, 2, 4, 4), 2)
    kind = net.types[made]
    net.inputs.append("flag")
    net.types |= {"flag": TensorType(DType.BOOL, ()), "y": kind}
    bodies: dict[str, object] = {
        key: Graph(key, (Node(op, op, (made,), ("r",)),), (), ("r",), {made: kind, "r": kind}, captures=(made,))
        for key, op in (("then_branch", "Abs"), ("else_branch", "Neg"))
    }
    net.nodes.append(Node("choose", "If", ("flag",), ("y",), bodies))
    graph = net.graph("y")
    feeds = {"x": np.ones((1, 2, 4, 4), np.float32), "flag": np.array(True)}
    values = {**feeds, **run_graph(graph.evolve(outputs=("t0", "y")), feeds)}
    reals = {name: values[name] for name in ("x", "t0", "y")}
    tensors = {name: Range(float(value.min()), float(value.max())) for name, value in reals.items()}
    plan = Plan(graph.digest, _npu(P.I8), {"choose": Override(place, "")})
    found = quantize(graph, plan, Ranges(graph.digest, "", 1, tensors))
    assert [node.op for node in found.graph.nodes] == ["QuantizeLinear", "Conv", "DequantizeLinear", "If"]
    assert found.graph.types["t0"] == found.graph.types["y"] == kind
    np.testing.assert_allclose(run_graph(found.graph, feeds)["y"], values["y"], atol=0.05)


@pytest.mark.parametrize("precision", [P.FP16, P.BF16, P.I8, P.I16])
def test_a_scalar_operand_stays_a_scalar(precision: Precision) -> None:
    net = Network()
    graph = net.graph(net.op("Add", net.input("x", 1, 2), net.constant(1.5)))
    found = _quantized(graph, _npu(precision))
    assert found.graph.types[found.graph.node("n0").inputs[1]].shape == ()


def test_a_half_precision_model_at_its_own_precision_is_left_alone() -> None:
    kind = TensorType(DType.F16, (1, 4))
    nodes = (Node("a", "Relu", ("x",), ("t",)), Node("b", "Sigmoid", ("t",), ("y",)))
    graph = Graph("half", nodes, ("x",), ("t", "y"), {"x": kind, "t": kind, "y": kind})
    empty = Ranges(graph.digest, "", 0, {})
    for precision in (P.FP32, P.FP16):
        assert quantize(graph, Plan(graph.digest, _npu(precision)), empty).graph == graph
    mixed = Plan(graph.digest, _npu(P.FP16), {"b": Override(_npu(P.I8), "")})
    ranges = Ranges(graph.digest, "", 1, {name: Range(-1.0, 1.0) for name in ("x", *_computed(graph))})
    found = quantize(graph, mixed, ranges)
    assert [node.op for node in found.graph.nodes] == ["Relu", "QuantizeLinear", "Sigmoid", "DequantizeLinear"]


def test_constants_that_are_operands_take_the_format_of_the_node() -> None:
    net = Network()
    made = net.op("Add", net.input("x", 1, 2, 4, 4), net.constant([[[1.5]], [[-2.5]]]))
    graph = net.graph(made)
    found = _quantized(graph, _npu(P.U8))
    add = found.graph.node("n0")
    kind = found.graph.types[add.inputs[1]]
    assert kind.dtype is DType.U8
    assert kind.quant is not None
    real = dequantize_array(found.graph.constants[add.inputs[1]], kind.quant)
    np.testing.assert_allclose(real.ravel(), [1.5, -2.5], atol=4 / 255 / 2)
    assert found.graph.origin_of(add.inputs[1]) == "k0"


def test_one_constant_in_two_formats() -> None:
    net = Network()
    x = net.input("x", 1, 2, 4, 4)
    k = net.uniform(2, 1, 1)
    graph = net.graph(net.op("Sub", net.op("Mul", net.op("Add", x, k), k), k))
    found = _quantized(graph, _npu(P.U8), n1=_npu(P.I16), n2=CPU)
    names = [found.graph.node(name).inputs[1] for name in ("n0", "n1", "n2")]
    assert len(set(names)) == 3
    assert [found.graph.types[name].dtype for name in names] == [DType.U8, DType.I16, DType.F32]


def test_one_weight_in_two_convolutions_of_different_input_scales() -> None:
    net = Network()
    x = net.input("x", 1, 2, 4, 4)
    weight, bias = net.uniform(2, 2, 1, 1, low=-1e-4, high=1e-4), net.constant([3000.0, -2000.0])
    one = net.op("Conv", x, weight, bias)
    other = net.op("Conv", net.op("Mul", x, net.constant(1e-4)), weight, bias)
    graph = net.graph(net.op("Add", one, other))
    found = _quantized(graph, _npu(P.I8PC))
    for name in ("n0", "n2"):
        conv = found.graph.node(name)
        source, kind = found.graph.types[conv.inputs[0]].quant, found.graph.types[conv.inputs[2]].quant
        weights = found.graph.types[conv.inputs[1]].quant
        assert source is not None
        assert weights is not None
        assert kind is not None
        product = [source.scale[0] * scale for scale in weights.scale]
        np.testing.assert_allclose(kind.scale, product, rtol=1e-6)
        real = dequantize_array(found.graph.constants[conv.inputs[2]], kind)
        np.testing.assert_allclose(real, [3000.0, -2000.0], rtol=1e-3)


def test_weights_are_made_once_for_all_plans() -> None:
    graph = _line()
    quantizer = Quantizer(graph, ranges_of(graph, _feeds(graph)))
    one = quantizer.quantize(Plan(graph.digest, _npu(P.I8PC)))
    other = quantizer.quantize(Plan(graph.digest, _npu(P.I8PC), {"n4": Override(CPU, "")}))
    name = one.graph.node("n0").inputs[1]
    assert one.graph.constants[name] is other.graph.constants[other.graph.node("n0").inputs[1]]


def test_a_plan_for_another_graph_is_refused() -> None:
    graph = _line()
    with pytest.raises(PlanError, match="made for graph"):
        quantize(graph, Plan("0" * 64, CPU), Ranges(graph.digest, "", 0, {}))


def test_ranges_of_another_graph_are_refused() -> None:
    graph = _line()
    with pytest.raises(QuantizeError, match="another graph"):
        quantize(graph, Plan(graph.digest, CPU), Ranges("0" * 64, "", 0, {}))


def test_a_tensor_that_calibration_never_saw() -> None:
    graph = _line()
    known = ranges_of(graph, _feeds(graph)).tensors
    ranges = Ranges(graph.digest, "", 1, {name: item for name, item in known.items() if name != "t4"})
    with pytest.raises(QuantizeError, match="'t4' has no range"):
        quantize(graph, Plan(graph.digest, _npu(P.I8)), ranges)
    assert quantize(graph, Plan(graph.digest, _npu(P.I8), {"n4": Override(CPU, "")}), ranges)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused_by_name_unless_they_stay_float(bad: float) -> None:
    net = Network()
    x = net.input("x", 1, 2, 4, 4)
    weight = net.constant(np.full((2, 2, 1, 1), bad, np.float32), "broken")
    graph = net.graph(net.op("Conv", x, weight))
    ranges = Ranges(graph.digest, "", 1, {"x": Range(-1, 1), "t0": Range(-1, 1)})
    with pytest.raises(QuantizeError, match="'broken' holds NaN or infinity") as caught:
        quantize(graph, Plan(graph.digest, _npu(P.I8)), ranges)
    assert "cpu@fp32" in str(caught.value)
    assert quantize(graph, Plan(graph.digest, CPU), ranges).graph == graph


_PLACES = st.sampled_from([CPU, *(_npu(precision) for precision in Precision)])


@st.composite
def planned(draw: st.DrawFn) -> tuple[Graph, Plan]:
    """Draw a network with any placement of its nodes, units or not."""
    graph = draw(networks())
    chosen = {node.name: Override(draw(_PLACES), "drawn") for node in graph.nodes}
    return graph, Plan(graph.digest, draw(_PLACES), chosen)


@settings(max_examples=150, deadline=None)
@given(planned())
def test_any_plan_gives_a_graph_with_explicit_and_minimal_boundaries(drawn: tuple[Graph, Plan]) -> None:
    graph, plan = drawn
    found = quantize(graph, plan, ranges_of(graph, _feeds(graph)))
    result = found.graph
    assert (result.inputs, result.outputs) == (graph.inputs, graph.outputs)
    for name in (*graph.inputs, *graph.outputs):
        assert result.types[name] == graph.types[name]
    assert {node.name for node in result.nodes} - found.boundaries == {node.name for node in graph.nodes}
    assert set(found.placements) == {node.name for node in result.nodes}
    converted: set[tuple[str, TensorType]] = set()
    for node in result.nodes:
        if node.name in found.boundaries:
            kind = result.types[node.outputs[0]]
            source = result.types[node.inputs[0]]
            assert (source.dtype, source.quant) != (kind.dtype, kind.quant), "a conversion that converts nothing"
            original = result.origin_of(node.inputs[0])
            assert (original, kind) not in converted, "converted twice"
            converted.add((original, kind))
            assert result.consumers.get(node.outputs[0]) or node.outputs[0] in result.outputs
            _check_side(found, node)
        else:
            _check_formats(found, graph.node(node.name), node)


def _check_side(found: QuantizedGraph, node: Node) -> None:
    """Check that a conversion beside the CPU is on the CPU, and on the consumer's or producer's target else."""
    producer = found.graph.producers.get(node.inputs[0])
    made_on = "cpu" if producer is None else found.placements[producer.name].target
    readers = {found.placements[user.name].target for user in found.graph.consumers.get(node.outputs[0], ())}
    readers |= {"cpu"} if node.outputs[0] in found.graph.outputs else set()
    target = found.placements[node.name].target
    if made_on == "cpu":
        assert target == "cpu"
    else:
        assert target in readers | {made_on}


def _check_formats(found: QuantizedGraph, before: Node, node: Node) -> None:
    """Check that a node is where the plan has it, and reads and makes one number format."""
    place = found.plan.placement(node.name)
    assert found.placements[node.name] == place
    form = place.precision.activation
    result = found.graph
    for tensor in node.outputs:
        kind = result.types[tensor]
        assert kind.dtype is form.dtype
        assert (kind.quant is not None) == form.dtype.is_integer
    data = result.types[node.inputs[0]]
    assert data.dtype is form.dtype
    if is_pass_through(result, node) or clamp_host(result, node):
        assert result.types[node.outputs[0]].quant == data.quant or form.dtype.is_float or clamp_host(result, node)
    if is_pass_through(result, node):
        assert result.types[node.outputs[0]].quant == data.quant
    assert (before.op, before.attributes) == (node.op, node.attributes)


@settings(max_examples=100, deadline=None)
@given(planned(), st.integers(0, 100))
def test_any_plan_computes_about_the_same(drawn: tuple[Graph, Plan], seed: int) -> None:
    graph, plan = drawn
    feeds = _feeds(graph, seed)
    found = quantize(graph, plan, ranges_of(graph, feeds))
    assert set(run_graph(found.graph, feeds)) >= set(graph.outputs)


@pytest.mark.parametrize("shape", [(), (1,), (1, 3), (2, 3)])
def test_a_bias_of_any_shape_has_a_scale_for_each_channel(shape: tuple[int, ...]) -> None:
    net = Network()
    bias = net.constant(np.random.default_rng(5).uniform(-4.0, 4.0, shape).astype(np.float32))
    graph = net.graph(net.op("Gemm", net.input("x", 2, 4), net.uniform(4, 3), bias, shape=(2, 3)))
    found = _quantized(graph, _npu(P.I8PC)).graph
    (gemm,) = (node for node in found.nodes if node.op == "Gemm")
    assert found.types[gemm.inputs[2]].shape == (*shape[:-1], 3)
    (name,) = graph.outputs
    np.testing.assert_allclose(run_graph(found, _feeds(graph))[name], run_graph(graph, _feeds(graph))[name], atol=0.1)
