"""Dense detectors: grids, anchors and distributions, raw and decoded."""

from __future__ import annotations

import numpy as np

from dovetail.outputs.view import Kind
from dovetail.testing.heads.net import GeneratedHead, HeadFamily, HeadNet, pick

_SIZES = ((320, 320), (416, 416), (640, 640), (256, 448), (384, 640), (224, 224), (512, 512), (480, 640))
_CLASSES = (80, 1, 2, 3, 7, 20, 10, 15, 4, 43, 365)
_STRIDES = (8, 16, 32)


def _start(rng: np.random.Generator, strides: tuple[int, ...] = _STRIDES) -> tuple[HeadNet, list[str], tuple[int, int]]:
    """Return a net with features at some strides, and the size of its picture."""
    size = pick(rng, _SIZES)
    if max(strides) == 64:
        size = pick(rng, ((320, 320), (448, 448), (640, 640), (384, 640)))
    net = HeadNet(int(rng.integers(2**16)))
    return net, net.backbone(net.picture(*size), strides), size


def _centres(net: HeadNet, features: list[str], size: tuple[int, int], offset: float) -> tuple[str, str]:
    """Return the constants `[1, P, 2]` and `[1, P, 1]`: the cells' points, in cells, and their strides."""
    points, strides = [], []
    for feature in features:
        rows, cols = net.shape(feature)[2:]
        y, x = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
        points.append(np.stack([x, y], axis=-1).reshape(-1, 2) + offset)
        strides.append(np.full((rows * cols, 1), size[0] / rows))
    return (
        net.constant(np.concatenate(points)[None].astype(np.float32)),
        net.constant(np.concatenate(strides)[None].astype(np.float32)),
    )


def yolox(rng: np.random.Generator) -> GeneratedHead:
    """Return `[1, P, 5 + classes]`: raw boxes, Sigmoid of objectness and classes; sometimes decoded in the graph."""
    net, features, size = _start(rng)
    classes, decode = pick(rng, _CLASSES), bool(rng.integers(2))
    levels = []
    for feature in features:
        parts = [net.conv(feature, 4), net.sigmoid(net.conv(feature, 1)), net.sigmoid(net.conv(feature, classes))]
        joined = net.concat(parts, 1)
        rows, cols = net.shape(joined)[2:]
        levels.append(net.reshape(joined, 1, 5 + classes, rows * cols))
    table = net.transpose(net.concat(levels, 2), (0, 2, 1))
    if decode:
        points, strides = _centres(net, features, size, 0.0)
        xy = net.op("Mul", net.op("Add", net.part(table, 0, 2, 2), points), strides)
        wh = net.op("Mul", net.op("Exp", net.part(table, 2, 4, 2)), strides)
        table = net.concat([xy, wh, net.part(table, 4, 5 + classes, 2)], 2)
    return net.finish({"output": table}, Kind.DETECTION, "decoded" if decode else "raw")


def yolox_split(rng: np.random.Generator) -> GeneratedHead:
    """Return three maps a stride, channels first or joined to `[1, 5 + classes, H, W]`."""
    net, features, _ = _start(rng)
    classes, joined = pick(rng, _CLASSES), bool(rng.integers(2))
    outputs: dict[str, str] = {}
    for index, feature in enumerate(features):
        parts = [net.conv(feature, 4), net.sigmoid(net.conv(feature, 1)), net.sigmoid(net.conv(feature, classes))]
        if joined:
            outputs[f"output_{index}"] = net.concat(parts, 1)
        else:
            outputs.update({f"{name}_{index}": part for name, part in zip(("reg", "obj", "cls"), parts, strict=True)})
    return net.finish(outputs, Kind.DETECTION, "joined a stride" if joined else "three maps a stride")


def fastestdet(rng: np.random.Generator) -> GeneratedHead:
    """Return one map `[1, 5 + classes, H, W]` of stride 16: objectness, box, Softmax of the classes."""
    size = pick(rng, ((352, 352), (320, 320), (256, 256), (352, 640)))
    net = HeadNet(int(rng.integers(2**16)))
    (feature,) = net.backbone(net.picture(*size), (16,))
    classes = pick(rng, (80, 2, 10, 20))
    parts = [net.sigmoid(net.conv(feature, 1)), net.conv(feature, 4), net.softmax(net.conv(feature, classes), 1)]
    return net.finish({"output": net.concat(parts, 1)}, Kind.DETECTION)


