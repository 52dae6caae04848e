"""One network in two formats: is it the same network here, and do the same places break in 8 bits?

DOVETAIL_MODELS=... python benchmarks/importers_pairs.py [--only TEXT] [--tune]

Both files are loaded and run in float on real samples; the difference is relative to the largest output. Where a file
has a framework of its own, its difference to that stands beside: what two files differ by in their own frameworks is no
difference of the importers. `culprits` are the units whose 8 bits alone drown most of the outputs; with --tune also
what a search for the task's own metric raises.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import dovetail
from dovetail.data import open_samples, specs_of
from dovetail.environments import State, find_environment, state_of
from dovetail.errors import DovetailError
from dovetail.importers import Conversion, LoadOptions
from dovetail.ir import AnyArray, Graph
from dovetail.passes import normalize
from dovetail.quantize import load_float
from judges.frameworks import Ask, Outputs, output_pairs, relative, run_framework
from zoo.audio import SameSide
from zoo.catalogue import CASES, models_root
from zoo.culprits import compare_culprits

_CASES = {case.name: case for case in CASES}
_SAMPLES = 8


@dataclass(frozen=True, slots=True)
class Side:
    """Name one file of a pair and how it is loaded; `environment` is what its converter needs."""

    file: str
    options: LoadOptions = field(default_factory=LoadOptions)
    environment: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """Name two files of one network; the case gives data and metric, `rename` the second file's inputs.

    `only` names the one output that is compared where the other file ends earlier with the rest.
    """

    case: str
    first: Side
    second: Side
    rename: Mapping[str, str | None]
    only: str = ""


def _shapes(**shapes: tuple[int, ...]) -> LoadOptions:
    return LoadOptions(shapes=shapes)


_TEXT = _shapes(x=(1, 3, 480, 480))
_FOLDER = "ultraface_rfb320"
PAIRS = (
    Pair(
        "ppocrv3_det",
        Side("ppocrv3_det/model.onnx", _TEXT),
        Side("ppocrv3_det/model.pdmodel", _TEXT, "paddle"),
        {"x": "x"},
    ),
    Pair(
        "ultraface_rfb320",
        Side(f"{_FOLDER}/version-RFB-320.onnx"),
        Side(f"{_FOLDER}/RFB-320.prototxt"),
        {"input": "input"},
        # The Caffe file ends before its boxes are decoded.
        "scores",
    ),
    Pair(
        "resnet8_cifar10",
        Side("ic01_resnet8_cifar10/resnet8_float.onnx", _shapes(input_1=(1, 32, 32, 3))),
        Side("ic01_resnet8_cifar10/resnet8_float.tflite"),
        {"input_1": "input_1"},
    ),
    Pair(
        "kwt1",
        Side("kwt1_transformer/kwt1_non_stream.onnx"),
        Side("kwt1_transformer/kwt1_non_stream.tflite"),
        {"input_1": "input_1"},
    ),
    Pair(
        "silero_vad",
        Side("silero_vad/silero_vad_16k_op15.onnx", _shapes(input=(1, 576), state=(2, 1, 128), sr=())),
        Side(
            "silero_vad/silero_vad.jit",
            LoadOptions(shapes={"x": (1, 576), "state": (2, 1, 128)}, conversion=Conversion(submodule="_model")),
            "torch",
        ),
        {"input": "x", "state": "state", "sr": None},
    ),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line: differences relative to the largest output; NaN where there is no framework here."""

    first: str
    second: str
    samples: int
    difference: float
    first_own: float
    second_own: float
    own: float
    culprits: str = ""


def pair_row(pair: Pair, root: Path, goal: str) -> Row:
    """Return the line of a pair; raise DovetailError where it cannot be loaded."""
    graphs = [normalize(dovetail.load_model(root / side.file, side.options)) for side in (pair.first, pair.second)]
    case = _CASES[pair.case]
    samples = list(open_samples(case.open(graphs[0], root).samples, specs_of(graphs[0])))[:_SAMPLES]
    feeds = [dict(sample.inputs) for sample in samples]
    others = [{other: feed[name] for name, other in pair.rename.items() if other is not None} for feed in feeds]
    if pair.only:
        graphs = [replace(graph, outputs=(pair.only,)) for graph in graphs]
    found = [_run(graph, given) for graph, given in zip(graphs, (feeds, others), strict=True)]
    own = [
        run_framework(Ask(root / side.file, given, side.options.conversion, pair.only))[1]
        for side, given in zip((pair.first, pair.second), (feeds, others), strict=True)
    ]
    # What only left the outputs that are compared would still be measured.
    pruned = [normalize(graph) for graph in graphs]
    metric = SameSide(pair.only, 0.7) if pair.only else None
    culprits = compare_culprits(pruned, case.open(pruned[0], root), pair.rename, goal, metric)
    return Row(
        pair.first.file,
        pair.second.file,
        len(samples),
        _difference(found[0], found[1]),
        _difference(found[0], own[0]),
        _difference(found[1], own[1]),
        _difference(own[0], own[1]),
        culprits,
    )


def _run(graph: Graph, feeds: list[dict[str, AnyArray]]) -> Outputs:
    runner = load_float(graph, 1)
    found = [runner.run(feed) for feed in feeds]
    return [[np.asarray(item[name]) for name in graph.outputs] for item in found]


def _difference(one: Outputs | None, other: Outputs | None) -> float:
    if one is None or other is None:
        return float("nan")
    return max(relative(mine, theirs) for mine, theirs in output_pairs(one, other))


def rows(root: Path, only: str = "", goal: str = "") -> Iterator[Row | str]:
    """Yield the lines; a text says why a pair is left out. With a goal both files are tuned."""
    for pair in PAIRS:
        names = (pair.first.environment, pair.second.environment)
        missing = [name for name in names if name and state_of(find_environment(name)).state is not State.READY]
        if only not in pair.case:
            continue
        if missing:
            yield f"{pair.case}: environment '{missing[0]}' is not there (dovetail env install {missing[0]})"
            continue
        try:
            yield pair_row(pair, root, goal)
        except DovetailError as error:
            yield f"{pair.case}: {error}"


def markdown(found: list[Row | str]) -> list[str]:
    """Return the lines of the table."""
    lines = [
        "| one file | other file | samples | difference | first to its framework | second | frameworks | culprits |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in found:
        if isinstance(row, str):
            continue
        numbers = [_number(value) for value in (row.difference, row.first_own, row.second_own, row.own)]
        lines.append(f"| {row.first} | {row.second} | {row.samples} | {' | '.join(numbers)} | {row.culprits} |")
    return [*lines, *(f"\n{row}" for row in found if isinstance(row, str))]


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.1e}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument(
        "--goal", default="0.05", help="allowed share of samples, as dovetail tune takes it (default: %(default)s)"
    )
    parser.add_argument("--tune", action="store_true", help="tune both and compare culprits; takes minutes")
    arguments = parser.parse_args()
    print("\n".join(markdown(list(rows(models_root(), arguments.only, arguments.goal if arguments.tune else "")))))


if __name__ == "__main__":
    main()
