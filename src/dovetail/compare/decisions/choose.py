"""The metric for what a model's outputs are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dovetail.compare.decisions.boxes import DetectionAgreement, TextRegionAgreement
from dovetail.compare.decisions.classes import ClassAgreement
from dovetail.compare.decisions.golden import AgainstFloat
from dovetail.compare.decisions.masks import mask_agreement
from dovetail.compare.decisions.noise import noise_against, values_against
from dovetail.compare.decisions.points import LandmarkAgreement, PointAgreement, has_landmarks
from dovetail.compare.decisions.symbols import TextAgreement
from dovetail.compare.decisions.vectors import EmbeddingAngle, EmbeddingRanking, SignalAgreement
from dovetail.compare.decisions.worst import Decision, Decisions
from dovetail.compare.task import Arrays, TaskMetric
from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray
from dovetail.outputs.decode.masks import class_map
from dovetail.outputs.layouts import (
    BinsLayout,
    DenseLayout,
    HeatmapsLayout,
    Layout,
    MaskLayout,
    PointsLayout,
    RowsLayout,
    ScoresLayout,
    SequenceLayout,
    SignalLayout,
    VectorLayout,
)
from dovetail.outputs.view import HeadView, Kind, OutputRole, OutputsView

DECISIONS = "decisions"
"""Name of the metric that compares what is recognised in a model's outputs."""
_MINOR = 0.1
"""Numbers that are not recognised for each one that is, at most, where they are compared as numbers."""
TOP_METRICS = frozenset({"top1", "top5", "top1_agreement"})
"""Metrics that take the best entries of an output for classes."""


def metric_for(view: OutputsView, golden: Arrays) -> Decisions:
    """Return the metric that compares a model's decisions with float's.

    `golden` are the float model's outputs `[N, ...]` on some samples: what has no decision is measured against their
    range, and so are masks in which float marks nothing at all and outputs of a decision that comparing it does not
    read, such as the weights of masks; landmarks count where float detects something. Whether the view is sure enough
    is for the caller to ask (`view.sure`).
    """
    parts = [
        Decision(metric.name, head.kind.value, _outputs_of(metric, head), metric)
        for head in view.heads
        for metric in (*_metrics(head, golden), *_beside(head, golden))
    ]
    if not parts:
        raise DataError("metric: the model has no output.")
    counts = Counter(part.name for part in parts)
    return Decisions(
        tuple(
            replace(part, name=f"{part.name} {number}") if counts[part.name] > 1 else part
            for number, part in enumerate(parts, 1)
        )
    )


def _outputs_of(metric: AgainstFloat, head: HeadView) -> tuple[str, ...]:
    """Return the outputs of a head that a metric is about: of landmarks those that hold them."""
    if not isinstance(metric, LandmarkAgreement) or metric.layout.landmarks is None:
        return tuple(head.roles)
    held = {plane.output for plane in metric.layout.landmarks.planes}
    return tuple(name for name in head.roles if name in held)


def with_minor_as_numbers(view: OutputsView, golden: Arrays) -> OutputsView | None:
    """Return a view whose heads are sure, or not recognised where they are not and have few numbers beside those.

    `golden` are the float model's outputs `[N, ...]` on some samples. None where no head is sure, or where what is not
    has more than a tenth as many numbers: what they mean might be what the model decides.
    """

    def count(sure: bool) -> int:
        return sum(golden[name].size for head in view.decisions if head.sure is sure for name in head.roles)

    if not 0 < count(True) >= count(False) / _MINOR:
        return None
    heads = (
        (head,) if head.sure or head.kind is Kind.STATE else [_numbers(name, golden) for name in head.roles]
        for head in view.heads
    )
    return replace(view, heads=tuple(item for group in heads for item in group))


def _numbers(name: str, golden: Arrays) -> HeadView:
    """Return an output as numbers that are not recognised."""
    layout = VectorLayout(name, golden[name][0].size)
    return HeadView(Kind.UNKNOWN, "", {name: OutputRole.UNKNOWN}, layout, 0.0)


