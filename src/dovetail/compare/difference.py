"""Why a board differs: the first operator that gives something else from the same inputs, and the rule behind it.

Every operator is computed here from what the board had before it, so that a difference is named where it arises. One
that is found is tried against other rules: of other parts, multipliers, roundings, tables and kernels. A rule
explains an operator when it gives the board's value for every element of every sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from dovetail.backend.protocols import OtherRule
from dovetail.backend.registry import backend, find_target, target_of
from dovetail.compare.sides import Arrays, opened, steps_of
from dovetail.compare.steps import Steps
from dovetail.compare.verify import OURS
from dovetail.errors import DataError, DovetailError
from dovetail.ir.graph import Graph
from dovetail.partition.partitioned import Partition
from dovetail.partition.schedule import part_of_graph

_HOST = "cpu"
_FLOAT_STEPS = 64
"""Units in the last place that two processors' sums of floats may be apart: they add in different orders."""


class Blame(Enum):
    """What a difference is."""

    EXPECTED = "expected"
    """A rule gives the board's value everywhere."""
    DEFECT = "defect"
    """No known rule does."""


@dataclass(frozen=True, slots=True)
class DifferingOperator:
    """An operator, with those before it that the board does not tell, which gives something else from equal inputs."""

    part: Partition
    """The operator as a graph of its own."""
    op: str
    tensor: str
    steps: Steps
    rules: tuple[OtherRule, ...]
    """All that give the board's values, the most likely first."""
    fed: tuple[Arrays, ...]
    board: tuple[Arrays, ...]
    ours: tuple[Arrays, ...]

    @property
    def blame(self) -> Blame:
        """Return whether a rule explains it."""
        return Blame.EXPECTED if self.rules else Blame.DEFECT


@dataclass(frozen=True, slots=True)
class DifferenceReport:
    """What was compared, and what differs, in the order of the model.

    `unjudged` operators are those of which the board told nothing.
    """

    samples: int
    judged: int
    unjudged: tuple[str, ...]
    operators: tuple[DifferingOperator, ...]

    @property
    def first(self) -> DifferingOperator | None:
        """Return the first that no rule explains, or else the first that differs."""
        defect = next((item for item in self.operators if item.blame is Blame.DEFECT), None)
        return defect or next(iter(self.operators), None)

    @property
    def blame(self) -> Blame | None:
        """Return what the differences are; None where there are none."""
        first = self.first
        return None if first is None else first.blame

    @property
    def common_rule(self) -> OtherRule | None:
        """Return the rule that explains most of the operators, the most likely first."""
        counts: dict[str, int] = {}
        rules: dict[str, OtherRule] = {}
        for item in self.operators:
            for rule in item.rules:
                rules.setdefault(rule.text, rule)
                counts[rule.text] = counts.get(rule.text, 0) + 1
        return rules[max(counts, key=lambda text: counts[text])] if counts else None


@dataclass(frozen=True, slots=True)
class DifferenceRequest:
    """A model's quantised partitions, stored samples, and every tensor that the board told of each sample."""

    parts: Sequence[Partition]
    samples: Sequence[Arrays]
    board: Sequence[Arrays]
    advance: Callable[[int], None] = field(default=lambda done: None)


def explain_difference(request: DifferenceRequest) -> DifferenceReport:
    """Return where the board differs from exact simulation, and by which rule.

    Raises DataError where the board told nothing that can be compared, or of another number of samples, and where no
    partition is on a target that is simulated here. Operators on other targets are not judged.
    """
    if len(request.board) != len(request.samples):
        raise DataError(
            f"the board told {len(request.board)} samples; {len(request.samples)} are given.",
            hint="Give the samples that the board ran.",
        )
    simulated = {part.target for part in request.parts if target_of(backend(OURS), part.target) is not None}
    if not simulated:
        targets = ", ".join(dict.fromkeys(part.target for part in request.parts))
        raise DataError(f"exact simulation knows none of {targets}.", hint="It knows VeriSilicon's parts.")
    known = [{**sample, **told} for sample, told in zip(request.samples, request.board, strict=True)]
    found: list[DifferingOperator] = []
    judged, unjudged = 0, list[str]()
    for done, part in enumerate(request.parts):
        if part.target not in (*simulated, _HOST):
            unjudged += [node.name for node in part.graph.nodes]
            continue
        for piece in _pieces(part, set(known[0]) if known else set()):
            if piece.told:
                judged += 1
                differing = _differing(part, piece, known)
                found += [] if differing is None else [differing]
            else:
                unjudged.append(piece.nodes[-1])
        request.advance(done + 1)
    if not judged:
        raise DataError("the board told no tensor that the model makes.", hint="Dump inner tensors by their names.")
    return DifferenceReport(len(known), judged, tuple(unjudged), tuple(found))


