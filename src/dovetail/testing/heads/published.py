"""More heads as published exporters write them, made after the recogniser and not with it.

The first run of these heads is kept in `docs/reference/outputs.md`: it says how the recogniser does on designs that it
was not made on.
"""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Node, TensorType
from dovetail.outputs.view import Kind
from dovetail.testing.heads.net import Head, HeadFamily, HeadNet, pick

_D, _S, _K, _E, _C, _R, _T, _G = (
    Kind.DETECTION,
    Kind.SEGMENTATION,
    Kind.KEYPOINTS,
    Kind.EMBEDDING,
    Kind.CLASSIFICATION,
    Kind.REGRESSION,
    Kind.TEXT,
    Kind.SIGNAL,
)


def _net(rng: np.random.Generator) -> HeadNet:
    return HeadNet(int(rng.integers(2**16)))


def _last(net: HeadNet, tensor: str) -> str:
    """Return a map with channels last."""
    return net.transpose(tensor, (0, 2, 3, 1))


def picodet(rng: np.random.Generator) -> Head:
    """Return PicoDet as PaddleDetection exports it without suppression: four score and four distribution tensors."""
    net = _net(rng)
    features = net.backbone(net.picture(*pick(rng, ((320, 320), (416, 416)))), (8, 16, 32, 64))
    classes = pick(rng, (80, 1, 5))
    scores = [net.rows(net.sigmoid(net.conv(item, classes)), classes) for item in features]
    boxes = [net.rows(net.conv(item, 32), 32) for item in features]
    names = {f"transpose_{2 * index}.tmp_0": tensor for index, tensor in enumerate(scores)}
    names.update({f"transpose_{2 * index + 1}.tmp_0": tensor for index, tensor in enumerate(boxes)})
    return net.finish(names, _D)


def ppyoloe(rng: np.random.Generator) -> Head:
    """Return PP-YOLOE decoded: `[1, P, 4]` corners and `[1, classes, P]` scores."""
    net = _net(rng)
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
    return net.finish({"tmp_17": corners, "concat_14.tmp_0": net.concat(scores, 2)}, _D)


def yolo_nas(rng: np.random.Generator) -> Head:
    """Return YOLO-NAS: corners in pixels `[1, P, 4]` and scores `[1, P, classes]`, unnamed."""
    net = _net(rng)
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
    return net.finish({"913": net.concat(boxes, 1), "904": net.sigmoid(net.concat(scores, 1))}, _D)


def retinanet(rng: np.random.Generator) -> Head:
    """Return RetinaNet's ten maps: nine anchors a cell, five strides, logits."""
    net = _net(rng)
    features = net.backbone(net.picture(*pick(rng, ((480, 640), (512, 512)))), (8, 16, 32, 64, 128))
    classes = pick(rng, (80, 2))
    names = {f"cls_head_{index}": net.conv(item, 9 * classes) for index, item in enumerate(features)}
    names.update({f"box_head_{index}": net.conv(item, 36) for index, item in enumerate(features)})
    return net.finish(names, _D)


def yolov2(rng: np.random.Generator) -> Head:
    """Return Tiny YOLOv2's one map of five anchors a cell."""
    net = _net(rng)
    (feature,) = net.backbone(net.picture(416, 416), (32,))
    return net.finish({"grid": net.conv(feature, 5 * (5 + pick(rng, (20, 80))))}, _D)


def yolov4(rng: np.random.Generator) -> Head:
    """Return `boxes [1, P, 1, 4]` in shares of the picture and `confs [1, P, classes]` (pytorch-YOLOv4)."""
    net = _net(rng)
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
    return net.finish({"boxes": net.concat(boxes, 1), "confs": net.concat(scores, 1)}, _D)


def blazeface(rng: np.random.Generator) -> Head:
    """Return MediaPipe's detectors: `regressors [1, 896, 16]` and `classificators [1, 896, 1]`, channels last."""
    net = _net(rng)
    size, numbers, names = pick(
        rng, (((128, 128), 16, ("regressors", "classificators")), ((192, 192), 18, ("Identity", "Identity_1")))
    )
    eight, sixteen = net.backbone(net.picture(*size, channels_last=True), (8, 16))
    boxes = [net.rows(net.conv(item, count * numbers), numbers) for item, count in ((eight, 2), (sixteen, 6))]
    scores = [net.rows(net.conv(item, count), 1) for item, count in ((eight, 2), (sixteen, 6))]
    return net.finish({names[0]: net.concat(boxes, 1), names[1]: net.concat(scores, 1)}, _D)


