"""dovetail explain-diff: why a board gives something else than exact simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.beside import QuantizedVerb
from dovetail.cli.on import OnVerb
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode
from dovetail.errors import DataError

if TYPE_CHECKING:
    from dovetail.compare.difference import DifferenceReport, DifferingOperator
    from dovetail.ir import AnyArray, Graph
    from dovetail.report import Block, Page


@dataclass(frozen=True, kw_only=True)
class ExplainDiff(OnVerb, QuantizedVerb):
    """Find the first operator that a board computes otherwise than exact simulation, and the rule that explains it.

    With --bundle and --on the board runs the bundle, and tells its inner tensors where it can; with --tensors they were
    dumped by hand: an .npz by the tensors' names, or a folder of Acuity's .tensor files. Every operator is computed
    here from what the board had before it. One that differs is tried against the rules of other parts, multipliers,
    roundings, tables and kernels. The verdict is 'expected' where a rule gives the board's values everywhere, else
    'defect'; -o writes the operator with its tensors for a report. The exit code is 1 for a defect.
    """

    bundle: Annotated[
        Path | None, typer.Option("--bundle", metavar="BUNDLE", help="What the board runs, made by the same plan.")
    ] = None
    tensors: Annotated[
        Path | None, typer.Option("--tensors", metavar="FILE|FOLDER", help="Tensors of the board, dumped by hand.")
    ] = None
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Write the operator for a report.")
    ] = None

    def run(self, screen: Screen) -> Answer:
        from dovetail.compare.difference import Blame, DifferenceRequest, explain_difference
        from dovetail.compare.difference_case import write_difference

        if (self.bundle is None) == (self.tensors is None):
            raise DataError("give --bundle (with --on), or --tensors that were dumped.")
        graph, parts = self.parts(screen)
        samples = self.samples(graph)
        with screen.progress("explaining", len(parts)) as bar:
            board = self._told(graph, samples)
            found = explain_difference(DifferenceRequest(parts, samples[: len(board)], board, bar.advance))
        command = ""
        if self.output is not None and found.first is not None:
            command = write_difference(found.first, self.output, str(self.model), self._board)
        document = {**_document(found), "case": None if not command else str(self.output), "command": command}
        code = ExitCode.NO if found.blame is Blame.DEFECT else ExitCode.DONE
        return Answer(document, self._page(found, command), code)

    @property
    def _board(self) -> str:
        return str(self.tensors) if self.on is None and self.tensors is not None else self.on or "this machine"

    def _told(self, graph: Graph, samples: Sequence[Mapping[str, AnyArray]]) -> list[Mapping[str, AnyArray]]:
        import dovetail
        from dovetail.compare.told import told_by_board, told_in_files

        if self.tensors is not None:
            if self.on is not None:
                raise DataError("--tensors were dumped: no board is asked.", hint="Leave --on out.")
            return told_in_files(self.tensors, graph)
        assert self.bundle is not None
        bundle = dovetail.load_bundle(self.bundle)
        for name, kind in bundle.tensors.items():
            if name in graph.types and graph.types[name] != kind:
                raise DataError(
                    f"{self.bundle}: tensor '{name}' has another type than the plan and the ranges give it.",
                    hint="Give the plan and the ranges that the bundle was made with.",
                )
        with self.place() as place:
            return told_by_board(place, bundle, samples)

    def _page(self, found: DifferenceReport, command: str) -> Page:
        from dovetail.report import Facts, Page, Tone
        from dovetail.report.page import Prose

        blocks: list[Block] = [_facts(found)]
        if found.operators:
            blocks.append(_table(found.operators))
        if command:
            blocks.append(Facts("", (("for a report", str(self.output)), ("shown again by", command))))
        elif found.operators:
            blocks.append(Prose("", ("With -o FOLDER the operator and its tensors are written for a report.",)))
        verdict, tone = _verdict(found)
        return Page(f"'{self.model.name}' on {self._board} beside exact simulation", tuple(blocks), verdict, Tone(tone))


def _verdict(found: DifferenceReport) -> tuple[str, str]:
    from dovetail.compare.difference import Blame
    from dovetail.report import Tone

    first = found.first
    if first is None:
        return "EQUAL: every operator gives what exact simulation gives.", Tone.GOOD.value
    where = f"'{first.part.graph.nodes[-1].name}' ({first.op})"
    if first.blame is Blame.DEFECT:
        return f"DEFECT: no known rule gives what the board makes of {where}.", Tone.BAD.value
    rule = found.common_rule or first.rules[0]
    return f"EXPECTED: the board computes {where} {rule.text}.", Tone.GOOD.value


def _facts(found: DifferenceReport) -> Block:
    from dovetail.report import Facts

    explained = sum(bool(item.rules) for item in found.operators)
    facts = [
        ("samples", str(found.samples)),
        ("operators", f"{found.judged} compared, {len(found.unjudged)} of which the board tells nothing"),
        ("differing", f"{len(found.operators)}, of which {explained} are explained by a rule"),
    ]
    return Facts("", tuple(facts))


def _table(operators: Sequence[DifferingOperator]) -> Block:
    from dovetail.report.page import Table, flexible, left, right, wrapped

    rows = tuple(
        (
            item.part.graph.nodes[-1].name,
            item.op,
            str(item.steps.differing),
            str(item.steps.elements),
            str(item.steps.largest),
            item.rules[0].text if item.rules else "nothing that is known",
        )
        for item in operators
    )
    columns = (
        flexible("node"),
        left("operator"),
        right("differ"),
        right("of"),
        right("by LSB"),
        wrapped("explained: computed"),
    )
    return Table("Operators that differ from the same inputs, in order", columns, rows)


def _document(found: DifferenceReport) -> dict[str, object]:
    rule = found.common_rule
    return {
        "samples": found.samples,
        "judged": found.judged,
        "unjudged": list(found.unjudged),
        "verdict": "equal" if found.blame is None else found.blame.value,
        "rule": None if rule is None else {"name": rule.name, "text": rule.text},
        "first": None if found.first is None else _row(found.first),
        "operators": [_row(item) for item in found.operators],
    }


def _row(item: DifferingOperator) -> dict[str, object]:
    return {
        "nodes": [node.name for node in item.part.graph.nodes],
        "op": item.op,
        "tensor": item.tensor,
        "target": item.part.target,
        "elements": item.steps.elements,
        "differing": item.steps.differing,
        "largest_steps": item.steps.largest,
        "verdict": item.blame.value,
        "rules": [{"name": rule.name, "text": rule.text} for rule in item.rules],
    }
