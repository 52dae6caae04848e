"""A plan that runs piece by piece gives what the whole gives, whatever ran before it."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Barrier, current_thread

import numpy as np
import pytest
import work

from dovetail.backend.protocols import CompileOptions, Executable, ExecutableAbilities, Fidelity, Signature
from dovetail.backend.registry import backend, find_target
from dovetail.compare.task import callable_metric
from dovetail.data import Sample
from dovetail.data.batches import Batch
from dovetail.ir import AnyArray, Graph
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import calibrate
from dovetail.quantize.quantizer import Quantizer
from dovetail.search.cuts import cut_points
from dovetail.search.evaluator import EvaluationData, Scorer
from dovetail.search.outputs import KeptOutputs
from dovetail.search.pieces import PiecedGraph, Pieces
from dovetail.search.policy import CutPolicy, EvaluationPolicy
from dovetail.search.samples import SampleSet
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples, labelled_samples, planted_detector

LOW = parse_placement("vsi:a311d@u8")
FLOAT = parse_placement("cpu@fp32")
SHAPE = (1, 8, 12, 12)
BLOCK = (4, 2, 5)


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


def _policy(most: int, **bounds: int) -> EvaluationPolicy:
    return EvaluationPolicy(CutPolicy(pieces=most), **bounds)


class _Runner:
    """Run plans of one graph, and count what is built and run."""

    def __init__(self, graph: Graph, most: int, threads: int = 1, **bounds: int) -> None:
        rng = np.random.default_rng(0)
        self.batches = [Batch({"x": rng.normal(size=SHAPE).astype(np.float32)}, ()) for _ in BLOCK]
        held = HeldSamples([Sample(str(index), dict(batch.inputs)) for index, batch in enumerate(self.batches)])
        self._quantizer = Quantizer(graph, calibrate(graph, held).ranges)
        self._graph = graph
        self._simulator = backend("npusim")
        self.pieces = Pieces(graph, self._load, _policy(most, **bounds), threads)
        self.meeting: Barrier | None = None
        self.concurrent = True
        self.threads: set[str] = set()
        self.built = 0
        self.runs = 0

    def _load(self, graph: Graph) -> Executable:
        self.built += 1
        options = CompileOptions(fidelity=Fidelity.FAST)
        blob = self._simulator.compile(graph, find_target(LOW.target), options)
        return _Counted(self._simulator.devices()[0].load(blob, Signature.of(graph)), self)

    def cut(self, raised: tuple[str, ...] = (), lowest: object = LOW) -> PiecedGraph:
        low, high = (LOW, FLOAT) if lowest is LOW else (FLOAT, LOW)
        plan = Plan(self._graph.digest, low, {name: Override(high, "") for name in raised})
        return self.pieces.cut(self._quantizer.quantize(plan).graph)

    def outputs(self, raised: tuple[str, ...] = (), lowest: object = LOW) -> list[dict[str, AnyArray]]:
        results = self.pieces.run(self.cut(raised, lowest), BLOCK, self.batches)
        return [{name: item[name] for name in self._graph.outputs} for item in results]


@dataclass
class _Counted:
    """Run what another executable runs, and count it."""

    executable: Executable
    runner: _Runner

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        self.runner.runs += 1
        self.runner.threads.add(current_thread().name)
        if self.runner.meeting is not None:
            self.runner.meeting.wait(work.PATIENCE_S)
        return self.executable.run(inputs, taps)

    def abilities(self) -> ExecutableAbilities:
        return replace(self.executable.abilities(), concurrent=self.runner.concurrent)

    def close(self) -> None:
        self.executable.close()


def _same(one: list[dict[str, AnyArray]], other: list[dict[str, AnyArray]]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(np.array_equal(mine[name], theirs[name]) for mine, theirs in pairs for name in mine)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("lowest", [LOW, FLOAT], ids=["mostly low", "mostly float"])
def test_pieces_give_the_bits_of_the_whole_in_any_order(lowest: object, every: int) -> None:
    graph = _residual(every=every)
    whole, cut, other = _Runner(graph, 1), _Runner(graph, 6), _Runner(graph, 6)
    names = [node.name for node in graph.nodes]
    plans = [(), *((name,) for name in names[::3]), *itertools.pairwise(names[::5])]
    assert len(whole.cut().pieces) == 1
    assert len(cut.cut().pieces) > 2
    wanted = [whole.outputs(plan, lowest) for plan in plans]
    assert all(_same(cut.outputs(plan, lowest), want) for plan, want in zip(plans, wanted, strict=True))
    backwards = zip(reversed(plans), reversed(wanted), strict=True)
    assert all(_same(other.outputs(plan, lowest), want) for plan, want in backwards)


def test_a_plan_that_differs_at_the_end_builds_and_runs_only_the_end() -> None:
    graph = _residual()
    runner = _Runner(graph, 6)
    runner.outputs()
    built, runs = runner.built, runner.runs
    assert built == len(runner.cut().pieces)
    assert runs == built * len(runner.batches)
    runner.outputs((graph.nodes[-2].name,))
    assert runner.built == built + 1
    assert runner.runs == runs + len(runner.batches)


def test_threads_give_the_bits_of_one() -> None:
    graph = _residual()
    alone, many = _Runner(graph, 6), _Runner(graph, 6, threads=3)
    plans = [(), *((node.name,) for node in graph.nodes[::3])]
    assert all(_same(alone.outputs(plan), many.outputs(plan)) for plan in plans)


def test_as_many_batches_as_threads_are_under_way_and_alive() -> None:
    """Each run waits for another to begin: in one thread at a time it would wait in vain."""
    runner = _Runner(_residual(), 6, threads=2)
    alive: deque[weakref.ref[AnyArray]] = deque()
    most = 0

    def batches() -> Iterator[Batch]:
        nonlocal most
        for number in range(6):
            array = np.full(SHAPE, number, np.float32)
            alive.append(weakref.ref(array))
            yield Batch({"x": array}, ())
            del array
            gc.collect()
            most = max(most, sum(item() is not None for item in alive))

    runner.meeting = Barrier(2)
    assert len(runner.pieces.run(runner.cut(), range(6), batches())) == 6
    assert most <= 2


def test_an_executable_for_one_thread_is_run_by_one() -> None:
    runner = _Runner(_residual(), 6, threads=3)
    want = runner.outputs()
    runner = _Runner(_residual(), 6, threads=3)
    runner.concurrent = False
    runner.meeting = Barrier(1)
    assert _same(runner.outputs(), want)
    assert runner.threads == {current_thread().name}


def test_what_does_not_fit_is_computed_again() -> None:
    runner = _Runner(_residual(), 6, state_bytes=1, built_bytes=1)
    first = runner.outputs()
    runs = runner.runs
    assert _same(runner.outputs(), first)
    assert runner.runs == 2 * runs


def test_what_is_built_counts_its_weights_and_so_much_for_each_node() -> None:
    weights, more = (_Runner(_residual(), 6, node_bytes=size) for size in (0, 1000))
    for runner in (weights, more):
        runner.outputs()
    pieced = weights.cut()
    constants = sum(4 * array.size for array in pieced.graph.constants.values())
    assert weights.pieces._built.size_bytes >= 3 * constants > 0
    assert more.pieces._built.size_bytes - weights.pieces._built.size_bytes == 1000 * len(pieced.graph.nodes)


def test_a_key_names_constants_by_what_they_hold() -> None:
    runner = _Runner(_residual(), 6)
    graph = runner.cut().graph
    keys = [piece.key for piece in runner.pieces.cut(graph).pieces]
    copied = {name: array.copy() for name, array in graph.constants.items()}
    assert [piece.key for piece in runner.pieces.cut(replace(graph, constants=copied)).pieces] == keys
    name = max(copied, key=lambda name: copied[name].size)
    copied[name] = copied[name] ^ 1
    others = [piece.key for piece in runner.pieces.cut(replace(graph, constants=copied)).pieces]
    assert sum(key != other for key, other in zip(keys, others, strict=True)) == 1


def test_nothing_grows_with_the_plans_that_were_cut() -> None:
    """Constants of plans that are gone are gone too, and so is what was noted of them."""
    runner = _Runner(_residual(), 6)
    graph = runner.cut().graph
    gc.collect()
    before = len(runner.pieces._digests)
    seen: list[weakref.ref[AnyArray]] = []
    for _ in range(20):
        copied = replace(graph, constants={name: array.copy() for name, array in graph.constants.items()})
        runner.pieces.cut(copied)
        seen += [weakref.ref(array) for array in copied.constants.values()]
        del copied
    gc.collect()
    assert all(array() is None for array in seen)
    assert len(runner.pieces._digests) == before


def test_the_outputs_of_the_float_model_are_kept_within_bounds() -> None:
    graph = planted_detector()
    samples = SampleSet(graph, labelled_samples(graph, 6))
    metric = callable_metric(lambda outputs, labels: 0.0, "none")
    blocks = [(0, 1), (2, 3), (4, 5)]
    roomy_kept, tight_kept = KeptOutputs(1 << 20), KeptOutputs(1)
    roomy = Scorer(EvaluationData(graph, samples, metric, "", kept=roomy_kept))
    tight = Scorer(EvaluationData(graph, samples, metric, "", kept=tight_kept))
    for block in (*blocks, *blocks):
        kept, made = roomy.golden(block), tight.golden(block)
        assert all(np.array_equal(kept[name], made[name]) for name in graph.outputs)
    assert roomy_kept.size_bytes == 6 * tight_kept.size_bytes > 0


def test_a_convolution_that_adds_in_float_is_not_cut_from_its_sum() -> None:
    runner = _Runner(_residual(every=1), 6)
    assert len(runner.cut((), FLOAT).pieces) < len(runner.cut().pieces)


def test_cuts_leave_a_clamp_with_its_operator_and_a_small_graph_whole() -> None:
    net = Network()
    made = net.input("x", *SHAPE)
    for _ in range(12):
        made = net.op("Relu", net.conv(made, 8, 3))
    graph = net.graph(made)
    ends = cut_points(graph, CutPolicy(nodes=1))
    assert len(ends) == 5
    assert len(cut_points(graph, CutPolicy(nodes=8))) == 2
    assert all(graph.node(name).op == "Relu" for name in ends)
    assert cut_points(graph, CutPolicy(pieces=1)) == ()
    assert len(_Runner(_residual(1), 6).cut().pieces) == 1