def efficientdet(rng: np.random.Generator) -> Head:
    """Return EfficientDet's raw heads of TensorFlow, joined: nine anchors, five strides, channels last."""
    net = _net(rng)
    features = net.backbone(net.picture(512, 512, channels_last=True), (8, 16, 32, 64, 128))
    classes = pick(rng, (90, 3))
    boxes = net.concat([net.rows(net.conv(item, 36), 4) for item in features], 1)
    scores = net.concat([net.rows(net.conv(item, 9 * classes), classes) for item in features], 1)
    return net.finish({"Identity": net.sigmoid(scores), "Identity_1": boxes}, _D)


def _pose_or_mask(rng: np.random.Generator, extra: int) -> tuple[HeadNet, str, str]:
    """Return a net, YOLOv8's table with some channels more, and a fine feature."""
    net = _net(rng)
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


def yolov8_pose(rng: np.random.Generator) -> Head:
    """Return YOLOv8's poses: `[1, 56, P]`."""
    net, table, _ = _pose_or_mask(rng, 51)
    return net.finish({"output0": table}, _D)


def yolov8_masks(rng: np.random.Generator) -> Head:
    """Return YOLOv8's masks: `[1, 4 + classes + 32, P]` and prototypes `[1, 32, H/4, W/4]`."""
    net, table, fine = _pose_or_mask(rng, 32)
    prototypes = net.relu(net.conv(fine, 32, 3))
    return net.finish({"output0": table, "output1": prototypes}, _D)


def yolov5_face(rng: np.random.Generator) -> Head:
    """Return YOLOv5-face's rows: box, objectness, five landmarks, one class; three anchors a cell."""
    net = _net(rng)
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
    return net.finish({"output": net.concat(levels, 1)}, _D)


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


def tflite_suppressed(rng: np.random.Generator) -> Head:
    """Return the four outputs of TFLite's detection post-processing."""
    net = _net(rng)
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
    return net.finish(dict(zip(names, (boxes, labels, scores, count), strict=True)), _D)


def efficient_nms(rng: np.random.Generator) -> Head:
    """Return `num_dets`, `det_boxes`, `det_scores` and `det_classes` (YOLOv7 and v6 for TensorRT)."""
    net = _net(rng)
    (feature,) = net.backbone(net.picture(640, 640), (16,))
    boxes, scores = _listed(net, feature, 100)
    pixels = net.op("Mul", boxes, net.constant(np.float32(640.0)))
    labels = net.op("Cast", net.op("Mul", scores, net.constant(np.float32(7.0))), shape=(1, 100), to=6)
    net.types[labels] = TensorType(DType.I32, (1, 100))
    total = net.op("ReduceSum", net.op("Ceil", scores), net.constant([1]), shape=(1, 1), keepdims=1)
    count = net.op("Cast", total, shape=(1, 1), to=6)
    net.types[count] = TensorType(DType.I32, (1, 1))
    names = {"num_dets": count, "det_boxes": pixels, "det_scores": scores, "det_classes": labels}
    return net.finish(names, _D)


def mmdeploy(rng: np.random.Generator) -> Head:
    """Return `dets [1, N, 5]` (corners and score) and `labels [1, N]` (MMDeploy)."""
    net = _net(rng)
    (feature,) = net.backbone(net.picture(320, 320), (16,))
    boxes, scores = _listed(net, feature, 100)
    pixels = net.op("Mul", boxes, net.constant(np.float32(320.0)))
    labels = net.op("Cast", net.op("Mul", scores, net.constant(np.float32(7.0))), shape=(1, 100), to=7)
    net.types[labels] = TensorType(DType.I64, (1, 100))
    return net.finish({"dets": net.concat([pixels, net.reshape(scores, 1, 100, 1)], 2), "labels": labels}, _D)


def centerface(rng: np.random.Generator) -> Head:
    """Return CenterFace's four unnamed maps."""
    net = _net(rng)
    (feature,) = net.backbone(net.picture(*pick(rng, ((640, 640), (480, 640)))), (4,))
    parts = (net.sigmoid(net.conv(feature, 1)), *(net.conv(feature, count) for count in (2, 2, 10)))
    return net.finish({str(537 + index): part for index, part in enumerate(parts)}, _D)


