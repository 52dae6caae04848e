"""dovetail sdk probe: ask the installed simulator what a part is and what runs where on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from dovetail.cli.render import Screen
from dovetail.cli.texts import split_commas
from dovetail.cli.verb import Answer, Verb
from dovetail.errors import PlanError
from dovetail.files import write_file

if TYPE_CHECKING:
    from dovetail.ir.precision import Precision
    from dovetail.report.page import Table


class ProbedPart(Protocol):
    """What a probe tells of a part."""

    sdk_name: str
    figures: Any
    """Numbers by name, in slots."""
    engines: Mapping[tuple[str, Precision], Enum]
    """The engine that computes an operator at a precision."""
    refused: Mapping[tuple[str, Precision], str]
    """Why the compiler takes an operator at a precision on no engine."""


@dataclass(frozen=True, kw_only=True)
class SdkProbe(Verb):
    """Compile one-operator graphs for parts of VeriSilicon's simulator: figures, engines and refusals.

    A part is one of Dovetail's (vsi:v853), any name of the simulator (vsi:VIP9000PICO_PID0XEE) or vsi:pid=0xee.
    A part takes one to five minutes; fp16 and fp32 take many more.
    """

    parts: Annotated[list[str], typer.Argument(metavar="TARGET...", help="Parts to ask about.")]
    precision: Annotated[
        list[str] | None,
        typer.Option("--precision", help="Only these precisions; the integer ones by default. Repeat or use commas."),
    ] = None
    operator: Annotated[
        list[str] | None, typer.Option("--operator", help="Only these operators. Repeat or use commas.")
    ] = None
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the table of these parts to this JSON file.")
    ] = None

    def run(self, screen: Screen) -> Answer:
        from dovetail.report.page import Page

        # The graphs are the test cases' own, which nothing of the product imports: they are looked up by name.
        probing = import_module("dovetail.testing.probing")
        names = split_commas(self.parts)
        precisions = tuple(_precision(text) for text in split_commas(self.precision or [])) or probing.QUICK
        found: dict[str, ProbedPart] = {}
        with screen.progress("probing", len(names)) as bar:
            for name in names:
                part = probing.probe_target(name, precisions, tuple(split_commas(self.operator or [])))
                found[part.sdk_name] = part
                bar.advance(1)
        data: bytes = probing.parts_to_json(found)
        if self.output is not None:
            write_file(self.output, data.decode())
        tables = tuple(_table(part) for part in found.values())
        document = {
            "parts": [
                {
                    "name": part.sdk_name,
                    "figures": {key: getattr(part.figures, key) for key in part.figures.__slots__},
                    "engines": [
                        {"op": op, "precision": at.value, "engine": engine.value}
                        for (op, at), engine in sorted(part.engines.items(), key=str)
                    ],
                    "refused": [
                        {"op": op, "precision": at.value, "reason": reason}
                        for (op, at), reason in sorted(part.refused.items(), key=str)
                    ],
                }
                for part in found.values()
            ],
            "file": None if self.output is None else str(self.output),
        }
        return Answer(document, Page("Parts", tables))


def _precision(text: str) -> Precision:
    from dovetail.ir.precision import Precision

    try:
        return Precision(text)
    except ValueError:
        known = ", ".join(item.value for item in Precision)
        raise PlanError(f"precision '{text}' is unknown.", hint=f"Known: {known}.") from None


def _table(part: ProbedPart) -> Table:
    from dovetail.ir.precision import Precision
    from dovetail.report.page import Table, flexible, left

    rows = [(key.replace("_", " "), str(getattr(part.figures, key))) for key in part.figures.__slots__]
    for precision in Precision:
        engines = Counter(engine.value for (_, at), engine in part.engines.items() if at is precision)
        refused = sorted(op for op, at in part.refused if at is precision)
        if engines or refused:
            said = ", ".join(f"{count} on {engine}" for engine, count in sorted(engines.items()))
            rows.append((precision.value, said + (f"; refused: {', '.join(refused)}" if refused else "")))
    return Table(part.sdk_name, (left("what"), flexible("found")), tuple(rows))
