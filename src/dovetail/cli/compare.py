"""dovetail compare: how far is measured from golden."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.loading import LoadingVerb
from dovetail.cli.options import LabelsOption, SamplesVerb
from dovetail.cli.render import Screen
from dovetail.cli.tally import bundle_here
from dovetail.cli.verb import Answer, ExitCode
from dovetail.errors import DataError

if TYPE_CHECKING:
    from dovetail.compare import CompareOptions, Comparison


@dataclass(frozen=True, kw_only=True)
class Compare(SamplesVerb, LoadingVerb):
    """Compare what was measured with what it should be.

    Two folders from `dovetail run --save`, or two .npz files: tensors of equal names are compared. A model and a
    bundle need --data: both run, and with --layers every layer is compared too, the one that adds most error first.
    The verdict rests on the worst slice of every output, and on --metric.
    """

    golden: Annotated[
        Path,
        typer.Argument(metavar="GOLDEN", help="Folder or .npz of golden tensors; or the model.", show_default=False),
    ]
    measured: Annotated[
        Path,
        typer.Argument(metavar="MEASURED", help="Folder or .npz that was measured; or the bundle.", show_default=False),
    ]
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DATA", help="Samples for a model and its bundle.", show_default=False),
    ] = None
    labels: LabelsOption = None
    metric: Annotated[
        list[str],
        typer.Option("--metric", metavar="NAME", help="Also judge a metric, or file.py:function; repeatable."),
    ] = field(default_factory=list)
    max_drop: Annotated[float, typer.Option("--max-drop", metavar="DROP", help="How much a metric may lose.")] = 0.01
    min_sqnr: Annotated[
        float, typer.Option("--min-sqnr", metavar="DB", help="Least SQNR of the worst slice of an output.")
    ] = 10.0
    layers: Annotated[bool, typer.Option("--layers", help="Compare every layer too.")] = False
    limit: Annotated[int, typer.Option("--samples", metavar="N", help="Use only the first N samples.")] = 16

    def run(self, screen: Screen) -> Answer:
        from dovetail.compare import CompareVerdict, to_json
        from dovetail.report import comparison_page

        bundle = bundle_here(self.measured)
        if bundle and self.data is None:
            raise DataError(f"{self.measured} is a bundle: comparing it needs samples.", hint="Add --data.")
        if not bundle and (self.data is not None or self.layers):
            raise DataError(
                f"{self.measured}: no such bundle; --data and --layers compare a model with its bundle.",
                hint="Make one with 'dovetail compile'.",
            )
        comparison = self._bundle(screen) if bundle else self._saved()
        page = comparison_page(comparison, f"{self.measured} against {self.golden}")
        code = ExitCode.DONE if comparison.verdict is CompareVerdict.PASS else ExitCode.NO
        return Answer(json.loads(to_json(comparison)), page, code)

    def _options(self) -> CompareOptions:
        from dovetail.compare import CompareOptions, TaskCheck, load_metric

        checks = tuple(TaskCheck(load_metric(name), self.max_drop) for name in self.metric)
        return CompareOptions(min_sqnr_db=self.min_sqnr, tasks=checks)

    def _bundle(self, screen: Screen) -> Comparison:
        import dovetail
        from dovetail.compare import LayerRequest, compare_layers

        options = self._options()
        bundle = dovetail.load_bundle(self.measured)
        graph = self.load(self.golden)
        samples = self.open(self.data or "", dovetail.specs_of(graph), self.labels, limit=self.limit)
        request = LayerRequest(graph, bundle, samples, options, self.layers, self.layers)
        with screen.progress("comparing") as bar:

            def listen(title: str, done: int) -> None:
                bar.rename(title)
                bar.advance(done)

            return compare_layers(request, listen)

    def _saved(self) -> Comparison:
        from dovetail.compare import compare_outputs, load_tensor_pair

        options = self._options()
        golden, measured = load_tensor_pair(self.golden, self.measured)
        return compare_outputs(golden, measured, options)
