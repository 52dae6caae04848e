"""Detectors of the sixth set: written after the recogniser was mended for the fifth, without a look at it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.ir import DType, TensorType
from dovetail.outputs.view import Kind
from dovetail.testing.heads.net import GeneratedHead, HeadFamily, HeadNet, channels_last, drawn_net, pick
from dovetail.testing.heads.parts import (
    best_places,
    cast,
    corners,
    kept_by_suppression,
    middles,
    picked,
    queries,
    resized,
    table,
)

_STRIDES = (8, 16, 32)
_RARE = -4.6
"""The logit of a score of 0.01: what a trained detector says of most places."""


def rare(net: HeadNet, feature: str, channels: int, level: float = _RARE) -> str:
    """Add a convolution whose values are mostly as low as the logits of a trained detector.

    Features grow with every layer of the backbone here, which has no normalisation: by about 1.65 a halving.
    """
    batch, read, *space = net.shape(feature)
    before = next(index for index, node in enumerate(net.nodes) if feature in node.outputs)
    halvings = sum(node.attributes.get("strides") == (2, 2) for node in net.nodes[:before])
    reach = 1.7 / (1.1 * 1.65**halvings * np.sqrt(read))
    weight = net.rng.normal(0, reach, (channels, read, 1, 1)).astype(np.float32)
    bias = net.rng.normal(level, 0.6, channels).astype(np.float32)
    return net.op(
        "Conv", feature, net.constant(weight), net.constant(bias), shape=(batch, channels, *space), pads=(0,) * 4
    )


def calm(net: HeadNet, rows: str, count: int, level: float = 0.0) -> str:
    """Add a MatMul and a bias to `[1, T, C]` whose values stay within some units of a level."""
    batch, length, width = net.shape(rows)
    weight = net.rng.normal(0, 0.15 / np.sqrt(width), (width, count)).astype(np.float32)
    made = net.op("MatMul", rows, net.constant(weight), shape=(batch, length, count))
    return net.op("Add", made, net.constant(net.rng.normal(level, 0.4, count).astype(np.float32)))


def rare_table(net: HeadNet, features: list[str], channels: int, anchors: int = 1) -> str:
    """Return `[1, P, channels]` of rare scores over all features."""
    return net.concat([net.rows(rare(net, item, anchors * channels), channels) for item in features], 1)


def any_batch(head: GeneratedHead) -> GeneratedHead:
    """Return a head whose pictures and outputs have a batch of any size, as `dynamic_axes` declares it."""
    types = dict(head.graph.types)
    for name in (*head.graph.inputs, *head.graph.outputs):
        shape = types[name].shape
        if shape:
            types[name] = TensorType(types[name].dtype, ("batch_size", *shape[1:]))
    return replace(head, graph=replace(head.graph, types=types))


def _pyramid(rng: np.random.Generator, *, last: bool = False) -> tuple[HeadNet, list[str], tuple[int, int]]:
    net = drawn_net(rng)
    size = pick(rng, ((640, 640), (320, 320), (384, 640)))
    return net, net.backbone(net.picture(*size, channels_last=last), _STRIDES), size


def nas_suppressed(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLO-NAS after suppression: rows of picture, corners, score, class; or a batch of four tensors."""
    net = drawn_net(rng)
    size = (320, 320)
    features = net.backbone(net.picture(*size), (16, 32))
    boxes, scores = corners(net, features, size), net.sigmoid(rare_table(net, features, pick(rng, (80, 3))))
    places = net.shape(boxes)[1]
    best = net.op("ReduceMax", scores, net.constant([2]), shape=(1, places), keepdims=0)
    if rng.integers(2):
        count = 100
        score, at = best_places(net, best, count)
        labels = picked(net, net.reshape(cast(net, net.arg_max(scores, 2), DType.F32), 1, places, 1), at)
        found = net.op("ReduceSum", net.op("Ceil", score), net.constant([1]), shape=(1, 1), keepdims=1)
        parts = (cast(net, found, DType.I64), picked(net, boxes, at), score)
        named = dict(zip(("num_predictions", "pred_boxes", "pred_scores"), parts, strict=True))
        named["pred_classes"] = cast(net, net.reshape(labels, 1, count), DType.I64)
        return net.finish({f"graph2_{name}": item for name, item in named.items()}, Kind.DETECTION, "a batch")
    kept, labels = kept_by_suppression(net, boxes, net.transpose(scores, (0, 2, 1)), 20)
    axis = net.constant([1])
    label = net.op("Unsqueeze", cast(net, labels, DType.F32), axis, shape=("n", 1))
    flat = net.reshape(best, places)
    columns = (
        net.op("Mul", label, net.constant(np.float32(0.0))),
        net.op("Gather", net.reshape(boxes, places, 4), kept, shape=("n", 4), axis=0),
        net.op("Unsqueeze", net.op("Gather", flat, kept, shape=("n",), axis=0), axis, shape=("n", 1)),
        label,
    )
    joined = net.op("Concat", *columns, shape=("n", 7), axis=1)
    return net.finish({"graph2_flat_predictions": joined}, Kind.DETECTION, "flat")


