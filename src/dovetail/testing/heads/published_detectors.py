"""Detectors as published exporters write them, made after the recogniser and not with it."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Node, TensorType
from dovetail.outputs.view import Kind
from dovetail.testing.heads.net import GeneratedHead, HeadFamily, HeadNet, drawn_net, pick


def picodet(rng: np.random.Generator) -> GeneratedHead:
    """Return PicoDet as PaddleDetection exports it without suppression: four score and four distribution tensors."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(*pick(rng, ((320, 320), (416, 416)))), (8, 16, 32, 64))
    classes = pick(rng, (80, 1, 5))
    scores = [net.rows(net.sigmoid(net.conv(item, classes)), classes) for item in features]
    boxes = [net.rows(net.conv(item, 32), 32) for item in features]
    names = {f"transpose_{2 * index}.tmp_0": tensor for index, tensor in enumerate(scores)}
    names.update({f"transpose_{2 * index + 1}.tmp_0": tensor for index, tensor in enumerate(boxes)})
    return net.finish(names, Kind.DETECTION)


def ppyoloe(rng: np.random.Generator) -> GeneratedHead:
    """Return PP-YOLOE decoded: `[1, P, 4]` corners and `[1, classes, P]` scores."""
    net = drawn_net(rng)
    size = pick(rng, ((640, 640), (320, 320)))
    features = net.backbone(net.picture(*size), (32, 16, 8)[::-1])
    classes = pick(rng, (80, 1, 4))
    scores, boxes, points, strides = [], [], [], []
    for feature in features[::-1]:
        rows, cols = net.shape(feature)[2:]
        scores.append(net.reshape(net.sigmoid(net.conv(feature, classes)), 1, classes, rows * cols))
        bins = net.reshape(net.conv(feature, 68), 1, 4, 17, rows * cols)
        share = net.softmax(net.transpose(bins, (0, 2, 1, 3)), 1)
        weights = net.constant(np.arange(17, dtype=np.float32).reshape(1, 17, 1, 1))
        boxes.append(net.reshape(net.op("Conv", share, weights, shape=(1, 1, 4, rows * cols)), 1, 4, rows * cols))
        y, x = np.meshgrid(np.arange(rows) + 0.5, np.arange(cols) + 0.5, indexing="ij")
        points.append(np.stack([x, y], -1).reshape(-1, 2))
        strides.append(np.full((rows * cols, 1), size[0] / rows))
    distance = net.transpose(net.concat(boxes, 2), (0, 2, 1))
    grid = net.constant(np.concatenate(points)[None].astype(np.float32))
    low = net.op("Add", net.op("Neg", net.part(distance, 0, 2, 2)), grid)
    high = net.op("Add", net.part(distance, 2, 4, 2), grid)
    corners = net.op("Mul", net.concat([low, high], 2), net.constant(np.concatenate(strides)[None].astype(np.float32)))
    return net.finish({"tmp_17": corners, "concat_14.tmp_0": net.concat(scores, 2)}, Kind.DETECTION)


