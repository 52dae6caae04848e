"""Load every model of the collection and compare it with its own framework, on its own data.

DOVETAIL_MODELS=... python benchmarks/importers_table.py [--limit N] [--only TEXT] [--write docs/reference/importers.md]

Every model is judged by its own framework: floats by the largest difference relative to the largest output, integers by
a histogram of differences in steps, computed by the framework's own rules. Accuracy stands beside that of the framework
as it is usually run, and the manifest's. Models whose converter has no environment here are left out with the reason.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from unittest import mock

import numpy as np

import dovetail.importers.darknet.layers as darknet_layers
from dovetail.backend.arithmetic import TFLITE, Arithmetic
from dovetail.backend.registry import find_target
from dovetail.backends.reference import run_graph as run_reference
from dovetail.errors import LoadError
from dovetail.importers import load_model
from dovetail.ir import AnyArray, Graph, TensorType, quantize_array
from dovetail.quantize import dequantize, is_quantized, load_float
from importers_pairs import markdown as pairs_markdown
from importers_pairs import rows as pair_rows
from importers_tasks import task_lines
from judges.frameworks import Ask, Outputs, output_pairs, relative, run_framework
from zoo.inputs import ENTRIES, Entry, Example, missing_environment, options_of

_SUFFIXES = (".tflite", ".onnx", ".prototxt", ".cfg", ".pb", ".pdmodel", ".jit", ".pth")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    file: str
    outcome: str
    load_s: float
    samples: int = 0
    framework: str = ""
    difference: str = ""
    accuracy: str = ""
    usual: str = ""
    stated: str = ""


def _stored(kind: TensorType, real: AnyArray) -> AnyArray:
    if kind.quant is not None:
        return quantize_array(real.astype(np.float32), kind.dtype, kind.quant)
    return np.asarray(np.rint(real) if kind.dtype.is_integer else real).astype(kind.dtype.carrier)


def _ours(graph: Graph, feeds: list[dict[str, AnyArray]], rules: Arithmetic) -> Outputs:
    """Run integers by their framework's rules on the reference, floats on ONNX Runtime."""
    if is_quantized(graph):
        found = [run_reference(graph, feed, rules) for feed in feeds]
    else:
        runner = load_float(graph, 1)
        found = [dict(runner.run(feed)) for feed in feeds]
    return [[np.asarray(item[name]) for name in graph.outputs] for item in found]


def measure(path: Path, root: Path, limit: int) -> Row:
    """Return the line of one file."""
    name = str(path.relative_to(root))
    options = options_of(name)
    try:
        missing = missing_environment(path, options)
        if missing:
            return Row(name, missing, 0.0)
        load_model(path, options)
        # What a converter makes is kept: its own time is not the importer's.
        started = time.perf_counter()
        graph = load_model(path, options)
    except LoadError as error:
        return Row(name, f"refused: {error.message.removeprefix(str(path))[:110].lstrip(': ')}", 0.0)
    load_s = time.perf_counter() - started
    entry = ENTRIES.get(path.name)
    if entry is None:
        return Row(name, "loaded", load_s)
    if path.suffix == ".cfg":
        # Darknet adds 1e-5 to a variance, OpenCV, which judges it, 1e-6.
        with mock.patch.object(darknet_layers, "_EPSILON", 1e-6):
            graph = load_model(path, options)
    return _compare(Row(name, "loaded", load_s), graph, entry, path, limit)


def _compare(row: Row, graph: Graph, entry: Entry, path: Path, limit: int) -> Row:
    reals = dequantize(graph).graph if is_quantized(graph) else graph
    examples = list(islice(entry.source(reals, _root()), limit or None))
    feeds = [{name: _stored(graph.types[name], example.values[name]) for name in graph.inputs} for example in examples]
    found = _ours(graph, feeds, find_target("reference:ort").arithmetic if path.suffix == ".onnx" else TFLITE)
    ask = Ask(path, feeds, options_of(row.file).conversion)
    framework, want = run_framework(ask)
    usual = run_framework(replace(ask, usual=True))[1] if path.suffix in _TWO_WAYS else None
    stated = f"{entry.stated:.4f}" if entry.stated is not None else ""
    return replace(
        row,
        samples=len(examples),
        framework=framework,
        difference="" if want is None else difference(found, want),
        accuracy=_top1(found, examples),
        usual="" if usual is None else _top1(usual, examples),
        stated=stated,
    )