def poses_rknn(rng: np.random.Generator) -> GeneratedHead:
    """Return RKNN's poses: distributions with a logit `[1, 65, H, W]` a stride, and points `[1, 17, 3, P]`."""
    net, features, _ = _pyramid(rng)
    names = pick(rng, (("output", "382", "387"), ("output0", "output1", "output2")))
    outputs = {
        name: net.concat([net.conv(item, 64), rare(net, item, 1)], 1)
        for name, item in zip(names, features, strict=True)
    }
    points = net.transpose(table(net, features, 51), (0, 2, 1))
    places = net.shape(points)[2]
    outputs[pick(rng, ("keypoints", "392"))] = net.reshape(points, 1, 17, 3, places)
    return net.finish(outputs, Kind.DETECTION)


def masks_rknn(rng: np.random.Generator) -> GeneratedHead:
    """Return RKNN's masks: distributions, scores, their sum and 32 weights a stride, and prototypes; 13 outputs."""
    net = drawn_net(rng)
    fine, *features = net.backbone(net.picture(*pick(rng, ((640, 640), (320, 320)))), (4, *_STRIDES))
    outputs: dict[str, str] = {}
    low, high = net.constant(np.float32(0.0)), net.constant(np.float32(1.0))
    classes = pick(rng, (80, 2))
    for index, item in enumerate(features):
        score = net.sigmoid(rare(net, item, classes))
        rows, cols = net.shape(score)[2:]
        total = net.op("ReduceSum", score, net.constant([1]), shape=(1, 1, rows, cols), keepdims=1)
        outputs[f"{375 + 21 * index}"] = net.conv(item, 64)
        outputs[f"onnx::ReduceSum_{383 + 21 * index}"] = score
        outputs[f"{388 + 21 * index}"] = net.op("Clip", total, low, high)
        outputs[f"{354 + 7 * index}"] = net.conv(item, 32)
    return net.finish({**outputs, "347": net.relu(net.conv(fine, 32, 3))}, Kind.DETECTION)


def turned_rknn(rng: np.random.Generator) -> GeneratedHead:
    """Return RKNN's turned boxes: `[1, 64 + classes, H, W]` a stride, and the angles `[1, 1, P]`."""
    net, features, _ = _pyramid(rng)
    classes = pick(rng, (15, 1))
    outputs = {
        f"output{index}": net.concat([net.conv(item, 64), rare(net, item, classes)], 1)
        for index, item in enumerate(features)
    }
    angle = net.op("Sub", net.sigmoid(table(net, features, 1)), net.constant(np.float32(0.25)))
    outputs["output3"] = net.transpose(net.op("Mul", angle, net.constant(np.float32(np.pi))), (0, 2, 1))
    return net.finish(outputs, Kind.DETECTION)


