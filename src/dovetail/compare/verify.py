"""Verify: the same partitions on another backend, every output and every operator counted in steps.

An operator is judged by itself: our arithmetic gets the inputs that the other backend's own tensors give, so that a
difference is named where it arises and not wherever it has spread to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from dovetail.backend.protocols import Backend, CompileOptions, Executable, Signature
from dovetail.backend.registry import backend, find_target
from dovetail.backend.target import Target
from dovetail.compare.steps import Steps, compare_steps
from dovetail.errors import CompileError, DeviceNotFound
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.types import TensorType
from dovetail.partition.partitioned import Partition
from dovetail.partition.schedule import part_of_graph
from dovetail.plan.units import clamp_host

OURS = "npusim"


@dataclass(frozen=True, slots=True)
class VerifiedTensor:
    """How far a tensor agrees; `node` made it, `""` for outputs of the whole graph."""

    tensor: str
    node: str
    op: str
    target: str
    steps: Steps


@dataclass(frozen=True)
class Verification:
    """How far another backend agrees with our exact simulation.

    `outputs` are the whole graph's, and what leaves each partition that the other backend runs.
    """

    against: str
    samples: int
    outputs: tuple[VerifiedTensor, ...]
    operators: tuple[VerifiedTensor, ...]

    @property
    def equal(self) -> bool:
        """Tell whether every element of every output is equal."""
        return all(item.steps.differing == 0 for item in self.outputs)

    @property
    def first_deviation(self) -> VerifiedTensor | None:
        """Return the first operator that gives something else from the same inputs."""
        return next((item for item in self.operators if item.steps.differing), None)


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """Against which backend, and on how many of the samples operators are looked at too."""

    against: str = "vsi"
    operator_samples: int = 1
    advance: Callable[[int], None] = field(default=lambda done: None)


def verify(
    parts: Sequence[Partition],
    outputs: Sequence[str],
    samples: Sequence[Mapping[str, AnyArray]],
    request: VerifyRequest | None = None,
) -> Verification:
    """Return how far the partitions that the other backend serves agree; the rest runs as it always does.

    `outputs` are the whole graph's; samples hold stored values. Raises DeviceNotFound when the other backend cannot be
    had or serves none of the targets, CompileError when it refuses a partition.
    """
    options = request or VerifyRequest()
    other, served = backend(options.against), check_served(options.against, parts)
    with ExitStack() as stack:
        inside = options.operator_samples > 0
        stages = [_stage(part, other if part.target in served else None, stack, inside=inside) for part in parts]
        leaving = [name for part in parts if part.target in served for name in part.graph.outputs]
        totals = dict.fromkeys((*outputs, *leaving), Steps())
        operators: dict[tuple[int, str], Steps] = {}
        for index, sample in enumerate(samples):
            ours, theirs = dict(sample), dict(sample)
            for number, stage in enumerate(stages):
                looked = _run_stage(stage, ours, theirs, inside=index < options.operator_samples)
                for node, steps in looked.items():
                    operators[number, node] = operators.get((number, node), Steps()) + steps
            for name in totals:
                totals[name] += compare_steps(theirs[name], ours[name])
            options.advance(index + 1)
    makers = {name: part.target for part in parts for name in part.graph.outputs}
    return Verification(
        options.against,
        len(samples),
        tuple(VerifiedTensor(name, "", "", makers.get(name, ""), steps) for name, steps in totals.items()),
        tuple(_operator_row(parts[number], node, steps) for (number, node), steps in operators.items()),
    )


def check_served(against: str, parts: Sequence[Partition]) -> frozenset[str]:
    """Return the targets that a backend serves; raise DeviceNotFound when none of the partitions' is among them."""
    served = frozenset(target.name for target in backend(against).targets())
    if not served & {part.target for part in parts}:
        wanted = ", ".join(dict.fromkeys(part.target for part in parts))
        raise DeviceNotFound(
            f"backend '{against}' serves none of {wanted}.", hint=f"It serves {', '.join(sorted(served))}."
        )
    return served


def random_samples(graph: Graph, count: int, seed: int) -> list[Mapping[str, AnyArray]]:
    """Return samples of random stored values, one at a time: every integer of a type, normal numbers for floats."""
    random = np.random.default_rng(seed)
    return [{name: _random(graph.types[name], random) for name in graph.inputs} for _ in range(count)]


