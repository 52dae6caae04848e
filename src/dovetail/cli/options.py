"""The options that several commands share: how they are spelled, and what they open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.loading import LoadingVerb
from dovetail.cli.verb import Verb
from dovetail.errors import DataError, DovetailError

if TYPE_CHECKING:
    from dovetail.data import InputSpec, SampleSource
    from dovetail.ir import Graph
    from dovetail.quantize import CalibrationOptions, Dequantized, Ranges

TargetOption = Annotated[
    list[str], typer.Option("--target", metavar="TARGET", help="Target, such as vsi:v853; repeat it or use commas.")
]
PlanOption = Annotated[Path, typer.Option("--plan", metavar="FILE", help="Plan (dovetail plan).")]
RangesOption = Annotated[Path, typer.Option("--ranges", metavar="FILE", help="Ranges (dovetail calibrate).")]


@dataclass(frozen=True, kw_only=True)
class ModelVerb(LoadingVerb):
    """Hold what every command about a model has."""

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

    def source_graph(self) -> Graph:
        """Return the model in normal form, quantised where the file is."""
        return self.load(self.model)

    @cached_property
    def _float_model(self) -> Dequantized | None:
        import dovetail

        return dovetail.dequantize(self.source_graph()) if self.dequantize else None


@dataclass(frozen=True, kw_only=True)
class SamplesVerb(Verb):
    """Hold how samples are opened."""

    preprocess: Annotated[
        Path | None, typer.Option("--preprocess", metavar="FILE", help="How images become tensors (TOML).")
    ] = None

    def open(self, source: str, specs: Sequence[InputSpec], labels: Path | None = None) -> SampleSource:
        """Open samples."""
        import dovetail
        from dovetail.data import load_preprocess

        steps = None if self.preprocess is None else load_preprocess(self.preprocess)
        return dovetail.open_samples(source, specs, steps, labels)


@dataclass(frozen=True, kw_only=True)
class DataVerb(SamplesVerb):
    """Hold what every command that needs samples has."""

    data: Annotated[
        str,
        typer.Option("--data", metavar="DATA", help="Samples: an .npz, a folder of .npy files or of images."),
    ]


@dataclass(frozen=True, kw_only=True)
class CalibrationVerb(Verb):
    """Hold how ranges are found."""

    method: Annotated[
        str,
        typer.Option("--method", metavar="NAME", help="minmax, moving_average, percentile, kl or mse."),
    ] = "minmax"
    percentile: Annotated[
        float, typer.Option("--percentile", metavar="SHARE", help="Share kept by percentile, in percent.")
    ] = 99.99

    def calibration_options(self) -> CalibrationOptions:
        """Return the options of the library."""
        from dovetail.quantize import CalibrationMethod, CalibrationOptions, ObserverOptions

        known = [method.value for method in CalibrationMethod]
        name = one_of("--method", self.method, known)
        return CalibrationOptions(CalibrationMethod(name), ObserverOptions(percentile=self.percentile))


def first_samples(source: SampleSource, limit: int | None) -> SampleSource:
    """Return at most the first `limit` samples."""
    if limit is None:
        return source
    if limit < 1:
        raise DataError(f"{limit} samples are too few.", hint="Ask for at least one.")
    count = source.count
    return source if count is not None and count <= limit else source.subset(range(limit))


def one_of(option: str, given: str, known: Sequence[str]) -> str:
    """Return a known name; raise DovetailError with the nearest one."""
    if given in known:
        return given
    import difflib

    near = difflib.get_close_matches(given, known, n=1)
    hint = (f"Did you mean '{near[0]}'? " if near else "") + f"Known: {', '.join(known)}."
    raise DovetailError(f"{option} '{given}' is unknown.", hint=hint)


def named_values(option: str, texts: Sequence[str], example: str) -> dict[str, str]:
    """Return NAME=VALUE pairs by name; raise DovetailError for anything else."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name and value):
            raise DovetailError(f"{option} '{text}': NAME=VALUE is expected.", hint=f"For example {example}.")
        pairs[name] = value
    return pairs


def split_commas(values: Sequence[str]) -> tuple[str, ...]:
    """Return names given repeatedly or with commas, each once."""
    names = [name.strip() for value in values for name in value.split(",")]
    return tuple(dict.fromkeys(name for name in names if name))


def read_ranges(path: Path, graph: Graph) -> Ranges:
    """Return ranges after checking that they are for this graph."""
    import dovetail

    ranges = dovetail.load_ranges(path)
    if ranges.graph_digest != graph.digest:
        raise DovetailError(
            f"{path}: the ranges were made for graph {ranges.graph_digest[:12]}, not for '{graph.name}' "
            f"({graph.digest[:12]}).",
            hint="Calibrate again with 'dovetail calibrate'.",
        )
    return ranges
