"""A model that arrived quantised becomes a float model with the ranges of its own scales."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dovetail.backend.registry import find_target
from dovetail.backends.reference import run_graph
from dovetail.compare.classification import Top1Agreement
from dovetail.data import open_samples, specs_of, split_samples
from dovetail.importers import load_model
from dovetail.ir import DType, Graph, Node, Quantization, TensorType, dequantize_array, quantize_array
from dovetail.passes import normalize
from dovetail.plan import Recipe, make_plan, parse_placement
from dovetail.quantize import calibrate, dequantize, is_quantized, quantize
from dovetail.quantize.calibrate import load_float
from dovetail.search import TuneOptions, TuneRequest, parse_goal, tune

pytestmark = pytest.mark.models

UINT8 = "mbv1_uint8_coral/mobilenet_v1_0.25_128_quant.tflite"
INT8 = "ic01_resnet8_cifar10/resnet8_int8.tflite"
BOTH = {UINT8: "u8", INT8: "i8pc"}


def _load(models: Path, name: str) -> Graph:
    return normalize(load_model(models / name))


def _reals(graph: Graph, count: int) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    """Return inputs that the quantised model can represent."""
    generator = np.random.default_rng(2)
    kind = graph.types[graph.inputs[0]]
    assert kind.quant is not None
    shape = kind.static_shape or ()
    smooth = generator.normal(size=(count, *shape)).cumsum(axis=3) * 20
    stored = np.clip(smooth - smooth.mean(), *kind.dtype.integer_range).astype(kind.dtype.carrier)
    return [dequantize_array(item, kind.quant) for item in stored]


@pytest.mark.parametrize("name", BOTH)
def test_nothing_stays_quantised_and_names_stay(models: Path, name: str) -> None:
    source = _load(models, name)
    lifted = dequantize(source)
    assert is_quantized(source)
    assert not is_quantized(lifted.graph)
    assert lifted.graph.inputs == source.inputs
    assert lifted.graph.outputs == source.outputs
    assert all(lifted.graph.types[name].dtype is DType.F32 for name in lifted.graph.inputs)
    assert lifted.ranges.graph_digest == lifted.graph.digest


@pytest.mark.parametrize("name", BOTH)
def test_quantised_again_it_is_what_it_was(models: Path, name: str) -> None:
    source = _load(models, name)
    lifted = dequantize(source)
    place = parse_placement(f"reference@{BOTH[name]}")
    plan = make_plan(lifted.graph, Recipe(place), {"reference": find_target("reference")})
    again = quantize(lifted.graph, plan, lifted.ranges).graph
    for real in _reals(source, 2):
        kind = source.types[source.inputs[0]]
        assert kind.quant is not None
        stored = quantize_array(real, kind.dtype, kind.quant)
        before = run_graph(source, {source.inputs[0]: stored})[source.outputs[0]]
        after = run_graph(again, {again.inputs[0]: real})[again.outputs[0]]
        out = source.types[source.outputs[0]]
        assert out.quant is not None
        steps = np.abs(dequantize_array(before, out.quant) - after) / out.quant.scale[0]
        # Weights get scales of their own again, and a Softmax in steps of 1/256 shows that: within 3 %.
        assert steps.max() <= 8


def test_ranges_are_those_of_the_scales(models: Path) -> None:
    source = _load(models, INT8)
    lifted = dequantize(source)
    name = source.nodes[1].outputs[0]
    quant = source.types[name].quant
    assert quant is not None
    limits = lifted.ranges.of(name)
    np.testing.assert_allclose(limits.high - limits.low, 255 * quant.scale[0], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", BOTH)
def test_tune_lifts_a_quantised_model(models: Path, name: str, tmp_path: Path) -> None:
    lifted = dequantize(_load(models, name))
    graph = lifted.graph
    samples = open_samples(_reals(_load(models, name), 12), specs_of(graph))
    calibration = lifted.refine(calibrate(graph, samples))
    assert calibration.ranges.method.startswith("file+")
    request = TuneRequest(
        graph=graph,
        calibration=calibration,
        samples=samples,
        splits=split_samples(samples),
        metric=Top1Agreement(),
        goal=parse_goal("0.3"),
        low=parse_placement(f"vsi:v853@{BOTH[name]}"),
        ladder=(parse_placement("vsi:v853@i16"),),
        options=TuneOptions(journal=tmp_path / "journal.sqlite"),
    )
    result = tune(request)
    assert result.plan.graph_digest == graph.digest
    assert result.unit_count > 5


def test_what_the_zero_point_clamps_stays_clamped() -> None:
    """Exporters drop a Relu in front of unsigned integers with zero point 0: saturation does its work."""
    x = TensorType(DType.F32, (1, 2))
    u8 = TensorType(DType.U8, (1, 2), Quantization((0.5,), (0,)))
    i8 = TensorType(DType.I8, (1, 2), Quantization((0.5,), (-3,)))
    graph = Graph(
        "saturating",
        (
            Node("q", "QuantizeLinear", ("x",), ("xi",)),
            Node("add", "Add", ("xi", "xi"), ("sum",)),
            Node("dq", "DequantizeLinear", ("sum",), ("y",)),
        ),
        ("x",),
        ("y",),
        {"x": x, "xi": i8, "sum": u8, "y": x},
    )
    lifted = dequantize(graph).graph
    executable = load_float(lifted)
    (made,) = executable.run({"x": np.array([[-3.0, 4.0]], np.float32)}).values()
    assert made.tolist() == [[0.0, 8.0]]
