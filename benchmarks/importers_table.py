"""Load every model of the collection and compare it with its own framework, on its own data.

DOVETAIL_MODELS=... python benchmarks/importers_table.py [--limit N] [--only TEXT] [--write docs/reference/importers.md]

TFLite models are judged by LiteRT's reference kernels: floats by the largest difference relative to the largest output,
integers by a histogram of differences in steps, computed by TFLite's own rules. Accuracy stands beside the manifest's.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from PIL import Image

from dovetail.backend.arithmetic import TFLITE
from dovetail.backends.reference import run_graph as run_reference
from dovetail.data import Preprocess, Step, StepKind, open_samples, specs_of
from dovetail.errors import LoadError
from dovetail.importers import LoadOptions, load_model
from dovetail.ir import AnyArray, Graph, quantize_array
from dovetail.quantize import dequantize, is_quantized, load_float

_SUFFIXES = (".tflite", ".onnx", ".prototxt", ".cfg", ".pb", ".pdmodel", ".jit", ".pth")
_SHAPES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "ppocrv3_det/model.onnx": {"x": (1, 3, 480, 480)},
    "silero_vad/silero_vad_16k_op15.onnx": {"input": (1, 576), "state": (2, 1, 128)},
    "lenet_caffe/lenet.prototxt": {"data": (1, 1, 28, 28)},
}


@dataclass(frozen=True, slots=True)
class Example:
    """A real input of a model, and the classes that are right; none where the data has no label."""

    value: AnyArray
    accepted: frozenset[int]


Source = Callable[[Graph, Path], Iterator[Example]]


@dataclass(frozen=True, slots=True)
class Entry:
    """Say where a model's data is, and what the manifest states."""

    source: Source
    stated: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    file: str
    outcome: str
    load_s: float
    samples: int = 0
    difference: str = ""
    accuracy: str = ""
    stated: str = ""


def _caltech(side: int, scale: float, mean: float, first: int = 0) -> Source:
    """Return photos of Caltech-101; `first` is the class that ImageNet's class 0 has in the model."""

    def read(graph: Graph, root: Path) -> Iterator[Example]:
        folder = root / "data_caltech101"
        with (folder / "labels.csv").open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["split"] == "dev"]
        for row in rows:
            pixels = _centre(folder / row["file"], side)
            classes = frozenset(int(item) + first for item in row["accepted_imagenet_idx_0based"].split())
            yield Example((pixels[None] - mean) * scale, classes)

    return read


def _centre(path: Path, side: int) -> AnyArray:
    """Return the centre of a photo as `[H, W, 3]`: the first filter is Pillow's default, the second is bilinear."""
    with Image.open(path) as file:
        image = file.convert("RGB")
    ratio = 256 / min(image.size)
    image = image.resize((round(image.width * ratio), round(image.height * ratio)), Image.Resampling.BICUBIC)
    left, top = (image.width - 224) // 2, (image.height - 224) // 2
    image = image.crop((left, top, left + 224, top + 224))
    if side != 224:
        image = image.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(image, np.float32)


_WORDS = ("Silence", "Unknown", "Yes", "No", "Up", "Down", "Left", "Right", "On", "Off", "Stop", "Go")


def _archive(name: str, key: str, convert: Callable[[AnyArray], AnyArray]) -> Source:
    def read(graph: Graph, root: Path) -> Iterator[Example]:
        shape = graph.types[graph.inputs[0]].static_shape or ()
        with np.load(root / name, allow_pickle=False) as file:
            labels = [int(label) for label in file["label"]]
            if "classes" in file:
                # The archive and the keyword models count the same twelve words in different orders.
                labels = [_WORDS.index(str(file["classes"][label])) for label in labels]
            for value, label in zip(file[key], labels, strict=True):
                yield Example(convert(value).astype(np.float32).reshape(shape), frozenset({label}))

    return read


def _photos(folder: str, side: int, scale: float) -> Source:
    def read(graph: Graph, root: Path) -> Iterator[Example]:
        image = Preprocess((Step(StepKind.RESIZE, side, side),), mean=(0.0,), scale=(scale,))
        for sample in open_samples(root / folder, specs_of(graph), image):
            yield Example(next(iter(sample.inputs.values())), frozenset())

    return read


def _mfcc(scale: float) -> Callable[[AnyArray], AnyArray]:
    return lambda stored: np.asarray((stored.astype(np.float32) - 83) * np.float32(scale))


