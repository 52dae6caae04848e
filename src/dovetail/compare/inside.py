"""Look into a partition: every operator from equal inputs, by taps where they can be believed, else by cuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dovetail.backend.pieces import CompiledPieces
from dovetail.compare.cutting import Cuts, Parts, find_cuts
from dovetail.compare.sides import Arrays, Sides, differs, opened, steps_of
from dovetail.compare.steps import Steps
from dovetail.compare.verification import InsideLook, Judged, Taps, VerifiedTensor
from dovetail.errors import CompileError, DeviceError
from dovetail.ir.graph import Graph
from dovetail.partition.partitioned import Partition
from dovetail.partition.schedule import part_of_graph


@dataclass(frozen=True, slots=True)
class PartRun:
    """A partition as it is deployed on the other backend: what it got and what it gave, sample by sample."""

    part: Partition
    fed: tuple[Arrays, ...]
    found: tuple[Arrays, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    steps: Steps
    judged: Judged


def look_inside(run: PartRun, sides: Sides, samples: int, most_cuts: int) -> tuple[list[VerifiedTensor], InsideLook]:
    """Return how far the operators of a partition agree; `samples` says on how many of the run's.

    Samples in which an output differs from our own come first. Raises CompileError or DeviceError where our side
    cannot run what the other has run.
    """
    part, graph = run.part, run.part.graph
    chosen, end = _chosen(run, sides, samples)
    pieces = sides.pieces(graph)
    taps, reason, rows = _tapped(chosen, sides, pieces)
    if taps is Taps.BELIEVED and differs(end) and not any(row.steps.differing for row in rows.values()):
        taps = Taps.SILENT
    tried = 0
    if taps is not Taps.BELIEVED:
        cuts = find_cuts(Parts(graph, pieces, sides, chosen.fed, most_cuts), end)
        rows, tried = {**rows, **_cut_rows(graph, pieces, cuts, end)}, cuts.tried
    listed = [_listed(part, names, rows[names]) for names in pieces.nodes if names in rows]
    unjudged = tuple(names[0] for names in pieces.nodes if names not in rows)
    return listed, InsideLook(part.index, part.target, taps, reason, tried, len(pieces.nodes), unjudged)


def _chosen(run: PartRun, sides: Sides, samples: int) -> tuple[PartRun, Mapping[str, Steps]]:
    """Return the run of some samples, those that differ first, and the steps of its outputs from equal inputs."""
    with opened(sides.ours, run.part.graph, run.part.target) as executable:
        ours = [executable.run(values) for values in run.fed]
    order = sorted(range(len(ours)), key=lambda at: not differs(steps_of([ours[at]], [run.found[at]])))[:samples]
    chosen = PartRun(run.part, tuple(run.fed[at] for at in order), tuple(run.found[at] for at in order))
    return chosen, steps_of([ours[at] for at in order], chosen.found)


_Rows = dict[tuple[str, ...], _Row]


def _tapped(run: PartRun, sides: Sides, pieces: CompiledPieces) -> tuple[Taps, str, _Rows]:
    """Return what taps tell, and whether they are believed."""
    graph, target = run.part.graph, run.part.target
    made = {names: _outputs(graph, names) for names in pieces.nodes}
    extra = dict.fromkeys(name for names in made.values() for name in names if name not in graph.outputs)
    whole = graph.evolve(outputs=(*graph.outputs, *extra))
    try:
        with opened(sides.theirs, whole, target, taps=True) as executable:
            found = [executable.run(values) for values in run.fed]
    except (CompileError, DeviceError) as error:
        return Taps.REFUSED, error.message, {}
    if differs(steps_of(found, run.found)):
        return Taps.DIFFER, "", {}
    with opened(sides.ours, whole, target) as executable:
        from_given = executable.abilities().from_given
        assert from_given is not None
        ours = [from_given(fed, values) for fed, values in zip(run.fed, found, strict=True)]
    steps = steps_of(ours, found)
    rows = {names: _Row(_total(steps, tensors), Judged.TAP) for names, tensors in made.items() if tensors}
    return Taps.BELIEVED, "", rows


def _cut_rows(graph: Graph, pieces: CompiledPieces, cuts: Cuts, end: Mapping[str, Steps]) -> _Rows:
    """Return the operators whose tensors were read at cuts, or at the end where that is equal."""
    maker = {name: names for names in pieces.nodes for name in _outputs(graph, names)}
    rows: _Rows = {}
    if not differs(end):
        rows.update({maker[name]: _Row(steps, Judged.DEPLOYED) for name, steps in end.items() if name in maker})
    for found in cuts.equal.values():
        for name, steps in found.items():
            rows.setdefault(maker[name], _Row(steps, Judged.CUT))
    if cuts.first is not None:
        judged = Judged.DEPLOYED if cuts.first[1] == len(pieces.nodes) else Judged.CUT
        last = pieces.nodes[cuts.first[1] - 1]
        wrong = {maker.get(name, last) for name, steps in cuts.found.items() if steps.differing}
        # The earliest that made something that differs at the end of the shortest part that does.
        first = next(names for names in pieces.nodes if names in wrong)
        tensors = [name for name in cuts.found if maker.get(name, last) == first]
        rows[first] = _Row(_total(cuts.found, tensors), judged)
    return rows


def _outputs(graph: Graph, names: Sequence[str]) -> tuple[str, ...]:
    """Return what leaves a piece."""
    return part_of_graph(graph, [graph.node(name) for name in names]).outputs


def _total(steps: Mapping[str, Steps], tensors: Sequence[str]) -> Steps:
    return sum((steps[name] for name in tensors), Steps())


def _listed(part: Partition, names: tuple[str, ...], row: _Row) -> VerifiedTensor:
    nodes = [part.graph.node(name) for name in names]
    op = "+".join(node.op for node in nodes)
    return VerifiedTensor(_outputs(part.graph, names)[0], names[0], op, part.target, row.steps, row.judged, names)
