"""Recognise what a model's outputs are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.outputs.ends import End, Ends, Run, Shape, bare_ends, observe
from dovetail.outputs.evidence import DECISIVE, FAIR, STRONG, UNKNOWN_ODDS, Hypothesis, choose
from dovetail.outputs.families import (
    above,
    companions,
    dense,
    features,
    flat,
    heatmap,
    kernels,
    keypoints,
    lanes,
    rows,
    segmentation,
    sequences,
    signals,
    states,
    vectors,
)
from dovetail.outputs.hints import Hints
from dovetail.outputs.layouts import DenseLayout, MaskLayout, RowsLayout, VectorLayout
from dovetail.outputs.view import HeadView, Kind, OutputRole, OutputsView

_FAMILIES = (
    dense,
    heatmap,
    kernels,
    flat,
    companions,
    above,
    lanes,
    rows,
    segmentation,
    keypoints,
    features,
    sequences,
    vectors,
    signals,
)

_SAID = 10 * DECISIVE
"""The weight of what a person says: no evidence outweighs it."""


def recognise(
    graph: Graph, runs: Sequence[Run], inputs: Mapping[str, Shape], hints: Hints | None = None
) -> OutputsView:
    """Return what the outputs of a float model are, given what it made of some samples.

    `runs` are the outputs of every sample as the model gives them, `inputs` the shapes of a sample's inputs. The tail
    of the graph, the shapes, the names and the values are evidence; an output for which it does not suffice is of an
    unknown kind. With `hints` only what they allow is considered, and taken. Raises DataError where there is no sample,
    and where nothing fits the hints.
    """
    return _recognised(observe(graph, runs, inputs), hints)


def recognise_arrays(
    outputs: Mapping[str, AnyArray], image: tuple[int, int] | None, hints: Hints | None = None
) -> OutputsView:
    """Return what outputs `[N, ...]` are, given no more than the rows and columns of the picture, or not even these."""
    ends = bare_ends(outputs, image)
    return _recognised(ends, hints)


def _recognised(ends: Ends, hints: Hints | None) -> OutputsView:
    feeds_back = states.fed_back(ends)
    deciding = tuple(end for end in ends.outputs if end.name not in feeds_back)
    names = [end.name for end in deciding]
    found = _hypotheses(Ends(ends.graph, deciding, ends.inputs))
    heads = (
        _as_said(found, deciding, hints) if hints is not None and hints.name_outputs else tuple(choose(found, names))
    )
    if hints is not None and hints.threshold is not None:
        heads = _counted_from(heads, hints.threshold)
    state_heads = (_state(name, source) for name, source in feeds_back.items())
    order = {end.name: index for index, end in enumerate(ends.outputs)}
    every = sorted((*heads, *state_heads), key=lambda head: min(order[name] for name in head.roles))
    return OutputsView(tuple(every), feeds_back)


def _as_said(hypotheses: Sequence[Hypothesis], ends: Sequence[End], hints: Hints) -> tuple[HeadView, ...]:
    """Return the heads, those of which a person speaks as what is said and sure, the others as they are seen."""
    outputs = [end.name for end in ends]
    hints.check(outputs)
    allowed = [item for item in hypotheses if hints.allow(item)]
    wanted = {name for item in allowed for name, role in item.roles.items() if role is OutputRole.VALUES}
    allowed += [
        _numbers(end) for end in ends if hints.role_of(end.name) is OutputRole.VALUES and end.name not in wanted
    ]
    heads = choose(allowed, outputs)
    said = [head for head in heads if head.kind is not Kind.UNKNOWN and hints.speak_of(head)]
    taken = {name for head in said for name in head.roles}
    missed = [f"'{name}' as {role.value}" for name in outputs if (role := hints.role_of(name)) and name not in taken]
    if missed or not said:
        what = missed[0] if missed else "any output"
        seen = ", ".join(sorted({item.kind.value for item in hypotheses})) or "nothing"
        raise DataError(f"outputs: nothing that is known has {what} with what is said; possible are {seen}.")
    return tuple(_without_more(replace(head, confidence=1.0), hints) if head in said else head for head in heads)


def _numbers(end: End) -> Hypothesis:
    """Return an output as numbers that are compared, whatever else it might be: a person says so."""
    layout = VectorLayout(end.name, end.values[:1].size)
    return Hypothesis(Kind.REGRESSION, "", {end.name: OutputRole.VALUES}, layout, _SAID, ("said to be values",))


def _without_more(head: HeadView, hints: Hints) -> HeadView:
    """Return a head without outputs of landmarks that a person who names outputs leaves out."""
    if not hints.roles or OutputRole.LANDMARKS in hints.roles or not isinstance(head.layout, DenseLayout):
        return head
    roles = {name: role for name, role in head.roles.items() if role is not OutputRole.LANDMARKS}
    return replace(head, roles=roles, layout=replace(head.layout, landmarks=None))


def _counted_from(heads: Sequence[HeadView], threshold: float) -> tuple[HeadView, ...]:
    """Return heads whose detections, or pixels of one score, count from a score on; raise DataError for other heads."""

    def counted(head: HeadView) -> HeadView:
        layout = head.layout
        match layout:
            case DenseLayout() | RowsLayout() | MaskLayout(class_axis=None, labels=False):
                return replace(head, layout=replace(layout, threshold=threshold))
            case _:
                return head

    found = tuple(map(counted, heads))
    if all(new is old for new, old in zip(found, heads, strict=True)):
        kinds = ", ".join(sorted({head.kind.value for head in heads})) or "nothing"
        raise DataError(
            f"outputs: a threshold serves detections and masks of one score; what is seen is {kinds}.",
            hint="Leave it out.",
            option="decisions",
        )
    return found


def _hypotheses(ends: Ends) -> list[Hypothesis]:
    return [hypothesis for family in _FAMILIES for hypothesis in family.hypotheses(ends)]


def _state(name: str, source: str) -> HeadView:
    reason = f"'{name}' is shaped as the input '{source}' that it goes back into"
    named = states.named_as_state(source, name)
    odds = 10 ** ((DECISIVE + STRONG if named else STRONG + FAIR) / 10)
    return HeadView(Kind.STATE, "", {name: OutputRole.STATE}, None, odds / (odds + UNKNOWN_ODDS), (reason,))
