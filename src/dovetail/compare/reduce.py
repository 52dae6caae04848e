"""Reduce: the smallest part of a placed model on which another backend crashes, or differs from our simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import Enum

from dovetail.backend.containment import CompilerPlace, WorkerLimits, load_contained
from dovetail.backend.failures import FailureMemory
from dovetail.backend.protocols import Blob, Executable, Signature
from dovetail.backend.registry import backend
from dovetail.compare.sides import opened
from dovetail.compare.steps import Steps, compare_steps
from dovetail.compare.verify import OURS, check_served, random_samples
from dovetail.compile.failing import FailingPart, plain_reason, remember_failing
from dovetail.compile.model import Compiler, CompileRequest
from dovetail.errors import CompileError, CompileFailure, DeviceError, DeviceLost, DovetailError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.partition.partitioned import Partition
from dovetail.partition.smallest import PartReduction, ReductionBudget
from dovetail.plan.plan import Plan

Feeds = Mapping[str, AnyArray]
"""Stored values by the names of tensors."""


class Misbehaviour(Enum):
    """What another backend does that it should not, in words that stand before the part."""

    REFUSES = "refuses"
    CRASHES = "crashes on"
    HANGS = "hangs on"
    LOST = "is lost when it runs"
    DIFFERS = "differs on"


_BY_FAILURE = {
    None: Misbehaviour.REFUSES,
    CompileFailure.REFUSED: Misbehaviour.REFUSES,
    CompileFailure.CRASHED: Misbehaviour.CRASHES,
    CompileFailure.HUNG: Misbehaviour.HANGS,
}


@dataclass(frozen=True, slots=True)
class ReduceRequest:
    """Against which backend, within which limits; `advance` is given the tries and the nodes of the smallest part."""

    against: str = "vsi"
    budget: ReductionBudget = field(default_factory=ReductionBudget)
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    seed: int = 0
    """Of the random values that an inner tensor gets where our simulation cannot tell them."""
    advance: Callable[[int, int], None] = field(default=lambda tries, nodes: None)


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a part; `feeds` are the values of its inputs at which it was."""

    misbehaviour: Misbehaviour
    reason: str
    feeds: Feeds = field(repr=False)
    steps: Steps = field(default_factory=Steps)


@dataclass(frozen=True, slots=True)
class Reduced:
    """The smallest part that was found to misbehave as the whole did."""

    part: Partition
    seen: Seen
    tries: int
    minimal: bool
    """Whether no node can be left out; False where the budget ended or somebody interrupted."""
    interrupted: bool = False
    left_s: float = math.inf
    """What was left of the budget."""


def reduce_model(
    parts: Sequence[Partition], samples: Sequence[Feeds], request: ReduceRequest | None = None
) -> Reduced | None:
    """Return the smallest misbehaving part of the first partition that misbehaves; None where none does.

    Samples hold stored values for the whole graph's inputs. An interruption keeps the smallest part so far. Raises
    DeviceNotFound when the other backend cannot be had or serves none of the targets, CompileError when our own
    simulation refuses a partition, or when something from outside killed the other's compiler.
    """
    asked = request or ReduceRequest()
    served = check_served(asked.against, parts)
    values = [dict(sample) for sample in samples]
    for part in parts:
        _extend(values, part)
        if part.target in served:
            judge = PartJudge(part.target, values, asked)
            seen = judge.see(part.graph)
            if seen is not None:
                return _reduced(part, seen, judge, asked)
    return None


def _reduced(part: Partition, seen: Seen, judge: PartJudge, request: ReduceRequest) -> Reduced:
    found = {part.graph: seen}

    def fails(graph: Graph) -> bool:
        again = judge.see(graph)
        if again is None or again.misbehaviour is not seen.misbehaviour:
            return False
        found[graph] = again
        return True

    search, interrupted = PartReduction(part.graph, fails, request.budget, request.advance), False
    try:
        judge.fill(part.graph)
        search.run()
    except KeyboardInterrupt:
        interrupted = True
    best = search.best
    smallest = replace(part, graph=best)
    return Reduced(smallest, found[best], search.tries, search.minimal, interrupted, search.left_s)


def remember_reduced(
    reduced: Reduced,
    request: ReduceRequest,
    memory: FailureMemory,
    graph: Graph | None = None,
    plan: Plan | None = None,
) -> bool:
    """Keep a part that the other's compiler crashes or hangs on once more, alone; tell whether it was kept.

    With the float graph and its plan, the target's verdict on a single node may know of it too.
    """
    failure = next((key for key, kind in _BY_FAILURE.items() if kind is reduced.seen.misbehaviour), None)
    how = CompileRequest(backends={reduced.part.target: request.against}, limits=request.limits, memory=memory)
    with Compiler(how) as compiler:
        software = compiler.software(reduced.part.target)
        failing = FailingPart(
            reduced.part, failure, reduced.seen.reason, software, reduced.minimal, left_s=reduced.left_s
        )
        return remember_failing(compiler, failing, graph, plan)


