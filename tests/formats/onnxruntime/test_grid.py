"""A float model on the grid of a plan, judged by ONNX Runtime's own quantiser: it arrives at the plan's integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import draws
import numpy as np
import onnx
import pytest
from hypothesis import given, note, seed, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, quantize_static

from dovetail.data import Sample
from dovetail.errors import FormatError
from dovetail.formats import ReadRequest, WriteRequest, Written, find_format
from dovetail.formats.onnxruntime.arguments import quantizer_arguments
from dovetail.ir import AnyArray, Graph
from dovetail.passes import normalize
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import QuantizedGraph, calibrate, quantize
from dovetail.quantize.grid import GridGraph, grid_graph
from dovetail.repair import HealedModel, repair
from dovetail.testing.networks import Network, networks
from dovetail.testing.planted import HeldSamples
from dovetail.testing.running import run_graph
from dovetail.testing.strategies import float_graphs

from ..conftest import make_plan, placements

SEED = draws.seed_of(__name__)
"""Other networks in every run; a failure prints it."""


class _Feeds(CalibrationDataReader):
    def __init__(self, feeds: Sequence[dict[str, AnyArray]]) -> None:
        self._left: Iterator[dict[str, AnyArray]] = iter(feeds)

    def get_next(self) -> dict[str, AnyArray] | None:
        return next(self._left, None)


def _feeds(graph: Graph, count: int = 3) -> list[dict[str, AnyArray]]:
    rng = np.random.default_rng(0)
    shapes = {name: graph.types[name].static_shape or () for name in graph.inputs}
    return [{name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()} for _ in range(count)]


def _samples(graph: Graph) -> HeldSamples:
    return HeldSamples([Sample(str(index), feeds) for index, feeds in enumerate(_feeds(graph))])


def _quantised(graph: Graph, low: str, high: str = "") -> QuantizedGraph:
    away = {node.name: Override(parse_placement(high), "a test") for node in graph.nodes[::3] if high}
    plan = Plan(graph.digest, parse_placement(f"reference@{low}"), away)
    return quantize(graph, plan, calibrate(graph, _samples(graph)).ranges)


def _written(graph: Graph, quantized: QuantizedGraph) -> Written:
    return find_format("onnx-grid").write(WriteRequest(quantized.plan, graph, quantized=quantized))


def _derived(graph: Graph, written: Written, folder: Path) -> onnx.ModelProto:
    """Return what ONNX Runtime's quantiser makes of the file and what lies beside it."""
    source, target = folder / "float.onnx", folder / "quantised.onnx"
    source.write_bytes(written.content)
    arguments = quantizer_arguments(written.beside["quantize_static"])
    quantize_static(source, target, _Feeds(_feeds(graph)), **arguments)
    return onnx.load(target)


def _compare(grid: GridGraph, quantized: QuantizedGraph, model: onnx.ModelProto) -> int:
    """Compare every constant of the plan's quantised nodes; return how many there are."""
    integers = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    read = {
        name
        for node in grid.graph.nodes
        if quantized.placements[node.name].precision.is_quantized
        for name in node.inputs
        if name in grid.constants and name not in grid.beyond_32_bits
    }
    for name in sorted(read):
        stored = grid.constants[name].stored
        if name in grid.rounded_biases:
            np.testing.assert_allclose(integers[f"{name}_quantized"], stored, rtol=1e-6)
        else:
            np.testing.assert_array_equal(integers[f"{name}_quantized"].reshape(stored.shape), stored, name)
    return len(read)