def openpose(rng: np.random.Generator) -> Head:
    """Return heat maps `[1, 19, H/8, W/8]` and affinity fields `[1, 38, H/8, W/8]`."""
    net = _net(rng)
    (feature,) = net.backbone(net.picture(*pick(rng, ((256, 456), (368, 368)))), (8,))
    names = pick(rng, (("heatmaps", "pafs"), ("stage_1_output_0_heatmaps", "stage_1_output_1_pafs")))
    return net.finish({names[0]: net.conv(feature, 19), names[1]: net.conv(feature, 38)}, _K)


def hrnet(rng: np.random.Generator) -> Head:
    """Return HRNet's heat maps: no transposed convolution, a 1 x 1 convolution at stride 4."""
    net = _net(rng)
    (feature,) = net.backbone(net.picture(*pick(rng, ((256, 192), (384, 288), (256, 256)))), (4,))
    return net.finish({pick(rng, ("output", "2947", "heatmaps")): net.conv(feature, pick(rng, (17, 16, 21)))}, _K)


def hand_landmarks(rng: np.random.Generator) -> Head:
    """Return MediaPipe's hand landmarks: `[1, 63]`, presence, handedness, world landmarks."""
    net = _net(rng)
    (feature,) = net.backbone(net.picture(224, 224, channels_last=True), (32,))
    flat = net.pooled(feature)
    names = {
        "Identity": net.dense(flat, 63),
        "Identity_1": net.sigmoid(net.dense(flat, 1)),
        "Identity_2": net.sigmoid(net.dense(flat, 1)),
        "Identity_3": net.dense(flat, 63),
    }
    return net.finish(names, {"Identity": _K, "Identity_1": _C, "Identity_2": _C, "Identity_3": _K})


def face_mesh(rng: np.random.Generator) -> Head:
    """Return `[1, 1, 1, 1404]` and a score `[1, 1, 1, 1]`."""
    net = _net(rng)
    (feature,) = net.backbone(net.picture(192, 192, channels_last=True), (32,))
    flat = net.pooled(feature)
    points = net.reshape(net.dense(flat, 1404), 1, 1, 1, 1404)
    score = net.reshape(net.dense(flat, 1), 1, 1, 1, 1)
    return net.finish({"conv2d_21": points, "conv2d_31": score}, {"conv2d_21": _K, "conv2d_31": _R})


def class_ids(rng: np.random.Generator) -> Head:
    """Return PaddleSeg's class of every pixel, as integers of 32 or 64 bits."""
    net = _net(rng)
    size = pick(rng, ((192, 192), (256, 512)))
    (feature,) = net.backbone(net.picture(*size), (8,))
    scores = net.conv(feature, pick(rng, (2, 19)))
    factors = net.constant(np.array([1, 1, 8, 8], np.float32))
    empty = net.constant(np.zeros(0, np.float32))
    large = net.op("Resize", scores, empty, factors, shape=(1, net.shape(scores)[1], *size), mode="linear")
    best = net.arg_max(large, 1)
    if rng.integers(2):
        best = net.op("Cast", best, shape=(1, *size), to=6)
        net.types[best] = TensorType(DType.I32, (1, *size))
    return net.finish({pick(rng, ("argmax_0.tmp_0", "output", "save_infer_model/scale_0.tmp_0")): best}, _S)


def segformer(rng: np.random.Generator) -> Head:
    """Return SegFormer's `logits [1, 150, H/4, W/4]`."""
    net = _net(rng)
    (feature,) = net.backbone(net.picture(*pick(rng, ((512, 512), (256, 256)))), (4,))
    return net.finish({"logits": net.conv(feature, pick(rng, (150, 19, 7)))}, _S)


def deeplab(rng: np.random.Generator) -> Head:
    """Return DeepLab's `out` and `aux` at full size, 21 classes."""
    net = _net(rng)
    size = (256, 256)
    (feature,) = net.backbone(net.picture(*size), (8,))
    factors = net.constant(np.array([1, 1, 8, 8], np.float32))
    empty = net.constant(np.zeros(0, np.float32))
    names = {}
    for name in ("out", "aux")[: 1 + int(rng.integers(2))]:
        scores = net.conv(feature, 21)
        names[name] = net.op("Resize", scores, empty, factors, shape=(1, 21, *size), mode="linear")
    return net.finish(names, _S)


