"""Load every model of the collection and compare it with its own framework, on its own data.

DOVETAIL_MODELS=... python benchmarks/importers_table.py [--limit N] [--only TEXT] [--write docs/reference/importers.md]

TFLite models are judged by LiteRT's reference kernels and ONNX models by ONNX Runtime without optimisation: floats by
the largest difference relative to the largest output, integers by a histogram of differences in steps, computed by
TFLite's own rules. Accuracy stands beside that of the framework as it is usually run, and the manifest's. Models whose
converter has no environment here are left out with the reason.
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
from itertools import compress
from pathlib import Path

import numpy as np
import onnxruntime
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from PIL import Image

from dovetail.backend.arithmetic import TFLITE
from dovetail.backends.reference import run_graph as run_reference
from dovetail.data import Preprocess, Step, StepKind, open_samples, specs_of
from dovetail.environments import State, find_environment, state_of
from dovetail.errors import LoadError
from dovetail.importers import Conversion, LoadOptions, load_model
from dovetail.importers.converted import recognise
from dovetail.importers.formats import format_of
from dovetail.ir import AnyArray, Graph, quantize_array
from dovetail.quantize import dequantize, is_quantized, load_float
from importers_detectors import detector_scores
from importers_pairs import markdown as pairs_markdown
from importers_pairs import rows as pair_rows

_SUFFIXES = (".tflite", ".onnx", ".prototxt", ".cfg", ".pb", ".pdmodel", ".jit", ".pth")
_SHAPES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "ppocrv3_det/model.onnx": {"x": (1, 3, 480, 480)},
    "silero_vad/silero_vad_16k_op15.onnx": {"input": (1, 576), "state": (2, 1, 128)},
    "silero_vad/silero_vad.jit": {"x": (1, 576), "state": (2, 1, 128)},
    "lenet_caffe/lenet.prototxt": {"data": (1, 1, 28, 28)},
    "ic01_resnet8_cifar10/resnet8_float.onnx": {"input_1": (1, 32, 32, 3)},
    "kws01_dscnn/kws_ref_model_float32.onnx": {"input_1": (1, 49, 10, 1)},
    "vww01_mobilenetv1_025/vww_96_float.onnx": {"input_1": (1, 96, 96, 3)},
    "mbv1_025_128_imagenet/mbnet128_0.25_f.onnx": {"input_3": (1, 128, 128, 3)},
}
_CONVERSIONS: Mapping[str, Conversion] = {
    "silero_vad/silero_vad.jit": Conversion(submodule="_model"),
    **{
        f"kws_tf_pb/{name}.pb": Conversion(inputs=("Reshape:0",), outputs=("labels_softmax:0",))
        for name in ("DS_CNN_S", "GRU_S", "Basic_LSTM_S")
    },
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
    usual: str = ""
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


def _archive(name: str, key: str, convert: Callable[[AnyArray], AnyArray], dev: bool = False) -> Source:
    def read(graph: Graph, root: Path) -> Iterator[Example]:
        shape = graph.types[graph.inputs[0]].static_shape or ()
        with np.load(root / name, allow_pickle=False) as file:
            labels = [int(label) for label in file["label"]]
            # The manifest's figures of these models are of the samples that are not held out.
            kept = ~file["holdout"] if dev else np.ones(len(labels), np.bool_)
            if "classes" in file:
                # The archive and the keyword models count the same twelve words in different orders.
                labels = [_WORDS.index(str(file["classes"][label])) for label in labels]
            for value, label in compress(zip(file[key], labels, strict=True), kept):
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
_LEGACY = "data_speech_commands/mfcc_legacy_dev.npz"


def _shuffle(graph: Graph, root: Path) -> Iterator[Example]:
    mean, deviation = np.array([0.485, 0.456, 0.406]) * 255, np.array([0.229, 0.224, 0.225]) * 255
    for example in _caltech(224, 1.0, 0.0)(graph, root):
        yield Example(((example.value - mean) / deviation).transpose(0, 3, 1, 2), example.accepted)


_ENTRIES: Mapping[str, Entry] = {
    "DS_CNN_S.pb": Entry(_archive(_LEGACY, "x", lambda x: x), 0.8833),
    "Basic_LSTM_S.pb": Entry(_archive(_LEGACY, "x", lambda x: x), 0.85),
    # This one hears every second window.
    "GRU_S.pb": Entry(_archive(_LEGACY, "x", lambda x: x[::2]), 0.8417),
    "resnet8_float.onnx": Entry(_archive("data_cifar10/ic01_200.npz", "x", lambda x: x), 0.855),
    "kws_dscnn_fp32_nchw.onnx": Entry(_archive(_MFCC, "x", _mfcc(0.58470643)), 0.9135),
    "kws_ref_model_float32.onnx": Entry(_archive(_MFCC, "x", _mfcc(0.5847), dev=True), 0.8982),
    "kwt1_non_stream.onnx": Entry(_archive("data_speech_commands/dev.npz", "wav", lambda x: x / 32768), 0.9333),
    "mbnet128_0.25_f.onnx": Entry(_caltech(128, 1 / 127.5, 127.5), 0.4489),
    "shufflenet-v2-12-int8.onnx": Entry(_shuffle, 0.5227),
    "vww_96_float.onnx": Entry(_photos("data_coco20", 96, 1 / 255)),
    "resnet8_float.tflite": Entry(_archive("data_cifar10/ic01_200.npz", "x", lambda x: x), 0.855),
    "resnet8_int8.tflite": Entry(_archive("data_cifar10/ic01_200.npz", "x", lambda x: x), 0.85),
    "kws_ref_model_float32.tflite": Entry(_archive(_MFCC, "x", _mfcc(0.5847), dev=True), 0.9055),
    "kws_ref_model_int8.tflite": Entry(_archive(_MFCC, "x", _mfcc(0.58470643), dev=True), 0.9032),
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
    """Run a TFLite file on LiteRT: its reference kernels from a fresh state, or as it is usually run."""

    def __init__(self, path: Path, usual: bool = False) -> None:
        kind = OpResolverType.AUTO if usual else OpResolverType.BUILTIN_REF
        self._usual = usual
        self._runner = Interpreter(str(path), experimental_op_resolver_type=kind, num_threads=1)
        self._runner.allocate_tensors()

    def run(self, value: AnyArray) -> AnyArray:
        runner = self._runner
        if not self._usual:
            runner.reset_all_variables()
        runner.set_tensor(runner.get_input_details()[0]["index"], value)
        runner.invoke()
        return np.array(runner.get_tensor(runner.get_output_details()[0]["index"]))


class _Onnx:
    """Run an ONNX file on ONNX Runtime, without optimisation or as it is usually run."""

    def __init__(self, path: Path, usual: bool = False) -> None:
        options = onnxruntime.SessionOptions()
        level = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = level.ORT_ENABLE_ALL if usual else level.ORT_DISABLE_ALL
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(self, value: AnyArray) -> AnyArray:
        return np.asarray(self._session.run(None, {self._session.get_inputs()[0].name: value})[0])


_FRAMEWORKS: Mapping[str, type[_Lite] | type[_Onnx]] = {".onnx": _Onnx, ".tflite": _Lite}


def measure(path: Path, root: Path, limit: int) -> Row:
    """Return the line of one file."""
    name = str(path.relative_to(root))
    options = LoadOptions(shapes=_SHAPES.get(name, {}), conversion=_CONVERSIONS.get(name, Conversion()))
    try:
        missing = _missing(path, options)
        if missing:
            return Row(name, missing, 0.0)
        load_model(path, options)
        # What a converter makes is kept: its own time is not the importer's.
        started = time.perf_counter()
        graph = load_model(path, options)
    except LoadError as error:
        return Row(name, f"refused: {error.message.removeprefix(str(path))[:110].lstrip(': ')}", 0.0)
    load_s = time.perf_counter() - started
    entry = _ENTRIES.get(path.name)
    if entry is None or len(graph.inputs) != 1:
        return Row(name, "loaded", load_s)
    return _compare(Row(name, "loaded", load_s), graph, entry, path, limit)


def _missing(path: Path, options: LoadOptions) -> str:
    """Return why a model cannot be converted here; empty where it can, or needs no converter."""
    if format_of(path).name != "converted":
        return ""
    state = state_of(find_environment(recognise(path, options).environment))
    return "" if state.state is State.READY else f"left out: no environment '{state.environment.name}' here"


def _compare(row: Row, graph: Graph, entry: Entry, path: Path, limit: int) -> Row:
    reals = dequantize(graph).graph if is_quantized(graph) else graph
    ours = _Ours(graph)
    framework = _FRAMEWORKS.get(path.suffix)
    judge, usual = (None, None) if framework is None else (framework(path), framework(path, usual=True))
    steps: Counter[int] = Counter()
    worst, right, usually, count, labelled = 0.0, 0, 0, 0, 0
    for example in entry.source(reals, _root()):
        value = _stored(graph, example.value)
        found = ours.run(value)
        if judge is not None and usual is not None:
            want = judge.run(value)
            usually += int(usual.run(value).reshape(-1).argmax()) in example.accepted
            if want.dtype.kind == "f":
                worst = max(worst, float(np.abs(found - want).max() / max(np.abs(want).max(), 1e-30)))
            else:
                steps.update(np.abs(found.astype(np.int64) - want.astype(np.int64)).reshape(-1).tolist())
        count += 1
        labelled += bool(example.accepted)
        right += int(found.reshape(-1).argmax()) in example.accepted
        if count == limit:
            break
    difference = _steps(steps) if steps else f"{worst:.1e}" if judge else "no framework here"
    accuracy = f"{right / labelled:.4f}" if labelled else ""
    usual_accuracy = f"{usually / labelled:.4f}" if labelled and usual else ""
    stated = f"{entry.stated:.4f}" if entry.stated is not None else ""
    return Row(row.file, row.outcome, row.load_s, count, difference, accuracy, usual_accuracy, stated)


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
    "(`python benchmarks/importers_pairs.py`, `--tune` compares what breaks in 8 bits).",
    "The two files of KWT-1 differ by as much in their own frameworks: the difference is in the files.",
    "",
)
_DETECTORS = (
    "## Detectors",
    "",
    "AP50 in float, beside what the manifest states; it does not say with which filter its images were resized, nor",
    "the thresholds of its suppression. Here: Pillow's bilinear filter, 0.01 and 0.65 for YOLOX, Darknet's own 0.25",
    "and 0.45.",
    "",
    "| file | data | images | AP50 | stated |",
    "| --- | --- | --- | --- | --- |",
)
_HEAD = (
    "# Importers",
    "",
    "Written by `python benchmarks/importers_table.py --write docs/reference/importers.md`; do not edit it.",
    "",
    "Differences are to LiteRT's reference kernels or to ONNX Runtime without optimisation, on the model's own data:",
    "relative to the largest output for floats, in steps of the output's integers otherwise (by the rules of target",
    "`reference:tflite`; exact arithmetic for ONNX). `top-1` is Dovetail's, where all samples were run; `usual` is",
    "that of the framework as it is usually run: optimised kernels (they round once where the reference kernels round",
    "twice), and states that are not reset between samples; `stated` is what the collection's manifest says. Models",
    "without a figure are loaded only; `load s` leaves out a converter's own time.",
    "",
    "| file | outcome | load s | samples | difference | top-1 | usual | stated |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
)


def markdown(rows: list[Row]) -> str:
    """Return the table as a page of the reference."""
    lines = [*_HEAD]
    for row in rows:
        cells = (row.file, row.outcome, f"{row.load_s:.2f}", str(row.samples or ""), row.difference)
        lines.append(f"| {' | '.join((*cells, row.accuracy, row.usual, row.stated))} |")
    return "\n".join(lines) + "\n"


def detectors(root: Path) -> Iterator[str]:
    """Yield a line for every detector and its data."""
    for found in detector_scores(root):
        yield f"| {found.file} | {found.data} | {found.images} | {found.score:.4f} | {found.stated:.4f} |"


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
        arguments.write.write_text(
            markdown(rows) + "\n".join(["", *_PAIRS, *pairs, "", *_DETECTORS, *detectors(root), ""])
        )


if __name__ == "__main__":
    main()