def hailo(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOv8's six maps as Hailo's compiler leaves them: channels last, distributions and scores in turn."""
    net, features, _ = _pyramid(rng, last=True)
    classes = pick(rng, (80, 1, 4))
    names = (("conv41", "conv42"), ("conv52", "conv53"), ("conv62", "conv63"))
    outputs: dict[str, str] = {}
    for (box, score), item in zip(names, features, strict=True):
        outputs[f"yolov8s/{box}"] = channels_last(net, net.conv(item, 64))
        outputs[f"yolov8s/{score}"] = channels_last(net, net.sigmoid(rare(net, item, classes)))
    return net.finish(outputs, Kind.DETECTION)


def faces_v8(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOv8-face's maps `[1, 80, H, W]`: distributions, one logit, five points of three numbers."""
    net, features, _ = _pyramid(rng)
    names = pick(rng, (("output0", "884", "892"), ("output0", "output1", "output2")))
    return net.finish(
        {
            name: net.concat([net.conv(item, 64), rare(net, item, 1), net.conv(item, 15)], 1)
            for name, item in zip(names, features, strict=True)
        },
        Kind.DETECTION,
    )


def rf_detr(rng: np.random.Generator) -> GeneratedHead:
    """Return RF-DETR's `dets [1, 300, 4]`, which are boxes only, and `labels [1, 300, 91]`, which are logits."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((560, 560), (384, 384)))), (16,))[0]
    seen = queries(net, feature, pick(rng, (300, 100)))
    scores = calm(net, seen, pick(rng, (91, 3)), _RARE)
    return net.finish({"dets": net.sigmoid(calm(net, seen, 4)), "labels": scores}, Kind.DETECTION)


def eight_outputs(rng: np.random.Generator) -> GeneratedHead:
    """Return the eight outputs of TensorFlow's Object Detection API, the raw ones among them."""
    net = drawn_net(rng)
    size = (320, 320)
    features = net.backbone(net.picture(*size, channels_last=True), (16, 32))
    shares = net.op("Mul", corners(net, features, size), net.constant(np.float32(1 / 320)))
    scores = net.sigmoid(rare_table(net, features, 1 + pick(rng, (90, 2))))
    places, count = net.shape(scores)[1], 100
    best = net.op("ReduceMax", scores, net.constant([2]), shape=(1, places), keepdims=0)
    score, at = best_places(net, best, count)
    labels = picked(net, net.reshape(cast(net, net.arg_max(scores, 2), DType.F32), 1, places, 1), at)
    outputs = {
        "detection_anchor_indices": cast(net, at, DType.F32),
        "detection_boxes": picked(net, shares, at),
        "detection_classes": net.op("Add", net.reshape(labels, 1, count), net.constant(np.float32(1.0))),
        "detection_multiclass_scores": picked(net, scores, at),
        "detection_scores": score,
        "num_detections": net.op("ReduceSum", net.op("Ceil", score), net.constant([1]), shape=(1,), keepdims=0),
        "raw_detection_boxes": net.op("Identity", shares),
        "raw_detection_scores": net.op("Identity", scores),
    }
    return net.finish(outputs, Kind.DETECTION)


def ssd_with_anchors(rng: np.random.Generator) -> GeneratedHead:
    """Return ST's SSD `[1, NA, classes + 8]`: shares of classes, offsets, and the anchors themselves."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(*pick(rng, ((192, 192), (256, 256))), channels_last=True), (16, 32, 64))
    classes = pick(rng, (2, 21))
    ground = net.constant(np.eye(1, classes, dtype=np.float32)[None] * np.float32(-_RARE))
    scores = net.softmax(net.op("Add", table(net, features, classes, 6), ground))
    places = net.shape(scores)[1]
    anchors = net.constant(net.rng.uniform(0, 1, (1, places, 4)).astype(np.float32))
    joined = net.concat([scores, table(net, features, 4, 6), anchors], 2)
    return net.finish({pick(rng, ("Identity", "StatefulPartitionedCall:0", "concatenate_5")): joined}, Kind.DETECTION)


def fomo(rng: np.random.Generator) -> GeneratedHead:
    """Return FOMO's shares of background and objects for every cell of 8 x 8 pixels, channels last."""
    net = drawn_net(rng)
    side = pick(rng, (96, 160))
    feature = net.backbone(net.picture(side, side, pick(rng, (1, 3)), channels_last=True), (8,))[0]
    classes = pick(rng, (1, 2))
    scores = net.concat([rare(net, feature, 1, 3.0), rare(net, feature, classes, -2.0)], 1)
    shares = net.softmax(channels_last(net, scores))
    return net.finish({pick(rng, ("StatefulPartitionedCall:0", "softmax")): shares}, Kind.DETECTION)


def pillars(rng: np.random.Generator) -> GeneratedHead:
    """Return PointPillars' scores, boxes of seven numbers and directions of six anchors a cell, channels last."""
    net = drawn_net(rng)
    feature = net.backbone(net.input("spatial_features", 1, 64, 248, 216), (2,))[0]
    names = pick(rng, (("cls_preds", "box_preds", "dir_cls_preds"), ("output1", "output2", "output3")))
    parts = (rare(net, feature, 18), net.conv(feature, 42), net.conv(feature, 12))
    return net.finish({name: channels_last(net, part) for name, part in zip(names, parts, strict=True)}, Kind.DETECTION)


def centre_point(rng: np.random.Generator) -> GeneratedHead:
    """Return CenterPoint's maps from above: heat, offset, height, size, turn and speed."""
    net = drawn_net(rng)
    feature = net.backbone(net.input(pick(rng, ("spatial_features", "canvas")), 1, 32, 256, 256), (2,))[0]
    names = ("reg", "height", "dim", "rot", "vel")
    outputs = {name: net.conv(feature, count) for name, count in zip(names, (2, 1, 3, 2, 2), strict=True)}
    heat = rare(net, feature, pick(rng, (3, 10)), -2.2)
    named = {"heatmap": heat, **outputs} if rng.integers(2) else {**outputs, "hm": net.sigmoid(heat)}
    return net.finish(named, Kind.DETECTION)


def rtmo(rng: np.random.Generator) -> GeneratedHead:
    """Return RTMO's `dets [1, N, 5]` and `keypoints [1, N, 17, 3]` (MMDeploy)."""
    net = drawn_net(rng)
    size = (320, 320)
    features = net.backbone(net.picture(*size), (16, 32))
    scores = net.sigmoid(rare_table(net, features, 1))
    places, count = net.shape(scores)[1], 50
    score, at = best_places(net, net.reshape(scores, 1, places), count)
    joined = net.concat([picked(net, corners(net, features, size), at), net.reshape(score, 1, count, 1)], 2)
    points = net.reshape(picked(net, table(net, features, 51), at), 1, count, 17, 3)
    return net.finish({"dets": joined, "keypoints": points}, Kind.DETECTION)


def hybrid(rng: np.random.Generator) -> GeneratedHead:
    """Return HybridNets' offsets and scores of nine anchors a cell, and the shares of road and lanes."""
    net = drawn_net(rng)
    size = pick(rng, ((256, 384), (384, 640)))
    fine, *features = net.backbone(net.picture(*size), (4, 8, 16, 32, 64, 128))
    outputs = {
        "regression": table(net, features, 4, 9),
        "classification": net.sigmoid(rare_table(net, features, 1, 9)),
        "segmentation": resized(net, net.conv(fine, 3), size),
    }
    return net.finish(outputs, dict(zip(outputs, (Kind.DETECTION, Kind.DETECTION, Kind.SEGMENTATION), strict=True)))


def driving_maps(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOPv2's masks of the road and of lanes, and three maps of three anchors a cell."""
    net = drawn_net(rng)
    size = (384, 640)
    fine, *features = net.backbone(net.picture(*size), (4, *_STRIDES))
    outputs = {
        "seg": resized(net, net.conv(fine, 2), size),
        "ll": net.sigmoid(resized(net, rare(net, fine, 1, -2.0), size)),
    }
    kinds = dict.fromkeys(outputs, Kind.SEGMENTATION)
    for index, item in enumerate(features):
        parts = [part for _ in range(3) for part in (net.conv(item, 4), rare(net, item, 81))]
        outputs[f"pred{index}"] = net.concat(parts, 1)
        kinds[f"pred{index}"] = Kind.DETECTION
    return net.finish(outputs, kinds)


def proposed_lanes(rng: np.random.Generator) -> GeneratedHead:
    """Return CLRNet's 192 lanes: two logits, start, angle, length, and 72 places along the rows."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(320, 800), (32,))[0]
    seen = queries(net, feature, pick(rng, (192, 240)))
    scores = [calm(net, seen, 1, level) for level in (3.0, -3.0)]
    joined = net.concat([*scores, net.sigmoid(calm(net, seen, 4)), net.sigmoid(calm(net, seen, 72))], 2)
    return net.finish({pick(rng, ("output", "1425", "proposals")): joined}, Kind.DETECTION)


def masks_tflite(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOv8's masks as TFLite has them: columns in shares of the picture, prototypes with channels last."""
    net = drawn_net(rng)
    size = pick(rng, ((320, 320), (640, 640)))
    fine, *features = net.backbone(net.picture(*size, channels_last=True), (4, *_STRIDES))
    boxes = net.op("Mul", middles(net, features, size), net.constant(np.float32(1 / size[0])))
    scores = net.sigmoid(rare_table(net, features, pick(rng, (80, 1))))
    rows = net.transpose(net.concat([boxes, scores, table(net, features, 32)], 2), (0, 2, 1))
    maps = channels_last(net, net.relu(net.conv(fine, 32, 3)))
    names = pick(rng, (("Identity", "Identity_1"), ("StatefulPartitionedCall:0", "StatefulPartitionedCall:1")))
    return net.finish({names[0]: rows, names[1]: maps}, Kind.DETECTION)


FAMILIES = (
    HeadFamily("YOLO-NAS, suppressed", nas_suppressed, "Deci-AI/super-gradients"),
    HeadFamily("YOLOv8 poses, RKNN", poses_rknn, "airockchip/rknn_model_zoo"),
    HeadFamily("YOLOv8 masks, RKNN", masks_rknn, "airockchip/rknn_model_zoo"),
    HeadFamily("YOLOv8 turned, RKNN", turned_rknn, "airockchip/rknn_model_zoo"),
    HeadFamily("YOLOv8, Hailo", hailo, "hailo-ai/hailo_model_zoo"),
    HeadFamily("YOLOv8-face, maps", faces_v8, "derronqi/yolov8-face"),
    HeadFamily("RF-DETR", rf_detr, "roboflow/rf-detr"),
    HeadFamily("TensorFlow, eight outputs", eight_outputs, "tensorflow/models"),
    HeadFamily("SSD with its anchors", ssd_with_anchors, "STMicroelectronics/stm32ai-modelzoo"),
    HeadFamily("FOMO", fomo, "edgeimpulse"),
    HeadFamily("PointPillars", pillars, "NVIDIA-AI-IOT/CUDA-PointPillars"),
    HeadFamily("CenterPoint", centre_point, "tianweiy/CenterPoint"),
    HeadFamily("RTMO", rtmo, "open-mmlab/mmpose"),
    HeadFamily("HybridNets", hybrid, "datvuthanh/HybridNets"),
    HeadFamily("YOLOPv2", driving_maps, "CAIC-AD/YOLOPv2"),
    HeadFamily("CLRNet", proposed_lanes, "Turoad/CLRNet"),
    HeadFamily("YOLOv8 masks, TFLite", masks_tflite, "ultralytics/ultralytics"),
)
