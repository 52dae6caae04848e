"""dovetail inspect (load): what a model is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.loading import open_text
from dovetail.cli.options import ModelVerb, read_ranges
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode
from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from dovetail.importers import Survey
    from dovetail.ir import Graph
    from dovetail.quantize import Ranges
    from dovetail.report import Facts
    from dovetail.report.page import Table


@dataclass(frozen=True, kw_only=True)
class Inspect(ModelVerb):
    """Say what a model is, and what looks suspicious about it.

    Inputs, outputs, operators, size and quantisation. The model is shown in normal form, which is what plans and ranges
    are made for. What its outputs decide is recognised, on random inputs, with how sure that is. With --ranges, the
    ranges of activations are judged too, as are the scales of a quantised model. Operators that cannot be converted are
    listed, all of them. `dovetail load` is the same command.
    """

    ranges: Annotated[
        Path | None, typer.Option("--ranges", metavar="FILE", help="Ranges to judge (dovetail calibrate).")
    ] = None

    def run(self, screen: Screen) -> Answer:
        from dovetail.importers import survey_model
        from dovetail.report import Page, describe_graph, model_page

        survey = survey_model(self.model, self.announced_options())
        if survey.unsupported:
            page = Page(f"Model '{self.model.name}' cannot be converted", tuple(_blocks(survey)))
            return Answer({"survey": survey.document}, page, ExitCode.NO)
        graph = self.graph()
        summary = describe_graph(graph, self._limits(graph))
        page = replace(model_page(summary), title=f"Model '{self.model.name}'")
        decided, block = _decisions(graph)
        document = {**summary.document, "decisions": decided, "survey": survey.document}
        return Answer(document, replace(page, blocks=(*page.blocks, block, *_blocks(survey))))

    def _limits(self, graph: Graph) -> Ranges | None:
        """Return the ranges to judge: those given, else those that a quantised model's own scales can represent."""
        import dovetail
        from dovetail.quantize import is_quantized

        if self.ranges is not None:
            return read_ranges(self.ranges, graph)
        return dovetail.dequantize(graph).ranges if is_quantized(graph) else None


def _decisions(graph: Graph) -> tuple[object, Table | Facts]:
    """Return what the outputs are recognised as, as plain data and as a block, or why that is not known."""
    import dovetail
    from dovetail.compare.decisions import see_random
    from dovetail.outputs.hints import hints_line
    from dovetail.quantize import is_quantized
    from dovetail.report import Facts, output_rows, output_table, plain_data

    try:
        view = see_random(dovetail.dequantize(graph).graph if is_quantized(graph) else graph).view
    except DovetailError as error:
        return None, Facts("Outputs", (("not looked at", open_text(graph) or str(error)),))
    rows = output_rows(view)
    return plain_data(rows), output_table(rows, "" if view.sure else _unsure_note(hints_line(view)))


def _unsure_note(line: str) -> str:
    """Return what a search can be told of outputs that are not sure; `line` says what is seen, empty for nothing."""
    if line:
        return f"Not sure of all. For a search it can be said: --decisions '{line}'"
    return "Not sure of all. For a search name a metric: --metric noise compares numbers whatever they mean"


def _blocks(survey: Survey) -> Iterator[Facts | Table]:
    from dovetail.report import Facts
    from dovetail.report.page import Table, left, right

    tensors = ", ".join(f"{count} {kind}" for kind, count in survey.tensors.items())
    facts = [("format", survey.format), ("tensors", tensors), *(("note", note) for note in survey.notes)]
    yield Facts("The file", tuple(fact for fact in facts if fact[1]))
    if survey.unsupported:
        rows = tuple((kind, str(count)) for kind, count in survey.unsupported.items())
        yield Table("Operators without a counterpart", (left("operator"), right("count")), rows)
