"""dovetail compare: how far is measured from golden."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.loading import LoadingVerb
from dovetail.cli.on import OnVerb
from dovetail.cli.options import DecisionsOption, LabelsOption, SamplesVerb
from dovetail.cli.render import Screen
from dovetail.cli.tally import bundle_here
from dovetail.cli.verb import Answer, ExitCode
from dovetail.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dovetail.bundle import Bundle
    from dovetail.compare import CompareOptions, Comparison, LayerRuns, TaskMetric
    from dovetail.fit.metric import ChosenMetric
    from dovetail.ir import Graph
    from dovetail.report import DifferingSample, Picture


@dataclass(frozen=True, kw_only=True)
class Compare(OnVerb, SamplesVerb, LoadingVerb):
    """Compare what was measured with what it should be.

    Two folders from `dovetail run --save`, or two .npz files: tensors of equal names are compared. A model and a
    bundle need --data: both run, and with --layers every layer is compared too, the one that adds most error first.
    The verdict rests on the worst slice of every output, and on --metric. `--metric decisions` compares what a model
    and its bundle decide; --show writes a page with pictures of that. With --on, MEASURED may be the name of a model
    that a server of the Open Inference Protocol has, such as Triton: only outputs are compared.
    """

    golden: Annotated[
        Path,
        typer.Argument(metavar="GOLDEN", help="Folder or .npz of golden tensors; or the model.", show_default=False),
    ]
    measured: Annotated[
        Path,
        typer.Argument(
            metavar="MEASURED",
            help="Folder or .npz that was measured; the bundle; or a served model.",
            show_default=False,
        ),
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
    decisions: DecisionsOption = None
    show: Annotated[
        Path | None,
        typer.Option(
            "--show",
            metavar="FILE",
            help="Write a page (HTML) with what model and bundle decide on the samples that differ most.",
            show_default=False,
        ),
    ] = None
    max_drop: Annotated[float, typer.Option("--max-drop", metavar="DROP", help="How much a metric may lose.")] = 0.01
    min_sqnr: Annotated[
        float, typer.Option("--min-sqnr", metavar="DB", help="Least SQNR of the worst slice of an output.")
    ] = 10.0
    layers: Annotated[bool, typer.Option("--layers", help="Compare every layer too.")] = False
    limit: Annotated[int, typer.Option("--samples", metavar="N", help="Use only the first N samples.")] = 16

    @property
    def planned_by(self) -> Path | None:
        return self.measured

    def run(self, screen: Screen) -> Answer:
        from dovetail.compare import CompareVerdict, to_json
        from dovetail.files import write_file
        from dovetail.report import comparison_page, page_html, plain_data

        bundle = bundle_here(self.measured)
        served = not bundle and self.on is not None
        if served:
            self._check_served()
        if bundle and self.data is None:
            raise DataError(f"{self.measured} is a bundle: comparing it needs samples.", hint="Add --data.")
        if not bundle and not served and (self.data is not None or self.layers or self._decides):
            raise DataError(
                f"{self.measured}: no such bundle; --data, --layers, --show and decisions are of a model and a bundle.",
                hint="Make one with 'dovetail compile'; of a served model name the server with --on.",
            )
        change: float | None = None
        if bundle:
            comparison, differing, pictures, change = self._bundle(screen)
        else:
            comparison, differing, pictures = self._served(screen) if served else self._saved(), (), ()
        page = comparison_page(comparison, f"{self.measured} against {self.golden}", differing, pictures)
        if self.show is not None:
            write_file(self.show, page_html(page))
        code = ExitCode.DONE if comparison.verdict is CompareVerdict.PASS else ExitCode.NO
        if code and bundle and not self.metric:
            screen.note("numbers are judged here; '--metric decisions' says what the outputs decide, too.")
        repaired = {} if change is None else {"float_change": change}
        document = {**json.loads(to_json(comparison)), "differing": plain_data(differing), **repaired}
        return Answer(document, page, code)

    @property
    def _decides(self) -> bool:
        """Tell whether it has to be known what the outputs decide."""
        from dovetail.compare.decisions import DECISIONS

        return DECISIONS in self.metric or self.show is not None or self.decisions is not None

    def _options(self, decisions: TaskMetric | None) -> CompareOptions:
        """Return what is judged; `decisions` is the metric of that name, where it is known."""
        from dovetail.compare import CompareOptions, TaskCheck, load_metric
        from dovetail.compare.decisions import DECISIONS

        metrics = (
            decisions if name == DECISIONS and decisions is not None else load_metric(name, (DECISIONS,))
            for name in self.metric
        )
        checks = tuple(TaskCheck(metric, self.max_drop) for metric in metrics)
        return CompareOptions(min_sqnr_db=self.min_sqnr, tasks=checks)

    def _bundle(self, screen: Screen) -> tuple[Comparison, Sequence[DifferingSample], Sequence[Picture], float | None]:
        """Run model and bundle, and return how they compare with the samples on which decisions differ most.

        The last one is what the plan's repairs change in float, as a share of the largest output; None without any.
        """
        import dovetail
        from dovetail.compare import LayerRequest, judge_layers, run_layers
        from dovetail.compare.decisions import DECISIONS
        from dovetail.fit.metric import choose_metric
        from dovetail.repair import relative_error, repaired_for

        bundle = dovetail.load_bundle(self.measured)
        shipped = self._float_model(self.load(self.golden), bundle)
        graph = repaired_for(bundle.plan, shipped)
        repaired = graph is not shipped
        samples = self.open(self.data or "", dovetail.specs_of(graph), self.labels, limit=self.limit)
        chosen = choose_metric(DECISIONS, self.decisions, shipped, samples) if self._decides else None
        options = self._options(None if chosen is None else chosen.metric)
        with self.place() as place, screen.progress("comparing") as bar:
            request = LayerRequest(
                graph, bundle, samples, options, self.layers, self.layers, place, shipped if repaired else None
            )

            def listen(title: str, done: int) -> None:
                bar.rename(title)
                bar.advance(done)

            runs = run_layers(request, listen)
            comparison = judge_layers(request, runs, listen)
        change: float | None = None
        if repaired:
            change = max(relative_error(runs.golden[name], runs.repaired[name]) for name in graph.outputs)
            screen.note(f"repairs change float by at most {change:.2g} of the largest output on these samples.")
        return comparison, *(((), ()) if chosen is None else self._differing(chosen, runs)), change

    def _check_served(self) -> None:
        """Raise DataError where what is asked of a served model cannot be had."""
        if self.measured.exists():
            hint = "Make a bundle with 'dovetail compile', or name a model that the server has."
            raise DataError(f"{self.measured}: boards run bundles.", hint=hint)
        if self.data is None:
            raise DataError(f"model '{self.measured}' of {self.on}: comparing it needs samples.", hint="Add --data.")
        if self.layers or self._decides:
            raise DataError(
                f"model '{self.measured}' of {self.on}: only its outputs are seen.",
                hint="Leave out --layers, --show and decisions; or compare a bundle.",
            )

    def _served(self, screen: Screen) -> Comparison:
        """Run the model here, and the one that the server has under a name."""
        import dovetail
        from dovetail.compare import compare_elsewhere
        from dovetail.remote import RemoteRuntime

        graph = self.load(self.golden)
        samples = self.open(self.data or "", dovetail.specs_of(graph), self.labels, limit=self.limit)
        with self.place() as place, screen.progress("comparing") as bar:
            if not isinstance(place, RemoteRuntime):
                raise DataError(f"{self.on}: a kit's results are of one bundle.", hint="Name that bundle.")
            model = place.served(str(self.measured))
            return compare_elsewhere(graph, samples, model.run, self._options(None), bar.advance)

    def _float_model(self, graph: Graph, bundle: Bundle) -> Graph:
        """Return the model, in float where the bundle was made of a quantised file taken as its float model."""
        import dovetail
        from dovetail.quantize import is_quantized

        if bundle.plan.graph_digest == graph.digest or not is_quantized(graph):
            return graph
        return dovetail.dequantize(graph).graph

    def _differing(self, chosen: ChosenMetric, runs: LayerRuns) -> tuple[Sequence[DifferingSample], Sequence[Picture]]:
        """Return the samples on which decisions differ most: in words and, for a page, as pictures."""
        from dovetail.report import differing_pictures, differing_rows, differing_samples

        view, metric = chosen.view, chosen.decisions
        if view is None or metric is None:
            return (), ()
        shown = differing_samples(metric, runs)
        return differing_rows(view, shown), differing_pictures(view, shown, self.steps)

    def _saved(self) -> Comparison:
        from dovetail.compare import compare_outputs, load_tensor_pair

        options = self._options(None)
        golden, measured = load_tensor_pair(self.golden, self.measured)
        return compare_outputs(golden, measured, options)
