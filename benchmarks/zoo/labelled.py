"""Models of the collection with labelled samples, read for comparing metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import dovetail
from dovetail.compare.classification import TopK
from dovetail.compare.task import Reference, TaskMetric
from dovetail.data import Preprocess, Sample, open_samples, specs_of
from dovetail.ir import Graph
from dovetail.quantize import is_quantized
from zoo.case import pad_boxes, read_images
from zoo.catalogue import CASES as ZOO
from zoo.detection import Ap50, BestRows, DetectionF1, Outputs, Rows, darknet_rows, raw_yolox_rows, yolox_rows
from zoo.pictures import CASES as PICTURED

_MOST = 240
"""Samples of a model that are scored."""


@dataclass(frozen=True, slots=True)
class LabelledData:
    """Samples to calibrate on, labelled samples, and the metrics that know the labels."""

    calibration: Sequence[Sample]
    samples: Sequence[Sample]
    metrics: tuple[TaskMetric, ...]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A model of the collection that has labels."""

    name: str
    file: str
    open: Callable[[Graph, Path], LabelledData]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pad: float | None = None
    """What lies around a picture whose labels are boxes, in the network's input."""

    def graph(self, root: Path) -> Graph:
        """Return the float model in normal form."""
        loaded = dovetail.load_model(root / self.file, dovetail.LoadOptions(shapes=self.shapes))
        graph = dovetail.normalize(loaded)
        return dovetail.dequantize(graph).graph if is_quantized(graph) else graph


def _preprocess(file: str) -> Preprocess:
    return next(case.preprocess for case in PICTURED if case.file == file)


def _detector(file: str, read: Callable[[Outputs], Rows], pad: float) -> Labelled:
    def opened(graph: Graph, root: Path) -> LabelledData:
        how = _preprocess(file)
        coco, ccby = root / "data_coco20", root / "data_detect_ccby"
        labelled = read_images(graph, coco, how, coco / "gt.json")
        known = {sample.id for sample in labelled}
        unlabelled = [sample for sample in read_images(graph, coco, how) if sample.id not in known]
        samples = pad_boxes([*labelled, *read_images(graph, ccby, how, ccby / "gt.json")], 100)
        strict = DetectionF1(BestRows(read, min_score=0.3), Reference.LABELS)
        return LabelledData(unlabelled, samples, (Ap50(BestRows(read)), strict))

    return Labelled(Path(file).stem, file, opened, pad=pad)


def _imagenet(file: str) -> Labelled:
    def opened(graph: Graph, root: Path) -> LabelledData:
        folder = root / "data_caltech101"
        label = "accepted_imagenet_idx_0based"
        photos = read_images(graph, folder, _preprocess(file), folder / "labels.csv")
        # Classes of networks with a background are one further on.
        first = 1 if (graph.types[graph.outputs[0]].shape or ())[-1] == 1001 else 0
        moved = [
            Sample(item.id, item.inputs, {label: np.where(item.labels[label] < 0, -1, item.labels[label] + first)})
            for item in photos
        ]
        calibration = [item for item in moved if item.id.startswith("calib/")]
        samples = [item for item in moved if item.id.startswith("dev/")]
        return LabelledData(calibration, samples, (TopK("top1", 1, label=label),))

    return Labelled(Path(file).stem, file, opened)


def _digits(file: str, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Labelled:
    def opened(graph: Graph, root: Path) -> LabelledData:
        with np.load(root / "data_mnist" / "t10k_1000.npz", allow_pickle=False) as archive:
            pixels, labels = archive["x"].reshape(-1, 28, 28), archive["label"]
        name = graph.inputs[0]
        shape = tuple(size if isinstance(size, int) else 1 for size in graph.types[name].shape or ())
        items = [
            {name: (image.astype(np.float32) / 255).reshape(shape), "label": np.int64(label)}
            for image, label in zip(pixels, labels, strict=True)
        ]
        samples = list(open_samples(items, specs_of(graph)))
        return LabelledData(samples[:100], samples[100 : 100 + _MOST], (TopK("top1", 1),))

    return Labelled(Path(file).stem, file, opened, shapes or {})


def _from_zoo(name: str) -> Labelled:
    case = next(item for item in ZOO if item.name == name)

    def opened(graph: Graph, root: Path) -> LabelledData:
        data = case.open(graph, root)
        used = {id(sample) for sample in data.calibration}
        rest = [sample for sample in data.samples if id(sample) not in used]
        return LabelledData(data.calibration, rest[:_MOST], (data.metric,))

    return Labelled(name, case.file, opened, case.shapes)


CASES: tuple[Labelled, ...] = (
    _detector("yolox_nano/yolox_nano.onnx", raw_yolox_rows, 114.0),
    _detector("yolox_nano/yolox_nano_decoded.onnx", yolox_rows, 114.0),
    _detector("yolo_fastest_darknet/yolo-fastest-1.1.weights", darknet_rows, 0.5),
    _imagenet("mbv1_025_128_imagenet/mbnet128_0.25_f.onnx"),
    _imagenet("shufflenetv2_int8_onnx/shufflenet-v2-12-int8.onnx"),
    _imagenet("mbv1_uint8_coral/mobilenet_v1_0.25_128_quant.tflite"),
    _imagenet("mbv2_uint8_coral/mobilenet_v2_1.0_224_quant.tflite"),
    _from_zoo("resnet8_cifar10"),
    _from_zoo("kws_dscnn"),
    _from_zoo("kwt1"),
    _digits("mnist_conv_fc/conv_fc_mnist.tflite"),
    _digits("mnist_lstm/trained_lstm.tflite"),
    _digits("lenet_caffe/lenet.caffemodel", {"data": (1, 1, 28, 28)}),
)
