"""Peaks of memory, against timelines by hand."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.cost.memory import estimate_memory
from dovetail.cost.record import MemoryCost
from dovetail.ir import Graph, parse_graph
from dovetail.ir.precision import Precision
from dovetail.plan import Placement

A8, A16, B8 = Placement("A", Precision.I8), Placement("A", Precision.I16), Placement("B", Precision.I8)


def _peaks(graph: Graph, placements: Mapping[str, Placement]) -> Mapping[str, int]:
    return estimate_memory(graph, placements, {}, 0).activations


def _graph(*lines: str) -> Graph:
    return parse_graph("\n".join(['graph "g" opset 21', *lines, "end", ""]))


def test_a_chain_holds_two_neighbours_and_frees_the_rest() -> None:
    graph = _graph(
        'input "x": f32[1000]',
        '"a" = Relu("x") -> ("ta": f32[100])',
        '"b" = Relu("ta") -> ("tb": f32[20])',
        '"c" = Relu("tb") -> ("tc": f32[70])',
        '"d" = Relu("tc") -> ("td": f32[40])',
        'output "td"',
    )
    # The graph's input is the caller's. While b runs 100 + 20 are alive, then 20 + 70, then 70 + 40.
    assert _peaks(graph, dict.fromkeys("abcd", A8)) == {"A": 120}
    assert _peaks(graph, {**dict.fromkeys("abd", A8), "c": A16}) == {"A": 70 * 2 + 40}


def test_a_tensor_lives_until_its_last_reader_and_an_output_to_the_end() -> None:
    lines = (
        'input "x": f32[1]',
        '"a" = Relu("x") -> ("ta": f32[100])',
        '"b" = Relu("ta") -> ("tb": f32[10])',
        '"c" = Relu("tb") -> ("tc": f32[10])',
        '"d" = Add("tc", "ta") -> ("td": f32[7])',
        '"e" = Relu("td") -> ("te": f32[200])',
    )
    places = dict.fromkeys("abcde", A8)
    # Then ta and tc end with d, and 7 + 200 remain; with tb an output, 10 more.
    assert _peaks(_graph(*lines, 'output "te"'), places) == {"A": 207}
    assert _peaks(_graph(*lines, 'output "te"', 'output "tb"'), places) == {"A": 217}
    assert _peaks(_graph(*lines, 'output "te"', 'output "ta"'), places) == {"A": 307}


def test_a_tensor_that_nobody_reads_ends_with_its_node() -> None:
    graph = _graph(
        'input "x": f32[8]',
        '"a" = Split("x") -> ("t1": f32[50], "", "t2": f32[30])',
        '"b" = Relu("t2") -> ("t3": f32[45])',
        '"c" = Relu("t3") -> ("t4": f32[1])',
        'output "t4"',
    )
    assert _peaks(graph, dict.fromkeys("abc", A8)) == {"A": 80}
    longer = _graph(
        'input "x": f32[8]',
        '"a" = Split("x") -> ("t1": f32[50], "", "t2": f32[30])',
        '"b" = Relu("t2") -> ("t3": f32[60])',
        'output "t3"',
    )
    assert _peaks(longer, dict.fromkeys("ab", A8)) == {"A": 90}


def test_targets_have_peaks_of_their_own() -> None:
    graph = _graph(
        'input "x": f32[1]',
        '"a" = Relu("x") -> ("ta": f32[100])',
        '"b" = Relu("ta") -> ("tb": f32[30])',
        '"c" = Relu("tb") -> ("tc": f32[20])',
        'output "tc"',
    )
    # The tensor that B reads lies with A until B has read it.
    assert _peaks(graph, {"a": A8, "b": B8, "c": A8}) == {"A": 100, "B": 30}
    assert _peaks(graph, {"a": A8, "b": B8, "c": B8}) == {"A": 100, "B": 50}


def test_constants_are_weights_and_no_activations() -> None:
    graph = _graph(
        'input "x": f32[2]',
        'constant "k": f32[2] = [1, 2]',
        '"a" = Add("x", "k") -> ("ta": f32[2])',
        'output "ta"',
        'output "k"',
    )
    memory = estimate_memory(graph, {"a": A8}, {"A": 5}, 11)
    assert memory == MemoryCost({"A": 5}, {"A": 2}, 11)
    assert memory.total_bytes == 5 + 2 + 11


def test_the_total_adds_targets() -> None:
    assert MemoryCost({"A": 1, "B": 20}, {"A": 300, "B": 4000}, 50000).total_bytes == 54321
