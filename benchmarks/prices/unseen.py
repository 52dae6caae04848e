"""Models that no price was fitted to: those of the collection, MobileNetV1 1.0 at 224, and networks of new seeds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import dovetail
from dovetail.importers import LoadOptions
from dovetail.ir import Graph
from dovetail.quantize import is_quantized
from prices.networks import network
from zoo.mobilenet import mobilenet_v1

FILES: Mapping[str, str] = {
    "kws_dscnn": "kws01_dscnn/kws_dscnn_fp32_nchw.onnx",
    "resnet8": "ic01_resnet8_cifar10/resnet8_float.onnx",
    "vww_mobilenet_v1_0.25": "vww01_mobilenetv1_025/vww_96_float.onnx",
    "mobilenet_v1_0.25_128": "mbv1_025_128_imagenet/mbnet128_0.25_f.onnx",
    "lenet": "lenet_caffe/lenet.caffemodel",
    "mobilenet_v1_0.5_160": "mbv1_uint8_coral/mobilenet_v1_0.5_160_quant.tflite",
    "mobilenet_v2_1.0_224": "mbv2_uint8_coral/mobilenet_v2_1.0_224_quant.tflite",
    "ultraface_rfb320": "ultraface_rfb320/version-RFB-320.onnx",
    "yolo_fastest": "yolo_fastest_darknet/yolo-fastest-1.1.cfg",
    "movenet_lightning": "movenet_lightning_int8/movenet_single_pose_lightning_ptq.tflite",
    "shufflenet_v2": "shufflenetv2_int8_onnx/shufflenet-v2-12-int8.onnx",
    "kwt1": "kwt1_transformer/kwt1_non_stream.onnx",
    "yolox_nano": "yolox_nano/yolox_nano_decoded.onnx",
    "ppocrv3_det": "ppocrv3_det/model.onnx",
}
_SHAPES: Mapping[str, Mapping[str, tuple[int, ...]]] = {"ppocrv3_det": {"x": (1, 3, 480, 480)}}
BOARD_MODEL = "mobilenet_v1_1.0_224"
"""The one that a board was measured with."""


def unseen(root: Path) -> dict[str, Graph]:
    """Return the float models by name, in normal form; quantised ones as the floats that they stand for."""
    found = {BOARD_MODEL: dovetail.normalize(mobilenet_v1())}
    for name, file in FILES.items():
        graph = dovetail.normalize(dovetail.load_model(root / file, LoadOptions(shapes=_SHAPES.get(name, {}))))
        found[name] = dovetail.dequantize(graph).graph if is_quantized(graph) else graph
    return found


FRESH = (
    *(63, *range(96, 100), *range(152, 158), *range(252, 258), *range(352, 358)),
    *(*range(440, 444), *range(540, 544), *range(640, 644)),
)
"""Seeds of generated networks that nothing was fitted to or chosen on: who chooses anything by them, takes others.

So were 64-79, 140-145, 240-245 and 340-345, until what they said of turned rows was taken up; 524-535 and 624-635, by
which kinds of small work were told apart; and 80-95, 146-151, 246-251, 346-351, 436-439, 536-539 and 636-639, which
said what the plain roofline makes of sums.
"""


def fresh() -> dict[str, Graph]:
    """Return the networks of the new seeds, of every family."""
    return {graph.name: graph for graph in (dovetail.normalize(network(seed)) for seed in FRESH)}
