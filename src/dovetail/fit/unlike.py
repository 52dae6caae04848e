"""Samples of the hold-out that are unlike those that ranges were found on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

from dovetail.data import SampleSource
from dovetail.ir import AnyArray, Graph
from dovetail.quantize import Range, Ranges
from dovetail.quantize.calibrate import load_float
from dovetail.quantize.observers import CalibrationMethod

_MOST_SAMPLES, _MOST_NAMED = 32, 3
_BEYOND = 0.05
"""Share of a range's width beyond it that counts: new samples of the same kind go a little beyond old ones."""
_MOST_TENSORS = 0.5
"""Share of the tensors that may leave their ranges; a picture that is brighter than all others moves some."""


@dataclass(frozen=True, slots=True)
class UnlikeSample:
    """A sample, and how many tensors leave their ranges on it by more than a twentieth of their width."""

    name: str
    beyond: int
    tensors: int
    most: float
    """By how many times the width of its range the worst tensor leaves it."""


def unlike_note(graph: Graph, ranges: Ranges, samples: SampleSource) -> str:
    """Return a note that names the samples which most tensors leave their ranges on; empty where there is none."""
    found = unlike_samples(graph, ranges, samples)
    if not found:
        return ""
    named = "; ".join(
        f"'{item.name}' leaves the ranges of {item.beyond} of {item.tensors} tensors, by up to {item.most:.2g} times "
        "their width"
        for item in found[:_MOST_NAMED]
    )
    more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    count = samples.count
    looked = str(count) if count is not None and count <= _MOST_SAMPLES else f"first {_MOST_SAMPLES}"
    return (
        f"{len(found)} of the {looked} hold-out samples {'is' if len(found) == 1 else 'are'} unlike the "
        f"{ranges.samples} that ranges were found on: {named}{more}. More bits do not widen a range: samples like "
        f"{'it' if len(found) == 1 else 'them'} among those to calibrate on do."
    )


def unlike_samples(graph: Graph, ranges: Ranges, samples: SampleSource) -> tuple[UnlikeSample, ...]:
    """Return the samples on which most tensors leave their ranges by far, the worst first; at most 32 are looked at.

    Nothing for ranges that are not of all values seen: those are meant to cut values off.
    """
    known = {name: limits for name, limits in ranges.tensors.items() if limits.high > limits.low}
    if ranges.method != CalibrationMethod.MINMAX.value or not known:
        return ()
    taps = [name for node in graph.nodes for name in node.outputs if name in known]
    found: list[UnlikeSample] = []
    with closing(load_float(graph)) as model:
        for sample in islice(iter(samples), _MOST_SAMPLES):
            values = {**sample.inputs, **model.run(sample.inputs, taps)}
            shares = [share for share in _beyond(values, known) if share > _BEYOND]
            if len(shares) > _MOST_TENSORS * len(known):
                found.append(UnlikeSample(sample.id, len(shares), len(known), max(shares)))
    return tuple(sorted(found, key=lambda item: (-item.beyond, -item.most)))


def _beyond(values: Mapping[str, AnyArray], known: Mapping[str, Range]) -> Iterable[float]:
    """Return by what share of its width the values of each tensor leave its range."""
    for name, limits in known.items():
        value = values.get(name)
        if value is not None and value.size:
            outside = max(limits.low - float(value.min()), float(value.max()) - limits.high)
            yield outside / (limits.high - limits.low)