def selfie(rng: np.random.Generator) -> Head:
    """Return MediaPipe's selfie mask, channels last, after a transposed convolution."""
    net = _net(rng)
    size = pick(rng, ((256, 256), (144, 256)))
    (feature,) = net.backbone(net.picture(*size, channels_last=True), (2,))
    return net.finish(
        {pick(rng, ("activation_10", "Identity", "segment")): _last(net, net.sigmoid(net.up(feature, 1)))}, _S
    )


def depth_anything(rng: np.random.Generator) -> Head:
    """Return a depth `[1, H, W]` without an axis of channels."""
    net = _net(rng)
    size = pick(rng, ((256, 256), (280, 280)))
    picture = net.picture(*size)
    value = net.relu(net.conv(net.relu(net.conv(picture, 8, 3)), 1))
    flat = net.reshape(value, 1, *size)
    return net.finish({pick(rng, ("predicted_depth", "797", "output", "inverse_depth")): flat}, _R)


def east(rng: np.random.Generator) -> Head:
    """Return EAST's score and geometry at stride 4, channels last."""
    net = _net(rng)
    (feature,) = net.backbone(net.picture(320, 320, channels_last=True), (4,))
    score = _last(net, net.sigmoid(net.conv(feature, 1)))
    sides = net.op("Mul", net.sigmoid(net.conv(feature, 4)), net.constant(np.float32(512.0)))
    angle = net.op("Sub", net.sigmoid(net.conv(feature, 1)), net.constant(np.float32(0.5)))
    geometry = _last(net, net.concat([sides, angle], 1))
    names = {"feature_fusion/Conv_7/Sigmoid:0": score, "feature_fusion/concat_3:0": geometry}
    return net.finish(names, Kind.TEXT_REGIONS)


def crnn(rng: np.random.Generator) -> Head:
    """Return CRNN's `[T, 1, C]` after a recurrent layer, with a LogSoftmax or not."""
    net = _net(rng)
    picture = net.picture(32, pick(rng, (100, 160)), channels=1)
    feature = net.backbone(picture, (4,))[0]
    width, steps = net.shape(feature)[1], net.shape(feature)[3]
    means = net.op("ReduceMean", feature, net.constant([2]), shape=(1, width, steps), keepdims=0)
    along = net.transpose(means, (2, 0, 1))
    units = 16
    made = net.op(
        "LSTM",
        along,
        net.uniform(1, 4 * units, width),
        net.uniform(1, 4 * units, units),
        shape=(steps, 1, 1, units),
        hidden_size=units,
    )
    symbols = pick(rng, (37, 95, 11))
    scores = net.op(
        "MatMul", net.reshape(made, steps, 1, units), net.uniform(units, symbols), shape=(steps, 1, symbols)
    )
    scores = net.op("LogSoftmax", scores, axis=2) if rng.integers(2) else scores
    return net.finish({pick(rng, ("output", "out", "271")): scores}, _T)


def lprnet(rng: np.random.Generator) -> Head:
    """Return LPRNet's `[1, 68, 18]`: symbols before time."""
    net = _net(rng)
    feature = net.backbone(net.picture(24, 94), (4,))[0]
    maps = net.conv(feature, 68)
    steps = net.shape(maps)[3]
    logits = net.op("ReduceMean", maps, net.constant([2]), shape=(1, 68, steps), keepdims=0)
    return net.finish({"output": net.part(logits, 0, 18, 2)}, _T)


def wav2vec(rng: np.random.Generator) -> Head:
    """Return `logits [1, T, 32]` of a wave."""
    net = _net(rng)
    wave = net.input("input_values", 1, 16000)
    rows = net.op("Conv", net.reshape(wave, 1, 1, 16000), net.uniform(8, 1, 320), shape=(1, 8, 50), strides=(320,))
    tokens = net.transpose(net.relu(rows), (0, 2, 1))
    scores = net.op("MatMul", tokens, net.uniform(8, 32), shape=(1, 50, 32))
    return net.finish({"logits": scores}, _T)


def yamnet(rng: np.random.Generator) -> Head:
    """Return scores of 521 sounds and an embedding of 1024 numbers."""
    net = _net(rng)
    patch = net.input("melspec", 1, 1, 96, 64)
    flat = net.pooled(net.relu(net.down(net.relu(net.down(patch, 16)), 32)))
    embedding = net.relu(net.dense(flat, 1024))
    names = {"Identity": net.sigmoid(net.dense(embedding, 521)), "Identity_1": embedding}
    return net.finish(names, {"Identity": _C, "Identity_1": _E})


