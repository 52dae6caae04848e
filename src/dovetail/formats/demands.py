"""What a search has to keep to, so that its plan can be written for a toolchain as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from dovetail.errors import PlanError
from dovetail.formats.binding import Binding
from dovetail.formats.format import Format, WriteRequest
from dovetail.formats.registry import find_format, format_names
from dovetail.formats.spelling import Vocabulary, Word
from dovetail.ir.precision import Precision
from dovetail.plan.demands import ToolDemands
from dovetail.plan.placement import HOST, Placement

TOOLCHAINS = {"acuity": "acuity-quantize", "paddle": "paddle-subgraph"}
"""Toolchains that have several formats or another name, and the one that a search is for."""


@runtime_checkable
class WordFormat(Format, Protocol):
    """A format that has a word for each of its items."""

    def binding(self, request: WriteRequest) -> Binding:
        """Return the nodes that every item stands for; raise FormatError where the listing is missing or none."""


def find_word_format(name: str) -> WordFormat:
    """Return the format of a toolchain; raise DovetailError for one that is unknown, or can say any plan."""
    form = find_format(TOOLCHAINS.get(name, name))
    if not isinstance(form, WordFormat):
        known = sorted({*TOOLCHAINS, *(item for item in format_names() if isinstance(find_format(item), WordFormat))})
        raise PlanError(
            f"format '{form.name}' asks nothing of a plan.", hint=f"Those that do: {', '.join(known)}.", option="for_"
        )
    return form


def demands_of(form: WordFormat, request: WriteRequest, low: Placement, ladder: Sequence[Placement]) -> ToolDemands:
    """Return what plans that start at a placement must be like for a format to say them; `request` has no plan yet.

    A word stands for one placement in a file: the first of the ladder that it can mean. Raises PlanError where the
    format has no word for the start, or none for anything else.
    """
    words = _taken(form.vocabulary, low, ladder)
    if not words:
        raise PlanError(
            f"{form.name} has no word for any of {', '.join(map(str, ladder))}.",
            hint=f"It says: {form.vocabulary.describe()}.",
            option="raises",
        )
    binding, graph = form.binding(request), request.graph
    if any({word.text for word in words.values()} <= lacks for lacks in binding.lacks.values()):
        # The toolchain computes something in float whatever a file says: there, where it has a word for that.
        float_there = Placement(low.target, Precision.FP32)
        word = next((item for item in form.vocabulary.exceptions if item.takes(float_there)), None)
        words |= {} if word is None else {float_there: word}
    everything = frozenset(words)
    lacks: dict[str, frozenset[Placement]] = {
        node.name: everything for node in graph.nodes if node.name not in binding.covered
    }
    for item in {*binding.lacks, *binding.doubts}:
        texts = binding.lacks.get(item, frozenset()) | binding.doubts.get(item, frozenset())
        missing = {place for place, word in words.items() if word.text in texts}
        missing |= {low} if any(word.text in texts and word.takes(low) for word in form.vocabulary.base) else set()
        for name in binding.nodes_of.get(item, ()):
            lacks[name] = lacks.get(name, frozenset()) | missing
    known = {word.text for word in words.values()}
    return ToolDemands(
        tool=form.name,
        rungs=tuple(words),
        groups=tuple(_groups(binding, known)),
        lacks={name: places for name, places in lacks.items() if places},
    )


def _taken(vocabulary: Vocabulary, low: Placement, ladder: Sequence[Placement]) -> dict[Placement, Word]:
    """Return the placements that words are taken for, in the order of the ladder."""
    if not any(word.takes(low) for word in vocabulary.base):
        base = " or ".join(word.describe() for word in vocabulary.base)
        raise PlanError(f"the file has no word for {low} as the base.", hint=f"It has {base}.", option="low")
    taken: dict[Placement, Word] = {}
    for placement in ladder:
        if placement == low or placement.target not in (HOST, low.target):
            continue
        used = {word.text for word in taken.values()}
        word = next((one for one in vocabulary.exceptions if one.takes(placement) and one.text not in used), None)
        if word is not None:
            taken.setdefault(placement, word)
    return taken


def _groups(binding: Binding, words: set[str]) -> Iterator[tuple[str, ...]]:
    yield from (nodes for nodes in binding.nodes_of.values() if len(nodes) > 1)
    yield from (item.nodes for item in binding.together if item.word in words and len(item.nodes) > 1)
    yield from (nodes for nodes in binding.alike if len(nodes) > 1)
