"""Random graphs: the same for the same seed, as uneven as they are meant to be, and smaller on request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import draws
import numpy as np
import pytest

from dovetail.backend.protocols import Signature
from dovetail.backends.reference import run_graph
from dovetail.backends.verisilicon.emulator.executable import Emulation
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.ir import DType
from dovetail.testing.running import run_graph as run_onnx
from dovetail.testing.wild.campaign import WildCell, WildKind
from dovetail.testing.wild.case import WildCase, read_case
from dovetail.testing.wild.chains import wild_chain
from dovetail.testing.wild.deploying import deploy
from dovetail.testing.wild.graphs import wild_graph
from dovetail.testing.wild.merges import wild_merge
from dovetail.testing.wild.shrinking import shrunk
from dovetail.testing.wild.trios import wild_trio

SEEDS = range(40)


def test_the_same_seed_gives_the_same_graph() -> None:
    assert [wild_graph(seed).graph.digest for seed in range(5)] == [wild_graph(seed).graph.digest for seed in range(5)]
    cells = [WildCell(kind, "vsi:v853", 3, 4).draw()[1].graph.digest for kind in (*WildKind, *WildKind)]
    assert cells[: len(WildKind)] == cells[len(WildKind) :]


def test_graphs_are_small_networks_of_many_kinds() -> None:
    graphs = [wild_graph(seed).graph for seed in SEEDS]
    assert all(4 <= len(graph.nodes) <= 30 for graph in graphs)
    ops = {node.op for graph in graphs for node in graph.nodes}
    assert {"Conv", "ConvTranspose", "MatMul", "Softmax", "Concat", "Resize", "Transpose", "LayerNormalization"} <= ops
    batches = {(graph.types[graph.inputs[0]].static_shape or ())[0] for graph in graphs}
    assert batches == {1, 2, 3}


@pytest.mark.parametrize("seed", range(6))
def test_graphs_compute_what_onnx_runtime_computes(seed: int) -> None:
    case = wild_graph(seed)
    (sample,) = case.samples(1)
    ours = run_graph(case.graph, sample)
    for name, theirs in zip(case.graph.outputs, run_onnx(case.graph, sample), strict=True):
        size = float(np.abs(theirs).max())
        np.testing.assert_allclose(ours[name], theirs, rtol=1e-3, atol=1e-3 * max(size, 1e-6))


def test_whatever_a_part_accepts_is_emulated() -> None:
    seed = draws.seed_here()
    print(f"seed {seed}")  # noqa: T201
    kinds = (
        WildKind.GRAPH,
        WildKind.MIXTURE,
        WildKind.TRIO,
        WildKind.TRIO,
        WildKind.MERGE,
        WildKind.MERGE,
        WildKind.CHAIN,
    )
    for index in range(6 * len(kinds)):
        profile, kind = VSI_PROFILES[index % len(VSI_PROFILES)], kinds[index // 6]
        precision, case = WildCell(kind, profile.name, seed, index).draw()
        for part in deploy(case, profile, precision)[1]:
            emulation = Emulation(part.program, Signature.of(part.graph))
            for sample in part.samples:
                found = emulation.run(sample)
                assert {name: tuple(value.shape) for name, value in found.items()} == {
                    name: part.graph.types[name].static_shape for name in part.graph.outputs
                }


def test_merges_are_of_two_tensors_that_many_operators_make() -> None:
    graphs = [wild_merge(seed).graph for seed in range(80)]
    merging = {"Add", "Sub", "Mul", "Max", "Min", "Div", "Concat"}
    assert all(any(node.op in merging and len(node.inputs) == 2 for node in graph.nodes) for graph in graphs)
    made = [{output: node.op for node in graph.nodes for output in node.outputs} for graph in graphs]
    makers = {maker for one in made for maker in one.values()}
    assert {"Conv", "ConvTranspose", "AveragePool", "MaxPool", "Resize", "BatchNormalization", "PRelu"} <= makers
    merged = [(graph, node) for graph in graphs for node in graph.nodes if node.op in merging]
    assert any(graph.constants.keys() & set(node.inputs) for graph, node in merged)


def test_chains_end_in_what_only_moves_values() -> None:
    graphs = [wild_chain(seed).graph for seed in range(120)]
    moves = {
        "Transpose",
        "Reshape",
        "Slice",
        "Split",
        "Concat",
        "Pad",
        "DepthToSpace",
        "SpaceToDepth",
        "Tile",
        "Gather",
    }
    last = [{node.op for node in graph.nodes if set(node.outputs) & set(graph.outputs)} for graph in graphs]
    assert all(ops & moves for ops in last)
    assert moves <= set[str]().union(*last)


def test_a_case_is_read_as_it_was_written(tmp_path: Path) -> None:
    case, path = wild_graph(3), tmp_path / "case.npz"
    case = replace(case, raised=frozenset({case.graph.nodes[1].name}))
    path.write_bytes(case.to_bytes({"target": "vsi:v853"}))
    again, facts = read_case(path)
    assert facts == {"target": "vsi:v853"}
    assert again.graph.digest == case.graph.digest
    assert again.raised == case.raised
    assert again.calibration() == case.calibration()
    for one, other in zip(case.samples(3), again.samples(3), strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)


def _has_a_wide_softmax(case: WildCase) -> bool:
    return any(
        node.op == "Softmax" and (case.graph.types[node.outputs[0]].static_shape or ())[-1] >= 3
        for node in case.graph.nodes
    )


def test_a_case_is_made_as_small_as_what_it_shows() -> None:
    case = next(case for case in map(wild_graph, SEEDS) if len(case.graph.nodes) > 8 and _has_a_wide_softmax(case))
    small = shrunk(case, _has_a_wide_softmax, most=500)
    assert [node.op for node in small.graph.nodes] == ["Softmax"]
    (shape,) = (small.graph.types[name].static_shape for name in small.graph.inputs)
    assert shape is not None
    assert shape[-1] == 3
    assert set(shape[:-1]) == {1}
    assert run_graph(small.graph, small.samples(1)[0])[small.graph.outputs[0]].shape == shape


def test_what_needs_too_many_questions_stays_large() -> None:
    case = wild_graph(11)
    asked: list[WildCase] = []

    def never(smaller: WildCase) -> bool:
        asked.append(smaller)
        return False

    assert shrunk(case, never, most=7) is case
    assert len(asked) == 7


def test_samples_stay_within_the_ranges() -> None:
    case = wild_graph(5)
    for sample in case.samples(4):
        for name, value in sample.items():
            assert float(value.min()) >= np.float32(case.ranges[name].low)
            assert float(value.max()) <= np.float32(case.ranges[name].high)


def test_a_mixture_has_nodes_at_both_widths() -> None:
    precision, case = WildCell(WildKind.MIXTURE, "vsi:v853", 3, 4).draw()
    assert precision.bits == 8
    _, parts = deploy(case, VSI_PROFILES[0], precision)
    stored = {kind.dtype for part in parts for kind in part.graph.types.values() if kind.quant is not None}
    assert {DType.U8, DType.I8} & stored
    assert DType.I16 in stored


def test_a_trio_has_neighbours_and_is_drawn_again() -> None:
    drawn = [wild_trio("MatMul", seed) for seed in range(20)]
    cases = [case for case in drawn if case is not None]
    assert len(cases) > 10
    assert any(len(case.graph.nodes) > 2 for case in cases)
    assert all(any(node.op == "MatMul" for node in case.graph.nodes) for case in cases)
    again = wild_trio("MatMul", cases[0].seed)
    assert again is not None
    assert again.graph.digest == cases[0].graph.digest
