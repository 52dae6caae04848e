"""Lay out the report of a search as a page."""

from __future__ import annotations

from collections.abc import Collection

from dovetail.report.board import board_block, farm_block
from dovetail.report.decisions import decision_table, differing_table
from dovetail.report.differences import pictures_block
from dovetail.report.figures import bytes_text, number_text, time_text
from dovetail.report.healing import healing_block
from dovetail.report.outputs import output_table
from dovetail.report.page import Block, Column, Facts, Page, Picture, Prose, Table, Tone, flexible, left, listed, right
from dovetail.report.record import PartitionRow, ProofSummary, Report
from dovetail.search.result import TuneCost
from dovetail.search.trial import Trial

_LEFT = "the NPU is not used, as this network takes longer with it"
_STAYING = "over plans in which units without fault stay on the NPU: whether leaving it is cheaper was not asked"
"""What the bound does not say where units may not migrate."""


def report_page(report: Report, pictures: tuple[Picture, ...] = ()) -> Page:
    """Return the page of a report; `pictures` are of the samples that differ most."""
    blocks: list[Block] = [output_table(report.outputs)] if report.outputs else []
    blocks += [Prose("Before the search", report.notes)] if report.notes else []
    blocks += [_facts(report), _scores(report)]
    blocks += [Prose("Seen in the search", report.remarks)] if report.remarks else []
    blocks += [] if report.board is None else [board_block(report.board)]
    blocks += [farm_block(report.board)] if report.board is not None and report.board.boards else []
    if report.decisions:
        blocks.append(decision_table(report.decisions, "hold-out"))
    if report.differing:
        blocks.append(differing_table(report.differing, "hold-out"))
    if pictures:
        blocks.append(pictures_block(pictures))
    if report.healing is not None:
        blocks.append(healing_block(report.healing, report.low))
    blocks.append(_gate(report))
    if report.culprits:
        blocks += [_culprits(report), _reasons(report)]
    if report.evidence:
        blocks.append(_evidence(report))
    if report.companions:
        blocks.append(_companions(report))
    if report.proof is not None:
        blocks.append(_proof(report.proof, report.low, {row.target for row in report.partitions}))
        blocks += [_clauses(report.proof)] if report.proof.clauses else []
    if len(report.front) > 1:
        blocks.append(_front(report))
    if len(report.pareto) > 1:
        blocks.append(_pareto(report))
    blocks.append(partition_table(report.partitions))
    return Page(report.title, tuple(blocks), f"{report.summary}.", Tone.GOOD if report.accepted else Tone.BAD)


def partition_table(rows: tuple[PartitionRow, ...]) -> Table:
    """Return the table of partitions."""
    columns = (right("#"), left("target"), right("nodes"), right("in"), right("out"), flexible("operators"))
    cells = tuple(
        (
            str(row.index),
            row.target,
            str(row.node_count),
            bytes_text(row.input_bytes),
            bytes_text(row.output_bytes),
            row.operators,
        )
        for row in rows
    )
    return Table("Partitions, in the order in which they run", columns, cells)


def _facts(report: Report) -> Facts:
    cost = report.cost
    spread = ", ".join(f"{count} nodes on {place}" for place, count in report.plan.placements)
    return Facts(
        "",
        (
            ("goal", f"{report.metric}: {report.goal}"),
            ("gate", report.diagnosis),
            ("plan", f"{spread}; {report.plan.boundary_count} boundaries ({report.plan.digest[:12]})"),
            ("raised", _raised(report)),
            ("rejected early", _rejected_early(cost)),
            (
                "cost",
                f"{cost.trials} plans tried, {cost.full_equivalents:.1f} full evaluations, {cost.elapsed_s:.1f} s "
                f"({cost.fresh_samples} samples run, {cost.recalled_samples} recalled from the journal)",
            ),
            *((("not tried", "; ".join(cost.untried)),) if cost.untried else ()),
        ),
    )


def _rejected_early(cost: TuneCost) -> str:
    """Say how sure the verdicts are that were given on a part of the samples: errors add up (union bound)."""
    count, alpha = cost.rejected_early, cost.alpha
    if not count:
        return "nothing: every plan was tried on all samples"
    sure = max(0.0, 1 - count * alpha)
    return (
        f"{count} plans, on the first samples; each would have passed on all with a probability of at most {alpha:g}, "
        f"so that all are right with one of at least {sure:.3g}; what passes has passed on all samples"
    )


def _raised(report: Report) -> str:
    culprits, companions = len(report.culprits), len(report.companions)
    text = f"{culprits + companions} of {report.unit_count} units that start at {report.low}"
    known = report.one_minimal or not culprits
    parts = [f"{culprits} break" if known else f"of {culprits} not each is known to break"]
    parts += [f"{companions} go along as that is cheaper"] if companions else []
    return f"{text}: {', '.join(parts)}" if len(parts) > 1 or not known else text


def _scores(report: Report) -> Table:
    columns = (
        left("split"),
        right("samples"),
        right("float"),
        right(f"all {report.low}"),
        right("tuned"),
        left("exact"),
    )
    rows = tuple(
        (
            scores.name,
            str(scores.samples),
            number_text(scores.float_score),
            _score(scores.low, scores.low_samples, scores.samples),
            _score(scores.tuned, scores.tuned_samples, scores.samples),
            "yes" if scores.tuned_exact is not None else "no",
        )
        for scores in report.scores
    )
    direction = "higher is better" if report.higher_is_better else "lower is better"
    return Table(f"Scores ({report.metric}, {direction})", columns, rows)


