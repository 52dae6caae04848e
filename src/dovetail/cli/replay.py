"""dovetail replay: derive the answer of a search again from its log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.fitting import FitProgress
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode, Verb

if TYPE_CHECKING:
    from dovetail.search.replay import ReplayResult


@dataclass(frozen=True, kw_only=True)
class Replay(Verb):
    """Derive the answer of a search again from the log of 'tune --log', without evaluating a plan.

    The model and the samples have to be where they were: ranges are found again. Says where the log and the replay
    part, and exits with 1 then.
    """

    file: Annotated[Path, typer.Argument(metavar="LOG", help="The log.")]

    def run(self, screen: Screen) -> Answer:
        from dovetail.fit import replay_fit

        with screen.progress("loading") as bar:
            replay = replay_fit(self.file, FitProgress(bar))
        return _answer(replay, self.file)


def _answer(replay: ReplayResult, path: Path) -> Answer:
    from dovetail.report.page import Facts, Page, Prose, Tone

    result = replay.result
    plan = "" if result is None else result.plan.digest
    document = {
        "log": str(path),
        "evaluations": replay.evaluations,
        "trials": replay.trials,
        "agrees": replay.agrees,
        "deviations": list(replay.deviations),
        "plan": plan,
        "culprits": [] if result is None else [item.unit for item in result.culprits],
    }
    facts = Facts(
        "",
        (
            ("log", f"{replay.evaluations} evaluations, {replay.trials} verdicts"),
            ("plan", plan[:12] or "none"),
            ("culprits", "none" if result is None else ", ".join(item.unit for item in result.culprits) or "none"),
        ),
    )
    blocks = (facts, Prose("Deviations", replay.deviations)) if replay.deviations else (facts,)
    verdict = "The log leads to the same answer." if replay.agrees else "The log and the replay part."
    code = ExitCode.DONE if replay.agrees else ExitCode.NO
    return Answer(document, Page("Replay", blocks, verdict, Tone.GOOD if replay.agrees else Tone.BAD), code)