def yunet(rng: np.random.Generator) -> GeneratedHead:
    """Return `cls`, `obj`, `bbox` and `kps` of every stride, `[1, H*W, C]` each."""
    net, features, _ = _start(rng)
    outputs: dict[str, str] = {}
    for name, channels in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)):
        for stride, feature in zip(_STRIDES, features, strict=True):
            part = net.rows(net.conv(feature, channels), channels)
            outputs[f"{name}_{stride}"] = net.sigmoid(part) if channels == 1 else part
    return net.finish(outputs, Kind.DETECTION)


def scrfd(rng: np.random.Generator) -> GeneratedHead:
    """Return scores, distances and perhaps landmarks of every stride, two anchors a cell, without a batch axis."""
    net, features, _ = _start(rng)
    points, batch = bool(rng.integers(2)), bool(rng.integers(2))
    outputs: dict[str, str] = {}
    for name, channels in (("score", 1), ("bbox", 4), ("kps", 10)):
        for stride, feature in zip(_STRIDES, features, strict=True):
            if name == "kps" and not points:
                continue
            part = net.rows(net.conv(feature, 2 * channels), channels)
            part = net.sigmoid(part) if channels == 1 else part
            outputs[f"{name}_{stride}"] = part if batch else net.reshape(part, *net.shape(part)[1:])
    return net.finish(outputs, Kind.DETECTION, "with landmarks" if points else "boxes only")


def retinaface(rng: np.random.Generator) -> GeneratedHead:
    """Return `loc [1, P, 4]`, `conf [1, P, 2]` and `landms [1, P, 10]`, two anchors a cell."""
    net, features, _ = _start(rng)
    table = {
        name: net.concat([net.rows(net.conv(feature, 2 * channels), channels) for feature in features], 1)
        for name, channels in (("loc", 4), ("conf", 2), ("landms", 10))
    }
    table["conf"] = net.softmax(table["conf"])
    return net.finish(table, Kind.DETECTION)


def fcos(rng: np.random.Generator) -> GeneratedHead:
    """Return class maps, distances and centreness of five strides."""
    strides = (8, 16, 32, 64)
    net, features, _ = _start(rng, strides)
    classes, last = pick(rng, _CLASSES), bool(rng.integers(2))
    outputs: dict[str, str] = {}
    for name, channels in (("cls_score", classes), ("bbox_pred", 4), ("centerness", 1)):
        for index, feature in enumerate(features):
            part = net.conv(feature, channels)
            part = net.op("Exp", part) if channels == 4 and name == "bbox_pred" else part
            outputs[f"{name}_{index}"] = net.transpose(part, (0, 2, 3, 1)) if last else part
    return net.finish(outputs, Kind.DETECTION, "channels last" if last else "channels first")


def yolo_anchors(rng: np.random.Generator) -> GeneratedHead:
    """Return three raw maps of three anchors a cell (YOLOv3, v5, v7): `[1, 3*(5+C), H, W]` or `[1, 3, H, W, 5+C]`."""
    net, features, _ = _start(rng)
    classes, form = pick(rng, _CLASSES), int(rng.integers(3))
    outputs: dict[str, str] = {}
    for index, feature in enumerate(features):
        part = net.conv(feature, 3 * (5 + classes))
        if form == 1:
            part = net.sigmoid(part)
        if form == 2:
            rows, cols = net.shape(part)[2:]
            part = net.transpose(net.reshape(part, 1, 3, 5 + classes, rows, cols), (0, 1, 3, 4, 2))
        outputs[("output", "350", "414")[index] if form else f"output{index}"] = part
    return net.finish(outputs, Kind.DETECTION, ("raw maps", "Sigmoid applied", "five axes")[form])


