"""dovetail bisect: find the culprits with any command, or by hand, in the manner of git bisect."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.bisecting import bisect_answer, demanded, ready, run_command, step_by_hand
from dovetail.cli.options import HOST_PLACE
from dovetail.cli.render import Screen
from dovetail.cli.texts import one_of
from dovetail.cli.verb import Answer, Verb
from dovetail.errors import SearchError

if TYPE_CHECKING:
    from dovetail.search.bisect import Bisection, BisectRequest, MetricRule, Setup

_ACTIONS = ("start", "run", "good", "bad", "skip", "log", "replay", "reset")


@dataclass(frozen=True, kw_only=True)
class Bisect(Verb):
    """Find which lines break a network, with a command as the judge.

    \b
    start           begin with --model or --lines; writes the first candidate
    run -- CMD ...  test candidates: CMD exits with 0 (good), 1-124 (bad) or 125 (cannot test)
    good/bad/skip   say it by hand, and get the next candidate
    log             show the answers; replay FILE: begin again with the answers of a log
    reset           end it and delete its folder

    A candidate is a file that your toolchain reads, with the nodes to keep out of low precision.
    """

    action: Annotated[str, typer.Argument(metavar="ACTION", help="start, run, good, bad, skip, log, replay or reset.")]
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- CMD ...]", help="The command of run, the file of replay.", show_default=False),
    ] = None
    state: Annotated[Path, typer.Option("--state", metavar="FOLDER", help="Folder of the bisection.")] = Path(
        ".dovetail-bisect"
    )
    model: Annotated[
        Path | None, typer.Option("--model", metavar="FILE", help="Bisect the units of this model.", show_default=False)
    ] = None
    lines: Annotated[
        Path | None, typer.Option("--lines", metavar="FILE", help="Bisect these lines.", show_default=False)
    ] = None
    data: Annotated[
        str | None,
        typer.Option(
            "--data", metavar="DATA", help="Samples: the most suspect units first, by simulation.", show_default=False
        ),
    ] = None
    low: Annotated[
        str, typer.Option("--low", metavar="TARGET@PRECISION", help="Where units are that are not raised.")
    ] = "vsi:v853@i8pc"
    raise_to: Annotated[str, typer.Option("--raise", metavar="TARGET@PRECISION", help="Where raised units go.")] = (
        HOST_PLACE
    )
    candidate: Annotated[Path, typer.Option("--candidate", metavar="FILE", help="Where the candidate is written.")] = (
        Path("candidate.txt")
    )
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Of the candidate: exclude (raised nodes), include (the others), lines, plan, or one of "
            "'dovetail formats'.",
        ),
    ] = "exclude"
    listing: Annotated[
        Path | None,
        typer.Option("--listing", metavar="FILE", help="What the format needs beside the model.", show_default=False),
    ] = None
    certify: Annotated[
        bool, typer.Option("--certify", help="In the end put every culprit back alone and test that too.")
    ] = False
    metric_regex: Annotated[
        str, typer.Option("--metric-regex", metavar="RE", help="A figure on stdout: the first group.")
    ] = ""
    metric_json: Annotated[
        str, typer.Option("--metric-json", metavar="PATH", help="A figure on stdout, in JSON: eval.map[0].")
    ] = ""
    at_least: Annotated[
        float | None, typer.Option("--at-least", metavar="X", help="Figures from here pass.", show_default=False)
    ] = None
    at_most: Annotated[
        float | None, typer.Option("--at-most", metavar="X", help="Figures up to here pass.", show_default=False)
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="S", help="Longest time of one run, in seconds.", show_default=False),
    ] = None
    shape: Annotated[
        list[str], typer.Option("--shape", metavar="INPUT=N,C,...", help="Fix the shape of an input; repeatable.")
    ] = field(default_factory=list)

    def run(self, screen: Screen) -> Answer:
        from dovetail.search.bisect import Bisection, reset_bisection
        from dovetail.search.trial import Status

        one_of("action", self.action, _ACTIONS)
        words = self.words or []
        if words and self.action not in ("run", "replay"):
            raise SearchError(f"bisect {self.action} takes no '{words[0]}'.", hint="Options come with two dashes.")
        match self.action:
            case "start":
                return self._start(screen)
            case "reset":
                reset_bisection(self.state)
                return bisect_answer(None, self.state)
            case "run":
                return self._run(words, screen)
            case "replay":
                return self._replay(words)
            case "log":
                return bisect_answer(Bisection.open(self.state), self.state)
        verdicts = {"good": Status.PASS, "bad": Status.FAIL, "skip": Status.CANNOT_TEST}
        return step_by_hand(self._opened(), verdicts[self.action])

    def _run(self, command: list[str], screen: Screen) -> Answer:
        from dovetail.search.bisect import CommandOracle

        bisection, rule = self._opened(), self.rule()
        if not command:
            raise SearchError("there is no command to run.", hint="For example: dovetail bisect run -- ./evaluate.sh")
        if self.timeout is not None and not 0 < self.timeout < float("inf"):
            raise SearchError(f"--timeout {self.timeout:g} is no time.", hint="Seconds, more than 0.")
        environment = {"DOVETAIL_CANDIDATE": bisection.setup.candidate_path}
        return run_command(bisection, CommandOracle(command, rule, self.timeout, environment), screen)

    def rule(self) -> MetricRule | None:
        """Return how a figure is read, or None when the exit code decides."""
        from dovetail.search.bisect import MetricRule

        if not (self.metric_regex or self.metric_json) and self.at_least is None and self.at_most is None:
            return None
        rule = MetricRule(self.metric_regex, self.metric_json, self.at_least, self.at_most)
        rule.check()
        return rule

    def _opened(self) -> Bisection:
        from dovetail.search.bisect import Bisection

        found = Bisection.open(self.state)
        ready(found.setup)
        return found

    def _start(self, screen: Screen) -> Answer:
        from dovetail.search.bisect import start_bisection

        if (self.model is None) == (self.lines is None):
            raise SearchError("give either --model or --lines.", hint="--model orders the units by suspicion.")
        if self.state.resolve() in (self.candidate.resolve(), *self.candidate.resolve().parents):
            raise SearchError(f"{self.candidate}: is in the folder of the bisection.", hint="Choose another place.")
        if self.candidate.exists() or self.candidate.is_symlink():
            raise SearchError(f"{self.candidate}: exists, and every candidate would replace it.", hint="Move it away.")
        setup = self._setup(screen)
        ready(setup)
        begun = start_bisection(self.state, setup)
        begun.write_candidate()
        return bisect_answer(begun, self.state)

    def _setup(self, screen: Screen) -> Setup:
        import dovetail
        from dovetail.cli.loading import load_shapes
        from dovetail.search.bisect import make_setup, setup_of_lines

        request = self._request()
        if self.lines is not None:
            try:
                text = self.lines.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise SearchError(f"{self.lines}: cannot be read: {error}.") from error
            return setup_of_lines(text.splitlines(), request)
        assert self.model is not None
        graph = dovetail.normalize(dovetail.load_model(self.model, load_shapes(self.shape)))
        request = demanded(request, graph, self.listing)
        if self.data is None:
            return self._bound(make_setup(graph, request))
        samples = dovetail.open_samples(self.data, dovetail.specs_of(graph))
        with screen.progress("calibrating", samples.count) as bar:
            calibration = dovetail.calibrate(graph, samples, progress=bar.advance)
        return self._bound(make_setup(graph, request, calibration))

    def _bound(self, setup: Setup) -> Setup:
        """Remember the model and the listing for formats that need them at every candidate."""
        from dovetail.search.bisect import writer_names

        if setup.format in writer_names() or self.model is None:
            return setup
        listing = "" if self.listing is None else str(self.listing.absolute())
        return replace(setup, model=str(self.model.absolute()), listing=listing, shapes=tuple(self.shape))

    def _request(self) -> BisectRequest:
        import dovetail
        from dovetail.search.bisect import BisectRequest

        low, ladder = dovetail.parse_placement(self.low), (dovetail.parse_placement(self.raise_to),)
        for place in (low, *ladder):
            dovetail.find_target(place.target)
        return BisectRequest(str(self.candidate.absolute()), self.format, low, ladder, self.certify)

    def _replay(self, words: list[str]) -> Answer:
        from dovetail.search.bisect import read_log

        if len(words) != 1:
            raise SearchError("replay takes one file.", hint="For example a copy of log.jsonl in the folder.")
        again = self._opened().replay(read_log(Path(words[0])))
        again.write_candidate()
        return bisect_answer(again, self.state)

    def resume_note(self) -> str:
        return f"the answers so far are in {self.state}; the same command goes on from there."
