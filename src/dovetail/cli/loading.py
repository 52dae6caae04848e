"""The options of every command that loads a model: what is fixed, what is cut, and how its conversion is shown."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from dovetail.cli.output import tell
from dovetail.cli.texts import some_seconds, split_commas
from dovetail.cli.verb import LOADING, Verb
from dovetail.errors import LoadError

if TYPE_CHECKING:
    from dovetail.importers import Conversion, LoadOptions
    from dovetail.ir import Graph

_SHAPE = re.compile(r"(.+)=(\d{1,18}(?:,\d{1,18})*)")
_CONVERTERS_LIMIT_S = 900.0
ALL_PASSES = 3


@dataclass(frozen=True, kw_only=True)
class LoadingVerb(Verb):
    """The options of commands that load a model."""

    section: ClassVar[str] = LOADING

    shape: Annotated[
        list[str], typer.Option("--shape", metavar="INPUT=N,C,...", help="Fix the shape of an input; repeatable.")
    ] = field(default_factory=list)
    value: Annotated[
        list[str],
        typer.Option("--value", metavar="INPUT=NUMBER", help="Make an input of one number a constant; repeatable."),
    ] = field(default_factory=list)
    float_weights: Annotated[
        bool,
        typer.Option("--float-weights", help="Take weights of hybrid kernels (TFLite, quantize_dynamic) as floats."),
    ] = False
    inputs: Annotated[
        list[str],
        typer.Option("--inputs", metavar="TENSOR", help="Cut a TensorFlow model: begin here; repeat it or use commas."),
    ] = field(default_factory=list)
    outputs: Annotated[
        list[str],
        typer.Option("--outputs", metavar="TENSOR", help="Cut a TensorFlow model: end here; repeat it or use commas."),
    ] = field(default_factory=list)
    submodule: Annotated[
        str, typer.Option("--submodule", metavar="NAME", help="Take this part of a TorchScript module.")
    ] = ""
    opt_level: Annotated[
        int, typer.Option("--opt-level", metavar="N", help="Fold and join nodes up to this level, 0 to 3, as in TVM.")
    ] = ALL_PASSES
    disabled_pass: Annotated[
        list[str],
        typer.Option("--disabled-pass", metavar="PASS", help="Leave out a pass; repeat it or use commas."),
    ] = field(default_factory=list)
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="S", help="How long a converter may take, in seconds.")
    ] = _CONVERTERS_LIMIT_S

    def load(self, path: Path) -> Graph:
        """Return a model in normal form, quantised where the file is."""
        import dovetail

        options = self.announced_options()
        return dovetail.normalize(dovetail.load_model(path, options), options.passes)

    def announced_options(self) -> LoadOptions:
        """Return how to read a model, with the steps of a conversion on stderr."""
        options = self.load_options()
        return replace(options, conversion=replace(options.conversion, progress=ConversionSteps()))

    def load_options(self) -> LoadOptions:
        """Return how to read a model."""
        from dovetail.passes import PassOptions

        return replace(
            load_shapes(self.shape),
            values=_values(self.value),
            exact_hybrid=not self.float_weights,
            conversion=self._conversion(),
            passes=PassOptions(self.opt_level, split_commas(self.disabled_pass)),
        )

    def _conversion(self) -> Conversion:
        from dovetail.importers import Conversion

        return Conversion(
            inputs=split_commas(self.inputs),
            outputs=split_commas(self.outputs),
            submodule=self.submodule,
            limit_s=some_seconds("--time-limit", self.time_limit),
        )


def open_text(graph: Graph) -> str:
    """Return which inputs are open, or decide a branch, and how they are fixed; empty where none is."""
    from dovetail.ir.open_shapes import deciding_inputs, fixed_text, open_inputs, spelt_shape

    found, said = open_inputs(graph), []
    if found:
        named = " and ".join(f"'{name}' ({spelt_shape(shape)})" for name, shape in found.items())
        options = " ".join(f"--shape {fixed_text(*item)}" for item in found.items())
        said.append(
            f"Open shapes: {named}, which no accelerator takes. Fix them, with numbers for the names: {options}."
        )
    for name, node in deciding_inputs(graph).items():
        said.append(
            f"The input '{name}' decides which branch of '{node}' runs, which no accelerator takes: fix it with "
            f"--value {name}=NUMBER."
        )
    return " ".join(said)


class ConversionSteps:
    """Write on stderr what a converter does: an environment of a gigabyte must not come unannounced."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, what: str, share: float) -> None:
        # Packages are named one by one; outside a terminal the making as a whole is said once.
        step = what if sys.stderr.isatty() else what.split(":")[0]
        if step != self._said:
            self._said = step
            tell(f"{step}\n")


def load_shapes(texts: Sequence[str]) -> LoadOptions:
    """Return how to read a model whose inputs get these shapes."""
    from dovetail.importers import LoadOptions

    return LoadOptions(shapes=_shapes(texts))


def _shapes(texts: Sequence[str]) -> Mapping[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise LoadError(f"--shape '{text}': INPUT=N,C,... is expected.", hint="For example images=1,3,224,224.")
        if match[1] in shapes:
            raise LoadError(f"--shape '{text}': the shape of '{match[1]}' is given twice.", hint="Give it once.")
        shapes[match[1]] = tuple(int(size) for size in match[2].split(","))
    return shapes


def _values(texts: Sequence[str]) -> Mapping[str, float]:
    values: dict[str, float] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if name in values:
            raise LoadError(f"--value '{text}': the value of '{name}' is given twice.", hint="Give it once.")
        try:
            values[name] = float(number)
        except ValueError as error:
            raise LoadError(f"--value '{text}': INPUT=NUMBER is expected.", hint="For example sr=16000.") from error
        if not name:
            raise LoadError(f"--value '{text}': INPUT=NUMBER is expected.", hint="For example sr=16000.")
    return values