def yolov5(rng: np.random.Generator) -> GeneratedHead:
    """Return `[1, 3*P, 5 + classes]`, decoded: centres and sizes in pixels, anchor by anchor."""
    net, features, size = _start(rng)
    classes = pick(rng, _CLASSES)
    levels = []
    for feature in features:
        rows, cols = net.shape(feature)[2:]
        part = net.conv(feature, 3 * (5 + classes))
        part = net.transpose(net.reshape(part, 1, 3, 5 + classes, rows, cols), (0, 1, 3, 4, 2))
        part = net.sigmoid(part)
        y, x = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
        grid = net.constant((np.stack([x, y], -1)[None, None] - 0.5).astype(np.float32))
        stride = size[0] / rows
        xy = net.op("Mul", net.part(part, 0, 2, 4), net.constant(np.float32(2.0)))
        xy = net.op("Mul", net.op("Add", xy, grid), net.constant(np.float32(stride)))
        wh = net.op("Mul", net.part(part, 2, 4, 4), net.constant(np.float32(2.0)))
        anchors = net.constant(net.rng.uniform(1, 6, (1, 3, 1, 1, 2)).astype(np.float32) * np.float32(stride))
        wh = net.op("Mul", net.op("Pow", wh, net.constant(np.float32(2.0))), anchors)
        joined = net.concat([xy, wh, net.part(part, 4, 5 + classes, 4)], 4)
        levels.append(net.reshape(joined, 1, 3 * rows * cols, 5 + classes))
    return net.finish({"output0": net.concat(levels, 1)}, Kind.DETECTION)


def _ltrb(net: HeadNet, box: str, bins: int) -> str:
    """Return expected distances `[1, 4, P]` of distributions `[1, 4 * bins, P]`."""
    places = net.shape(box)[2]
    split = net.transpose(net.reshape(box, 1, 4, bins, places), (0, 2, 1, 3))
    weights = net.constant(np.arange(bins, dtype=np.float32).reshape(1, bins, 1, 1))
    expected = net.op("Conv", net.softmax(split, 1), weights, shape=(1, 1, 4, places))
    return net.reshape(expected, 1, 4, places)


def yolov8(rng: np.random.Generator) -> GeneratedHead:
    """Return `[1, 4 + classes, P]`: decoded boxes and Sigmoid of the classes; sometimes with places first."""
    net, features, size = _start(rng)
    classes, bins = pick(rng, _CLASSES), pick(rng, (16, 16, 1))
    boxes, scores = [], []
    for feature in features:
        rows, cols = net.shape(feature)[2:]
        boxes.append(net.reshape(net.conv(feature, 4 * bins), 1, 4 * bins, rows * cols))
        scores.append(net.reshape(net.conv(feature, classes), 1, classes, rows * cols))
    box = net.concat(boxes, 2)
    distances = _ltrb(net, box, bins) if bins > 1 else net.relu(box)
    points, strides = (net.transpose(item, (0, 2, 1)) for item in _centres(net, features, size, 0.5))
    low = net.op("Sub", points, net.part(distances, 0, 2, 1))
    high = net.op("Add", points, net.part(distances, 2, 4, 1), shape=net.shape(low))
    low = net.op("Mul", low, net.constant(np.float32(1.0)), shape=(1, 2, net.shape(distances)[2]))
    middle = net.op("Div", net.op("Add", low, high), net.constant(np.float32(2.0)))
    decoded = net.op("Mul", net.concat([middle, net.op("Sub", high, low)], 1), strides)
    table = net.concat([decoded, net.sigmoid(net.concat(scores, 2))], 1)
    turned = bool(rng.integers(4) == 0)
    return net.finish(
        {"output0": net.transpose(table, (0, 2, 1)) if turned else table},
        Kind.DETECTION,
        "places first" if turned else "channels first",
    )


def yolov8_split(rng: np.random.Generator) -> GeneratedHead:
    """Return boxes as distributions and Sigmoid of classes a stride, with or without their sum (RKNN's exporter)."""
    net, features, _ = _start(rng)
    classes, extra, joined = pick(rng, _CLASSES), bool(rng.integers(2)), bool(rng.integers(3) == 0)
    outputs: dict[str, str] = {}
    for index, feature in enumerate(features):
        box, score = net.conv(feature, 64), net.conv(feature, classes)
        if joined:
            outputs[f"output{index}"] = net.concat([box, score], 1)
            continue
        outputs[f"{318 + 7 * index}"] = box
        outputs[f"onnx::ReduceSum_{326 + 7 * index}"] = score = net.sigmoid(score)
        if extra:
            rows, cols = net.shape(score)[2:]
            total = net.op("ReduceSum", score, net.constant([1]), shape=(1, 1, rows, cols), keepdims=1)
            low, high = net.constant(np.float32(0.0)), net.constant(np.float32(1.0))
            outputs[f"{331 + 7 * index}"] = net.op("Clip", total, low, high)
    return net.finish(outputs, Kind.DETECTION, "joined" if joined else "with sums" if extra else "boxes and classes")


