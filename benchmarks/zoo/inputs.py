"""The real inputs of every collected model, and what the manifest states of it."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path

import numpy as np
from PIL import Image

from dovetail.data import Channels, Interpolation, Preprocess, PreprocessStep, StepKind, open_samples, specs_of
from dovetail.environments import State, find_environment, state_of
from dovetail.importers import Conversion, LoadOptions, load_model
from dovetail.importers.converted import recognise
from dovetail.importers.formats import format_of
from dovetail.ir import AnyArray, Graph
from dovetail.passes import normalize
from zoo.catalogue import CASES


@dataclass(frozen=True, slots=True)
class Example:
    """Real inputs of a model in its order, and the classes that are right; none where the data has no label."""

    values: Mapping[str, AnyArray]
    accepted: frozenset[int] = frozenset()


Source = Callable[[Graph, Path], Iterator[Example]]


@dataclass(frozen=True, slots=True)
class Entry:
    """Say where a model's data is, and what the manifest states."""

    source: Source
    stated: float | None = None


def _caltech(side: int, scale: float, mean: float, first: int = 0, short: int = 256) -> Source:
    """Return photos of Caltech-101; `first` is the class that ImageNet's class 0 has in the model."""

    def read(graph: Graph, root: Path) -> Iterator[Example]:
        folder = root / "data_caltech101"
        with (folder / "labels.csv").open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["split"] == "dev"]
        for row in rows:
            pixels = _centre(folder / row["file"], short, side)
            classes = frozenset(int(item) + first for item in row["accepted_imagenet_idx_0based"].split())
            yield Example({graph.inputs[0]: (pixels[None] - mean) * scale}, classes)

    return read


def _centre(path: Path, short: int, side: int) -> AnyArray:
    """Return the centre of a photo as `[H, W, 3]`: the first filter is Pillow's default, the second is bilinear."""
    with Image.open(path) as file:
        image = file.convert("RGB")
    ratio = short / min(image.size)
    image = image.resize((round(image.width * ratio), round(image.height * ratio)), Image.Resampling.BICUBIC)
    left, top = (image.width - 224) // 2, (image.height - 224) // 2
    image = image.crop((left, top, left + 224, top + 224))
    if side != 224:
        image = image.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(image, np.float32)


_WORDS = ("Silence", "Unknown", "Yes", "No", "Up", "Down", "Left", "Right", "On", "Off", "Stop", "Go")


def _archive(name: str, key: str, convert: Callable[[AnyArray], AnyArray], dev: bool = False, skip: int = 0) -> Source:
    def read(graph: Graph, root: Path) -> Iterator[Example]:
        shape = graph.types[graph.inputs[0]].static_shape or ()
        with np.load(root / name, allow_pickle=False) as file:
            labels = [int(label) for label in file["label"]]
            # The manifest's figures of these models are of the samples that are not held out.
            kept = ~file["holdout"] if dev else np.ones(len(labels), np.bool_)
            if "classes" in file:
                # The archive and the keyword models count the same twelve words in different orders.
                labels = [_WORDS.index(str(file["classes"][label])) for label in labels]
            for value, label in islice(compress(zip(file[key], labels, strict=True), kept), skip, None):
                found = convert(value).astype(np.float32).reshape(shape)
                yield Example({graph.inputs[0]: found}, frozenset({label}))

    return read


def _photos(folder: str, side: int, scale: float) -> Source:
    def read(graph: Graph, root: Path) -> Iterator[Example]:
        image = Preprocess((PreprocessStep(StepKind.RESIZE, side, side),), mean=(0.0,), scale=(scale,))
        for sample in open_samples(root / folder, specs_of(graph), image):
            yield Example(sample.inputs)

    return read


