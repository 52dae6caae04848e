"""Image classifiers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dovetail.compare.classification import Top1Agreement, TopK
from dovetail.data import Channels, Interpolation, Preprocess, PreprocessStep, Sample, StepKind, open_samples, specs_of
from dovetail.ir import Graph
from zoo.case import Case, Dataset, Figure, everything, read_images

_SHORT = PreprocessStep(StepKind.RESIZE_SHORT, 256, 256, interpolation=Interpolation.BICUBIC)
_CROP = PreprocessStep(StepKind.CENTRE_CROP, 224, 224)
_TOP1 = TopK("top1", 1)


def _caltech(graph: Graph, root: Path, image: Preprocess, stated: float) -> Dataset:
    folder = root / "data_caltech101"
    photos = read_images(graph, folder, image, folder / "labels.csv")
    samples = [sample for sample in photos if sample.id.startswith("dev/")]
    calibration = [sample for sample in photos if sample.id.startswith("calib/")]
    metric = TopK("top1", 1, label="accepted_imagenet_idx_0based")
    return Dataset(calibration, samples, metric, (Figure("top-1", metric, everything(samples), stated),))


def _mobilenet(graph: Graph, root: Path) -> Dataset:
    steps = (_SHORT, _CROP, PreprocessStep(StepKind.RESIZE, 128, 128))
    return _caltech(graph, root, Preprocess(steps, mean=(127.5,), scale=(1 / 127.5,)), 0.4489)


def _shufflenet(graph: Graph, root: Path) -> Dataset:
    mean, deviation = np.array([0.485, 0.456, 0.406]) * 255, np.array([0.229, 0.224, 0.225]) * 255
    image = Preprocess((_SHORT, _CROP), mean=tuple(mean.tolist()), scale=tuple((1 / deviation).tolist()))
    return _caltech(graph, root, image, 0.5227)


def _resnet(graph: Graph, root: Path) -> Dataset:
    with np.load(root / "data_cifar10" / "ic01_200.npz", allow_pickle=False) as file:
        pixels, labels, calib = file["x"], file["label"], file["calib"]
    name = graph.inputs[0]
    items = [{name: item[None].astype(np.float32), "label": label} for item, label in zip(pixels, labels, strict=True)]
    specs = specs_of(graph)
    samples = list(open_samples(items, specs))
    calibration = list(open_samples([item[None].astype(np.float32) for item in calib], specs))
    return Dataset(calibration, samples, _TOP1, (Figure("top-1", _TOP1, everything(samples), 0.855),))


def _person(graph: Graph, root: Path) -> Dataset:
    image = Preprocess((PreprocessStep(StepKind.RESIZE, 96, 96),), Channels.RGB, scale=(1 / 255,))
    folder = root / "data_caltech101"
    photos: list[Sample] = [
        *read_images(graph, folder / "dev", image),
        *read_images(graph, root / "data_coco20", image),
        *read_images(graph, root / "ultraface_rfb320" / "imgs", image),
    ]
    metric = Top1Agreement()
    figure = Figure("top-1 agreement with float", metric, everything(photos))
    return Dataset(read_images(graph, folder / "calib", image), photos, metric, (figure,))


CASES = (
    Case("mobilenet_v1_0.25_128", "MobileNet", "mbv1_025_128_imagenet/mbnet128_0.25_f.onnx", _mobilenet),
    Case("resnet8_cifar10", "residual net", "ic01_resnet8_cifar10/resnet8_float.onnx", _resnet),
    Case(
        "vww_mobilenet_v1_0.25",
        "MobileNet",
        "vww01_mobilenetv1_025/vww_96_float.onnx",
        _person,
        note="agreement with float: the collection has no labelled photos for it",
    ),
    Case(
        "shufflenet_v2_int8",
        "already quantised",
        "shufflenetv2_int8_onnx/shufflenet-v2-12-int8.onnx",
        _shufflenet,
        note="tuned as the float model that its integers stand for; its figure is that of the integers",
    ),
)