def nanodet(rng: np.random.Generator) -> GeneratedHead:
    """Return NanoDet-Plus's `[1, P, classes + 32]`, or NanoDet's classes and distances a stride."""
    strides = (8, 16, 32, 64)
    net, features, _ = _start(rng, strides)
    classes, split = pick(rng, (80, 1, 10, 20)), bool(rng.integers(2))
    outputs: dict[str, str] = {}
    levels = []
    for stride, feature in zip(strides, features, strict=True):
        score, box = net.sigmoid(net.conv(feature, classes)), net.conv(feature, 32)
        rows, cols = net.shape(score)[2:]
        if split:
            outputs[f"cls_pred_stride_{stride}"] = net.rows(score, classes)
            outputs[f"dis_pred_stride_{stride}"] = net.rows(box, 32)
        else:
            levels.append(net.reshape(net.concat([score, box], 1), 1, classes + 32, rows * cols))
    if not split:
        outputs["output"] = net.transpose(net.concat(levels, 2), (0, 2, 1))
    return net.finish(outputs, Kind.DETECTION, "a stride" if split else "joined")


def ssd(rng: np.random.Generator) -> GeneratedHead:
    """Return `boxes [1, P, 4]` and `scores [1, P, classes + 1]` of anchors that differ from stride to stride."""
    strides = (16, 32, 64, 128)
    size = pick(rng, ((300, 300), (320, 320), (512, 512), (240, 320)))
    net = HeadNet(int(rng.integers(2**16)))
    features = net.backbone(net.picture(*size), strides)
    anchors, classes = pick(rng, ((3, 6, 6, 6), (4, 6, 6, 4), (3, 2, 2, 3))), pick(rng, (91, 21, 2, 5))
    boxes = [net.rows(net.conv(item, 4 * count), 4) for item, count in zip(features, anchors, strict=True)]
    scores = [net.rows(net.conv(item, classes * count), classes) for item, count in zip(features, anchors, strict=True)]
    score = net.softmax(net.concat(scores, 1)) if rng.integers(2) else net.concat(scores, 1)
    return net.finish({"scores": score, "boxes": net.concat(boxes, 1)}, Kind.DETECTION)


FAMILIES = (
    HeadFamily("YOLOX", yolox, "Megvii-BaseDetection/YOLOX, tools/export_onnx.py"),
    HeadFamily("YOLOX, maps", yolox_split, "airockchip/rknn_model_zoo, examples/yolox"),
    HeadFamily("FastestDet", fastestdet, "dog-qiuqiu/FastestDet, module/custom_layers.py"),
    HeadFamily("YuNet", yunet, "opencv/opencv_zoo, models/face_detection_yunet"),
    HeadFamily("SCRFD", scrfd, "deepinsight/insightface, detection/scrfd"),
    HeadFamily("RetinaFace", retinaface, "biubug6/Pytorch_Retinaface"),
    HeadFamily("FCOS", fcos, "tianzhi0549/FCOS, mmdetection"),
    HeadFamily("YOLOv3/v5/v7, maps", yolo_anchors, "ultralytics/yolov5, WongKinYiu/yolov7, RKNN's forks"),
    HeadFamily("YOLOv5, decoded", yolov5, "ultralytics/yolov5, export.py"),
    HeadFamily("YOLOv8 and later", yolov8, "ultralytics/ultralytics, nn/modules/head.py"),
    HeadFamily("YOLOv8, maps", yolov8_split, "airockchip/rknn_model_zoo, examples/yolov8"),
    HeadFamily("NanoDet", nanodet, "RangiLyu/nanodet, nanodet_plus_head.py"),
    HeadFamily("SSD", ssd, "opencv/opencv_zoo, tensorflow/models"),
)