def _case(name: str, *names: str) -> Source:
    """Return the samples of a case whose own file they are prepared with, under the inputs' names of this file."""
    case = next(case for case in CASES if case.name == name)

    def read(graph: Graph, root: Path) -> Iterator[Example]:
        own = normalize(load_model(root / case.file, LoadOptions(shapes=case.shapes)))
        for sample in case.open(own, root).samples:
            values = list(sample.inputs.values())
            yield Example(dict(zip(names, values, strict=False)) if names else sample.inputs)

    return read


def _darknet(graph: Graph, root: Path) -> Iterator[Example]:
    image = Preprocess(
        (PreprocessStep(StepKind.RESIZE, 320, 320),),
        Channels.RGB,
        scale=(1 / 255,),
        interpolation=Interpolation.OPENCV_BILINEAR,
    )
    for sample in open_samples(root / "data_coco20", specs_of(graph), image):
        yield Example(sample.inputs)


def _mfcc(scale: float) -> Callable[[AnyArray], AnyArray]:
    return lambda stored: np.asarray((stored.astype(np.float32) - 83) * np.float32(scale))


_MFCC = "data_speech_commands/mfcc_int8_kws01.npz"
_LEGACY = "data_speech_commands/mfcc_legacy_dev.npz"


def _shuffle(graph: Graph, root: Path) -> Iterator[Example]:
    """Yield photos as the manifest's figure saw them: blue first, though the network wants red first."""
    mean, deviation = np.array([0.485, 0.456, 0.406]) * 255, np.array([0.229, 0.224, 0.225]) * 255
    for example in _caltech(224, 1.0, 0.0, short=224)(graph, root):
        ((name, pixels),) = example.values.items()
        yield Example({name: ((pixels[..., ::-1] - mean) / deviation).transpose(0, 3, 1, 2)}, example.accepted)


ENTRIES: Mapping[str, Entry] = {
    "DS_CNN_S.pb": Entry(_archive(_LEGACY, "x", lambda x: x), 0.8833),
    "Basic_LSTM_S.pb": Entry(_archive(_LEGACY, "x", lambda x: x), 0.85),
    # This one hears every second window.
    "GRU_S.pb": Entry(_archive(_LEGACY, "x", lambda x: x[::2]), 0.8417),
    "resnet8_float.onnx": Entry(_archive("data_cifar10/ic01_200.npz", "x", lambda x: x), 0.855),
    "kws_dscnn_fp32_nchw.onnx": Entry(_archive(_MFCC, "x", _mfcc(0.58470643)), 0.9135),
    # Its figure leaves out the hundred that it was calibrated on.
    "kws_ref_model_float32.onnx": Entry(_archive(_MFCC, "x", _mfcc(0.5847), dev=True, skip=100), 0.8982),
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
    "model.onnx": Entry(_case("ppocrv3_det")),
    "model.pdmodel": Entry(_case("ppocrv3_det")),
    "silero_vad_16k_op15.onnx": Entry(_case("silero_vad")),
    "silero_vad.jit": Entry(_case("silero_vad", "x", "state")),
    "RFB-320.prototxt": Entry(_case("ultraface_rfb320")),
    "version-RFB-320.onnx": Entry(_case("ultraface_rfb320")),
    "yolo-fastest-1.1.cfg": Entry(_darknet),
    "yolox_nano.onnx": Entry(_case("yolox_nano_decoded")),
    "yolox_nano_decoded.onnx": Entry(_case("yolox_nano_decoded")),
}

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


def options_of(file: str) -> LoadOptions:
    """Return how a file of the collection is loaded: the sizes that it leaves open, and what a converter is told."""
    return LoadOptions(shapes=_SHAPES.get(file, {}), conversion=_CONVERSIONS.get(file, Conversion()))


def missing_environment(path: Path, options: LoadOptions) -> str:
    """Return why a model cannot be converted here; empty where it can, or needs no converter."""
    if format_of(path).name != "converted":
        return ""
    state = state_of(find_environment(recognise(path, options).environment))
    return "" if state.state is State.READY else f"left out: no environment '{state.environment.name}' here"