@seed(SEED)
@settings(max_examples=60, deadline=None, database=None)
@given(
    graph=st.one_of(networks(12), float_graphs()).map(normalize),
    low=st.sampled_from(["u8", "i8", "i8pc"]),
    high=st.sampled_from(["", "reference@fp32", "reference@i16", "reference@w8a16"]),
)
def test_the_quantiser_derives_the_integers_of_the_plan(
    graph: Graph, low: str, high: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    note(f"seed {SEED}")
    if not graph.nodes:
        return
    quantized = _quantised(graph, low, high)
    model = _derived(graph, _written(graph, quantized), tmp_path_factory.mktemp("grid"))
    _compare(grid_graph(graph, quantized), quantized, model)


@pytest.mark.parametrize("low", ["u8", "i8", "i8pc"])
def test_minimum_and_maximum_alone_give_the_weights(low: str, tmp_path: Path) -> None:
    """No override names a constant: the scale of every weight is in the file."""
    graph = _block(3)
    quantized = _quantised(graph, low)
    written = _written(graph, quantized)
    overrides = quantizer_arguments(written.beside["quantize_static"])["extra_options"]["TensorQuantOverrides"]
    grid = grid_graph(graph, quantized)
    assert not set(overrides) & set(grid.constants)
    assert not written.notes
    assert _compare(grid, quantized, _derived(graph, written, tmp_path)) == 5


@pytest.mark.parametrize("low", ["u8", "i8pc"])
def test_every_activation_has_the_scale_of_the_plan(low: str, tmp_path: Path) -> None:
    graph = _block(4)
    quantized = _quantised(graph, low, "reference@i16")
    model = _derived(graph, _written(graph, quantized), tmp_path)
    values = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    scales: dict[str, set[tuple[float, int]]] = {}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            pair = (float(values[node.input[1]]), int(values[node.input[2]]))
            scales.setdefault(node.input[0].removesuffix("_QuantizeLinear_Input"), set()).add(pair)
    for node in graph.nodes:
        quant = quantized.graph.types[quantized.graph.node(node.name).outputs[0]].quant
        assert quant is not None
        assert (quant.scale[0], quant.zero_point[0]) in scales[node.outputs[0]]


def test_biases_carry_corrections_and_repairs(tmp_path: Path) -> None:
    graph = _block(5)
    start = HealedModel(graph, calibrate(graph, _samples(graph)))
    healed = repair(start, ["equalise", "bias-correction"], per_channel=False)
    assert healed.kinds == ("equalise", "bias-correction")
    plan = Plan(healed.graph.digest, parse_placement("reference@u8"), {}, healed.records)
    quantized = quantize(healed.graph, plan, healed.calibration.ranges)
    model = _derived(healed.graph, _written(healed.graph, quantized), tmp_path)
    grid = grid_graph(healed.graph, quantized)
    assert _compare(grid, quantized, model) == 5
    name = healed.graph.node("n0").inputs[2]
    step = grid.constants[name].kind.quant
    assert step is not None
    moved = np.abs(grid.graph.constants[name] - healed.graph.constants[name])
    assert moved.max() > 2 * step.scale[0], "the correction is in the float bias"


def test_a_scale_that_the_weights_do_not_show_is_handed_over(tmp_path: Path) -> None:
    """Dead weights beside a bias: the plan's scale leaves room for the bias, and no weight is as large as that."""
    graph = _block(6)
    weight = graph.constants["k0"].copy()
    weight[1] = 0.0
    graph = graph.evolve(constants={**graph.constants, "k0": weight})
    quantized = _quantised(graph, "i8pc")
    written = _written(graph, quantized)
    assert grid_graph(graph, quantized).hidden_scales == ("k0",)
    assert "'k0'" in written.notes[0]
    assert _compare(grid_graph(graph, quantized), quantized, _derived(graph, written, tmp_path)) == 5


@pytest.mark.parametrize("low", ["u8", "i8", "i8pc", "i8dfp", "i16", "w8a16"])
def test_the_grid_is_near_the_weights_and_computes_nearly_the_same(low: str) -> None:
    graph = _block(7)
    quantized = _quantised(graph, low)
    grid = grid_graph(graph, quantized)
    for name, constant in grid.constants.items():
        assert constant.kind.quant is not None
        step = constant.kind.quant.scale_array(constant.stored.ndim)
        assert np.all(np.abs(grid.graph.constants[name] - graph.constants[name]) <= 0.501 * step + 1e-6)
    (feeds, *_) = _feeds(graph)
    (before,), (after,) = run_graph(graph, feeds), run_graph(grid.graph, feeds)
    np.testing.assert_allclose(after, before, atol=0.05 * np.abs(before).max())


def test_the_plan_goes_there_and_back(graph: Graph) -> None:
    plan = make_plan(graph, "vsi:v853@u8", sig="vsi:v853@i16", join="cpu@fp32")
    ranges = calibrate(graph, _samples(graph)).ranges
    form = find_format("onnx-grid")
    content = form.write(WriteRequest(plan, graph, quantized=quantize(graph, plan, ranges))).content
    request = ReadRequest(graph, plan.default)
    back = placements(graph, form.read(content, request))
    assert back == placements(graph, plan)
    with pytest.raises(FormatError, match="dovetail_precision"):
        form.read(onnx.ModelProto.FromString(_without_metadata(content)).SerializeToString(), request)
    with pytest.raises(FormatError, match="is not in the file"):
        form.read(content.replace(b"head/conv", b"tail/conv"), request)


def test_a_grid_needs_scales(graph: Graph) -> None:
    with pytest.raises(FormatError, match="give its ranges"):
        find_format("onnx-grid").write(WriteRequest(make_plan(graph, "vsi:v853@u8"), graph))


def _without_metadata(content: bytes) -> bytes:
    model = onnx.ModelProto.FromString(content)
    for node in model.graph.node:
        del node.metadata_props[:]
    data: bytes = model.SerializeToString()
    return data


def _block(number: int) -> Graph:
    """Return two convolutions with a clip between them, and an addend."""
    net = Network(number)
    start = net.op("Relu", net.conv(net.input("x", 1, 3, 6, 6), 8, 3))
    last = net.op("Add", net.conv(start, 4), net.uniform(4, 1, 1))
    return net.graph(last)


def test_a_zero_point_half_way_between_two_integers_is_handed_over(tmp_path: Path) -> None:
    """Weights from -1 to 1 in unsigned bytes: 127.5 is rounded up by some and down by others."""
    net = Network(8)
    weight = net.constant(np.linspace(-1, 1, 36, dtype=np.float32).reshape(4, 9, 1, 1))
    graph = net.graph(net.op("Conv", net.input("x", 1, 9, 4, 4), weight, net.uniform(4), shape=(1, 4, 4, 4)))
    quantized = _quantised(graph, "u8")
    written = _written(graph, quantized)
    grid = grid_graph(graph, quantized)
    assert grid.hidden_scales == (weight,)
    assert _compare(grid, quantized, _derived(graph, written, tmp_path)) == 2


def test_a_pool_with_a_scale_of_its_own_keeps_it(tmp_path: Path) -> None:
    """The bias behind it is at the scale of the pool's output."""
    net = Network(9)
    start = net.op("Relu", net.conv(net.input("x", 1, 3, 8, 8), 8, 3))
    pooled = net.op("AveragePool", start, shape=(1, 8, 1, 1), kernel_shape=(8, 8))
    flat = net.op("Reshape", pooled, net.constant([1, 8]), shape=(1, 8))
    graph = net.graph(net.op("Gemm", flat, net.uniform(5, 8), net.uniform(5), shape=(1, 5), transB=1))
    quantized = _quantised(graph, "i8pc")
    assert _compare(grid_graph(graph, quantized), quantized, _derived(graph, _written(graph, quantized), tmp_path)) == 4


def test_a_bias_beyond_32_bits_is_told(tmp_path: Path) -> None:
    """Plans have biases of 64 bits beside 16-bit weights; the quantiser has none, and takes coarser weights."""
    net = Network(2)
    weight, bias = net.constant(np.full((1, 1, 1, 1), 0.0473, np.float32)), net.constant(np.asarray([0.9], np.float32))
    graph = net.graph(net.op("Conv", net.input("x", 1, 1, 2, 2), weight, bias, shape=(1, 1, 2, 2)))
    quantized = _quantised(graph, "i16")
    grid = grid_graph(graph, quantized)
    assert np.abs(grid.constants[bias].stored).max() > 2**31
    assert set(grid.beyond_32_bits) == {weight, bias}
    written = _written(graph, quantized)
    assert any("32 bits" in note and weight in note for note in written.notes)
    assert _compare(grid, quantized, _derived(graph, written, tmp_path)) == 0
    small = _quantised(graph, "i8")
    assert grid_graph(graph, small).beyond_32_bits == ()