def _metrics(head: HeadView, golden: Arrays) -> Iterator[AgainstFloat]:
    layout = head.layout
    match layout:
        case DenseLayout() | RowsLayout():
            yield DetectionAgreement(layout)
            if isinstance(layout, DenseLayout) and has_landmarks(layout):
                yield LandmarkAgreement(layout)
        case ScoresLayout():
            yield ClassAgreement(layout)
        case MaskLayout():
            regions = head.kind is Kind.TEXT_REGIONS
            yield TextRegionAgreement(layout) if regions else mask_agreement(layout, golden[layout.output])
        case HeatmapsLayout() | PointsLayout() | BinsLayout():
            yield PointAgreement(layout)
        case SequenceLayout():
            yield TextAgreement(layout)
        case SignalLayout() if head.kind is Kind.SIGNAL:
            yield SignalAgreement(layout.output, layout.channel_axis)
        case VectorLayout() if head.kind is Kind.EMBEDDING:
            yield EmbeddingAngle(layout.output)
            yield EmbeddingRanking(layout.output, _rows(golden[layout.output]))
        case VectorLayout() if head.kind is Kind.UNKNOWN:
            yield values_against(layout.output, golden[layout.output])
        case _ if head.kind is Kind.STATE:
            yield from (SignalAgreement(name, name=f"state {name}") for name in head.roles)
        case _:
            yield from (noise_against(name, golden[name]) for name in head.roles)


def _beside(head: HeadView, golden: Arrays) -> Iterator[AgainstFloat]:
    """Yield how near the numbers are that say more of a decision and are not read to compare it.

    Rows that are left after suppression have no order that stays, so that theirs cannot be compared by place.
    """
    layout = head.layout
    if isinstance(layout, MaskLayout) and not layout.labels and _marks_nothing(layout, golden):
        yield noise_against(layout.output, golden[layout.output])
    if layout is None or (isinstance(layout, RowsLayout) and layout.suppressed):
        return
    read = _read(layout)
    for name, role in head.roles.items():
        derived = role in (OutputRole.SCORE_SUM, OutputRole.COUNT)
        if name not in read and not derived and golden[name].dtype.kind == "f":
            against = values_against if role is OutputRole.LANDMARKS else noise_against
            yield against(name, golden[name])


def _marks_nothing(layout: MaskLayout, golden: Arrays) -> bool:
    """Tell whether every cell of every sample is of one class."""
    return len({int(label) for item in golden[layout.output] for label in np.unique(class_map(layout, item))}) == 1


def _read(layout: Layout) -> frozenset[str]:
    """Return the outputs that comparing a decision reads."""
    match layout:
        case DenseLayout():
            points = layout.landmarks if has_landmarks(layout) else None
            parts = (layout.scores, layout.boxes, layout.objectness, layout.sizes, layout.offsets, points)
            return frozenset(plane.output for part in parts if part is not None for plane in part.planes)
        case RowsLayout():
            columns = (layout.boxes, layout.scores, layout.classes)
            return frozenset(part.output for part in columns if part is not None) | {layout.count}
        case BinsLayout():
            return frozenset((layout.x, layout.y))
        case _:
            return frozenset((layout.output,))


def _rows(values: AnyArray) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in np.asarray(values, np.float64).reshape(len(values), -1).tolist())


def refuse_top1(metric: TaskMetric, view: OutputsView) -> None:
    """Raise DataError where a metric takes the best class of something that is no classifier."""
    seen = {head.kind for head in view.decisions}
    if metric.name in TOP_METRICS and view.sure and Kind.CLASSIFICATION not in seen:
        kinds = ", ".join(sorted(kind.value for kind in seen))
        raise DataError(
            f"metric '{metric.name}': the model is no classifier, its outputs look like {kinds}.",
            hint=f"Take the metric '{DECISIONS}': it compares decisions of that kind with float's, without labels.",
            option="metric",
        )