def enhancer(rng: np.random.Generator) -> Head:
    """Return an enhanced spectrum and three caches (GTCRN and its like)."""
    net = _net(rng)
    bins = 257
    spectrum = net.input("mix", 1, bins, 1, 2)
    caches = {
        name: net.input(name, *shape) for name, shape in (("conv_cache", (2, 1, 16)), ("inter_cache", (2, 1, 33)))
    }
    scale = net.op("Tanh", net.op("Mul", spectrum, net.uniform(1, bins, 1, 2)))
    names = {"enh": net.op("Mul", scale, spectrum)}
    kinds = {"enh": _G}
    for name, tensor in caches.items():
        names[f"{name}_out"] = net.op("Tanh", net.op("Add", tensor, net.uniform(*net.shape(tensor))))
        kinds[f"{name}_out"] = Kind.STATE
    return net.finish(names, kinds)


def voice(rng: np.random.Generator) -> Head:
    """Return Silero's probability with `hn` and `cn`, which come from `h` and `c`."""
    net = _net(rng)
    wave, hidden, cell = net.input("input", 1, 512), net.input("h", 2, 1, 64), net.input("c", 2, 1, 64)
    flat = net.relu(net.dense(wave, 64))
    names = {
        "output": net.sigmoid(net.dense(flat, 1)),
        "hn": net.op("Tanh", net.op("Add", hidden, net.uniform(2, 1, 64))),
        "cn": net.op("Tanh", net.op("Add", cell, net.uniform(2, 1, 64))),
    }
    return net.finish(names, {"output": _C, "hn": Kind.STATE, "cn": Kind.STATE})


def speaker(rng: np.random.Generator) -> Head:
    """Return a speaker's or a face's embedding as it comes: 192 or 512 numbers."""
    net = _net(rng)
    features = net.input("feats", 1, 80, 200)
    wide = net.reshape(features, 1, 80, 1, 200)
    flat = net.pooled(net.relu(net.conv(wide, 32)))
    return net.finish({pick(rng, ("embs", "embedding", "output")): net.dense(flat, pick(rng, (192, 256, 512)))}, _E)


def clip_image(rng: np.random.Generator) -> Head:
    """Return CLIP's image embedding: a product without a bias, divided by its length."""
    net = _net(rng)
    flat = net.pooled(net.backbone(net.picture(224, 224), (32,))[0])
    values = net.op("MatMul", flat, net.uniform(8, 512), shape=(1, 512))
    length = net.op("ReduceL2", values, net.constant([1]), shape=(1, 1), keepdims=1)
    return net.finish({pick(rng, ("image_embeds", "output", "1847")): net.op("Div", values, length)}, _E)


def reid(rng: np.random.Generator) -> Head:
    """Return a person's features: the mean over places, without a layer after it."""
    net = _net(rng)
    (feature,) = net.backbone(net.picture(256, 128), (16,), width=64)
    wide = net.relu(net.conv(feature, pick(rng, (512, 768, 2048))))
    return net.finish({pick(rng, ("output", "feature", "500")): net.pooled(wide)}, _E)


def attributes(rng: np.random.Generator) -> Head:
    """Return 26 attributes of a person, each yes or no."""
    net = _net(rng)
    flat = net.pooled(net.backbone(net.picture(256, 192), (32,))[0])
    return net.finish({"sigmoid_2.tmp_0": net.sigmoid(net.dense(flat, pick(rng, (26, 40))))}, _C)


def vision_transformer(rng: np.random.Generator) -> Head:
    """Return a transformer's class logits from its first token."""
    net = _net(rng)
    (feature,) = net.backbone(net.picture(224, 224), (16,))
    tokens = net.rows(feature, 8)
    first = net.reshape(net.part(tokens, 0, 1, 1), 1, 8)
    count = pick(rng, (1000, 21843, 10))
    logits = net.op("Add", net.op("MatMul", first, net.uniform(8, count), shape=(1, count)), net.uniform(count))
    return net.finish({pick(rng, ("logits", "output", "1456")): logits}, _C)