def _score(score: float, samples: int | None, total: int) -> str:
    """Return a score, with the number of samples where it is not over all."""
    return number_text(score) if samples in (None, total) else f"{number_text(score)} ({samples} samples)"


def _gate(report: Report) -> Table:
    rows = tuple((item.name, *_trial(item.trial)) for item in report.gate)
    return Table("Gate", (left("plan"), *_TRIAL_COLUMNS), rows)


def _culprits(report: Report) -> Table:
    rows = tuple((item.unit, item.op, str(len(item.nodes)), str(item.placement)) for item in report.culprits)
    columns = (flexible("unit"), left("operator"), right("nodes"), left("goes to"))
    title = "Units that break at low precision"
    return Table(title if report.one_minimal else "Raised units, not each of which is known to break", columns, rows)


def _reasons(report: Report) -> Prose:
    return Prose("Why", tuple(f"{item.unit}: {item.reason}" for item in report.culprits))


def _evidence(report: Report) -> Table:
    rows = tuple((item.unit, time_text(item.latency_ns), *_trial(item.trial)) for item in report.evidence)
    tested = "Each unit was put back alone and tested: none of them can be spared."
    if report.companions:
        tested = "Each unit was put back alone and tested, or with all that go along: none of the others can be spared."
    note = tested if report.one_minimal else "Some removals pass or were not tested: a smaller set may do."
    columns = (flexible("without"), right("latency"), *_TRIAL_COLUMNS)
    return Table("Evidence: the plan without one raised unit", columns, rows, note)


def _companions(report: Report) -> Table:
    rows = tuple((item.unit, item.op, str(item.placement)) for item in report.companions)
    columns = (flexible("unit"), left("operator"), left("goes to"))
    return Table("Units that go along because that is cheaper", columns, rows)


def _proof(proof: ProofSummary, low: str, targets: Collection[str]) -> Facts:
    parts = (
        f"units {time_text(proof.compute_ns)}, boundaries {time_text(proof.boundary_ns)}, "
        f"switches {time_text(proof.switch_ns)}"
    )
    beside = [] if proof.low_ns is None else [("beside", f"{time_text(proof.low_ns)} with everything at {low}")]
    if proof.low_ns is not None and proof.latency_ns < proof.low_ns and low.partition("@")[0] not in targets:
        beside.append(("", _LEFT))
    return Facts(
        "Latency of the plan, one sample",
        (
            ("latency", f"{time_text(proof.latency_ns)}: {parts}"),
            *beside,
            *_bound(proof),
            *(() if proof.migrates else (("", _STAYING),)),
            ("memory", bytes_text(proof.memory_bytes)),
            *(("figures", source) for source in proof.sources),
        ),
    )


def _bound(proof: ProofSummary) -> list[tuple[str, str]]:
    """Return the lines of the lower bound: what is proven, or the cheapest plan where nothing was."""
    bound = f"{time_text(proof.lower_bound_ns)}, gap {proof.gap:.1%}"
    if not (proof.tests or proof.clauses or proof.complete):
        return [("lower bound", f"{bound}: no plan takes less, whatever it loses; no cheaper one was tested")]
    monotone = "no answer speaks against it" if proof.monotone else "an answer speaks against it"
    ended = "" if proof.complete else "; it was ended by its budget"
    return [
        ("lower bound", f"{bound} ({proof.tests} tests{ended})"),
        ("", f"if raising a unit never makes it worse: {monotone}"),
    ]


def _clauses(proof: ProofSummary) -> Table:
    rows = tuple(
        (", ".join(item.unit for item in clause), ", ".join(dict.fromkeys(str(item.placement) for item in clause)))
        for clause in sorted(proof.clauses, key=len)
    )
    note = "With everything else raised and all of a line low, the target is missed."
    return Table(
        "Of every line at least one unit has to be raised", (listed("units"), left("to, or above")), rows, note
    )


def _front(report: Report) -> Table:
    rows = tuple(
        (
            time_text(point.latency_ns),
            number_text(point.score),
            "yes" if point.meets_target else "no",
            " ".join(word for word, is_so in (("<- chosen", point.chosen), ("knee", point.knee)) if is_so),
            str(len(point.raised)),
            ", ".join(point.raised) or "(none)",
        )
        for point in report.front
    )
    columns = (right("latency"), right("score"), left("meets goal"), left(""), right("raised"), listed("units"))
    return Table("Latency against score (search split)", columns, rows)


def _pareto(report: Report) -> Table:
    rows = tuple(
        (
            str(len(point.raised)),
            number_text(point.score),
            "yes" if point.meets_target else "no",
            "<- chosen" if point.chosen else "",
            ", ".join(point.raised) or "(none)",
        )
        for point in report.pareto
    )
    columns = (right("raised"), right("score"), left("meets goal"), left(""), listed("units"))
    return Table("Fewest raised units against score (search split)", columns, rows)


_TRIAL_COLUMNS: tuple[Column, ...] = (
    right("score"),
    right("float"),
    right("samples"),
    left("status"),
    flexible("remark"),
)


def _trial(trial: Trial) -> tuple[str, ...]:
    return (
        number_text(trial.score),
        number_text(trial.float_score),
        f"{trial.samples}/{trial.samples_total}",
        trial.status.value,
        trial.reason,
    )
