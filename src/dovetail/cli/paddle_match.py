"""dovetail paddle match: which operators subgraph.txt takes off the NPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.format_options import VersionOption
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb
from dovetail.files import read_file

if TYPE_CHECKING:
    from dovetail.formats.paddle import Dialect, LoggedOperation, SubgraphRule


@dataclass(frozen=True, kw_only=True)
class PaddleMatch(Verb):
    """Say which operators the rules of subgraph.txt match, exactly as Paddle Lite does, and what that cuts.

    With --mixed also which operators the mixed-precision file has in float on the NPU: one of both files is on the CPU.
    """

    file: Annotated[Path, typer.Argument(metavar="FILE", help="subgraph.txt.", show_default=False)]
    log: Annotated[Path, typer.Option("--log", metavar="FILE", help="Log of a run (log.txt).")]
    version: VersionOption = ""
    mixed: Annotated[
        Path | None, typer.Option("--mixed", metavar="FILE", help="The mixed-precision file that goes with it.")
    ] = None

    def run(self, screen: Screen) -> Answer:
        from dovetail.formats.paddle import PaddleDevice, estimate_subgraphs
        from dovetail.formats.paddle.formats import dialect_of, operations_of
        from dovetail.formats.paddle.operators import TIMVX_OPERATORS
        from dovetail.formats.paddle.policy import policy_of
        from dovetail.report import Facts, Page, Table
        from dovetail.report.page import flexible, right

        operations = operations_of(read_file(self.log), str(self.log))
        dialect = dialect_of(self.version)
        rules = _rules(self.file, dialect)
        floats = () if self.mixed is None else _rules(self.mixed, dialect)
        policy = policy_of(operations, rules, floats)
        able = [op.op_type in TIMVX_OPERATORS for op in operations]
        kept = [ok and where is not PaddleDevice.CPU for ok, where in zip(able, policy.devices, strict=True)]
        before, after = estimate_subgraphs(operations, able), estimate_subgraphs(operations, kept)
        cpu, in_float = policy.chosen(PaddleDevice.CPU), policy.chosen(PaddleDevice.NPU_FP32)
        facts = [("on the CPU", f"{len(cpu)} of {len(operations)} operators matched by {len(rules)} rules")]
        if self.mixed is not None:
            facts.append(("in float on the NPU", f"{len(in_float)} operators matched by {len(floats)} rules"))
        facts += [
            ("NPU subgraphs", f"{before.subgraphs} -> {after.subgraphs}"),
            ("tensors that cross", f"{before.boundary_tensors} -> {after.boundary_tensors}"),
        ]
        document = {
            "matched": _described(cpu),
            "mixed": _described(in_float),
            "operators": len(operations),
            "rules": len(rules),
            "subgraphs": {"before": before.subgraphs, "after": after.subgraphs},
            "boundary_tensors": {"before": before.boundary_tensors, "after": after.boundary_tensors},
        }
        columns = (right("line of the log"), flexible("operator"))
        tables = [
            Table(title, columns, tuple((str(op.line), op.text) for op in found))
            for title, found in (("On the CPU", cpu), ("In float on the NPU", in_float))
            if found
        ]
        return Answer(document, Page(str(self.file), (Facts("", tuple(facts)), *tables)))


def _rules(path: Path, dialect: Dialect) -> tuple[SubgraphRule, ...]:
    from dovetail.formats.paddle import load_rules
    from dovetail.formats.text import decode

    return load_rules(decode(read_file(path), str(path)), dialect)


def _described(operations: Sequence[LoggedOperation]) -> list[dict[str, object]]:
    return [{"line": op.line, "operator": op.text} for op in operations]
