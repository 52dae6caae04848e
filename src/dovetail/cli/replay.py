"""dovetail replay: derive the answer of a search again from its log."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Union, get_args, get_origin, get_type_hints

import typer

from dovetail.cli.render import Screen
from dovetail.cli.snippet import path_text
from dovetail.cli.tune import Tune
from dovetail.cli.verb import Answer, ExitCode, Verb
from dovetail.errors import SearchError

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
        from dovetail.cli.tuning import request_of
        from dovetail.search.log import read_search_log
        from dovetail.search.replay import replay

        verb = tune_of(read_search_log(self.file).header, self.file)
        request = request_of(verb.job(claim=False), screen)
        with screen.progress("replaying"):
            found = replay(request, self.file)
        return _answer(found, self.file)

    def python(self) -> str:
        from dovetail.search.log import read_search_log

        whole = tune_of(read_search_log(self.file).header, self.file).python()
        request, _, _ = whole.partition("result = dovetail.tune(request)")
        kept = [line for line in request.splitlines() if not line.startswith("out.mkdir(")]
        return "\n".join(
            (
                "from dovetail.search.replay import replay",
                *kept,
                f"found = replay(request, {path_text(self.file)})",
                "print(found.agrees, found.deviations)",
                "",
            )
        )


def tune_of(header: Mapping[str, object], path: Path) -> Tune:
    """Return the command that a log is of; raise SearchError when the log does not say."""
    arguments = header.get("arguments")
    if not isinstance(arguments, dict) or "model" not in arguments or "data" not in arguments:
        raise SearchError(
            f"{path}: does not say which command made it.", hint="dovetail.search.replay.replay takes a request."
        )
    hints = get_type_hints(Tune)
    known = {item.name for item in fields(Tune)}
    try:
        values = {name: _typed(hints[name], value) for name, value in arguments.items() if name in known}
        return Tune(**values)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise SearchError(f"{path}: its arguments are damaged: {str(error)[:80]}.") from error


def _typed(hint: object, value: object) -> object:
    """Return a JSON value as an option's type."""
    if get_origin(hint) in (Union, types.UnionType):
        if value is None:
            return None
        return _typed(next(item for item in get_args(hint) if item is not type(None)), value)
    if get_origin(hint) is list:
        if not isinstance(value, list):
            raise TypeError("a list is expected")
        return [_typed(get_args(hint)[0], item) for item in value]
    if hint in (str, Path) and isinstance(value, str):
        return value if hint is str else Path(value)
    if (hint in (int, bool) and isinstance(value, hint)) or (hint is float and isinstance(value, int | float)):
        return value
    raise TypeError(f"{str(value)[:40]!r} is no option")


def _answer(found: ReplayResult, path: Path) -> Answer:
    from dovetail.report.page import Facts, Page, Prose, Tone

    result = found.result
    plan = "" if result is None else result.plan.digest
    document = {
        "log": str(path),
        "evaluations": found.evaluations,
        "trials": found.trials,
        "agrees": found.agrees,
        "deviations": list(found.deviations),
        "plan": plan,
        "culprits": [] if result is None else [item.unit for item in result.culprits],
    }
    facts = Facts(
        "",
        (
            ("log", f"{found.evaluations} evaluations, {found.trials} verdicts"),
            ("plan", plan[:12] or "none"),
            ("culprits", "none" if result is None else ", ".join(item.unit for item in result.culprits) or "none"),
        ),
    )
    blocks = (facts, Prose("Deviations", found.deviations)) if found.deviations else (facts,)
    verdict = "The log leads to the same answer." if found.agrees else "The log and the replay part."
    code = ExitCode.DONE if found.agrees else ExitCode.NO
    return Answer(document, Page("Replay", blocks, verdict, Tone.GOOD if found.agrees else Tone.BAD), code)
