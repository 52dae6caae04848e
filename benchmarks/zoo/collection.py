"""One file of every network of the collection: its float graph, its ranges, and samples of its own data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

import dovetail
from dovetail.backend.registry import find_target
from dovetail.backend.target import Target
from dovetail.data import open_samples, specs_of
from dovetail.ir import AnyArray, Graph
from dovetail.partition import PartitionedGraph
from dovetail.plan import Recipe, parse_placement
from dovetail.quantize import Ranges, is_quantized
from zoo.inputs import ENTRIES, missing_environment, options_of

NETWORKS = (
    "mnist_lstm/trained_lstm.tflite",
    "kws01_dscnn/kws_dscnn_fp32_nchw.onnx",
    "mnist_conv_fc/conv_fc_mnist.tflite",
    "lenet_caffe/lenet.prototxt",
    "kws_tf_pb/DS_CNN_S.pb",
    "kws_tf_pb/Basic_LSTM_S.pb",
    "kws_tf_pb/GRU_S.pb",
    "ic01_resnet8_cifar10/resnet8_float.onnx",
    "vww01_mobilenetv1_025/vww_96_float.onnx",
    "mbv1_025_128_imagenet/mbnet128_0.25_f.onnx",
    "mbv1_uint8_coral/mobilenet_v1_0.25_128_quant.tflite",
    "kwt1_transformer/kwt1_non_stream.onnx",
    "silero_vad/silero_vad_16k_op15.onnx",
    "mbv1_uint8_coral/mobilenet_v1_0.5_160_quant.tflite",
    "ultraface_rfb320/version-RFB-320.onnx",
    "shufflenetv2_int8_onnx/shufflenet-v2-12-int8.onnx",
    "yolo_fastest_darknet/yolo-fastest-1.1.cfg",
    "mbv2_uint8_coral/mobilenet_v2_1.0_224_quant.tflite",
    "movenet_lightning_int8/movenet_single_pose_lightning_ptq.tflite",
    "yolox_nano/yolox_nano.onnx",
    "yolox_nano/yolox_nano_decoded.onnx",
    "ppocrv3_det/model.onnx",
)
"""The cheapest to simulate first. Other files of the collection are the same networks in other formats."""

_CALIBRATION = 16


@dataclass(frozen=True, slots=True)
class Prepared:
    """A float network in normal form with its ranges and samples; a file's own ranges stay where it has them."""

    name: str
    graph: Graph
    ranges: Ranges
    samples: tuple[Mapping[str, AnyArray], ...]

    def placed(self, target: str, precision: str) -> PartitionedGraph:
        """Return the network on a part at a precision, on the CPU where the verdict refuses; raise DovetailError."""
        recipe = Recipe(parse_placement(f"{target}@{precision}"), (parse_placement("cpu@fp32"),))
        targets: dict[str, Target] = {name: find_target(name) for name in (target, "cpu")}
        plan = dovetail.make_plan(self.graph, recipe, targets)
        return dovetail.partition(dovetail.quantize(self.graph, plan, self.ranges))


def missing(root: Path, file: str) -> str:
    """Return why a file cannot be loaded here; empty where it can."""
    path = root / file
    return missing_environment(path, options_of(file)) if path.is_file() else "left out: the file is not here"


def prepare(root: Path, file: str, samples: int) -> Prepared:
    """Return a network calibrated on the first of its data, and the samples behind those; raise DovetailError.

    Where there is too little data samples are taken from what it was calibrated on.
    """
    path = root / file
    graph = dovetail.normalize(dovetail.load_model(path, options_of(file)))
    lifted = dovetail.dequantize(graph) if is_quantized(graph) else None
    graph = graph if lifted is None else lifted.graph
    found = list(islice(ENTRIES[path.name].source(graph, root), _CALIBRATION + samples))
    items = [{name: np.asarray(example.values[name]) for name in graph.inputs} for example in found]
    calibration = dovetail.calibrate(graph, open_samples(items[:_CALIBRATION], specs_of(graph)))
    calibration = calibration if lifted is None else lifted.refine(calibration)
    opened = open_samples(items[-samples:], specs_of(graph))
    return Prepared(path.stem, graph, calibration.ranges, tuple(sample.inputs for sample in opened))