def channels_last_classes(rng: np.random.Generator) -> Head:
    """Return TensorFlow's class probabilities: a mean over places, a product, a Softmax; channels last."""
    net = _net(rng)
    (feature,) = net.backbone(net.picture(224, 224, channels_last=True), (32,))
    flat = net.pooled(feature)
    scores = net.softmax(net.dense(flat, pick(rng, (1000, 1001, 7, 120, 6))))
    names = ("Identity", "predictions/Softmax", "StatefulPartitionedCall:0", "dense/Softmax", "final_result")
    return net.finish({pick(rng, names): scores}, _C)


def age_and_sex(rng: np.random.Generator) -> Head:
    """Return an age and the scores of two sexes."""
    net = _net(rng)
    flat = net.pooled(net.backbone(net.picture(96, 96), (16,))[0])
    names = {"age": net.relu(net.dense(flat, 1)), "gender": net.softmax(net.dense(flat, 2))}
    return net.finish(names, {"age": _R, "gender": _C})


def autoencoder(rng: np.random.Generator) -> Head:
    """Return what is rebuilt of 640 features (MLPerf Tiny's anomaly detection)."""
    net = _net(rng)
    hidden = net.relu(net.dense(net.input("input_1", 1, 640), 8))
    return net.finish({"Identity": net.dense(hidden, 640)}, _G)


def super_resolution(rng: np.random.Generator) -> Head:
    """Return a picture three times as large, of brightness only, clamped or not."""
    net = _net(rng)
    size = pick(rng, ((224, 224), (64, 96)))
    picture = net.picture(*size, channels=1)
    wide = net.conv(net.relu(net.conv(picture, 8, 3)), 9, 3)
    large = net.op("DepthToSpace", wide, shape=(1, 1, size[0] * 3, size[1] * 3), blocksize=3, mode="CRD")
    return net.finish({"output": large}, _R)


def pose_net(rng: np.random.Generator) -> Head:
    """Return RTMPose's whole body with unnamed bins, or MoveNet's six people `[1, 6, 56]`."""
    net = _net(rng)
    (feature,) = net.backbone(net.picture(256, 256, channels_last=True), (32,))
    values = net.sigmoid(net.dense(net.pooled(feature), 6 * 56))
    return net.finish({"Identity": net.reshape(values, 1, 6, 56)}, _K)


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
    HeadFamily("CenterFace", centerface, "Star-Clouds/CenterFace"),
    HeadFamily("OpenPose", openpose, "Daniil-Osokin/lightweight-human-pose-estimation.pytorch"),
    HeadFamily("HRNet", hrnet, "open-mmlab/mmpose"),
    HeadFamily("hand landmarks", hand_landmarks, "google-ai-edge/mediapipe"),
    HeadFamily("face mesh", face_mesh, "google-ai-edge/mediapipe"),
    HeadFamily("class ids", class_ids, "PaddlePaddle/PaddleSeg"),
    HeadFamily("SegFormer", segformer, "huggingface/optimum"),
    HeadFamily("DeepLab", deeplab, "torchvision"),
    HeadFamily("selfie mask", selfie, "google-ai-edge/mediapipe"),
    HeadFamily("depth", depth_anything, "DepthAnything/Depth-Anything-V2"),
    HeadFamily("EAST", east, "argman/EAST"),
    HeadFamily("CRNN", crnn, "meijieru/crnn.pytorch"),
    HeadFamily("LPRNet", lprnet, "sirius-ai/LPRNet_Pytorch"),
    HeadFamily("wav2vec2", wav2vec, "huggingface/optimum"),
    HeadFamily("YAMNet", yamnet, "tensorflow/models"),
    HeadFamily("enhancer with caches", enhancer, "Xiaobin-Rong/gtcrn"),
    HeadFamily("voice activity with states", voice, "snakers4/silero-vad"),
    HeadFamily("speaker embedding", speaker, "wenet-e2e/wespeaker"),
    HeadFamily("CLIP", clip_image, "openai/CLIP"),
    HeadFamily("features of a person", reid, "KaiyangZhou/deep-person-reid"),
    HeadFamily("attributes", attributes, "PaddlePaddle/PaddleClas"),
    HeadFamily("vision transformer", vision_transformer, "huggingface/pytorch-image-models"),
    HeadFamily("classes, TensorFlow", channels_last_classes, "tensorflow/hub"),
    HeadFamily("age and sex", age_and_sex, "deepinsight/insightface"),
    HeadFamily("autoencoder", autoencoder, "mlcommons/tiny"),
    HeadFamily("super-resolution", super_resolution, "onnx/models"),
    HeadFamily("several people", pose_net, "tensorflow/hub"),
)