_TWO_WAYS = (".onnx", ".tflite")
"""Formats whose framework has optimised kernels beside plain ones."""


def difference(found: Outputs, want: Outputs) -> str:
    """Return how far all outputs are apart: steps of integers, and the largest difference over the largest float."""
    steps: Counter[int] = Counter()
    shares: list[float] = []
    for a, b in output_pairs(found, want):
        if b.dtype.kind == "f":
            shares.append(relative(a, b))
        else:
            steps.update(np.abs(a.astype(np.int64) - b.astype(np.int64)).tolist())
    parts = [_steps(steps)] if steps else []
    return ", ".join([*parts, f"{max(shares):.1e}"] if shares else parts)


def _top1(outputs: Outputs, examples: list[Example]) -> str:
    """Return the share of labelled examples whose first output is right; empty where none has a label."""
    labelled = [
        int(found[0].reshape(-1).argmax()) in example.accepted
        for found, example in zip(outputs, examples, strict=True)
        if example.accepted
    ]
    return f"{sum(labelled) / len(labelled):.4f}" if labelled else ""


def _steps(found: Counter[int]) -> str:
    """Return how many outputs differ by how many steps; what is far is counted together."""
    near = ", ".join(f"{step}: {count}" for step, count in sorted(found.items()) if step <= 4)
    far = sum(count for step, count in found.items() if step > 4)
    return f"steps {{{near}{f', more: {far} (to {max(found)})' if far else ''}}}"


def _root() -> Path:
    return Path(os.environ.get("DOVETAIL_MODELS", "../shared/models"))


_PAIRS = (
    "## One network in two formats",
    "",
    "Both files in float on the same real samples; differences relative to the largest output",
    "(`python benchmarks/importers_pairs.py`; `--tune` also compares what a search raises). The two files of KWT-1",
    "differ by as much in their own frameworks: the difference is in the files. `culprits` are the units whose 8 bits",
    "alone (u8 on vsi:a311d) drown most of the outputs, named by the layers with weights before them. PP-OCR's ONNX",
    "file writes hard-swish in four operators where the converter of the Paddle file gives one, so that other units",
    "stand between the same layers.",
    "",
)
_HEAD = (
    "# Importers",
    "",
    "Written by `python benchmarks/importers_table.py --write docs/reference/importers.md`; do not edit it.",
    "",
    "Every file is run on the model's own data, here and in its own framework: LiteRT's reference kernels, ONNX",
    "Runtime without optimisation, PyTorch, TensorFlow and Paddle in the environments of `dovetail env`, and",
    "OpenCV for Caffe and Darknet, which have no packages any more (it adds 1e-6 to Darknet's variances, not",
    "1e-5, and so does this table). `difference` is over all outputs of all samples: relative to the largest",
    "value for floats, in steps of the output's integers otherwise (by the rules of targets `reference:tflite`",
    "and `reference:ort`). `top-1` is Dovetail's; `usual` is that of the framework as it is usually run:",
    "optimised kernels (they round once where the reference kernels round twice), and states that are not reset",
    "between samples; `stated` is what the collection's manifest says. `load s` leaves out a converter's own",
    "time.",
    "",
    "| file | outcome | load s | samples | framework | difference | top-1 | usual | stated |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)


def markdown(rows: list[Row]) -> str:
    """Return the table as a page of the reference."""
    lines = [*_HEAD]
    for row in rows:
        cells = (row.file, row.outcome, f"{row.load_s:.2f}", str(row.samples or ""), row.framework)
        lines.append(f"| {' | '.join((*cells, row.difference, row.accuracy, row.usual, row.stated))} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=0, help="samples a model; 0 takes all")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    root = _root()
    files = sorted(path for path in root.glob("*/*") if path.suffix in _SUFFIXES and arguments.only in str(path))
    rows: list[Row] = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for row in pool.map(measure, files, [root] * len(files), [arguments.limit] * len(files)):
            rows.append(row)
            print(row, flush=True)
    if arguments.write is not None:
        pairs = pairs_markdown(list(pair_rows(root, arguments.only)))
        arguments.write.write_text(markdown(rows) + "\n".join(["", *_PAIRS, *pairs, "", *task_lines(root), ""]))


if __name__ == "__main__":
    main()
