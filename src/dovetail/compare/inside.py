"""Look into a partition: every operator from equal inputs, by taps where they can be believed, else by cuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dovetail.backend.pieces import CompiledPieces
from dovetail.bisection import unsettled
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
    nodes: tuple[str, ...]
    """The operator with what cannot be told from it."""


_Rows = dict[tuple[str, ...], _Row]
"""By the nodes of a piece."""


def look_inside(run: PartRun, sides: Sides, samples: int, most_cuts: int) -> tuple[list[VerifiedTensor], InsideLook]:
    """Return how far the operators of a partition agree; `samples` says on how many of the run's.

    Samples in which an output differs from our own come first. Raises CompileError or DeviceError where our side
    cannot run what the other has run.
    """
    part, graph = run.part, run.part.graph
    chosen, end = _chosen(run, sides, samples)
    pieces = sides.pieces(graph)
    # The binary itself is cut where it is what differs; where it does not, the graph is the cheaper form.
    parts = Parts(graph, pieces, sides, chosen.fed, most_cuts, as_graph=not differs(end))
    taps, reason, rows = _tapped(chosen, sides, pieces)
    if taps is Taps.BELIEVED:
        taps, rows = _confirmed(parts, end, rows)
    if taps is not Taps.BELIEVED:
        rows = {**rows, **_cut_rows(graph, pieces, find_cuts(parts, end), end)}
    listed = [_listed(part, names, rows[names]) for names in pieces.nodes if names in rows]
    judged = {name for row in rows.values() for name in row.nodes}
    unjudged = tuple(names[0] for names in pieces.nodes if judged.isdisjoint(names))
    return listed, InsideLook(part.index, part.target, taps, reason, parts.tried, len(pieces.nodes), unjudged)


def _confirmed(parts: Parts, end: Mapping[str, Steps], rows: _Rows) -> tuple[Taps, _Rows]:
    """Return whether what taps say fits to the outputs and to a part that ends behind the first that deviates.

    Of others that deviate too nothing can be confirmed: they are left out. Measured on V853: the tap of an operand of
    a sum that is joined with a convolution is garbage, though the outputs are right.
    """
    wrong = [names for names in parts.pieces.nodes if names in rows and rows[names].steps.differing]
    if not wrong:
        return (Taps.SILENT if differs(end) else Taps.BELIEVED), rows
    found = parts.behind(parts.pieces.nodes.index(wrong[0]) + 1)
    if found is not None and not differs(found):
        return Taps.DENIED, {}
    return Taps.BELIEVED, {names: row for names, row in rows.items() if names not in wrong[1:]}


def _chosen(run: PartRun, sides: Sides, samples: int) -> tuple[PartRun, Mapping[str, Steps]]:
    """Return the run of some samples, those that differ first, and the steps of its outputs from equal inputs."""
    with opened(sides.ours, run.part.graph, run.part.target) as executable:
        ours = [executable.run(values) for values in run.fed]
    order = sorted(range(len(ours)), key=lambda at: not differs(steps_of([ours[at]], [run.found[at]])))[:samples]
    chosen = PartRun(run.part, tuple(run.fed[at] for at in order), tuple(run.found[at] for at in order))
    return chosen, steps_of([ours[at] for at in order], chosen.found)


def _tapped(run: PartRun, sides: Sides, pieces: CompiledPieces) -> tuple[Taps, str, _Rows]:
    """Return what taps tell, and whether they are believed."""
    graph, target = run.part.graph, run.part.target
    whole = graph.evolve(outputs=(*graph.outputs, *_tappable(graph, pieces)))
    try:
        with sides.other(whole, taps=True) as tapped:
            found = [dict(tapped(values)) for values in run.fed]
    except (CompileError, DeviceError) as error:
        return Taps.REFUSED, error.message, {}
    if differs(steps_of(found, run.found)):
        return Taps.DIFFER, "", {}
    with opened(sides.ours, whole, target) as executable:
        from_given = executable.abilities().from_given
        assert from_given is not None
        ours = [from_given(fed, values) for fed, values in zip(run.fed, found, strict=True)]
    return Taps.BELIEVED, "", _tap_rows(graph, pieces, steps_of(ours, found))


def _tappable(graph: Graph, pieces: CompiledPieces) -> list[str]:
    """Return the tensors between pieces that can be asked for together without changing how the graph is compiled."""
    made = dict.fromkeys(name for names in pieces.nodes for name in _outputs(graph, names))
    kept: list[str] = []

    def settles(chunk: Sequence[str]) -> bool:
        settled = pieces.keeps(graph.evolve(outputs=(*graph.outputs, *kept, *chunk)))
        kept.extend(chunk if settled else ())
        return settled

    unsettled([[name for name in made if name not in graph.outputs]], settles)
    return kept


def _tap_rows(graph: Graph, pieces: CompiledPieces, steps: Mapping[str, Steps]) -> _Rows:
    """Return the operators whose results were told, each with those before it whose results were not."""
    rows: _Rows = {}
    hidden: dict[str, tuple[str, ...]] = {}
    for names in pieces.nodes:
        part = part_of_graph(graph, [graph.node(name) for name in names])
        behind = [name for tensor in part.inputs for name in hidden.get(tensor, ())]
        nodes = tuple(dict.fromkeys((*behind, *names)))
        hidden.update({tensor: nodes for tensor in part.outputs if tensor not in steps})
        told = [tensor for tensor in part.outputs if tensor in steps]
        if told:
            rows[names] = _Row(_total(steps, told), Judged.TAP, nodes)
    return rows


def _cut_rows(graph: Graph, pieces: CompiledPieces, cuts: Cuts, end: Mapping[str, Steps]) -> _Rows:
    """Return the operators whose tensors were read at cuts, or at the end where that is equal."""
    maker = {name: names for names in pieces.nodes for name in _outputs(graph, names)}
    rows: _Rows = {}
    if not differs(end):
        known = {name: steps for name, steps in end.items() if name in maker}
        rows.update({maker[name]: _Row(steps, Judged.DEPLOYED, maker[name]) for name, steps in known.items()})
    for found in cuts.equal.values():
        for name, steps in found.items():
            rows.setdefault(maker[name], _Row(steps, Judged.CUT, maker[name]))
    if cuts.first is not None:
        low, high = cuts.first
        judged = Judged.DEPLOYED if high == len(pieces.nodes) else Judged.CUT
        last = pieces.nodes[high - 1]
        wrong = {maker.get(name, last) for name, steps in cuts.found.items() if steps.differing}
        # The earliest that made something that differs at the end of the shortest part that does.
        first = next(names for names in pieces.nodes if names in wrong)
        tensors = [name for name in cuts.found if maker.get(name, last) == first]
        between = tuple(name for names in pieces.nodes[low:high] for name in names)
        rows[first] = _Row(_total(cuts.found, tensors), judged, between)
    return rows


def _outputs(graph: Graph, names: Sequence[str]) -> tuple[str, ...]:
    """Return what leaves a piece."""
    return part_of_graph(graph, [graph.node(name) for name in names]).outputs


def _total(steps: Mapping[str, Steps], tensors: Sequence[str]) -> Steps:
    return sum((steps[name] for name in tensors), Steps())


def _listed(part: Partition, names: tuple[str, ...], row: _Row) -> VerifiedTensor:
    op = "+".join(part.graph.node(name).op for name in names)
    tensor = _outputs(part.graph, names)[0]
    return VerifiedTensor(tensor, names[0], op, part.target, row.steps, row.judged, row.nodes)