def _random(kind: TensorType, random: np.random.Generator) -> AnyArray:
    shape = [dim if isinstance(dim, int) else 1 for dim in kind.shape or ()]
    carrier = np.dtype(kind.dtype.carrier)
    if carrier.kind == "f":
        return np.asarray(random.standard_normal(shape), dtype=carrier)
    low, high = (0, 1) if carrier.kind == "b" else kind.dtype.integer_range
    return np.asarray(random.integers(low, high, shape, endpoint=True, dtype=np.int64)).astype(carrier)


@dataclass(frozen=True, slots=True)
class _Stage:
    part: Partition
    ours: Executable
    theirs: Executable | None
    """As it will be deployed."""
    tapped: Executable | None
    steps: tuple[_Step, ...] = ()


@dataclass(frozen=True, slots=True)
class _Step:
    """An operator with its clamps: what lies between them the other backend may not even make."""

    name: str
    graph: Graph
    executable: Executable

    @classmethod
    def open(cls, nodes: Sequence[Node], part: Partition, ours: Backend, stack: ExitStack) -> _Step:
        graph = part_of_graph(part.graph, nodes)
        return cls(nodes[0].name, graph, load_executable(ours, graph, part.target, stack))


def _steps(graph: Graph) -> list[list[Node]]:
    """Return the nodes in groups: every clamp behind its host."""
    groups: dict[str, list[Node]] = {}
    for node in graph.nodes:
        host = clamp_host(graph, node)
        groups.setdefault(node.name if host is None or host.name not in groups else host.name, []).append(node)
    return list(groups.values())


def _stage(part: Partition, other: Backend | None, stack: ExitStack, *, inside: bool) -> _Stage:
    if other is None:
        name = "cpu" if part.target == "cpu" else OURS
        return _Stage(part, load_executable(backend(name), part.graph, part.target, stack), None, None)
    ours = backend(OURS)
    mine, theirs = (load_executable(owner, part.graph, part.target, stack) for owner in (ours, other))
    if not inside:
        return _Stage(part, mine, theirs, None)
    return _Stage(
        part,
        mine,
        theirs,
        load_executable(other, part.graph, part.target, stack, taps=True),
        tuple(_Step.open(nodes, part, ours, stack) for nodes in _steps(part.graph)),
    )


def load_executable(owner: Backend, graph: Graph, target: str, stack: ExitStack, *, taps: bool = False) -> Executable:
    """Return a graph compiled and loaded; it is closed with the stack. Raises CompileError or DeviceError."""
    known: Target = find_target(target)
    blob = owner.compile(graph, known, CompileOptions(taps=taps))
    device = next((item for item in owner.devices() if item.accepts(target)), None)
    if device is None:
        raise CompileError(f"backend '{owner.name}' has no device for '{target}'.")
    executable = device.load(blob, Signature.of(graph))
    stack.callback(executable.close)
    return executable


def _run_stage(
    stage: _Stage, ours: dict[str, AnyArray], theirs: dict[str, AnyArray], *, inside: bool
) -> Mapping[str, Steps]:
    """Run both sides of a stage, each on its own values; return the steps of operators where they are looked at."""
    graph = stage.part.graph
    fed = {name: theirs[name] for name in graph.inputs}
    ours.update(stage.ours.run({name: ours[name] for name in graph.inputs}))
    theirs.update((stage.theirs or stage.ours).run(fed))
    if stage.tapped is None or not inside:
        return {}
    wanted = [name for step in stage.steps for name in step.graph.outputs]
    values = {**fed, **stage.tapped.run(fed, wanted)}
    return dict(_operators(stage, values))


def _operators(stage: _Stage, values: Mapping[str, AnyArray]) -> Iterator[tuple[str, Steps]]:
    for step in stage.steps:
        expected = step.executable.run({name: values[name] for name in step.graph.inputs})
        total = Steps()
        for name in expected:
            total += compare_steps(values[name], expected[name])
        yield step.name, total


def _operator_row(part: Partition, name: str, steps: Steps) -> VerifiedTensor:
    node = part.graph.node(name)
    return VerifiedTensor(node.outputs[0], name, node.op, part.target, steps)
