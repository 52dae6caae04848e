"""The layout of networks in layers."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from dovetail.report.layers import layer_units


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Draw what every unit reads: units before it."""
    count = draw(st.integers(1, 40))
    return [
        sorted(draw(st.sets(st.integers(max(0, unit - 30), unit - 1), max_size=3))) if unit else []
        for unit in range(count)
    ]


@given(graphs())
def test_every_unit_is_below_what_it_reads_and_beside_no_other(inputs: list[list[int]]) -> None:
    layout = layer_units(inputs)
    assert len(layout.places) == len(inputs)
    for unit, before in enumerate(inputs):
        for source in before:
            assert layout.places[source][0] < layout.places[unit][0]
    for (layer, at), (other, there) in combinations(layout.places, 2):
        assert layer != other or abs(at - there) > 1 - 1e-6


@given(graphs())
def test_an_edge_bends_in_every_layer_that_it_passes_and_not_in_a_unit(inputs: list[list[int]]) -> None:
    layout = layer_units(inputs)
    for unit, before in enumerate(inputs):
        for source, bends in zip(before, layout.routes[unit], strict=True):
            first, last = layout.places[source][0], layout.places[unit][0]
            if last - first > 24:
                assert bends == ()
                continue
            assert len(bends) == last - first - 1
            for level, bend in enumerate(bends, first + 1):
                assert all(layer != level or abs(at - bend) > 0.5 for layer, at in layout.places)


def test_a_chain_is_a_straight_line() -> None:
    layout = layer_units([[], *([unit] for unit in range(30))])
    assert {at for _, at in layout.places} == {0.0}
    assert all(after[0] - before[0] == 1 for before, after in pairwise(layout.places))


def test_branches_stand_beside_the_middle() -> None:
    layout = layer_units([[], [0], [0], [1, 2]])
    (_, left), (_, right) = layout.places[1:3]
    assert left == -right != 0
    assert layout.places[3][1] == layout.places[0][1]