class PartJudge:
    """Run parts for one target on the other backend and in our exact simulation."""

    def __init__(self, target: str, values: Sequence[dict[str, AnyArray]], request: ReduceRequest) -> None:
        self._target = target
        self._values = values
        self._request = request

    def see(self, graph: Graph) -> Seen | None:
        """Return what the other backend does wrong; None where nothing is, or where we cannot simulate the graph."""
        feeds = [self._feeds(graph, number) for number in range(len(self._values))]
        with ExitStack() as stack:
            try:
                ours = stack.enter_context(opened(backend(OURS), graph, self._target))
                expected = [ours.run(feed) for feed in feeds]
            except DovetailError:
                return None
            try:
                theirs = self._load(graph, stack)
            except CompileError as error:
                if error.failure is CompileFailure.KILLED:
                    raise
                return Seen(_BY_FAILURE[error.failure], plain_reason(error), feeds[0])
            except DeviceError as error:
                return Seen(_of_device(error), error.message, feeds[0])
            for feed, wanted in zip(feeds, expected, strict=True):
                try:
                    got = theirs.run(feed)
                except DeviceError as error:
                    return Seen(_of_device(error), error.message, feed)
                steps = sum((compare_steps(got[name], wanted[name]) for name in wanted), Steps())
                if steps.differing:
                    told = f"{steps.differing} of {steps.elements} elements differ, the largest by {steps.largest}"
                    return Seen(Misbehaviour.DIFFERS, told, feed, steps)
        return None

    def fill(self, graph: Graph) -> None:
        """Find the values of a partition's inner tensors, where our simulation can tell them."""
        inner = [name for node in graph.nodes for name in node.outputs if name]
        wide = graph.evolve(outputs=tuple(dict.fromkeys((*graph.outputs, *inner))))
        with ExitStack() as stack:
            try:
                ours = stack.enter_context(opened(backend(OURS), wide, self._target))
                found = [ours.run(self._feeds(graph, number)) for number in range(len(self._values))]
            except DovetailError:
                return
        for value, told in zip(self._values, found, strict=True):
            value.update({name: array for name, array in told.items() if name not in value})

    def _feeds(self, graph: Graph, number: int) -> dict[str, AnyArray]:
        known = self._values[number]
        (drawn,) = random_samples(graph, 1, self._request.seed + number)
        return {name: known[name] if name in known else drawn[name] for name in graph.inputs}

    def _load(self, graph: Graph, stack: ExitStack) -> Executable:
        """Return the part on the other backend, in a process of its own where that may crash."""
        against, target, limits = self._request.against, self._target, self._request.limits
        with Compiler(CompileRequest(backends={target: against}, limits=limits)) as compiler:
            blob = compiler.compile(Partition(0, target, graph)).blob
            is_safe = backend(against).abilities().compiles_in_process
            safe = is_safe is not None and is_safe(compiler.target(target))
        executable = (_load_here if safe else _load_apart)(CompilerPlace(against, target), blob, graph, limits)
        stack.callback(executable.close)
        return executable


def _load_here(place: CompilerPlace, blob: Blob, graph: Graph, limits: WorkerLimits) -> Executable:
    device = next((item for item in backend(place.backend).devices() if item.accepts(place.target)), None)
    if device is None:
        raise DeviceError(f"backend '{place.backend}' has no device for '{place.target}'.")
    return device.load(blob, Signature.of(graph))


def _load_apart(place: CompilerPlace, blob: Blob, graph: Graph, limits: WorkerLimits) -> Executable:
    return load_contained(place, blob, Signature.of(graph), limits)


def _extend(values: Sequence[dict[str, AnyArray]], part: Partition) -> None:
    """Compute what leaves a partition, each sample on its own values."""
    with ExitStack() as stack:
        name = "cpu" if part.target == "cpu" else OURS
        executable = stack.enter_context(opened(backend(name), part.graph, part.target))
        for value in values:
            value.update(executable.run({name: value[name] for name in part.graph.inputs}))


def _of_device(error: DeviceError) -> Misbehaviour:
    return Misbehaviour.LOST if isinstance(error, DeviceLost) else Misbehaviour.REFUSES
