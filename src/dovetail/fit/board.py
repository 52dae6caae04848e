"""A board as the last judge of a fit: its outputs on the hold-out have to meet the goal, and it is timed there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.bundle import Bundle
from dovetail.compile import choose_backend
from dovetail.errors import DeviceNotFound, DovetailError
from dovetail.fit.errand import BoardAnswer, Errand, equal_share, median_ns, parts_of, times_of, within_ns
from dovetail.fit.farm import ask_farm, check_farm, with_shares
from dovetail.fit.listener import FitListener
from dovetail.fit.request import BoardRequest, FitRequest
from dovetail.ir.dtypes import AnyArray
from dovetail.plan import Placement
from dovetail.plan.placement import HOST
from dovetail.remote import BoardAccess, RemoteRuntime, board_access
from dovetail.remote.farm import is_farm
from dovetail.report import BoardFigures, Report
from dovetail.runtime import ProfileOptions
from dovetail.search import TuneRequest, TuneResult
from dovetail.search.acceptance import look_doubt
from dovetail.search.context import exact_executor
from dovetail.search.evaluator import EvaluationData, Scorer
from dovetail.search.oracle import Split
from dovetail.search.outputs import KeptOutputs
from dovetail.search.race import Race
from dovetail.search.samples import SampleSet, stack_outputs
from dovetail.search.verdict import Assessment, Verdict, assess, assess_mean


def check_board(request: FitRequest, places: Sequence[Placement]) -> None:
    """Ask a board, before a search begins, whether it is there and has the backends of the targets.

    `places` are where units may go. Raises RemoteError where it is not, DeviceNotFound where it lacks one, or where
    a backend is chosen for a target that nothing is placed on. Of a farm one board has to be so.
    """
    targets = list(dict.fromkeys(place.target for place in places))
    for target in request.backends:
        if target not in (*targets, HOST):
            raise DeviceNotFound(
                f"a backend is chosen for '{target}', where nothing may go.",
                hint=f"Units go to {', '.join(dict.fromkeys((*targets, HOST)))}.",
                option="backend",
            )
        choose_backend(target, request.backends)
    if request.board is None:
        return
    owners = {target: choose_backend(target, request.backends).name for target in targets}
    if is_farm(request.board.name):
        check_farm(request.board.name, owners)
        return
    with RemoteRuntime(board_access(request.board.name)) as place:
        there = {item.name: item for item in place.devices()}
    for target, owner in owners.items():
        found = there.get(owner)
        if found is None or not found.available:
            reason = "is not installed there" if found is None else found.reason.rstrip(".")
            raise DeviceNotFound(
                f"board '{request.board.name}' cannot run '{target}': its backend '{owner}' {reason}.",
                hint="Ask the board for its devices.",
                option="on",
            )


@dataclass(frozen=True, slots=True)
class BoardJudge:
    """The answer of a search, ready to be run elsewhere."""

    asked: TuneRequest
    """The question about the graph with the repairs of the plan."""
    result: TuneResult
    bundle: Bundle
    outputs: KeptOutputs
    """What models gave on the samples."""
    retries: int = 0
    """How often a piece is tried again that a board of a farm refused."""

    def judge(self, board: BoardRequest, progress: FitListener) -> BoardFigures:
        """Return what a board gives on the hold-out; where it refuses or is lost, why.

        The search is over: whatever becomes of the board, its answer is there.
        """
        samples = SampleSet(self.asked.graph, self.asked.samples)
        splits = self.asked.splits
        order = Split.shuffled("holdout", splits.holdout, splits.seed).indices
        errand = Errand(self.asked.graph, samples, order, self.bundle, board)
        url = ""
        try:
            if is_farm(board.name):
                url = board.name
                answer = ask_farm(errand, self.retries, progress)
            else:
                access = board_access(board.name)
                url = access.url
                answer = self._ask(errand, access, progress)
        except DovetailError as error:
            return BoardFigures(board.name, url, failure=str(error))
        return self._judged(answer, order)

    def _ask(self, errand: Errand, access: BoardAccess, progress: FitListener) -> BoardAnswer:
        """Return what one board gives for the samples, in batches as simulation has them, and how long it takes."""
        name, runs = errand.board.name, errand.board.runs
        progress.stage(f"on board {name}", len(errand.order))
        gave: list[Mapping[str, AnyArray]] = []
        done = 0
        with RemoteRuntime(access) as place, place.load(self.bundle) as model:
            for batch in errand.samples.batches(errand.order):
                gave.append(model.run(batch.inputs).outputs)
                done += len(batch.samples)
                progress.advance(done)
            progress.stage(f"timing on board {name}", 2 * runs)
            profile = model.profile(errand.feeds(), ProfileOptions(runs=runs), progress.advance)
            versions = {item.name: item.version for item in place.devices()}
        return BoardAnswer(
            BoardFigures(name, access.url, parts=parts_of(self.bundle, profile, versions)),
            stack_outputs(self.asked.graph, gave),
            times_of(profile),
        )

    def _judged(self, answer: BoardAnswer, order: Sequence[int]) -> BoardFigures:
        asked, result, there = self.asked, self.result, answer.outputs
        identity = asked.metric_identity or asked.metric.name
        evaluation = asked.options.policy.evaluation
        samples = SampleSet(asked.graph, asked.samples)
        data = EvaluationData(asked.graph, samples, asked.metric, identity, evaluation, asked.source, self.outputs)
        executor = exact_executor(asked.low.target, tuple(result.plan.targets))
        ours = executor.evaluator(data, asked.calibration.ranges).outputs(result.plan, order)
        for name, values in ours.items():
            if there[name].shape != values.shape:
                why = f"output '{name}' has shape {there[name].shape} there and {values.shape} in simulation."
                return BoardFigures(answer.told.board, answer.told.url, failure=why)
        share = equal_share(ours, there)
        assessment, score = self._assessed(data, there, order, same=share == 1.0)
        verdict = assessment.verdict
        return replace(
            answer.told,
            accepted=verdict is Verdict.MET or (verdict is Verdict.LIKELY and not asked.goal.sure),
            samples=len(order),
            score=score if result.higher_is_better else -score,
            equal_share=share,
            assessment=assessment,
            boards=with_shares(answer.told.boards, [item.id for item in samples.samples(order)], ours, there),
            runs=len(answer.times_ns),
            median_ns=median_ns(answer.times_ns),
            p90_ns=within_ns(answer.times_ns, 0.9),
            p99_ns=within_ns(answer.times_ns, 0.99),
        )

    def _assessed(
        self, data: EvaluationData, there: Mapping[str, AnyArray], order: Sequence[int], *, same: bool
    ) -> tuple[Assessment, float]:
        """Return the verdict on the board's outputs, and their score; more is better.

        Outputs that are simulation's say nothing new; others are one more look at the hold-out.
        """
        asked, result, scorer = self.asked, self.result, Scorer(data)
        measured, golden = scorer.scores(dict(there), order), scorer.scores(scorer.golden(order), order)
        if same and result.holdout.tuned_exact is not None:
            return result.assessment, measured.score
        allowance = asked.goal.allowance(golden.score)
        if measured.per_sample is None or golden.per_sample is None:
            return assess_mean(golden.score - measured.score, len(order), allowance), measured.score
        doubt = look_doubt(asked.options.policy.acceptance, result.looks + 1)
        limits = Race.against(golden.per_sample, asked.options.policy.race).loss_range
        return assess(golden.per_sample - measured.per_sample, limits, doubt, allowance), measured.score


def judged_report(report: Report, found: BoardFigures) -> Report:
    """Return a report with what a board gave: accepted is only what both accept."""
    accepted = report.accepted and found.accepted
    return replace(report, board=found, accepted=accepted, summary=f"{report.summary}; {found}")