_MFCC = "data_speech_commands/mfcc_int8_kws01.npz"
_ENTRIES: Mapping[str, Entry] = {
    "resnet8_float.tflite": Entry(_archive("data_cifar10/ic01_200.npz", "x", lambda x: x), 0.855),
    "resnet8_int8.tflite": Entry(_archive("data_cifar10/ic01_200.npz", "x", lambda x: x), 0.85),
    "kws_ref_model_float32.tflite": Entry(_archive(_MFCC, "x", _mfcc(0.5847)), 0.9055),
    "kws_ref_model_int8.tflite": Entry(_archive(_MFCC, "x", _mfcc(0.58470643)), 0.9032),
    "ds_cnn_s_int16x8.tflite": Entry(_archive("data_speech_commands/mfcc_legacy_dev.npz", "x", lambda x: x), 0.9),
    "kwt1_non_stream.tflite": Entry(_archive("data_speech_commands/dev.npz", "wav", lambda x: x / 32768), 0.9333),
    "mbnet128_0.25_f.tflite": Entry(_caltech(128, 1 / 127.5, 127.5), 0.4489),
    "mbnet128_0.25_q.tflite": Entry(_caltech(128, 1 / 255, 0.0), 0.375),
    "mobilenet_v1_0.25_128_quant.tflite": Entry(_caltech(128, 1 / 127.5, 127.5, 1), 0.3636),
    "mobilenet_v1_0.5_160_quant.tflite": Entry(_caltech(160, 1 / 127.5, 127.5, 1), 0.5568),
    "mobilenet_v2_1.0_224_quant.tflite": Entry(_caltech(224, 1 / 127.5, 127.5, 1), 0.75),
    "conv_fc_mnist.tflite": Entry(_archive("data_mnist/t10k_1000.npz", "x", lambda x: x / 255), 0.96),
    "conv_fc_mnist_srq_a8w8.tflite": Entry(_archive("data_mnist/t10k_1000.npz", "x", lambda x: x / 255), 0.959),
    "trained_lstm.tflite": Entry(_archive("data_mnist/t10k_1000.npz", "x", lambda x: x / 255), 0.923),
    "trained_lstm_int8.tflite": Entry(_archive("data_mnist/t10k_1000.npz", "x", lambda x: x / 255), 0.922),
    "movenet_single_pose_lightning_ptq.tflite": Entry(_photos("data_detect_ccby", 192, 1.0)),
    "vww_96_float.tflite": Entry(_photos("data_coco20", 96, 1 / 255)),
    "vww_96_int8.tflite": Entry(_photos("data_coco20", 96, 1 / 255)),
    "lenet.prototxt": Entry(_archive("data_mnist/t10k_1000.npz", "x", lambda x: x / 256), 0.978),
}


def _stored(graph: Graph, real: AnyArray) -> AnyArray:
    kind = graph.types[graph.inputs[0]]
    if kind.quant is not None:
        return quantize_array(real.astype(np.float32), kind.dtype, kind.quant)
    return np.asarray(np.rint(real) if kind.dtype.is_integer else real).astype(kind.dtype.carrier)


class _Ours:
    """Run integers by TFLite's rules on the reference, floats on ONNX Runtime."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._float = None if is_quantized(graph) else load_float(graph, 1)

    def run(self, value: AnyArray) -> AnyArray:
        feed, output = {self._graph.inputs[0]: value}, self._graph.outputs[0]
        if self._float is not None:
            return np.asarray(self._float.run(feed)[output])
        return run_reference(self._graph, feed, TFLITE)[output]


class _Lite:
    """Run a TFLite file on LiteRT's reference kernels."""

    def __init__(self, path: Path) -> None:
        self._runner = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1)
        self._runner.allocate_tensors()

    def run(self, value: AnyArray) -> AnyArray:
        runner = self._runner
        runner.reset_all_variables()
        runner.set_tensor(runner.get_input_details()[0]["index"], value)
        runner.invoke()
        return np.array(runner.get_tensor(runner.get_output_details()[0]["index"]))


def measure(path: Path, root: Path, limit: int) -> Row:
    """Return the line of one file."""
    name = str(path.relative_to(root))
    started = time.perf_counter()
    try:
        graph = load_model(path, LoadOptions(shapes=_SHAPES.get(name, {})))
    except LoadError as error:
        return Row(name, f"refused: {error.message.removeprefix(str(path))[:110].lstrip(': ')}", 0.0)
    load_s = time.perf_counter() - started
    entry = _ENTRIES.get(path.name)
    if entry is None or len(graph.inputs) != 1:
        return Row(name, "loaded", load_s)
    return _compare(Row(name, "loaded", load_s), graph, entry, path, limit)


def _compare(row: Row, graph: Graph, entry: Entry, path: Path, limit: int) -> Row:
    reals = dequantize(graph).graph if is_quantized(graph) else graph
    ours = _Ours(graph)
    lite = _Lite(path) if path.suffix == ".tflite" else None
    steps: Counter[int] = Counter()
    worst, right, count, labelled = 0.0, 0, 0, 0
    for example in entry.source(reals, _root()):
        value = _stored(graph, example.value)
        found = ours.run(value)
        if lite is not None:
            want = lite.run(value)
            if want.dtype.kind == "f":
                worst = max(worst, float(np.abs(found - want).max() / max(np.abs(want).max(), 1e-30)))
            else:
                steps.update(np.abs(found.astype(np.int64) - want.astype(np.int64)).reshape(-1).tolist())
        count += 1
        labelled += bool(example.accepted)
        right += int(found.reshape(-1).argmax()) in example.accepted
        if count == limit:
            break
    histogram = ", ".join(f"{step}: {share}" for step, share in sorted(steps.items()))
    difference = f"steps {{{histogram}}}" if steps else f"{worst:.1e}" if lite else "no framework here"
    accuracy = f"{right / labelled:.4f}" if labelled else ""
    stated = f"{entry.stated:.4f}" if entry.stated is not None else ""
    return Row(row.file, row.outcome, row.load_s, count, difference, accuracy, stated)


def _root() -> Path:
    return Path(os.environ.get("DOVETAIL_MODELS", "../shared/models"))


def markdown(rows: list[Row]) -> str:
    """Return the table as a page of the reference."""
    lines = [
        "# Importers",
        "",
        "Written by `benchmarks/importers_table.py`; do not edit it. Differences are to LiteRT's reference kernels on",
        "the model's own data: relative to the largest output for floats, in steps of the output's integers otherwise",
        "(by the rules of target `reference:tflite`). Accuracy is top-1 on all of the data, beside what the collection",
        "states.",
        "",
        "| file | outcome | load s | samples | difference | accuracy | stated |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        cells = (row.file, row.outcome, f"{row.load_s:.2f}", str(row.samples or ""), row.difference)
        lines.append(f"| {' | '.join((*cells, row.accuracy, row.stated))} |")
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
        arguments.write.write_text(markdown(rows))


if __name__ == "__main__":
    main()
