"""Recognise what a model's outputs are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail.ir.graph import Graph
from dovetail.outputs.ends import Ends, Run, Shape, observe
from dovetail.outputs.evidence import DECISIVE, FAIR, STRONG, UNKNOWN_ODDS, Hypothesis, choose
from dovetail.outputs.families import dense, heatmap, keypoints, rows, segmentation, sequences, signals, states, vectors
from dovetail.outputs.view import HeadView, Kind, OutputsView, Role

_FAMILIES = (dense, heatmap, rows, segmentation, keypoints, sequences, vectors, signals)


def recognise(graph: Graph, runs: Sequence[Run], inputs: Mapping[str, Shape]) -> OutputsView:
    """Return what the outputs of a float model are, given what it made of some samples.

    `runs` are the outputs of every sample as the model gives them, `inputs` the shapes of a sample's inputs. The tail
    of the graph, the shapes, the names and the values are evidence; an output for which it does not suffice is of an
    unknown kind. Raises DataError where there is no sample.
    """
    ends = observe(graph, runs, inputs)
    feeds_back = states.fed_back(ends)
    deciding = tuple(end for end in ends.outputs if end.name not in feeds_back)
    heads = choose(_hypotheses(Ends(graph, deciding, ends.inputs)), [end.name for end in deciding])
    state_heads = (_state(name, source) for name, source in feeds_back.items())
    order = {name: index for index, name in enumerate(graph.outputs)}
    every = sorted((*heads, *state_heads), key=lambda head: min(order[name] for name in head.roles))
    return OutputsView(tuple(every), feeds_back)


def _hypotheses(ends: Ends) -> list[Hypothesis]:
    return [hypothesis for family in _FAMILIES for hypothesis in family.hypotheses(ends)]


def _state(name: str, source: str) -> HeadView:
    reason = f"'{name}' is shaped as the input '{source}' that it goes back into"
    named = states.named_as_state(source, name)
    odds = 10 ** ((DECISIVE + STRONG if named else STRONG + FAIR) / 10)
    return HeadView(Kind.STATE, "", {name: Role.STATE}, None, odds / (odds + UNKNOWN_ODDS), (reason,))
