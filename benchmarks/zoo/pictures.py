"""The image models of the collection with the preprocessing that their makers state, and pictures for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

import dovetail
from dovetail.data import Anchor, Channels, Interpolation, Preprocess, PreprocessStep, StepKind
from dovetail.ir import Graph
from dovetail.outputs import Kind
from dovetail.quantize import is_quantized

_DEVIATION = np.array([0.229, 0.224, 0.225])
IMAGENET = tuple((np.array([0.485, 0.456, 0.406]) * 255).tolist()), tuple((1 / (255 * _DEVIATION)).tolist())
"""Mean and scale of ImageNet as torchvision states them, for RGB pixels."""
_SHORT = PreprocessStep(StepKind.RESIZE_SHORT, 256, 256, interpolation=Interpolation.BICUBIC)
_CROP = PreprocessStep(StepKind.CENTRE_CROP, 224, 224)


@dataclass(frozen=True, slots=True)
class Pictured:
    """A model that takes pictures: what its maker states, and what its outputs are."""

    file: str
    preprocess: Preprocess
    folder: str
    kind: Kind
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def graph(self, root: Path) -> Graph:
        """Return the float model in normal form."""
        loaded = dovetail.load_model(root / self.file, dovetail.LoadOptions(shapes=self.shapes))
        graph = dovetail.normalize(loaded)
        return dovetail.dequantize(graph).graph if is_quantized(graph) else graph


def _stretch(rows: int, cols: int, **options: object) -> Preprocess:
    return Preprocess((PreprocessStep(StepKind.RESIZE, rows, cols),), **options)  # type: ignore[arg-type]


_LETTERBOX = PreprocessStep(StepKind.LETTERBOX, 416, 416, pad=114, anchor=Anchor.TOP_LEFT)
_YOLOX = Preprocess((_LETTERBOX,), Channels.BGR, interpolation=Interpolation.OPENCV_BILINEAR)
_HALF = {"mean": (127.5,), "scale": (1 / 127.5,)}
_COCO, _CALTECH, _CIFAR, _DIGITS = "data_coco20", "data_caltech101/dev", "cifar", "digits"

CASES: tuple[Pictured, ...] = (
    Pictured("yolox_nano/yolox_nano.onnx", _YOLOX, _COCO, Kind.DETECTION),
    Pictured("yolox_nano/yolox_nano_decoded.onnx", _YOLOX, _COCO, Kind.DETECTION),
    Pictured(
        "yolo_fastest_darknet/yolo-fastest-1.1.weights", _stretch(320, 320, scale=(1 / 255,)), _COCO, Kind.DETECTION
    ),
    Pictured(
        "ultraface_rfb320/version-RFB-320.onnx",
        _stretch(240, 320, mean=(127.0,), scale=(1 / 128,)),
        "ultraface_rfb320/imgs",
        Kind.DETECTION,
    ),
    Pictured(
        "ultraface_rfb320/RFB-320.caffemodel",
        _stretch(240, 320, mean=(127.0,), scale=(1 / 128,)),
        "ultraface_rfb320/imgs",
        Kind.DETECTION,
    ),
    Pictured(
        "ppocrv3_det/model.onnx",
        _stretch(480, 480, channels=Channels.BGR, mean=IMAGENET[0][::-1], scale=IMAGENET[1]),
        "data_ocr",
        Kind.TEXT_REGIONS,
        {"x": (1, 3, 480, 480)},
    ),
    *(
        Pictured(
            f"mbv1_025_128_imagenet/{name}",
            Preprocess((_SHORT, _CROP, PreprocessStep(StepKind.RESIZE, 128, 128)), **options),  # type: ignore[arg-type]
            _CALTECH,
            Kind.CLASSIFICATION,
        )
        for name, options in (
            ("mbnet128_0.25_f.onnx", _HALF),
            ("mbnet128_0.25_f.tflite", _HALF),
            ("mbnet128_0.25_q.tflite", {"scale": (1 / 255,)}),
        )
    ),
    Pictured(
        "shufflenetv2_int8_onnx/shufflenet-v2-12-int8.onnx",
        Preprocess((_SHORT, _CROP), mean=IMAGENET[0], scale=IMAGENET[1]),
        _CALTECH,
        Kind.CLASSIFICATION,
    ),
    *(
        Pictured(
            f"{name}.tflite",
            Preprocess((_SHORT, _CROP, PreprocessStep(StepKind.RESIZE, side, side)), **_HALF),  # type: ignore[arg-type]
            _CALTECH,
            Kind.CLASSIFICATION,
        )
        for name, side in (
            ("mbv1_uint8_coral/mobilenet_v1_0.25_128_quant", 128),
            ("mbv1_uint8_coral/mobilenet_v1_0.5_160_quant", 160),
            ("mbv2_uint8_coral/mobilenet_v2_1.0_224_quant", 224),
        )
    ),
    *(
        Pictured(f"ic01_resnet8_cifar10/{name}", _stretch(32, 32), _CIFAR, Kind.CLASSIFICATION)
        for name in ("resnet8_float.onnx", "resnet8_float.tflite", "resnet8_int8.tflite")
    ),
    *(
        Pictured(f"vww01_mobilenetv1_025/{name}", _stretch(96, 96, scale=(1 / 255,)), "people", Kind.CLASSIFICATION)
        for name in ("vww_96_float.onnx", "vww_96_float.tflite", "vww_96_int8.tflite")
    ),
    Pictured(
        "movenet_lightning_int8/movenet_single_pose_lightning_ptq.tflite", _stretch(192, 192), _COCO, Kind.KEYPOINTS
    ),
    *(
        Pictured(
            name,
            _stretch(28, 28, channels=Channels.GREY, scale=(1 / 255,)),
            _DIGITS,
            Kind.CLASSIFICATION,
            shapes,
        )
        for name, shapes in (
            ("mnist_conv_fc/conv_fc_mnist.tflite", {}),
            ("mnist_conv_fc/conv_fc_mnist_srq_a8w8.tflite", {}),
            ("mnist_lstm/trained_lstm.tflite", {}),
            ("mnist_lstm/trained_lstm_int8.tflite", {}),
            ("lenet_caffe/lenet.caffemodel", {"data": (1, 1, 28, 28)}),
        )
    ),
)


def picture_folder(case: Pictured, root: Path, work: Path) -> Path:
    """Return the folder of a case's pictures; those that the collection keeps as arrays are written out once."""
    made: dict[str, Callable[[Path, Path], None]] = {
        _CIFAR: _write_cifar,
        _DIGITS: _write_digits,
        "people": _link_people,
    }
    if case.folder not in made:
        return root / case.folder
    folder = work / case.folder
    if not folder.is_dir():
        folder.mkdir(parents=True)
        made[case.folder](root, folder)
    return folder


def _write_cifar(root: Path, folder: Path) -> None:
    with np.load(root / "data_cifar10" / "ic01_200.npz", allow_pickle=False) as file:
        for index, pixels in enumerate(file["x"][:100]):
            Image.fromarray(pixels).save(folder / f"{index:04d}.png")


def _write_digits(root: Path, folder: Path) -> None:
    with np.load(root / "data_mnist" / "t10k_1000.npz", allow_pickle=False) as file:
        for index, pixels in enumerate(file["x"][:100]):
            Image.fromarray(pixels.reshape(28, 28)).save(folder / f"{index:04d}.png")


def _link_people(root: Path, folder: Path) -> None:
    """Photos with and without people: the model says which."""
    for source in (root / "data_coco20", root / "ultraface_rfb320" / "imgs", root / "data_detect_ccby"):
        for path in sorted(source.iterdir()):
            if path.suffix in (".jpg", ".png"):
                (folder / path.name).symlink_to(path)
