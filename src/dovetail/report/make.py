"""Make the report of a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from dovetail.backend.costs import Figure
from dovetail.cost import PlanCost
from dovetail.ir.graph import Graph
from dovetail.partition.partitioned import Partition, PartitionedGraph
from dovetail.report.healing import directed_healing
from dovetail.report.record import PartitionRow, PlanSummary, ProofSummary, Report
from dovetail.search.certificate import Certificate
from dovetail.search.front import ParetoPoint
from dovetail.search.result import GateCheck, SplitScores, TuneResult
from dovetail.search.trial import Trial

_SHOWN_OPERATORS = 4


def make_report(result: TuneResult, partitioned: PartitionedGraph, title: str) -> Report:
    """Return the report of a search and of the partitions that its plan gives."""
    sign = 1.0 if result.higher_is_better else -1.0
    return Report(
        title=title,
        verdict=result.verdict,
        accepted=result.accepted,
        summary=result.summary,
        assessment=result.assessment,
        diagnosis=result.gate.text,
        goal=str(result.goal),
        metric=result.metric,
        higher_is_better=result.higher_is_better,
        low=str(result.low),
        unit_count=result.unit_count,
        scores=tuple(_directed(scores, sign) for scores in (result.search, result.holdout)),
        culprits=result.culprits,
        evidence=tuple(replace(item, trial=_directed_trial(item.trial, sign)) for item in result.evidence),
        one_minimal=result.one_minimal,
        gate=tuple(GateCheck(item.name, _directed_trial(item.trial, sign)) for item in result.gate.checks),
        plan=_plan_summary(partitioned),
        pareto=tuple(
            ParetoPoint(point.raised, sign * point.score, point.meets_target, point.chosen) for point in result.pareto
        ),
        partitions=partition_rows(partitioned),
        cost=result.cost,
        companions=result.companions,
        front=tuple(replace(point, score=sign * point.score) for point in result.front),
        healing=directed_healing(result.healing, sign),
        surer=result.surer,
        remarks=result.events,
        proof=None if result.certificate is None else _proof(result.certificate),
    )


def _proof(certificate: Certificate) -> ProofSummary:
    cost = certificate.cost
    figures = [*(item.figure for item in cost.units), *(item.figure for item in cost.boundaries), cost.switch]
    return ProofSummary(
        latency_ns=cost.latency_ns,
        compute_ns=cost.compute_ns,
        boundary_ns=cost.boundary_ns,
        switch_ns=cost.switch_ns,
        memory_bytes=cost.memory.total_bytes,
        lower_bound_ns=certificate.lower_bound_ns,
        gap=certificate.gap,
        tests=certificate.tests,
        monotone=certificate.monotone,
        complete=certificate.complete,
        clauses=tuple(item.alternatives for item in certificate.clauses),
        low_ns=certificate.low_ns,
        sources=tuple(_source_text(text, cost) for text in dict.fromkeys(map(_origin, figures))),
    )


def _origin(figure: Figure) -> str:
    return f"{figure.quality.value}: {figure.source}"


def _source_text(origin: str, cost: PlanCost) -> str:
    """Return an origin of figures, and how many units it prices where there are any."""
    count = sum(_origin(item.figure) == origin for item in cost.units)
    return f"{origin} ({count} of {len(cost.units)} units)" if count else origin


def partition_rows(partitioned: PartitionedGraph) -> tuple[PartitionRow, ...]:
    """Return a row for every partition, in the order in which they run."""
    return tuple(_row(part) for part in partitioned.partitions)


def _row(part: Partition) -> PartitionRow:
    counts = Counter(node.op for node in part.graph.nodes).most_common()
    shown = ", ".join(f"{count} {op}" for op, count in counts[:_SHOWN_OPERATORS])
    return PartitionRow(
        index=part.index,
        target=part.target,
        node_count=len(part.graph.nodes),
        operators=shown + (", ..." if len(counts) > _SHOWN_OPERATORS else ""),
        input_bytes=_bytes(part.graph, part.graph.inputs),
        output_bytes=_bytes(part.graph, part.graph.outputs),
    )


def _bytes(graph: Graph, tensors: Iterable[str]) -> int | None:
    sizes = [graph.types[name].size_bytes() for name in tensors]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _plan_summary(partitioned: PartitionedGraph) -> PlanSummary:
    source = partitioned.source
    counts = Counter(str(place) for name, place in source.placements.items() if name not in source.boundaries)
    return PlanSummary(
        digest=source.plan.digest,
        default=str(source.plan.default),
        placements=tuple(counts.most_common()),
        boundary_count=len(source.boundaries),
    )


def _directed(scores: SplitScores, sign: float) -> SplitScores:
    return replace(
        scores,
        float_score=sign * scores.float_score,
        low=sign * scores.low,
        tuned=sign * scores.tuned,
        tuned_exact=None if scores.tuned_exact is None else sign * scores.tuned_exact,
    )


def _directed_trial(trial: Trial, sign: float) -> Trial:
    return replace(trial, score=sign * trial.score, float_score=sign * trial.float_score)
