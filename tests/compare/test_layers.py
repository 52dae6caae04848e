"""Comparing a bundle with its float model, layer by layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dovetail
from dovetail.compare import CompareOptions, CompareVerdict, LayerRequest, TaskCheck, compare_layers, load_metric
from dovetail.compare.isolate import bundle_ranges, worst_error
from dovetail.compare.layers import align_tensors, judge_layers, run_layers, stack_samples
from dovetail.data import SampleSource
from dovetail.errors import DataError, PlanError
from dovetail.ir import Graph, as_constant, parse_graph
from dovetail.quantize import Calibration

TEXT = """graph "g" opset 21
input "x": f32["N", 4]
constant "w": f32[4, 4] = @w
constant "v": f32[4, 3] = @v
"first" = Gemm("x", "w") -> ("a": f32["N", 4]) {}
"clamp" = Relu("a") -> ("b": f32["N", 4]) {}
"second" = Gemm("b", "v") -> ("c": f32["N", 3]) {}
"third" = Sigmoid("c") -> ("y": f32["N", 3]) {}
output "y"
end
"""


def net(spread: float) -> Graph:
    """Two layers; the channels of the tensor between them are `spread` apart."""
    rng = np.random.default_rng(2)
    text = "\n".join(line for line in TEXT.splitlines() if not line.startswith("constant"))
    lines = text.splitlines()
    lines[2:2] = ['input "w": f32[4, 4]', 'input "v": f32[4, 3]']
    graph = parse_graph("\n".join(lines) + "\n")
    scale = np.array([1, 1, 1, spread])
    weights = {
        "w": as_constant(rng.uniform(0.2, 1, size=(4, 4)) * scale, np.float32),
        "v": as_constant(rng.normal(size=(4, 3)) / scale[:, None], np.float32),
    }
    return graph.evolve(inputs=("x",), constants=weights)


def made(graph: Graph, place: str = "vsi:v853@i8pc") -> tuple[dovetail.Bundle, Calibration, dovetail.Graph]:
    """Calibrate and compile a graph with everything at one placement."""
    samples = data(graph)
    calibration = dovetail.calibrate(graph, samples)
    plan = dovetail.make_plan(
        graph,
        dovetail.Recipe(dovetail.parse_placement(place)),
        {target.name: target for target in dovetail.known_targets()},
    )
    parts = dovetail.partition(dovetail.quantize(graph, plan, calibration.ranges))
    return dovetail.compile_model(parts), calibration, graph


def data(graph: Graph) -> SampleSource:
    """Return 24 samples with labels."""
    rng = np.random.default_rng(3)
    rows = [{"x": row[None]} for row in rng.uniform(0, 1, size=(24, 4)).astype(np.float32)]
    return dovetail.open_samples(rows, dovetail.specs_of(graph))


def test_a_float_bundle_is_golden() -> None:
    bundle, _, graph = made(net(1.0), "cpu@fp32")
    found = compare_layers(LayerRequest(graph, bundle, data(graph)))
    assert found.verdict is CompareVerdict.PASS
    assert {row.isolated_error for row in found.rows} == {0.0}
    assert all((row.sqnr_db or 0.0) > 100 for row in found.rows)


def test_what_repairs_change_is_seen_in_the_outputs_and_not_inside() -> None:
    """The golden outputs are those of the model as shipped; inside only the repaired graph has these tensors."""
    bundle, _, graph = made(net(1.0), "cpu@fp32")
    shipped = graph.evolve(constants={**graph.constants, "v": as_constant(graph.constants["v"] * 3, np.float32)})
    request = LayerRequest(graph, bundle, data(graph), isolate=False, shipped=shipped)
    runs = run_layers(request)
    assert not np.allclose(runs.golden["y"], runs.repaired["y"], atol=0.01)
    np.testing.assert_allclose(runs.measured["y"], runs.repaired["y"], rtol=1e-5)
    rows = {row.name: row.sqnr_db or 0.0 for row in judge_layers(request, runs).rows}
    assert rows["y"] < 30 < 100 < rows["b"]


def test_the_layer_that_loses_a_channel_is_blamed_and_those_behind_it_are_not() -> None:
    bundle, _, graph = made(net(1e-4))
    found = compare_layers(LayerRequest(graph, bundle, data(graph)))
    errors = {row.name: row.isolated_error for row in found.rows}
    # The channel is below one step of 'b', in whose unit the clamp is; 'a' never exists by itself.
    assert set(errors) == {"b", "c", "y"}
    assert errors["b"] == pytest.approx(1.0, abs=0.3)
    assert (errors["y"] or 0.0) < 0.05
    origins = {row.name: row.origin for row in found.rows}
    assert origins == {"b": "clamp", "c": "second", "y": "third"}
    assert [row.name for row in found.rows] == sorted(errors, key=lambda name: -(errors[name] or 0.0))


def test_isolated_errors_are_small_where_eight_bits_do() -> None:
    bundle, _, graph = made(net(1.0))
    found = compare_layers(LayerRequest(graph, bundle, data(graph)))
    assert found.verdict is CompareVerdict.PASS
    assert all(0 < (row.isolated_error or 0.0) < 0.05 for row in found.rows)


@pytest.mark.parametrize("place", ["vsi:v853@i8pc", "vsi:v853@u8", "vsi:v853@i16", "vsi:v853@i8dfp", "vsi:v853@i8"])
def test_ranges_of_a_bundle_give_its_scales_again(place: str) -> None:
    bundle, _, graph = made(net(1.0), place)
    plan = bundle.plan
    again = dovetail.quantize(graph, plan, bundle_ranges(graph, bundle)).graph
    for name, kind in bundle.tensors.items():
        if kind.quant is not None:
            other = again.types[name].quant
            assert other is not None
            np.testing.assert_allclose(other.scale, kind.quant.scale, rtol=1e-6)
            assert other.zero_point == kind.quant.zero_point


def test_tasks_are_judged_on_outputs_alone() -> None:
    bundle, _, graph = made(net(1.0))
    options = CompareOptions(tasks=(TaskCheck(load_metric("top1_agreement"), 0.5),))
    found = compare_layers(LayerRequest(graph, bundle, data(graph), options))
    assert [task.name for task in found.tasks] == ["top1_agreement"]
    assert found.tasks[0].golden == 1.0


def test_without_layers_only_outputs_are_compared() -> None:
    bundle, _, graph = made(net(1.0))
    found = compare_layers(LayerRequest(graph, bundle, data(graph), layers=False))
    assert [row.name for row in found.rows] == ["y"]
    assert found.rows[0].isolated_error is None


def test_another_graph_is_refused() -> None:
    bundle, _, graph = made(net(1.0))
    with pytest.raises(PlanError, match="made for graph"):
        compare_layers(LayerRequest(net(2.0), bundle, data(graph)))


def test_renamed_tensors_are_found_by_origin() -> None:
    bundle, _, graph = made(net(1.0))
    renamed = replace(
        bundle,
        partitions=tuple(
            replace(part, tensors={f"{name}!" if name == "b" else name: kind for name, kind in part.tensors.items()})
            for part in bundle.partitions
        ),
        origins={**bundle.origins, "b!": "b"},
    )
    assert align_tensors(graph, renamed)["b"] == "b!"


def test_worst_error_looks_at_every_channel() -> None:
    golden = np.array([[100.0, 1.0, 0.0], [200.0, 2.0, 0.0]])
    measured = golden + np.array([1.0, 0.5, 3.0])
    # Channel 1: sqrt(2 * 0.25 / 5); channel 2 is silent and left out.
    assert worst_error([golden], [measured]) == pytest.approx(np.sqrt(0.5 / 5))
    assert worst_error([golden], [golden]) == 0.0


def test_samples_of_several_shapes_cannot_be_stacked() -> None:
    with pytest.raises(DataError, match="differs in shape"):
        stack_samples("t", [np.zeros((1, 2)), np.zeros((1, 3))])
    assert stack_samples("t", [np.zeros((1, 2)), np.ones((1, 2))]).shape == (2, 2)
    assert stack_samples("t", [np.zeros(3), np.ones(3)]).shape == (2, 3)
