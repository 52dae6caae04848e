"""The options that several commands share: how they are spelled, and what they open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from dovetail.cli.loading import LoadingVerb
from dovetail.cli.texts import one_of, split_commas
from dovetail.cli.verb import LOADING, Verb
from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from dovetail.cli.render import Screen
    from dovetail.data import InputSpec, Preprocess, SampleSource
    from dovetail.ir import Graph
    from dovetail.ir.precision import Precision
    from dovetail.plan import Placement, Plan
    from dovetail.quantize import CalibrationOptions, Dequantized, Ranges

_PREPROCESS = "preprocess.toml"
"""As `tune` calls it."""
_SHARE = 99.99
"""Of values that percentile keeps, in percent, where nobody says otherwise."""

TargetOption = Annotated[
    list[str], typer.Option("--target", metavar="TARGET", help="Target, such as vsi:v853; repeat it or use commas.")
]
DrawingOption = Annotated[
    Path | None, typer.Option("--dot", metavar="FILE", help="Draw where nodes run: .dot, or .svg through graphviz.")
]
LabelsOption = Annotated[
    Path | None, typer.Option("--labels", metavar="FILE", help="Labels beside the samples (CSV or JSON).")
]
DecisionsOption = Annotated[
    str | None,
    typer.Option(
        "--decisions",
        metavar="LINE|FILE",
        help="What outputs decide: boxes=bbox_*,scores=cls_*,kind=detection,threshold=0.5, or a TOML file; else "
        "recognised.",
        show_default=False,
    ),
]
PlanOption = Annotated[Path, typer.Option("--plan", metavar="FILE", help="Plan (dovetail plan).")]
RangesOption = Annotated[Path, typer.Option("--ranges", metavar="FILE", help="Ranges (dovetail calibrate).")]
RangesBesideOption = Annotated[
    Path | None,
    typer.Option(
        "--ranges",
        metavar="FILE",
        help="Ranges (dovetail calibrate); ranges.json beside the plan.",
        show_default=False,
    ),
]


HOST = "cpu"
HOST_PLACE = f"{HOST}@fp32"
"""Where everything runs that nothing else takes."""


@dataclass(frozen=True, kw_only=True)
class ModelVerb(LoadingVerb):
    """The options of commands about one model."""

    section: ClassVar[str] = LOADING

    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Model: .onnx, .tflite, .pt2, .pb, ... (docs/reference/importers.md).",
            show_default=False,
        ),
    ]
    dequantize: Annotated[
        bool, typer.Option("--dequantize", help="Take a quantised model as the float model that it stands for.")
    ] = False

    def graph(self) -> Graph:
        """Return the model in normal form: the graph that plans and ranges are made for."""
        return self.source_graph() if self._float_model is None else self._float_model.graph

    def planned(self, path: Path) -> tuple[Graph, Plan]:
        """Return the graph that the plan in a file is for, with its repairs, and the plan.

        Plans are for float models: of a quantised one it is the model that it stands for.
        """
        import dovetail
        from dovetail.repair import repaired_for

        plan = dovetail.load_plan(path)
        graph = self.graph()
        return repaired_for(plan, graph if graph.digest == plan.graph_digest else self.float_graph()), plan

    def float_graph(self) -> Graph:
        """Return the model in normal form, a quantised one as the float model that it stands for."""
        import dovetail
        from dovetail.quantize import is_quantized

        graph = self.graph()
        return dovetail.dequantize(graph).graph if is_quantized(graph) else graph

    def source_graph(self) -> Graph:
        """Return the model in normal form, quantised where the file is."""
        return self.load(self.model)

    @cached_property
    def _float_model(self) -> Dequantized | None:
        import dovetail

        return dovetail.dequantize(self.source_graph()) if self.dequantize else None


@dataclass(frozen=True, kw_only=True)
class SamplesVerb(Verb):
    """The options of commands that open samples."""

    preprocess: Annotated[
        Path | None,
        typer.Option("--preprocess", metavar="FILE", help="How images become tensors (TOML)."),
    ] = None

    @property
    def planned_by(self) -> Path | None:
        """Return the plan or the bundle that the samples are for, if there is one."""
        return None

    def completed(self, screen: Screen) -> SamplesVerb:
        """Take the preprocessing that tune left beside the plan or the bundle, where images are read and none is given.

        Raises nothing: a file that is damaged is refused when it is read.
        """
        place, data = self.planned_by, getattr(self, "data", None)
        if self.preprocess is not None or place is None or data is None or str(data).endswith(".npz"):
            return self
        found = place.parent / _PREPROCESS
        if not (found.is_file() and (place.is_dir() or place.suffix == ".json")):
            return self
        screen.note(f"images become inputs as {found} says.")
        return replace(self, preprocess=found)

    def open(
        self, source: str, specs: Sequence[InputSpec], labels: Path | None = None, limit: int | None = None
    ) -> SampleSource:
        """Open samples, all of them or the first so many."""
        import dovetail
        from dovetail.data import first_samples

        return first_samples(dovetail.open_samples(source, specs, self.steps, labels), limit)

    @property
    def steps(self) -> Preprocess | None:
        """Return how images become tensors, where that is said."""
        from dovetail.data import load_preprocess

        return None if self.preprocess is None else load_preprocess(self.preprocess)


@dataclass(frozen=True, kw_only=True)
class DataVerb(SamplesVerb):
    """The options of commands that need samples."""

    data: Annotated[
        str,
        typer.Option("--data", metavar="DATA", help="Samples: an .npz, a folder of .npy files or of images."),
    ]


@dataclass(frozen=True, kw_only=True)
class CalibrationVerb(Verb):
    """The options of commands that calibrate."""

    method: Annotated[
        str,
        typer.Option("--method", metavar="NAME", help="minmax, moving_average, percentile, kl or mse."),
    ] = "minmax"
    percentile: Annotated[
        float, typer.Option("--percentile", metavar="SHARE", help="Share kept by percentile, in percent.")
    ] = _SHARE

    def calibration_options(self) -> CalibrationOptions:
        """Return the options of the library."""
        from dovetail.quantize import CalibrationMethod, CalibrationOptions, ObserverOptions

        known = [method.value for method in CalibrationMethod]
        name = one_of("--method", self.method, known)
        if name != CalibrationMethod.PERCENTILE.value and self.percentile != _SHARE:
            raise DovetailError(
                f"--percentile {self.percentile:g} is for the method 'percentile', and this one is '{name}'.",
                hint="Add --method percentile.",
            )
        return CalibrationOptions(CalibrationMethod(name), ObserverOptions(percentile=self.percentile))


def whole_plan(graph: Graph, place: Placement) -> Plan:
    """Return the plan that has everything at one placement, and on the CPU what is refused there."""
    import dovetail

    host = dovetail.parse_placement(HOST_PLACE)
    targets = {name: dovetail.find_target(name) for name in (place.target, HOST)}
    return dovetail.make_plan(graph, dovetail.Recipe(place, (host,)), targets)


def precisions_of(texts: Sequence[str]) -> tuple[Precision, ...]:
    """Return the precisions of these names, given repeatedly or with commas."""
    from dovetail.ir.precision import Precision

    known = [item.value for item in Precision]
    return tuple(Precision(one_of("--precision", name, known)) for name in split_commas(texts))


def read_ranges(path: Path | None, graph: Graph) -> Ranges:
    """Return ranges after checking that they are for this graph; none at all without a file."""
    import dovetail

    if path is None:
        return dovetail.Ranges(graph.digest, "none", 0, {})
    ranges = dovetail.load_ranges(path)
    if ranges.graph_digest != graph.digest:
        raise DovetailError(
            f"{path}: the ranges were made for graph {ranges.graph_digest[:12]}, not for '{graph.name}' "
            f"({graph.digest[:12]}).",
            hint="Calibrate again with 'dovetail calibrate'.",
        )
    return ranges
