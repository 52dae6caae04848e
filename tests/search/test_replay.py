"""The log of a search leads to its answer without an evaluation, and a log that was touched is found out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dovetail.compare.task import callable_metric
from dovetail.data import split_samples
from dovetail.errors import SearchError
from dovetail.ir import AnyArray
from dovetail.plan import Plan, parse_placement
from dovetail.quantize import calibrate
from dovetail.seal import unsealed
from dovetail.search import Goal, SearchPolicy, TuneOptions, TuneRequest, TuneResult, tune
from dovetail.search.confirm import contradictions
from dovetail.search.evaluator import Rewriter
from dovetail.search.log import read_search_log
from dovetail.search.policy import CulpritPolicy, RacePolicy
from dovetail.search.replay import replay
from dovetail.search.trial import Scores, Status, Trial
from dovetail.testing.planted import labelled_samples, planted_detector


def _right(outputs: dict[str, AnyArray], labels: dict[str, AnyArray]) -> AnyArray:
    off = np.abs(next(iter(outputs.values())) - labels["truth"])
    found: AnyArray = (off[:, 2:].max(axis=(1, 2, 3)) < 0.04) & (off[:, :2].max(axis=(1, 2, 3)) < 12)
    return found.astype(np.float64)


def _request(log: Path | None) -> TuneRequest:
    graph = planted_detector(1)
    source = labelled_samples(graph, 60, "a")
    return TuneRequest(
        graph=graph,
        calibration=calibrate(graph, source),
        samples=source,
        splits=split_samples(source),
        metric=callable_metric(_right),  # type: ignore[arg-type]
        goal=Goal(0.1),
        low=parse_placement("vsi:v853@u8"),
        ladder=(parse_placement("vsi:v853@i16"),),
        options=TuneOptions(log=log),
    )


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[TuneRequest, TuneResult, Path]:
    """Return a search, its result and its log."""
    log = tmp_path_factory.mktemp("log") / "log.jsonl"
    request = _request(log)
    return request, tune(request), log


def test_a_log_leads_to_the_same_answer_without_an_evaluation(
    logged: tuple[TuneRequest, TuneResult, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object, plan: Plan, indices: Sequence[int]) -> Scores:
        raise AssertionError("a plan was evaluated")

    monkeypatch.setattr(Rewriter, "evaluate", refuse)
    monkeypatch.setattr(Rewriter, "outputs", refuse)
    request, result, log = logged
    found = replay(request, log)
    assert found.agrees, found.deviations
    assert found.result is not None
    assert found.result.plan == result.plan
    assert found.result.evidence == result.evidence


def test_a_replay_goes_by_the_policy_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    request = _request(log)
    policy = SearchPolicy(race=RacePolicy(first_block=4, first_share=1.0), culprits=CulpritPolicy(trusted=1))
    result = tune(replace(request, options=replace(request.options, policy=policy)))
    again = replay(request, log)
    assert again.agrees, again.deviations
    assert again.result is not None
    assert again.result.evidence == result.evidence
    assert read_search_log(log).header["policy"] == json.loads(json.dumps(policy.document()))
    # By this version's own policy other samples would be wanted.
    mine = _edit(log, tmp_path / "mine", lambda lines: lines[0].update(policy=SearchPolicy().document()))
    assert not replay(request, mine).agrees
    none = _edit(log, tmp_path / "none", lambda lines: lines[0].pop("policy"))
    with pytest.raises(SearchError, match="policy: 'None' does not fit"):
        replay(request, none)


def _edit(log: Path, out: Path, change: object) -> Path:
    lines = [unsealed(json.loads(line)) for line in log.read_text().splitlines()]
    change(lines)  # type: ignore[operator]
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return out


def test_a_changed_figure_a_cut_log_and_another_question_are_said(
    logged: tuple[TuneRequest, TuneResult, Path], tmp_path: Path
) -> None:
    request, _, log = logged

    def lie(lines: list[dict[str, object]]) -> None:
        for line in lines:
            if line["event"] == "trial" and line["status"] == "fail":
                line["status"] = "pass"
                return

    (said,) = replay(request, _edit(log, tmp_path / "lie", lie)).deviations
    assert "verdict pass" in said
    assert "verdict fail" in said

    def better(lines: list[dict[str, object]]) -> None:
        for line in lines:
            if line["event"] == "evaluation" and line["score"] != 1.0:
                line["score"], line["scores"] = 1.0, [1] * len(line["scores"])  # type: ignore[arg-type]

    other = replay(request, _edit(log, tmp_path / "better", better))
    assert not other.agrees

    cut = replay(request, _edit(log, tmp_path / "cut", lambda lines: lines.__delitem__(slice(len(lines) // 2, None))))
    assert cut.result is None
    assert len(cut.deviations) == 1

    asked = replay(replace(request, goal=Goal(0.05)), log)
    assert any(item.startswith("goal:") for item in asked.deviations)


@pytest.mark.parametrize(("length", "shown"), [(40, "g" * 40), (41, "g" * 12 + "...")])
def test_what_a_question_was_is_said_up_to_a_length(
    logged: tuple[TuneRequest, TuneResult, Path], tmp_path: Path, length: int, shown: str
) -> None:
    request, _, log = logged
    edited = _edit(log, tmp_path / "log", lambda lines: lines[0].update(goal="g" * length))
    (deviation,) = (item for item in replay(request, edited).deviations if item.startswith("goal:"))
    assert deviation.startswith(f"goal: the log has {shown}, now it is ")


@pytest.mark.parametrize(
    "text", ["", "{}\n", "[1]\n", '{"event": "search", "schema": 9}\n', "\x00\n", "[" * 100000 + "\n"]
)
def test_what_is_no_log_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text)
    with pytest.raises(SearchError):
        read_search_log(tmp_path / "log")


def test_an_oracle_that_wavers_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    request = _request(None)
    result = tune(replace(request, options=TuneOptions(confirm=1)))
    assert result.accepted
    assert result.one_minimal
    assert not result.events
    seen: dict[tuple[str, tuple[int, ...]], int] = {}
    original = Rewriter.evaluate

    def wavering(self: Rewriter, plan: Plan, indices: Sequence[int]) -> Scores:
        """Give away half of the score the second time."""
        key = plan.digest, tuple(indices)
        seen[key] = seen.get(key, 0) + 1
        scores = original(self, plan, indices)
        if seen[key] == 1 or plan.default.target == "cpu":
            return scores
        assert scores.per_sample is not None
        return Scores(scores.score / 2, scores.per_sample / 2)

    monkeypatch.setattr(Rewriter, "evaluate", wavering)
    found = tune(replace(request, options=TuneOptions(confirm=1)))
    assert not found.accepted
    assert "wavers" in found.summary
    assert found.events

    seen.clear()

    def recovering(self: Rewriter, plan: Plan, indices: Sequence[int]) -> Scores:
        """Give the full score to everything from when a plan is asked for the second time."""
        key = plan.digest, tuple(indices)
        seen[key] = seen.get(key, 0) + 1
        again = any(count > 1 for (digest, _), count in seen.items() if digest == plan.digest)
        return Scores(1.0, np.ones(len(indices))) if again else original(self, plan, indices)

    monkeypatch.setattr(Rewriter, "evaluate", recovering)
    found = tune(replace(request, options=TuneOptions(confirm=1)))
    assert not found.one_minimal
    assert found.certificate is None or not found.certificate.monotone


def test_raising_more_that_makes_it_worse_is_said() -> None:
    def trial(status: Status) -> Trial:
        return Trial("p", (), status, 0.5, 1.0, 10, 10)

    wide, cpu = parse_placement("vsi:v853@i16"), parse_placement("cpu@fp32")
    ladders = dict.fromkeys("ab", (wide, cpu))
    trials = [
        ({"a": wide}, trial(Status.PASS)),
        ({"a": wide, "b": wide}, trial(Status.FAIL)),
        ({"b": cpu}, trial(Status.FAIL)),
    ]
    (text,) = contradictions(trials, ladders)
    assert "with b raised too" in text
    higher = [({"a": cpu}, trial(Status.PASS)), ({"a": wide, "b": wide}, trial(Status.FAIL))]
    assert not contradictions(higher, ladders)
