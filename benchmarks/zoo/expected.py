"""What the outputs of every model of the collection are, by what its maker says of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from dovetail.compare.decisions import see_outputs
from dovetail.importers import load_model
from dovetail.ir import AnyArray
from dovetail.outputs import Kind, OutputsView
from dovetail.passes import normalize
from dovetail.quantize import dequantize, is_quantized
from zoo.inputs import ENTRIES, options_of


@dataclass(frozen=True, slots=True)
class Expected:
    """A file of the collection, and what decision its outputs hold."""

    file: str
    kind: Kind
    others: Mapping[int, Kind]
    """The kinds of outputs, by their number, that are not what the model is for."""

    def kinds(self, view: OutputsView) -> Mapping[str, Kind]:
        """Return the kind that every output should be of."""
        names = output_names(view)
        return {name: self.others.get(index, self.kind) for index, name in enumerate(names)}


def output_names(view: OutputsView) -> list[str]:
    """Return the outputs of a view, heads in their order."""
    return [name for head in view.heads for name in head.roles]


_CLASSIFIERS = (
    "ic01_resnet8_cifar10/resnet8_float.onnx",
    "ic01_resnet8_cifar10/resnet8_float.tflite",
    "ic01_resnet8_cifar10/resnet8_int8.tflite",
    "kws01_dscnn/kws_dscnn_fp32_nchw.onnx",
    "kws01_dscnn/kws_ref_model_float32.onnx",
    "kws01_dscnn/kws_ref_model_float32.tflite",
    "kws01_dscnn/kws_ref_model_int8.tflite",
    "kws_dscnn_int16x8/ds_cnn_s_int16x8.tflite",
    "kws_tf_pb/Basic_LSTM_S.pb",
    "kws_tf_pb/DS_CNN_S.pb",
    "kws_tf_pb/GRU_S.pb",
    "kwt1_transformer/kwt1_non_stream.onnx",
    "kwt1_transformer/kwt1_non_stream.tflite",
    "lenet_caffe/lenet.prototxt",
    "mbv1_025_128_imagenet/mbnet128_0.25_f.onnx",
    "mbv1_025_128_imagenet/mbnet128_0.25_f.tflite",
    "mbv1_025_128_imagenet/mbnet128_0.25_q.tflite",
    "mbv1_uint8_coral/mobilenet_v1_0.25_128_quant.tflite",
    "mbv1_uint8_coral/mobilenet_v1_0.5_160_quant.tflite",
    "mbv2_uint8_coral/mobilenet_v2_1.0_224_quant.tflite",
    "mnist_conv_fc/conv_fc_mnist.tflite",
    "mnist_conv_fc/conv_fc_mnist_srq_a8w8.tflite",
    "mnist_lstm/trained_lstm.tflite",
    "mnist_lstm/trained_lstm_int8.tflite",
    "shufflenetv2_int8_onnx/shufflenet-v2-12-int8.onnx",
    "vww01_mobilenetv1_025/vww_96_float.onnx",
    "vww01_mobilenetv1_025/vww_96_float.tflite",
    "vww01_mobilenetv1_025/vww_96_int8.tflite",
)
_DETECTORS = (
    "ultraface_rfb320/RFB-320.prototxt",
    "ultraface_rfb320/version-RFB-320.onnx",
    "yolo_fastest_darknet/yolo-fastest-1.1.cfg",
    "yolox_nano/yolox_nano.onnx",
    "yolox_nano/yolox_nano_decoded.onnx",
)

EXPECTED: tuple[Expected, ...] = (
    *(Expected(file, Kind.CLASSIFICATION, {}) for file in _CLASSIFIERS),
    *(Expected(file, Kind.DETECTION, {}) for file in _DETECTORS),
    Expected("movenet_lightning_int8/movenet_single_pose_lightning_ptq.tflite", Kind.KEYPOINTS, {}),
    Expected("ppocrv3_det/model.onnx", Kind.TEXT_REGIONS, {}),
    Expected("ppocrv3_det/model.pdmodel", Kind.TEXT_REGIONS, {}),
    # Whether somebody speaks, and the state that goes back in.
    Expected("silero_vad/silero_vad.jit", Kind.CLASSIFICATION, {1: Kind.STATE}),
    Expected("silero_vad/silero_vad_16k_op15.onnx", Kind.CLASSIFICATION, {1: Kind.STATE}),
)
"""Every model file of the collection that is a network; weights without one (`version-RFB-320.pth`) have no outputs."""


def see_model(file: str, root: Path, most: int) -> OutputsView:
    """Return what is recognised of a model's outputs on at most so many of its samples."""
    graph = normalize(load_model(root / file, options_of(file)))
    if is_quantized(graph):
        graph = dequantize(graph).graph
    examples = islice(ENTRIES[Path(file).name].source(graph, root), most)
    feeds: list[dict[str, AnyArray]] = []
    for example in examples:
        types = graph.types
        feeds.append(
            {name: np.asarray(example.values[name]).astype(types[name].dtype.carrier) for name in graph.inputs}
        )
    return see_outputs(graph, feeds, threads=1).view
