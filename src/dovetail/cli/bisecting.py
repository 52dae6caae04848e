"""What the actions of dovetail bisect share: the loop over a command, a step by hand, and the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode
from dovetail.errors import SearchError
from dovetail.files import read_file

if TYPE_CHECKING:
    from dovetail.ir import Graph
    from dovetail.report import Page
    from dovetail.search.bisect import Bisection, BisectRequest, CommandOracle, Setup
    from dovetail.search.trial import Status


def ready(setup: Setup) -> None:
    """Make the format of a bisection known where it is one of other toolchains; raise DovetailError when it is none."""
    import dovetail
    from dovetail.cli.loading import load_shapes
    from dovetail.formats import find_format, format_names
    from dovetail.search.bisect import format_writer, register_writer, writer, writer_names

    if setup.format in writer_names() and not setup.model:
        return
    if setup.format not in format_names():
        writer(setup.format)
    if not setup.model:
        raise SearchError(f"format {setup.format} needs a model.", hint="Start with --model.")
    graph = dovetail.normalize(dovetail.load_model(Path(setup.model), load_shapes(list(setup.shapes))))
    listing = read_file(Path(setup.listing)) if setup.listing else None
    register_writer(setup.format, format_writer(find_format(setup.format), graph, listing))


def run_command(bisection: Bisection, oracle: CommandOracle, screen: Screen) -> Answer:
    """Test candidates with a command until all is bisection; every answer is on disk before the next run."""
    with screen.progress("bisecting") as bar:
        while bisection.finding is None:
            bisection.write_candidate()
            if bisection.finding is not None:
                break
            answer = oracle.ask()
            bisection.record(answer.status, answer.metric, answer.note)
            bar.advance(len(bisection.answers))
    bisection.write_candidate()
    return bisect_answer(bisection, bisection.folder)


def step_by_hand(bisection: Bisection, status: Status) -> Answer:
    """Record what a person says of the candidate, and write the next one."""
    bisection.record(status, note="by hand")
    bisection.write_candidate()
    return bisect_answer(bisection, bisection.folder)


def demanded(request: BisectRequest, graph: Graph, listing: Path | None) -> BisectRequest:
    """Return a request with what its format can say; raise DovetailError where no candidate could be written."""
    from dovetail.formats import WriteRequest, find_format, format_names
    from dovetail.formats.demands import WordFormat, demands_of
    from dovetail.plan import Plan

    form = find_format(request.format) if request.format in format_names() else None
    if not isinstance(form, WordFormat):
        return request
    content = None if listing is None else read_file(listing)
    asked = WriteRequest(Plan(graph.digest, request.low), graph, content, path=str(listing or "the listing"))
    return replace(request, demands=demands_of(form, asked, request.low, request.ladder))


def bisect_answer(bisection: Bisection | None, folder: Path) -> Answer:
    """Return where a bisection stands."""
    from dovetail.report import Page
    from dovetail.report.page import Facts

    if bisection is None:
        return Answer(
            {"state": str(folder), "reset": True}, Page("Bisection", (Facts("", (("deleted", str(folder)),)),))
        )
    finding, candidate = bisection.finding, bisection.candidate
    document: dict[str, object] = {
        "state": str(folder),
        "candidate": bisection.setup.candidate_path,
        "lines": len(bisection.setup.lines),
        "runs": len(bisection.answers),
        "ended": None if finding is None else finding.outcome.value,
        "culprits": [] if finding is None else list(finding.culprits),
        "unresolved": [] if finding is None else list(finding.unresolved),
        "raised": list(candidate.raised),
        "raised_nodes": list(candidate.raised_nodes),
        "answers": [
            {"raised": len(item.raised), "status": item.status.value, "metric": item.metric, "note": item.note}
            for item in bisection.answers
        ],
    }
    return Answer(document, _page(bisection), _code(bisection))


def _code(bisection: Bisection) -> ExitCode:
    from dovetail.search.bisect import Outcome

    bad = (Outcome.UNREACHABLE, Outcome.UNTESTABLE)
    return ExitCode.NO if bisection.finding is not None and bisection.finding.outcome in bad else ExitCode.DONE


def _page(bisection: Bisection) -> Page:
    from dovetail.report.page import Block, Facts, Page, Table, Tone, flexible, left, right

    finding, candidate = bisection.finding, bisection.candidate
    rows = tuple(
        (
            str(index),
            str(len(item.raised)),
            item.status.value,
            "" if item.metric is None else f"{item.metric:g}",
            item.note,
        )
        for index, item in enumerate(bisection.answers, 1)
    )
    facts = Facts(
        "",
        (
            ("lines", str(len(bisection.setup.lines))),
            ("runs", str(len(bisection.answers))),
            ("candidate", f"{bisection.setup.candidate_path} ({len(candidate.raised)} raised)"),
        ),
    )
    columns = (right("run"), right("raised"), left("answer"), right("figure"), flexible("remark"))
    blocks: list[Block] = [facts, Table("Answers", columns, rows)] if rows else [facts]
    if finding is None:
        return Page("Bisection", tuple(blocks), "Test the candidate, then say good, bad or skip, or use run.")
    for title, lines in (("Culprits", finding.culprits), ("Cannot be told apart", finding.unresolved)):
        if lines:
            nodes = bisection.setup.nodes
            cells = tuple((line, ", ".join(nodes.get(line, ()))) for line in lines)
            blocks.append(Table(title, (flexible("line"), flexible("nodes in the file")), cells))
    tone = Tone.BAD if _code(bisection) else Tone.GOOD
    count = len(finding.culprits) + len(finding.unresolved)
    spread = f": it passes with {count} of {len(bisection.setup.lines)} lines raised" if count else ""
    return Page("Bisection", tuple(blocks), f"{finding.outcome.value}{spread}.", tone)
