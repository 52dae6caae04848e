"""dovetail acuity compare: golden tensors against those of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode, Verb
from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from dovetail.formats.acuity import Similarity


@dataclass(frozen=True, kw_only=True)
class AcuityCompare(Verb):
    """Compare tensor files that Acuity dumped: two files, or two folders paired by file name.

    The first two figures are those of compute_tensor_similarity. The verdict is that of the worst group: every index of
    the last axis, or the parts that --slice names.
    """

    golden: Annotated[Path, typer.Argument(metavar="GOLDEN", help="Golden file or folder.", show_default=False)]
    test: Annotated[Path, typer.Argument(metavar="TEST", help="File or folder to judge.", show_default=False)]
    slices: Annotated[
        list[str],
        typer.Option("--slice", metavar="NAME=A:B", help="Part of the last axis that is judged alone; repeatable."),
    ] = field(default_factory=list)
    axis: Annotated[int | None, typer.Option("--by-axis", metavar="N", help="Judge every index of this axis.")] = None
    min_cosine: Annotated[float, typer.Option("--min-cos", metavar="COS", help="Least cosine of the worst group.")] = (
        0.99
    )

    def run(self, screen: Screen) -> Answer:
        from dovetail.report import Page, Prose, Tone

        found = self._figures()
        bad = [name for name, item in found.items() if not item.worst_cosine >= self.min_cosine]
        blocks = tuple(Prose("" if len(found) == 1 else name, item.lines()) for name, item in found.items())
        verdict = (
            f"FAIL: {', '.join(bad[:4])}: a group below cosine {self.min_cosine:g}."
            if bad
            else f"PASS: every group has a cosine of at least {self.min_cosine:g}."
        )
        document = {"tensors": {name: asdict(item) for name, item in found.items()}, "failed": bad}
        page = Page(f"{self.test} against {self.golden}", blocks, verdict, Tone.BAD if bad else Tone.GOOD)
        return Answer(document, page, ExitCode.NO if bad else ExitCode.DONE)

    def _figures(self) -> Mapping[str, Similarity]:
        from dovetail.formats.acuity import compare_files, compare_folders
        from dovetail.formats.acuity.similarity import Grouping, parse_slices

        grouping = Grouping(self.axis, parse_slices(self.slices).slices)
        for path in (self.golden, self.test):
            if not path.exists():
                raise DovetailError(f"{path}: does not exist.", hint="Check the path.")
        if self.golden.is_dir() != self.test.is_dir():
            raise DovetailError("a folder and a file cannot be compared.", hint="Give two files or two folders.")
        if self.golden.is_dir():
            return compare_folders(self.golden, self.test, grouping)
        return {self.golden.name: compare_files(self.golden, self.test, grouping)}
