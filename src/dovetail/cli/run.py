"""dovetail run: feed samples to a bundle, or to a model in float."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from dovetail.cli.loading import LoadingVerb
from dovetail.cli.on import OnVerb
from dovetail.cli.options import DataVerb, LabelsOption
from dovetail.cli.render import Advance, Screen
from dovetail.cli.scoring import RunScores, scores_table
from dovetail.cli.tally import Tally, Timings, golden_here
from dovetail.cli.texts import one_of
from dovetail.cli.verb import Answer, ExitCode
from dovetail.errors import DataError, DeviceError
from dovetail.files import new_folder

if TYPE_CHECKING:
    from dovetail.data import InputSpec, SampleSource
    from dovetail.ir import AnyArray, Graph
    from dovetail.report import Block, Page
    from dovetail.runtime import LoadedModel


_VERIFIED = 8
"""Samples that borders are checked on."""


class Runner(Protocol):
    """Run one sample: real values of outputs and taps."""

    specs: tuple[InputSpec, ...]
    outputs: tuple[str, ...]

    def run(self, inputs: Mapping[str, AnyArray]) -> Mapping[str, AnyArray]: ...


@dataclass(frozen=True, kw_only=True)
class RunVerb(OnVerb, DataVerb, LoadingVerb):
    """Run samples through a bundle, or through a model in float.

    With --target a model runs as its file has it, on the executable specification by the rules of that target:
    reference:tflite gives a quantised TFLite model the integers of LiteRT's reference kernels, reference:ort a
    quantised ONNX model those of ONNX Runtime on this machine. Those rules have two forms, which can be asked for by
    name: reference:ort-wide and reference:ort-pairs (x86 without VNNI, where sums of pairs saturate).

    The answer is what came out, and how long every partition took. With --save, the real values of outputs and taps
    are kept as golden tensors, which `dovetail compare` reads. --verify checks the partitions instead, and the exit
    code is 1 when one deviates.
    """

    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE", help="Bundle, or a model file to run in float.", show_default=False)
    ]
    tap: Annotated[list[str], typer.Option("--tap", metavar="TENSOR", help="Also give this tensor; repeatable.")] = (
        field(default_factory=list)
    )
    save: Annotated[Path | None, typer.Option("--save", metavar="FOLDER", help="Where outputs and taps are kept.")] = (
        None
    )
    verify: Annotated[
        list[str],
        typer.Option(
            "--verify",
            metavar="WHAT",
            help="borders: compare what leaves each partition with the float run; account: what backends say they ran.",
        ),
    ] = field(default_factory=list)
    model: Annotated[
        Path | None, typer.Option("--model", metavar="FILE", help="The model of the bundle, for --verify borders.")
    ] = None
    target: Annotated[
        str | None,
        typer.Option(
            "--target", metavar="TARGET", help="Run a model file by the rules of this target.", show_default=False
        ),
    ] = None
    labels: LabelsOption = None
    metric: Annotated[
        list[str],
        typer.Option("--metric", metavar="NAME", help="Also score it by labels: top1, file.py:function; repeatable."),
    ] = field(default_factory=list)
    limit: Annotated[
        int | None, typer.Option("--samples", metavar="N", help="Use only the first N samples.", show_default=False)
    ] = None

    @property
    def planned_by(self) -> Path | None:
        return self.bundle

    def run(self, screen: Screen) -> Answer:
        for what in self.verify:
            one_of("--verify", what, ("borders", "account"))
        if self.verify:
            return self._verified(screen)
        with ExitStack() as stack:
            timings = Timings()
            runner = self._runner(stack, timings)
            scores = RunScores(self.metric)
            samples = self.open(self.data, runner.specs, self.labels, limit=self.limit)
            tally = Tally()
            bar = stack.enter_context(screen.progress("running", samples.count))
            made = _results(runner, samples, tally, scores, bar.advance)
            if self.save is None:
                for _ in made:
                    pass
            else:
                self._keep(made)
        if not tally.samples:
            raise DataError(f"{self.data}: the data set is empty.", hint="Give at least one sample.")
        found = scores.document()
        document = {
            "model": str(self.bundle),
            "scores": found,
            "on": self.on,
            "samples": tally.samples,
            "tensors": tally.document(),
            "partitions": timings.document(),
            "saved": None if self.save is None else str(self.save),
        }
        return Answer(document, self._page(tally, timings, found))

    def _verified(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.cli.verifying import account_block, border_block
        from dovetail.compare.borders import check_accounts, verify_borders
        from dovetail.report import Page

        if self.bundle.is_file():
            raise DataError(f"{self.bundle}: a model in float has no partitions to verify.", hint="Give a bundle.")
        if self.on is not None:
            raise DataError("--verify looks at partitions on this machine.", hint="Leave --on out.")
        bundle = dovetail.load_bundle(self.bundle)
        blocks: list[Block] = []
        document: dict[str, object] = {"bundle": str(self.bundle)}
        good = True
        if "borders" in self.verify:
            if self.model is None:
                raise DataError("--verify borders needs the model of the bundle.", hint="Add --model model.onnx.")
            graph = self.load(self.model)
            samples = self.open(self.data, dovetail.specs_of(bundle.inputs), limit=self.limit or _VERIFIED)
            with screen.progress("verifying"):
                report = verify_borders(graph, bundle, [sample.inputs for sample in samples])
            good = report.first_deviation is None
            block, document["borders"] = border_block(report)
            blocks.append(block)
        if "account" in self.verify:
            with dovetail.open_session(bundle) as session:
                wrong, told = check_accounts(session), session.accounts()
            good = good and not wrong
            block, document["account"] = account_block(bundle, told, wrong)
            blocks.append(block)
        code = ExitCode.DONE if good else ExitCode.NO
        return Answer(document, Page(f"Verified {self.bundle}", tuple(blocks)), code)

    def _runner(self, stack: ExitStack, timings: Timings) -> Runner:
        import dovetail

        if self._is_model():
            if self.on is not None:
                raise DataError(f"{self.bundle}: boards run bundles.", hint="Make one with 'dovetail compile'.")
            return _Model(self.load(self.bundle), self.target, self.tap, stack, timings)
        if self.target is not None:
            raise DataError("--target is for a model file; a bundle has its targets.", hint="Leave it out.")
        bundle = dovetail.load_bundle(self.bundle)
        model = stack.enter_context(stack.enter_context(self.place()).load(bundle))
        return _BundleRunner(model, self.tap, timings)

    def _is_model(self) -> bool:
        return self.bundle.is_file() or (self.bundle / "saved_model.pb").is_file()

    def _keep(self, made: Iterator[tuple[str, Mapping[str, AnyArray]]]) -> None:
        from dovetail.compare import save_golden

        assert self.save is not None
        with new_folder(self.save, golden_here) as draft:
            save_golden(draft, made)

    def _page(self, tally: Tally, timings: Timings, scores: Mapping[str, float]) -> Page:
        from dovetail.report import Facts, Page

        blocks = [*((scores_table(scores),) if scores else ()), tally.table(), timings.table()]
        saved = () if self.save is None else (Facts("", (("saved in", str(self.save)),)),)
        return Page(f"{tally.samples} samples through {self.bundle}", (*blocks, *saved))


class _Model:
    """Run a model on the CPU, or by the rules of a target."""

    def __init__(
        self, graph: Graph, target: str | None, taps: Sequence[str], stack: ExitStack, timings: Timings
    ) -> None:
        import dovetail
        from dovetail.quantize import load_by_rules, load_float

        for name in taps:
            if name not in graph.types or name in graph.constants:
                raise DeviceError(f"tap '{name}': the model has no such tensor.")
        if target is None:
            self._executable, self._where = load_float(graph), ("cpu", "cpu")
        else:
            # `reference:ort` is one of two forms, by the machine: what is reported is the form.
            ruled = load_by_rules(graph, target)
            self._executable, self._where = ruled.executable, (ruled.rules, "reference")
        stack.callback(self._executable.close)
        self._names = tuple(dict.fromkeys((*graph.outputs, *taps)))
        self._taps = [name for name in self._names if name not in graph.outputs]
        self._timings = timings
        self.specs, self.outputs = dovetail.specs_of(graph), tuple(graph.outputs)

    def run(self, inputs: Mapping[str, AnyArray]) -> Mapping[str, AnyArray]:
        """Return outputs and taps."""
        with self._timings.measure(0, *self._where):
            made = self._executable.run(inputs, self._taps)
        return {name: made[name] for name in self._names}


class _BundleRunner:
    """Run a bundle and keep its timings."""

    def __init__(self, model: LoadedModel, taps: Sequence[str], timings: Timings) -> None:
        import dovetail

        self._model = model
        self._taps = [name for name in dict.fromkeys(taps) if name not in model.bundle.outputs]
        self._timings = timings
        self.specs, self.outputs = dovetail.specs_of(model.bundle.inputs), tuple(model.bundle.outputs)

    def run(self, inputs: Mapping[str, AnyArray]) -> Mapping[str, AnyArray]:
        """Return outputs and taps as real values."""
        run = self._model.run(inputs, self._taps)
        for part in run.timings:
            self._timings.add(part.index, part.target, part.device, part.elapsed_ns)
        return {name: run.real(name) for name in (*run.outputs, *run.taps)}


def _results(
    runner: Runner, samples: SampleSource, tally: Tally, scores: RunScores, advance: Advance
) -> Iterator[tuple[str, Mapping[str, AnyArray]]]:
    for sample in samples:
        tensors = runner.run(sample.inputs)
        tally.add(tensors)
        scores.add({name: tensors[name] for name in runner.outputs}, sample)
        advance(tally.samples)
        yield sample.id, tensors
