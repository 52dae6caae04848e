"""Detectors of the second set: written after the recogniser was mended for the first, before it saw any of them."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType
from dovetail.outputs.view import Kind
from dovetail.testing.heads.net import GeneratedHead, HeadFamily, channels_last, drawn_net, pick
from dovetail.testing.heads.parts import (
    best_places,
    cast,
    corners,
    kept_by_suppression,
    middles,
    picked,
    product,
    queries,
    table,
)

_STRIDES = (8, 16, 32)


def rtmdet(rng: np.random.Generator) -> GeneratedHead:
    """Return RTMDet's class logits and distances of three strides, maps in outputs of their own, unnamed or not."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(*pick(rng, ((640, 640), (320, 320), (416, 736)))), _STRIDES)
    classes = pick(rng, (80, 1, 15))
    scores = [net.conv(item, classes) for item in features]
    boxes = [net.relu(net.conv(item, 4)) for item in features]
    names = pick(rng, (("output", "1085", "1109", "1093", "1101", "1117"), tuple(f"out_{index}" for index in range(6))))
    return net.finish(dict(zip(names, (*scores, *boxes), strict=True)), Kind.DETECTION)


def yolov6(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOv6's `[1, P, 5 + classes]`: decoded centres and sizes, an objectness of 1, scores."""
    net = drawn_net(rng)
    size = pick(rng, ((640, 640), (416, 416)))
    features = net.backbone(net.picture(*size), _STRIDES)
    boxes = middles(net, features, size)
    ones = net.constant(np.ones((1, net.shape(boxes)[1], 1), np.float32))
    scores = net.sigmoid(table(net, features, pick(rng, (80, 4))))
    return net.finish({"outputs": net.concat([boxes, ones, scores], 2)}, Kind.DETECTION)


def yolov7_suppressed(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOv7's rows after suppression `[n, 7]`: picture, corners, class, score."""
    net = drawn_net(rng)
    size = pick(rng, ((320, 320), (256, 320)))
    features = net.backbone(net.picture(*size), (16, 32))
    boxes, scores = corners(net, features, size), net.sigmoid(table(net, features, pick(rng, (5, 2))))
    places, labels = kept_by_suppression(net, boxes, net.transpose(scores, (0, 2, 1)), 20)
    flat = net.reshape(boxes, net.shape(boxes)[1], 4)
    best = net.op("ReduceMax", scores, net.constant([0, 2]), shape=(net.shape(scores)[1],), keepdims=0)
    columns = [
        net.op("Gather", flat, places, shape=("n", 4), axis=0),
        net.op("Unsqueeze", cast(net, labels, DType.F32), net.constant([1]), shape=("n", 1)),
        net.op("Unsqueeze", net.op("Gather", best, places, shape=("n",), axis=0), net.constant([1]), shape=("n", 1)),
    ]
    picture = net.op("Mul", columns[2], net.constant(np.float32(0.0)))
    return net.finish({"output": net.op("Concat", picture, *columns, shape=("n", 7), axis=1)}, Kind.DETECTION)


def rtdetr_paddle(rng: np.random.Generator) -> GeneratedHead:
    """Return RT-DETR as PaddleDetection exports it: rows of class, score, corners, and how many there are."""
    net = drawn_net(rng)
    size = (640, 640)
    feature = net.backbone(net.picture(*size), (32,))[0]
    seen = queries(net, feature, 300)
    box = net.op("Mul", net.sigmoid(product(net, seen, 4)), net.constant(np.float32(640.0)))
    scores = net.sigmoid(product(net, seen, pick(rng, (80, 6))))
    best = net.op("ReduceMax", scores, net.constant([2]), shape=(1, 300), keepdims=0)
    score, at = best_places(net, best, pick(rng, (300, 100)))
    rows = net.shape(score)[1]
    labels = picked(net, net.reshape(cast(net, net.arg_max(scores, 2), DType.F32), 1, 300, 1), at)
    joined = net.concat([labels, net.reshape(score, 1, rows, 1), picked(net, box, at)], 2)
    count = cast(net, net.op("ReduceSum", net.op("Ceil", score), net.constant([1]), shape=(1,), keepdims=0), DType.I32)
    names = pick(rng, (("reshape2_83.tmp_0", "tile_3.tmp_0"), ("save_infer_model/scale_0.tmp_0", "fetch_name_1")))
    return net.finish({names[0]: net.reshape(joined, rows, 6), names[1]: count}, Kind.DETECTION)


def detr_hugging_face(rng: np.random.Generator) -> GeneratedHead:
    """Return `logits [1, Q, C + 1]` and `pred_boxes [1, Q, 4]` (DETR, YOLOS, Conditional DETR)."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((512, 512), (800, 1066)))), (32,))[0]
    seen = queries(net, feature, pick(rng, (100, 300)))
    box = net.sigmoid(product(net, seen, 4))
    return net.finish({"logits": product(net, seen, pick(rng, (92, 91, 3))), "pred_boxes": box}, Kind.DETECTION)


def mask_rcnn(rng: np.random.Generator) -> GeneratedHead:
    """Return Mask R-CNN's boxes, labels, scores and a mask of 28 x 28 for every box."""
    net = drawn_net(rng)
    size = pick(rng, ((320, 320), (256, 384)))
    features = net.backbone(net.picture(*size), (16,))
    boxes, scores = corners(net, features, size), net.sigmoid(table(net, features, 80))
    places, count = net.shape(boxes)[1], pick(rng, (50, 100))
    score, at = best_places(net, net.op("ReduceMax", scores, net.constant([2]), shape=(1, places), keepdims=0), count)
    rows = net.reshape(picked(net, boxes, at), count, 4)
    wide = net.reshape(picked(net, scores, at), count, 80)
    cut = product(net, net.reshape(wide, 1, count, 80), 28 * 28)
    parts = (rows, net.arg_max(wide, 1), net.reshape(score, count), net.sigmoid(net.reshape(cut, count, 1, 28, 28)))
    names = pick(rng, (("boxes", "labels", "scores", "masks"), ("6568", "6570", "6572", "6887")))
    return net.finish(dict(zip(names, parts, strict=True)), Kind.DETECTION)


def yolact(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLACT's boxes, class shares, weights of masks and prototypes, which have channels last."""
    net = drawn_net(rng)
    size = pick(rng, ((544, 544), (320, 320)))
    fine, *features = net.backbone(net.picture(*size), (4, 8, 16, 32, 64, 128))
    outputs = {
        "loc": table(net, features, 4, 3),
        "conf": net.softmax(table(net, features, pick(rng, (81, 4)), 3)),
        "mask": net.op("Tanh", table(net, features, 32, 3)),
        "proto": channels_last(net, net.relu(net.conv(fine, 32, 3))),
    }
    names = pick(rng, (tuple(outputs), ("794", "801", "797", "586")))
    return net.finish(dict(zip(names, outputs.values(), strict=True)), Kind.DETECTION)


def row_anchors(rng: np.random.Generator) -> GeneratedHead:
    """Return Ultra-Fast-Lane-Detection's `[1, bins + 1, rows, lanes]`: where lanes cross some rows."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(288, 800), (32,))[0]
    bins, rows = pick(rng, ((101, 56), (201, 18)))
    values = net.dense(net.pooled(feature), bins * rows * 4)
    return net.finish({pick(rng, ("output", "200", "out")): net.reshape(values, 1, bins, rows, 4)}, Kind.KEYPOINTS)


def ttfnet(rng: np.random.Generator) -> GeneratedHead:
    """Return TTFNet's map of centres and the distances to four sides, at stride 4."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((512, 512), (320, 320)))), (4,))[0]
    heat = net.conv(feature, pick(rng, (80, 1)))
    names = pick(rng, (("hm", "wh"), ("heatmap_pred", "wh_pred"), ("482", "491")))
    parts = (net.sigmoid(heat) if rng.integers(2) else heat, net.relu(net.conv(feature, 4)))
    return net.finish(dict(zip(names, parts, strict=True)), Kind.DETECTION)


def turned_boxes(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOv8's turned boxes `[1, 4 + classes + 1, P]`: the angle comes last."""
    net = drawn_net(rng)
    size = pick(rng, ((640, 640), (512, 512)))
    features = net.backbone(net.picture(*size), _STRIDES)
    scores = net.sigmoid(table(net, features, pick(rng, (15, 1))))
    angle = net.op("Sub", net.sigmoid(table(net, features, 1)), net.constant(np.float32(0.25)))
    angle = net.op("Mul", angle, net.constant(np.float32(np.pi)))
    joined = net.concat([middles(net, features, size), scores, angle], 2)
    return net.finish({"output0": net.transpose(joined, (0, 2, 1))}, Kind.DETECTION)


def face_boxes(rng: np.random.Generator) -> GeneratedHead:
    """Return FaceBoxes' `loc` and `conf`: 21 anchors a cell at stride 32, one at 64 and 128."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(*pick(rng, ((512, 512), (640, 640)))), (32, 64, 128))
    counts = (21, 1, 1)
    boxes, scores = (
        net.concat(
            [net.rows(net.conv(item, count * width), width) for item, count in zip(features, counts, strict=True)], 1
        )
        for width in (4, 2)
    )
    names = pick(rng, (("loc", "conf"), ("output", "329")))
    return net.finish({names[0]: boxes, names[1]: net.softmax(scores)}, Kind.DETECTION)


def fair_mot(rng: np.random.Generator) -> GeneratedHead:
    """Return FairMOT's map of centres, distances, offsets and features of everybody, at stride 4."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((320, 576), (608, 1088)))), (4,))[0]
    names = pick(rng, (("hm", "wh", "id", "reg"), ("1046", "1049", "1052", "1055")))
    parts = (net.sigmoid(net.conv(feature, 1)), *(net.conv(feature, count) for count in (4, pick(rng, (64, 128)), 2)))
    return net.finish(dict(zip(names, parts, strict=True)), Kind.DETECTION)


def pose_detector(rng: np.random.Generator) -> GeneratedHead:
    """Return MediaPipe's detector of bodies: `[1, 2254, 12]` and `[1, 2254, 1]`, channels last."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(224, 224, channels_last=True), _STRIDES)
    counts = (2, 2, 6)
    boxes, scores = (
        net.concat(
            [net.rows(net.conv(item, count * width), width) for item, count in zip(features, counts, strict=True)], 1
        )
        for width in (12, 1)
    )
    return net.finish({"Identity": boxes, "Identity_1": scores}, Kind.DETECTION)


def damo(rng: np.random.Generator) -> GeneratedHead:
    """Return DAMO-YOLO's scores and corners in pixels, in outputs of their own."""
    net = drawn_net(rng)
    size = pick(rng, ((640, 640), (416, 416)))
    features = net.backbone(net.picture(*size), _STRIDES)
    scores, boxes = net.sigmoid(table(net, features, pick(rng, (80, 1)))), corners(net, features, size)
    names = pick(rng, (("output", "788"), ("cls_scores", "bbox_preds")))
    return net.finish({names[0]: scores, names[1]: boxes}, Kind.DETECTION)


FAMILIES = (
    HeadFamily("RTMDet, maps", rtmdet, "open-mmlab/mmyolo"),
    HeadFamily("YOLOv6", yolov6, "meituan/YOLOv6"),
    HeadFamily("YOLOv7, suppressed", yolov7_suppressed, "WongKinYiu/yolov7"),
    HeadFamily("RT-DETR, Paddle", rtdetr_paddle, "PaddlePaddle/PaddleDetection"),
    HeadFamily("DETR, Hugging Face", detr_hugging_face, "huggingface/optimum"),
    HeadFamily("Mask R-CNN", mask_rcnn, "torchvision, onnx/models"),
    HeadFamily("YOLACT", yolact, "dbolya/yolact"),
    HeadFamily("lanes by rows", row_anchors, "cfzd/Ultra-Fast-Lane-Detection"),
    HeadFamily("TTFNet", ttfnet, "ZJULearning/ttfnet"),
    HeadFamily("turned boxes", turned_boxes, "ultralytics/ultralytics"),
    HeadFamily("FaceBoxes", face_boxes, "zisianw/FaceBoxes.PyTorch"),
    HeadFamily("FairMOT", fair_mot, "ifzhang/FairMOT"),
    HeadFamily("bodies, MediaPipe", pose_detector, "google-ai-edge/mediapipe"),
    HeadFamily("DAMO-YOLO", damo, "tinyvision/DAMO-YOLO"),
)