@dataclass(frozen=True, slots=True)
class _Piece:
    """Nodes that are judged together: what is computed as one, with what is not told before it."""

    nodes: tuple[str, ...]
    graph: Graph
    told: tuple[str, ...]


def _pieces(part: Partition, known: set[str]) -> Iterator[_Piece]:
    """Yield the operators of a partition, each with those before it whose results the board does not tell."""
    graph = part.graph
    hidden: dict[str, tuple[str, ...]] = {}
    for names in _grouped(part):
        own = part_of_graph(graph, [graph.node(name) for name in names])
        behind = [name for tensor in own.inputs for name in hidden.get(tensor, ())]
        group = tuple(dict.fromkeys((*behind, *names)))
        whole = part_of_graph(graph, [graph.node(name) for name in group])
        told = tuple(name for name in own.outputs if name in known)
        hidden.update({name: group for name in own.outputs if name not in told})
        ready = all(name in known for name in whole.inputs)
        yield _Piece(group, whole.evolve(outputs=told) if told else whole, told if ready else ())


def _grouped(part: Partition) -> Sequence[tuple[str, ...]]:
    pieces = backend(OURS).abilities().pieces
    if part.target == _HOST or pieces is None:
        return tuple((node.name,) for node in part.graph.nodes)
    return pieces(part.graph, find_target(part.target)).nodes


def _differing(part: Partition, piece: _Piece, known: Sequence[Arrays]) -> DifferingOperator | None:
    """Return how an operator differs, or None where it does not."""
    fed = tuple({name: one[name] for name in piece.graph.inputs} for one in known)
    board = tuple({name: one[name] for name in piece.told} for one in known)
    owner = backend(_HOST if part.target == _HOST else OURS)
    with opened(owner, piece.graph, part.target) as executable:
        ours = tuple(executable.run(one) for one in fed)
    steps = steps_of(ours, board)
    total = sum((steps[name] for name in piece.told), Steps())
    if not total.differing:
        return None
    rules = _explaining(part, piece, fed, board, total)
    nodes = [piece.graph.node(name) for name in piece.nodes]
    op = "+".join(node.op for node in nodes)
    small = Partition(part.index, part.target, piece.graph)
    return DifferingOperator(small, op, piece.told[0], total, rules, fed, board, ours)


def _explaining(
    part: Partition, piece: _Piece, fed: Sequence[Arrays], board: Sequence[Arrays], total: Steps
) -> tuple[OtherRule, ...]:
    if part.target == _HOST:
        floats = all(piece.graph.types[name].dtype.is_float for name in piece.told)
        return (_SUMS,) if floats and total.largest <= _FLOAT_STEPS else ()
    other_rules = backend(OURS).abilities().other_rules
    rules = () if other_rules is None else other_rules(piece.graph, find_target(part.target))
    return tuple(rule for rule in rules if _explains(rule, fed, board))


def _explains(rule: OtherRule, fed: Sequence[Arrays], board: Sequence[Arrays]) -> bool:
    try:
        for one, told in zip(fed, board, strict=True):
            made = rule.run(one)
            if any(steps.differing for steps in steps_of([{name: made[name] for name in told}], [told]).values()):
                return False
    except DovetailError:
        return False
    return True


def _no_answer(inputs: Arrays) -> Mapping[str, object]:
    raise DataError("sums of floats in another order have no one answer.")


_SUMS = OtherRule("sums", "in floats, which another processor adds up in another order", _no_answer)  # type: ignore[arg-type]
