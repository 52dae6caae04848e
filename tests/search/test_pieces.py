"""A plan that runs piece by piece gives what the whole gives, whatever ran before it."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dovetail.backend.protocols import CompileOptions, Executable, Fidelity, Signature
from dovetail.backend.registry import backend, find_target
from dovetail.data import Sample
from dovetail.data.batches import Batch
from dovetail.ir import AnyArray, Graph
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import calibrate
from dovetail.quantize.quantizer import Quantizer
from dovetail.search import pieces
from dovetail.search.pieces import Line, Pieces, cut_points
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples

LOW = parse_placement("vsi:a311d@u8")
FLOAT = parse_placement("cpu@fp32")
SHAPE = (1, 8, 12, 12)
BLOCK = (4, 2)


def _residual(blocks: int = 6, every: int = 2) -> Graph:
    """Return blocks of two convolutions; a skip goes around every other one, say, and one to an output of its own."""
    net = Network()
    made = net.input("x", *SHAPE)
    early = ""
    for number in range(blocks):
        inner = net.op("Relu", net.conv(made, 8, 3))
        inner = net.conv(inner, 8, 3)
        made = net.op("Add", made, inner) if number % every == every - 1 else net.op("Relu", inner)
        early = early or made
    return net.graph(made, net.op("Sigmoid", early))


class _Bench:
    """Run plans of one graph, and count what is built and run."""

    def __init__(self, graph: Graph, most: int) -> None:
        rng = np.random.default_rng(0)
        self.batches = [Batch({"x": rng.normal(size=SHAPE).astype(np.float32)}, ()) for _ in BLOCK]
        held = HeldSamples([Sample(str(index), dict(batch.inputs)) for index, batch in enumerate(self.batches)])
        self._quantizer = Quantizer(graph, calibrate(graph, held).ranges)
        self._graph = graph
        self._simulator = backend("npusim")
        self.pieces = Pieces(graph, self._load, most)
        self.built = 0
        self.runs = 0

    def _load(self, graph: Graph) -> Executable:
        self.built += 1
        options = CompileOptions(fidelity=Fidelity.FAST)
        blob = self._simulator.compile(graph, find_target(LOW.target), options)
        return _Counted(self._simulator.devices()[0].load(blob, Signature.of(graph)), self)

    def line(self, raised: tuple[str, ...] = (), lowest: object = LOW) -> Line:
        low, high = (LOW, FLOAT) if lowest is LOW else (FLOAT, LOW)
        plan = Plan(self._graph.digest, low, {name: Override(high, "") for name in raised})
        return self.pieces.line_up(self._quantizer.quantize(plan).graph)

    def outputs(self, raised: tuple[str, ...] = (), lowest: object = LOW) -> list[dict[str, AnyArray]]:
        found = self.pieces.run(self.line(raised, lowest), BLOCK, self.batches)
        return [{name: item[name] for name in self._graph.outputs} for item in found]


@dataclass
class _Counted:
    """Run what another executable runs, and count it."""

    made: Executable
    bench: _Bench

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        self.bench.runs += 1
        return self.made.run(inputs, taps)

    def close(self) -> None:
        self.made.close()


def _same(one: list[dict[str, AnyArray]], other: list[dict[str, AnyArray]]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(np.array_equal(mine[name], theirs[name]) for mine, theirs in pairs for name in mine)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("lowest", [LOW, FLOAT], ids=["mostly low", "mostly float"])
def test_pieces_give_the_bits_of_the_whole_in_any_order(lowest: object, every: int) -> None:
    graph = _residual(every=every)
    whole, cut, other = _Bench(graph, 1), _Bench(graph, 6), _Bench(graph, 6)
    names = [node.name for node in graph.nodes]
    plans = [(), *((name,) for name in names[::3]), *itertools.pairwise(names[::5])]
    assert len(whole.line().pieces) == 1
    assert len(cut.line().pieces) > 2
    wanted = [whole.outputs(plan, lowest) for plan in plans]
    assert all(_same(cut.outputs(plan, lowest), want) for plan, want in zip(plans, wanted, strict=True))
    backwards = zip(reversed(plans), reversed(wanted), strict=True)
    assert all(_same(other.outputs(plan, lowest), want) for plan, want in backwards)


def test_a_plan_that_differs_at_the_end_builds_and_runs_only_the_end() -> None:
    graph = _residual()
    bench = _Bench(graph, 6)
    bench.outputs()
    built, runs = bench.built, bench.runs
    assert built == len(bench.line().pieces)
    assert runs == built * len(bench.batches)
    bench.outputs((graph.nodes[-2].name,))
    assert bench.built == built + 1
    assert bench.runs == runs + len(bench.batches)


def test_what_does_not_fit_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_STATE_BYTES", 1)
    monkeypatch.setattr(pieces, "_BUILT_BYTES", 1)
    bench = _Bench(_residual(), 6)
    first = bench.outputs()
    runs = bench.runs
    assert _same(bench.outputs(), first)
    assert bench.runs == 2 * runs


def test_what_a_key_names_stays_alive() -> None:
    """A key names constants by their identity, which another array may get as soon as they are gone."""
    bench = _Bench(_residual(), 6)
    graph = bench.line().graph
    copied = replace(graph, constants={name: array.copy() for name, array in graph.constants.items()})
    seen = [weakref.ref(array) for array in copied.constants.values()]
    bench.pieces.line_up(copied)
    del copied
    gc.collect()
    assert all(array() is not None for array in seen)


def test_a_convolution_that_adds_in_float_is_not_cut_from_its_sum() -> None:
    bench = _Bench(_residual(every=1), 6)
    assert len(bench.line((), FLOAT).pieces) < len(bench.line().pieces)


def test_cuts_leave_a_clamp_with_its_operator_and_a_small_graph_whole() -> None:
    net = Network()
    made = net.input("x", *SHAPE)
    for _ in range(12):
        made = net.op("Relu", net.conv(made, 8, 3))
    graph = net.graph(made)
    ends = cut_points(graph, 6)
    assert len(ends) == 5
    assert all(graph.node(name).op == "Relu" for name in ends)
    assert cut_points(graph, 1) == ()
    assert len(_Bench(_residual(1), 6).line().pieces) == 1
