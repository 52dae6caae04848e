"""dovetail advise: which board is enough, before any search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.loading import LoadingVerb
from dovetail.cli.render import Screen
from dovetail.cli.texts import split_commas
from dovetail.cli.verb import Answer, ExitCode
from dovetail.errors import SearchError
from dovetail.files import check_ours, write_file

if TYPE_CHECKING:
    from dovetail.fit.advice import AdviceRequest
    from dovetail.report import Block
    from dovetail.report.advice import RewriteRow


@dataclass(frozen=True, kw_only=True)
class Advise(LoadingVerb):
    """Say which board is enough for a model: predicted latency, memory and what has to leave the NPU, board by board.

    Needs no data. Everything is at the 8-bit precision that a search starts from, and on the chip's CPU what the NPU
    refuses; `dovetail tune` says what accuracy costs on top. With --sizes the first board is asked at several sizes of
    the picture. With --rewrites parts of the network are written otherwise there, such as a kernel that is too large as
    a sum of smaller ones: each is tried, proved equal in float and priced, and those that save are compiled and run by
    the vendor's simulator where it is installed; --write-model writes the model with those that save and run. With
    --most-ms the exit code is 1 when no board is enough.
    """

    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model.", show_default=False)]
    target: Annotated[
        list[str],
        typer.Option(
            "--target",
            metavar="TARGET",
            help="Boards: names; named: all with a name here (the default); simulator: all that the SDK knows.",
        ),
    ] = field(default_factory=list)
    precision: Annotated[
        str | None,
        typer.Option("--precision", metavar="NAME", help="Precision; the first 8-bit one that a board prefers."),
    ] = None
    most_ms: Annotated[
        float | None, typer.Option("--most-ms", metavar="MS", help="A latency that is enough.", show_default=False)
    ] = None
    sizes: Annotated[
        list[str],
        typer.Option("--sizes", metavar="N,...", help="Ask the first board at these sizes of the picture."),
    ] = field(default_factory=list)
    rewrites: Annotated[
        bool, typer.Option("--rewrites", help="Say what writing parts otherwise brings on the first board.")
    ] = False
    write_model: Annotated[
        Path | None,
        typer.Option(
            "--write-model",
            metavar="FILE",
            help="Write the model with the rewrites that save, as float ONNX; implies --rewrites.",
            show_default=False,
        ),
    ] = None
    simulate_seconds: Annotated[
        float,
        typer.Option(
            "--simulate-seconds",
            metavar="S",
            help="How long the vendor's simulator may take for each rewrite that saves; 0 leaves it out.",
        ),
    ] = 120.0

    def run(self, screen: Screen) -> Answer:
        from dovetail.fit.advice import (
            NAMED,
            AdviceRequest,
            board_names,
            survey_boards,
            survey_stored,
            sweep_sizes,
        )
        from dovetail.report import Page, Tone, plain_data
        from dovetail.report.advice import boards_block, sizes_block, stored_block

        if self.most_ms is not None and not 0 < self.most_ms < float("inf"):
            raise SearchError(f"{self.most_ms:g} ms is no latency.", hint="More than 0.", option="most_ms")
        if not 0 <= self.simulate_seconds < float("inf"):
            text = f"{self.simulate_seconds:g} s is no time for the vendor's simulator."
            raise SearchError(text, hint="0 leaves it out.", option="simulate_seconds")
        if self.write_model is not None:
            check_ours(self.write_model)
        targets = split_commas(self.target) or (NAMED,)
        request = AdviceRequest(self.model, self.announced_options(), targets, self.precision, self.most_ms)
        request = replace(request, simulate_seconds=self.simulate_seconds)
        sizes = _sizes(self.sizes)
        with screen.progress("boards", len(board_names(targets))) as bar:
            boards = survey_boards(request, bar.advance)
        stored = survey_stored(request, boards)
        swept = sweep_sizes(request, sizes) if sizes else ()
        blocks: list[Block] = [boards_block(boards, self.most_ms)]
        blocks += [stored_block(stored)] if stored else []
        blocks += [sizes_block(swept)] if swept else []
        document: dict[str, object] = {
            "model": str(self.model),
            "boards": plain_data(boards),
            "stored": plain_data(stored),
            "sizes": plain_data(swept),
        }
        if self.rewrites or self.write_model is not None:
            told, more = self._rewritten(request, screen)
            document |= told
            blocks += more
        enough = [row for row in boards if row.enough]
        if self.most_ms is None:
            return Answer(document, Page(f"Boards for '{self.model}'", tuple(blocks)))
        verdict = f"{len(enough)} of {len(boards)} boards are enough for {self.most_ms:g} ms."
        tone = Tone.GOOD if enough else Tone.BAD
        code = ExitCode.DONE if enough else ExitCode.NO
        return Answer(document, Page(f"Boards for '{self.model}'", tuple(blocks), verdict, tone), code)

    def _rewritten(self, request: AdviceRequest, screen: Screen) -> tuple[dict[str, object], list[Block]]:
        """Return what rewrites bring, and write the model with those that save."""
        from dovetail.exporters.onnx import to_onnx
        from dovetail.fit.advice import try_normal_form
        from dovetail.fit.rewriting import try_rewrites
        from dovetail.passes.rewrites import REWRITES
        from dovetail.report import Facts, Prose, plain_data
        from dovetail.report.advice import normal_form_block, rewrites_block, simulated_block

        normal = try_normal_form(request)
        with screen.progress("rewrites, and the simulator", 2 * len(REWRITES)) as bar:
            found = try_rewrites(request, advance=bar.advance)
        blocks: list[Block] = [normal_form_block(normal)] if normal else []
        blocks.append(rewrites_block(found.rows) if found.rows else Prose("Rewrites", ("None fits this model.",)))
        if any(row.simulated is not None for row in found.rows):
            blocks.append(simulated_block(found.rows, found.boards))
        written = self.write_model if found.taken else None
        if written is not None:
            write_file(written, to_onnx(found.graph).SerializeToString())
            blocks.append(Facts("Written", (("model", str(written)), ("with", ", ".join(found.taken)))))
        elif self.write_model is not None:
            blocks.append(Prose("Nothing is written", (_why_nothing(found.rows),)))
        document: dict[str, object] = {
            "normal_form": plain_data(normal),
            "rewrites": plain_data(found.rows),
            "taken": list(found.taken),
            "simulated": plain_data(found.boards),
            "model_written": None if written is None else str(written),
        }
        return document, blocks


def _why_nothing(rows: Sequence[RewriteRow]) -> str:
    failed = [row.name for row in rows if row.simulated is not None and row.simulated.is_bad]
    return f"What would save does not run: {', '.join(failed)}." if failed else "No rewrite saves anything here."


def _sizes(texts: list[str]) -> tuple[int, ...]:
    found: list[int] = []
    for text in split_commas(texts):
        if not text.isdecimal() or len(text) > 6:
            raise SearchError(f"'{text}' is no size of a picture.", hint="For example 224,256,288.", option="sizes")
        found.append(int(text))
    return tuple(found)