def yolo_nas(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLO-NAS: corners in pixels `[1, P, 4]` and scores `[1, P, classes]`, unnamed."""
    net = drawn_net(rng)
    size = (640, 640)
    features = net.backbone(net.picture(*size), (8, 16, 32))
    classes = pick(rng, (80, 3))
    scores, boxes = [], []
    for feature in features:
        rows, cols = net.shape(feature)[2:]
        scores.append(net.rows(net.conv(feature, classes), classes))
        distance = net.relu(net.rows(net.conv(feature, 4), 4))
        y, x = np.meshgrid(np.arange(rows) + 0.5, np.arange(cols) + 0.5, indexing="ij")
        grid = net.constant(np.stack([x, y], -1).reshape(1, -1, 2).astype(np.float32))
        low = net.op("Sub", grid, net.part(distance, 0, 2, 2), shape=(1, rows * cols, 2))
        high = net.op("Add", net.part(distance, 2, 4, 2), grid)
        boxes.append(net.op("Mul", net.concat([low, high], 2), net.constant(np.float32(size[0] / rows))))
    return net.finish({"913": net.concat(boxes, 1), "904": net.sigmoid(net.concat(scores, 1))}, Kind.DETECTION)


def retinanet(rng: np.random.Generator) -> GeneratedHead:
    """Return RetinaNet's ten maps: nine anchors a cell, five strides, logits."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(*pick(rng, ((480, 640), (512, 512)))), (8, 16, 32, 64, 128))
    classes = pick(rng, (80, 2))
    names = {f"cls_head_{index}": net.conv(item, 9 * classes) for index, item in enumerate(features)}
    names.update({f"box_head_{index}": net.conv(item, 36) for index, item in enumerate(features)})
    return net.finish(names, Kind.DETECTION)


def yolov2(rng: np.random.Generator) -> GeneratedHead:
    """Return Tiny YOLOv2's one map of five anchors a cell."""
    net = drawn_net(rng)
    (feature,) = net.backbone(net.picture(416, 416), (32,))
    return net.finish({"grid": net.conv(feature, 5 * (5 + pick(rng, (20, 80))))}, Kind.DETECTION)


def yolov4(rng: np.random.Generator) -> GeneratedHead:
    """Return `boxes [1, P, 1, 4]` in shares of the picture and `confs [1, P, classes]` (pytorch-YOLOv4)."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(416, 416), (8, 16, 32))
    classes = pick(rng, (80, 2))
    boxes, scores = [], []
    for feature in features:
        rows, cols = net.shape(feature)[2:]
        raw = net.reshape(net.conv(feature, 3 * (5 + classes)), 1, 3, 5 + classes, rows, cols)
        raw = net.reshape(net.transpose(raw, (0, 1, 3, 4, 2)), 1, 3 * rows * cols, 5 + classes)
        y, x = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
        grid = np.tile(np.stack([x, y], -1).reshape(1, -1, 2), (1, 3, 1)).astype(np.float32)
        xy = net.op("Add", net.sigmoid(net.part(raw, 0, 2, 2)), net.constant(grid))
        xy = net.op("Div", xy, net.constant(np.array([cols, rows], np.float32)))
        wh = net.op("Mul", net.op("Exp", net.part(raw, 2, 4, 2)), net.constant(np.float32(0.1)))
        half = net.op("Mul", wh, net.constant(np.float32(0.5)))
        low = net.op("Sub", xy, half)
        corners = net.concat([low, net.op("Add", wh, low)], 2)
        boxes.append(net.reshape(corners, 1, 3 * rows * cols, 1, 4))
        there = net.sigmoid(net.part(raw, 4, 5, 2))
        scores.append(net.op("Mul", net.sigmoid(net.part(raw, 5, 5 + classes, 2)), there))
    return net.finish({"boxes": net.concat(boxes, 1), "confs": net.concat(scores, 1)}, Kind.DETECTION)


def blazeface(rng: np.random.Generator) -> GeneratedHead:
    """Return MediaPipe's detectors: `regressors [1, 896, 16]` and `classificators [1, 896, 1]`, channels last."""
    net = drawn_net(rng)
    size, numbers, names = pick(
        rng, (((128, 128), 16, ("regressors", "classificators")), ((192, 192), 18, ("Identity", "Identity_1")))
    )
    eight, sixteen = net.backbone(net.picture(*size, channels_last=True), (8, 16))
    boxes = [net.rows(net.conv(item, count * numbers), numbers) for item, count in ((eight, 2), (sixteen, 6))]
    scores = [net.rows(net.conv(item, count), 1) for item, count in ((eight, 2), (sixteen, 6))]
    return net.finish({names[0]: net.concat(boxes, 1), names[1]: net.concat(scores, 1)}, Kind.DETECTION)


def efficientdet(rng: np.random.Generator) -> GeneratedHead:
    """Return EfficientDet's raw heads of TensorFlow, joined: nine anchors, five strides, channels last."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(512, 512, channels_last=True), (8, 16, 32, 64, 128))
    classes = pick(rng, (90, 3))
    boxes = net.concat([net.rows(net.conv(item, 36), 4) for item in features], 1)
    scores = net.concat([net.rows(net.conv(item, 9 * classes), classes) for item in features], 1)
    return net.finish({"Identity": net.sigmoid(scores), "Identity_1": boxes}, Kind.DETECTION)


def _pose_or_mask(rng: np.random.Generator, extra: int) -> tuple[HeadNet, str, str]:
    """Return a net, YOLOv8's table with some channels more, and a fine feature."""
    net = drawn_net(rng)
    size = pick(rng, ((640, 640), (320, 320)))
    fine, *features = net.backbone(net.picture(*size), (4, 8, 16, 32))
    classes = 1 if extra == 51 else pick(rng, (80, 3))
    parts = []
    for feature in features:
        rows, cols = net.shape(feature)[2:]
        stride = size[0] / rows
        y, x = np.meshgrid(np.arange(rows) + 0.5, np.arange(cols) + 0.5, indexing="ij")
        grid = net.constant(np.stack([x, y]).reshape(1, 2, -1).astype(np.float32))
        raw = net.relu(net.reshape(net.conv(feature, 4), 1, 4, rows * cols))
        low = net.op("Sub", grid, net.part(raw, 0, 2, 1), shape=(1, 2, rows * cols))
        high = net.op("Add", net.part(raw, 2, 4, 1), grid)
        middle = net.op("Mul", net.op("Add", low, high), net.constant(np.float32(0.5 * stride)))
        sizes = net.op("Mul", net.op("Sub", high, low), net.constant(np.float32(stride)))
        score = net.sigmoid(net.reshape(net.conv(feature, classes), 1, classes, rows * cols))
        more = net.reshape(net.conv(feature, extra), 1, extra, rows * cols)
        if extra == 51:
            more = net.op("Mul", more, net.constant(np.float32(stride)))
        parts.append(net.concat([middle, sizes, score, more], 1))
    return net, net.concat(parts, 2), fine


def yolov8_pose(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOv8's poses: `[1, 56, P]`."""
    net, table, _ = _pose_or_mask(rng, 51)
    return net.finish({"output0": table}, Kind.DETECTION)


def yolov8_masks(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOv8's masks: `[1, 4 + classes + 32, P]` and prototypes `[1, 32, H/4, W/4]`."""
    net, table, fine = _pose_or_mask(rng, 32)
    prototypes = net.relu(net.conv(fine, 32, 3))
    return net.finish({"output0": table, "output1": prototypes}, Kind.DETECTION)


def yolov5_face(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOv5-face's rows: box, objectness, five landmarks, one class; three anchors a cell."""
    net = drawn_net(rng)
    size = (640, 640)
    features = net.backbone(net.picture(*size), (8, 16, 32))
    levels = []
    for feature in features:
        rows, cols = net.shape(feature)[2:]
        raw = net.reshape(net.conv(feature, 48), 1, 3, 16, rows, cols)
        raw = net.transpose(raw, (0, 1, 3, 4, 2))
        y, x = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
        grid = net.constant(np.stack([x, y], -1)[None, None].astype(np.float32))
        stride = net.constant(np.float32(size[0] / rows))
        xy = net.op("Mul", net.op("Add", net.sigmoid(net.part(raw, 0, 2, 4)), grid), stride)
        wh = net.op("Mul", net.sigmoid(net.part(raw, 2, 4, 4)), net.constant(np.float32(4 * size[0] / rows)))
        points = net.op("Mul", net.part(raw, 5, 15, 4), stride)
        parts = [xy, wh, net.sigmoid(net.part(raw, 4, 5, 4)), points, net.sigmoid(net.part(raw, 15, 16, 4))]
        levels.append(net.reshape(net.concat(parts, 4), 1, 3 * rows * cols, 16))
    return net.finish({"output": net.concat(levels, 1)}, Kind.DETECTION)


def _listed(net: HeadNet, feature: str, rows: int) -> tuple[str, str]:
    """Return boxes `[1, rows, 4]` and sorted scores `[1, rows]` of the best places."""
    boxes = net.rows(net.conv(feature, 4), 4)
    places = net.shape(boxes)[1]
    scores = net.reshape(net.sigmoid(net.conv(feature, 1)), 1, places)
    number = len(net.nodes)
    best, at = f"best{number}", f"at{number}"
    net.types[best] = TensorType(DType.F32, (1, rows))
    net.types[at] = TensorType(DType.I64, (1, rows))
    net.nodes.append(Node(f"n{number}", "TopK", (scores, net.constant([rows])), (best, at), {"axis": 1}))
    flat = net.reshape(at, rows)
    net.types[flat] = TensorType(DType.I64, (rows,))
    chosen = net.op("Gather", boxes, flat, shape=(1, rows, 4), axis=1)
    low = net.sigmoid(net.part(chosen, 0, 2, 2))
    size = net.op("Mul", net.sigmoid(net.part(chosen, 2, 4, 2)), net.constant(np.float32(0.3)))
    return net.concat([low, net.op("Add", low, size)], 2), best


def tflite_suppressed(rng: np.random.Generator) -> GeneratedHead:
    """Return the four outputs of TFLite's detection post-processing."""
    net = drawn_net(rng)
    rows = pick(rng, (10, 25))
    (feature,) = net.backbone(net.picture(320, 320, channels_last=True), (16,))
    boxes, scores = _listed(net, feature, rows)
    labels = net.op("Floor", net.op("Mul", scores, net.constant(np.float32(90.0))))
    count = net.op("ReduceSum", net.op("Ceil", scores), net.constant([1]), shape=(1,), keepdims=0)
    names = pick(
        rng,
        (
            tuple(f"StatefulPartitionedCall:{index}" for index in (3, 2, 1, 0)),
            tuple(f"TFLite_Detection_PostProcess{suffix}" for suffix in ("", ":1", ":2", ":3")),
        ),
    )
    return net.finish(dict(zip(names, (boxes, labels, scores, count), strict=True)), Kind.DETECTION)


def efficient_nms(rng: np.random.Generator) -> GeneratedHead:
    """Return `num_dets`, `det_boxes`, `det_scores` and `det_classes` (YOLOv7 and v6 for TensorRT)."""
    net = drawn_net(rng)
    (feature,) = net.backbone(net.picture(640, 640), (16,))
    boxes, scores = _listed(net, feature, 100)
    pixels = net.op("Mul", boxes, net.constant(np.float32(640.0)))
    labels = net.op("Cast", net.op("Mul", scores, net.constant(np.float32(7.0))), shape=(1, 100), to=6)
    net.types[labels] = TensorType(DType.I32, (1, 100))
    total = net.op("ReduceSum", net.op("Ceil", scores), net.constant([1]), shape=(1, 1), keepdims=1)
    count = net.op("Cast", total, shape=(1, 1), to=6)
    net.types[count] = TensorType(DType.I32, (1, 1))
    names = {"num_dets": count, "det_boxes": pixels, "det_scores": scores, "det_classes": labels}
    return net.finish(names, Kind.DETECTION)


def mmdeploy(rng: np.random.Generator) -> GeneratedHead:
    """Return `dets [1, N, 5]` (corners and score) and `labels [1, N]` (MMDeploy)."""
    net = drawn_net(rng)
    (feature,) = net.backbone(net.picture(320, 320), (16,))
    boxes, scores = _listed(net, feature, 100)
    pixels = net.op("Mul", boxes, net.constant(np.float32(320.0)))
    labels = net.op("Cast", net.op("Mul", scores, net.constant(np.float32(7.0))), shape=(1, 100), to=7)
    net.types[labels] = TensorType(DType.I64, (1, 100))
    return net.finish(
        {"dets": net.concat([pixels, net.reshape(scores, 1, 100, 1)], 2), "labels": labels}, Kind.DETECTION
    )


FAMILIES = (
    HeadFamily("PicoDet", picodet, "PaddlePaddle/PaddleDetection"),
    HeadFamily("PP-YOLOE, decoded", ppyoloe, "PaddlePaddle/PaddleDetection"),
    HeadFamily("YOLO-NAS", yolo_nas, "Deci-AI/super-gradients"),
    HeadFamily("RetinaNet, maps", retinanet, "NVIDIA/retinanet-examples"),
    HeadFamily("YOLOv2", yolov2, "onnx/models"),
    HeadFamily("YOLOv4, decoded", yolov4, "Tianxiaomo/pytorch-YOLOv4"),
    HeadFamily("BlazeFace and palms", blazeface, "google-ai-edge/mediapipe"),
    HeadFamily("EfficientDet, raw", efficientdet, "google/automl"),
    HeadFamily("YOLOv8, poses", yolov8_pose, "ultralytics/ultralytics"),
    HeadFamily("YOLOv8, masks", yolov8_masks, "ultralytics/ultralytics"),
    HeadFamily("YOLOv5-face", yolov5_face, "deepcam-cn/yolov5-face"),
    HeadFamily("TFLite, suppressed", tflite_suppressed, "tensorflow/models"),
    HeadFamily("TensorRT, suppressed", efficient_nms, "WongKinYiu/yolov7"),
    HeadFamily("MMDeploy, suppressed", mmdeploy, "open-mmlab/mmdeploy"),
)
