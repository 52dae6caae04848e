"""What a fit scores plans by: the metric that is named, labels, or float's own decisions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from dovetail.compare import TaskMetric, load_metric
from dovetail.compare.decisions import (
    DECISIONS,
    TOP_METRICS,
    Decisions,
    SeenOutputs,
    metric_for,
    refuse_top1,
    see_outputs,
    with_minor_as_numbers,
)
from dovetail.data.sample import SampleSource
from dovetail.errors import DataError
from dovetail.ir import Graph
from dovetail.outputs import HeadView, Kind, OutputsView
from dovetail.outputs.describe import view_text
from dovetail.outputs.hints import Hints, hints_line, read_hints
from dovetail.outputs.layouts import DenseLayout, MaskLayout, RowsLayout, ScoresLayout

_FEW = 8
"""Samples of which a classifier may say the same without a word."""
_LOOK = 16
"""Samples on which the float model's outputs are looked at."""


@dataclass(frozen=True, slots=True)
class ChosenMetric:
    """A metric, and what the choice rests on."""

    metric: TaskMetric
    identity: str
    """A text that changes with the metric's code, or with what it reads in the outputs."""
    seen: SeenOutputs | None = None
    """What the outputs are; None where they cannot be looked at, which no metric of a person's own needs."""
    unseen: str = ""
    """Why they cannot."""

    @property
    def view(self) -> OutputsView | None:
        """Return what the outputs are, where they can be looked at."""
        return None if self.seen is None else self.seen.view

    @property
    def decisions(self) -> Decisions | None:
        """Return what compares decisions: the metric, or another beside it where it is known for sure what they are."""
        if isinstance(self.metric, Decisions):
            return self.metric
        return metric_for(self.seen.view, self.seen.golden) if self.seen is not None and self.seen.view.sure else None

    @property
    def note(self) -> str:
        """Return what the outputs look like in one line."""
        if self.seen is None:
            return f"outputs: not looked at: {self.unseen}"
        count = self.seen.detections
        samples = _samples_text(self.seen)
        detected = (
            "" if count is None else f"; float detects {count} objects in {samples}, {_limit_text(self.seen.view)}"
        )
        unknown = any(head.kind is Kind.UNKNOWN for head in self.seen.view.heads)
        numbers = "; what is not recognised is compared as numbers" if unknown and self.decisions is not None else ""
        alike = "".join(_alike_text(head, self.seen) for head in self.seen.view.decisions)
        told = {name for head in self.seen.view.heads for name in head.roles}
        left_out = [name for name in self.seen.golden if name not in told]
        rest = f"; not named and not compared: {', '.join(left_out)}" if left_out else ""
        return f"outputs: {view_text(self.seen.view)}{detected}{alike}{numbers}{rest}"


def choose_metric(name: str | None, decisions: str | None, graph: Graph, samples: SampleSource) -> ChosenMetric:
    """Return the metric.

    Without a name it is top1 where samples have labels, else the agreement with the float model's decisions, for which
    the outputs are recognised on some of the samples, or are what `decisions` says (a line of hints, or its TOML file).
    A few numbers beside what is recognised with confidence are compared as numbers. Raises DataError where nothing is
    recognised so, or too little, and for top1 of what is no classifier.
    """
    if name is None:
        first = next(iter(samples), None)
        if first is None:
            raise DataError("the data set is empty.", hint="Give at least two samples.")
        name = "top1" if first.labels and decisions is None else DECISIONS
    if decisions is not None and name != DECISIONS:
        raise DataError(
            f"what the outputs are said to be serves the metric '{DECISIONS}', not '{name}'.",
            hint="Leave one of both out.",
            option="decisions",
        )
    if name == DECISIONS:
        return _by_decisions(decisions, graph, samples)
    metric = load_metric(name, (DECISIONS,))
    file = Path(name.rpartition(":")[0])
    code = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    identity = f"{name.rpartition(':')[2]}:{code}"
    try:
        seen = _seen(None, graph, samples)
    except DataError as error:
        if name in TOP_METRICS:
            raise
        return ChosenMetric(metric, identity, unseen=error.message)
    refuse_top1(metric, seen.view)
    return ChosenMetric(metric, identity, seen)


def _by_decisions(said: str | None, graph: Graph, samples: SampleSource) -> ChosenMetric:
    hints = None if said is None else read_hints(said)
    seen = _seen(hints, graph, samples)
    view = seen.view if seen.view.sure else with_minor_as_numbers(seen.view, seen.golden)
    if view is None:
        line = hints_line(seen.view)
        guess = f"Say what they are, for example '{line}'" if line else "Name a metric"
        raise DataError(
            f"the model's outputs are not recognised with confidence: {view_text(seen.view)}.",
            hint=f"{guess}; the metric 'noise' compares numbers whatever they mean.",
            option="decisions" if line else "metric",
        )
    seen = replace(seen, view=view)
    if seen.detections == 0:
        raise DataError(
            f"float detects nothing in {_samples_text(seen)}: there is no decision to keep.",
            hint="Give pictures of what the model was trained for, and preprocess them as it was; or let lower scores "
            "count, with 'threshold=0.1' in what is said of the outputs (option decisions).",
            option="preprocess",
        )
    metric = metric_for(view, seen.golden)
    names = ",".join(part.name for part in metric.parts)
    return ChosenMetric(metric, f"{DECISIONS}:{names}:{';'.join(map(_head_text, view.heads))}", seen)


def _head_text(head: HeadView) -> str:
    """Return what the scores of a head depend on: what it is, the roles of its outputs, and what counts."""
    roles = ",".join(f"{name}={role.value}" for name, role in head.roles.items())
    match head.layout:
        case DenseLayout(threshold=threshold) | RowsLayout(threshold=threshold) | MaskLayout(threshold=threshold):
            limit = f"/{threshold:g}"
        case _:
            limit = ""
    return f"{head.kind.value}/{head.family}/{roles}{limit}"


def _alike_text(head: HeadView, seen: SeenOutputs) -> str:
    """Return a warning where float tells no two samples apart."""
    layout = head.layout
    if not isinstance(layout, ScoresLayout) or len(seen.golden[layout.output]) < _FEW or layout.classes == 1:
        return ""
    values = seen.golden[layout.output]
    best = values if layout.labels else values.argmax(axis=layout.axis + 1)
    if np.unique(best.reshape(len(best), -1), axis=0).shape[0] > 1:
        return ""
    return (
        f"; in '{layout.output}' float says the same of all {len(best)} samples: "
        "are they, and their preprocessing, those it is made for?"
    )


def _limit_text(view: OutputsView) -> str:
    """Return from which score on something is detected."""
    limits = {head.layout.threshold for head in view.decisions if isinstance(head.layout, DenseLayout | RowsLayout)}
    return f"from a score of {' or '.join(f'{limit:g}' for limit in sorted(limits))} on"


def _samples_text(seen: SeenOutputs) -> str:
    """Return how many samples were looked at."""
    count = len(next(iter(seen.golden.values())))
    return f"{count} sample{'s' if count != 1 else ''}"


def _seen(hints: Hints | None, graph: Graph, samples: SampleSource) -> SeenOutputs:
    return see_outputs(graph, (sample.inputs for sample in islice(samples, _LOOK)), hints)
