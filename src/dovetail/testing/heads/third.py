"""Heads of the third set: written with the second one, seen by the recogniser after it was mended for that."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType
from dovetail.outputs.view import Kind
from dovetail.testing.heads.net import GeneratedHead, HeadFamily, channels_last, drawn_net, pick
from dovetail.testing.heads.parts import (
    along,
    cast,
    corners,
    kept_by_suppression,
    middles,
    normalised,
    product,
    resized,
    table,
)

_STRIDES = (8, 16, 32)


def focal_loss(rng: np.random.Generator) -> GeneratedHead:
    """Return GFL's class logits and distributions of 17 bins at five strides."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(*pick(rng, ((512, 512), (384, 640)))), (8, 16, 32, 64, 128))
    classes = pick(rng, (80, 3))
    names = pick(rng, (("cls_score", "bbox_pred"), ("a", "b")))
    outputs = {f"{names[0]}_{index}": net.conv(item, classes) for index, item in enumerate(features)}
    outputs.update({f"{names[1]}_{index}": net.conv(item, 68) for index, item in enumerate(features)})
    return net.finish(outputs, Kind.DETECTION)


def yolo_world(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLO-World's scores and corners; features of the classes' names go in beside the picture."""
    net = drawn_net(rng)
    size, count = pick(rng, ((640, 640), (320, 320))), pick(rng, (80, 4))
    features = net.backbone(net.picture(*size), _STRIDES)
    texts = net.input("texts", 1, count, 32)
    told = table(net, features, 32)
    places = net.shape(told)[1]
    scores = net.op("MatMul", told, net.transpose(texts, (0, 2, 1)), shape=(1, places, count))
    names = pick(rng, (("scores", "boxes"), ("1340", "1362")))
    return net.finish({names[0]: net.sigmoid(scores), names[1]: corners(net, features, size)}, Kind.DETECTION)


def solo(rng: np.random.Generator) -> GeneratedHead:
    """Return SOLOv2's classes and kernels on grids of their own, and the features that kernels go over."""
    net = drawn_net(rng)
    fine, feature = net.backbone(net.picture(448, 640), (4, 16))
    outputs = {}
    for index, side in enumerate((40, 36, 24, 16, 12)):
        cut = resized(net, feature, (side, side))
        outputs[f"cate_{index}"] = net.sigmoid(net.conv(cut, 80))
        outputs[f"kernel_{index}"] = net.conv(cut, 64)
    outputs["mask_feat"] = net.relu(net.conv(fine, 64))
    if rng.integers(2):
        outputs = {str(900 + 7 * index): tensor for index, tensor in enumerate(outputs.values())}
    return net.finish(outputs, Kind.DETECTION)


def ssd_tensorflow(rng: np.random.Generator) -> GeneratedHead:
    """Return SSD-MobileNet's encodings and logits before TensorFlow's post-processing; boxes have an axis more."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(320, 320, channels_last=True), (16, 32, 64, 128))
    counts, classes = (3, 6, 6, 6), pick(rng, (91, 2))
    boxes, scores = (
        net.concat(
            [net.rows(net.conv(item, count * width), width) for item, count in zip(features, counts, strict=True)], 1
        )
        for width in (4, classes)
    )
    if rng.integers(2):
        boxes = net.reshape(boxes, 1, net.shape(boxes)[1], 1, 4)
    names = pick(rng, (("raw_outputs/box_encodings", "raw_outputs/class_predictions"), ("Squeeze", "convert_scores")))
    scores = net.sigmoid(scores) if names[1] == "convert_scores" else scores
    return net.finish({names[0]: boxes, names[1]: scores}, Kind.DETECTION)


def yolov7_pose(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOv7's poses: maps of three anchors with 57 numbers each, at four strides."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(*pick(rng, ((640, 640), (448, 448)))), (8, 16, 32, 64))
    outputs = {}
    for index, feature in enumerate(features):
        maps = net.concat([part for _ in range(3) for part in (net.conv(feature, 6), net.conv(feature, 51))], 1)
        rows, cols = net.shape(maps)[2:]
        outputs[("output", "745", "802", "859")[index]] = net.transpose(
            net.reshape(maps, 1, 3, 57, rows, cols), (0, 1, 3, 4, 2)
        )
    return net.finish(outputs, Kind.DETECTION)


def light_faces(rng: np.random.Generator) -> GeneratedHead:
    """Return LFFD's shares and boxes of eight branches, of which several have one stride."""
    net = drawn_net(rng)
    strides = (4, 4, 8, 8, 16, 32, 32, 32)
    features = net.backbone(net.picture(*pick(rng, ((480, 640), (320, 320)))), strides)
    outputs = {}
    for index, feature in enumerate(features):
        outputs[f"softmax{index}"] = net.softmax(net.conv(feature, 2), 1)
        outputs[f"conv{index}_bbox"] = net.conv(feature, 4)
    return net.finish(outputs, Kind.DETECTION)


def ssd_caffe(rng: np.random.Generator) -> GeneratedHead:
    """Return Caffe's SSD: `mbox_loc [1, 4 P]` and `mbox_conf_flatten [1, classes * P]`, one list each."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(300, 300), (16, 32, 64, 128))
    counts, classes = (3, 6, 6, 6), pick(rng, (21, 2))
    boxes, scores = (
        net.concat(
            [net.rows(net.conv(item, count * width), width) for item, count in zip(features, counts, strict=True)], 1
        )
        for width in (4, classes)
    )
    places = net.shape(boxes)[1]
    outputs = {
        "mbox_loc": net.reshape(boxes, 1, 4 * places),
        "mbox_conf_flatten": net.reshape(net.softmax(scores), 1, classes * places),
    }
    return net.finish(outputs, Kind.DETECTION)


def faster_rcnn(rng: np.random.Generator) -> GeneratedHead:
    """Return Faster R-CNN's boxes, labels and scores, as many as there are detections."""
    net = drawn_net(rng)
    size = (256, 320)
    features = net.backbone(net.picture(*size), (16, 32))
    boxes, scores = corners(net, features, size), net.sigmoid(table(net, features, pick(rng, (80, 5))))
    places, labels = kept_by_suppression(net, boxes, net.transpose(scores, (0, 2, 1)), 15)
    best = net.op("ReduceMax", scores, net.constant([0, 2]), shape=(net.shape(scores)[1],), keepdims=0)
    flat = net.reshape(boxes, net.shape(boxes)[1], 4)
    kept = net.op("Gather", flat, places, shape=("n", 4), axis=0)
    number = net.op("Identity", labels, shape=("n",))
    number = cast(net, cast(net, number, DType.F32), DType.I64)
    names = pick(rng, (("boxes", "labels", "scores"), ("6379", "6381", "6383")))
    parts = (kept, number, net.op("Gather", best, places, shape=("n",), axis=0))
    return net.finish(dict(zip(names, parts, strict=True)), Kind.DETECTION)


def pidnet(rng: np.random.Generator) -> GeneratedHead:
    """Return PIDNet's class scores at stride 8, with those of a second head or alone."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((512, 1024), (256, 512)))), (8,))[0]
    classes = pick(rng, (19, 11))
    names = pick(rng, (("output",), ("p", "d"), ("out0", "out1")))
    return net.finish(
        {name: net.conv(net.relu(net.conv(feature, 16, 3)), classes) for name in names}, Kind.SEGMENTATION
    )


def craft(rng: np.random.Generator) -> GeneratedHead:
    """Return CRAFT's region and affinity scores `[1, H/2, W/2, 2]`, with its features or without."""
    net = drawn_net(rng)
    feature = net.relu(net.conv(net.backbone(net.picture(*pick(rng, ((640, 640), (320, 480)))), (2,))[0], 32, 3))
    scores = channels_last(net, net.conv(feature, 2))
    outputs = {pick(rng, ("output", "y", "scores")): scores}
    if rng.integers(2):
        outputs["feature"] = feature
    return net.finish(outputs, Kind.TEXT_REGIONS)


def style(rng: np.random.Generator) -> GeneratedHead:
    """Return a picture as large as the one that goes in: another style, less noise."""
    net = drawn_net(rng)
    picture = net.picture(*pick(rng, ((224, 224), (256, 256))))
    colour = net.conv(net.relu(net.conv(picture, 8, 3)), 3, 3)
    if rng.integers(2):
        colour = net.op("Add", colour, picture)
    return net.finish({pick(rng, ("output1", "output", "generated")): colour}, Kind.REGRESSION)


def larger_tensorflow(rng: np.random.Generator) -> GeneratedHead:
    """Return ESRGAN's picture, four times as large, channels last."""
    net = drawn_net(rng)
    size = pick(rng, ((50, 50), (64, 96)))
    wide = net.conv(net.relu(net.conv(net.picture(*size, channels_last=True), 8, 3)), 48, 3)
    large = net.op("DepthToSpace", wide, shape=(1, 3, size[0] * 4, size[1] * 4), blocksize=4, mode="DCR")
    return net.finish(
        {pick(rng, ("Identity", "StatefulPartitionedCall:0")): channels_last(net, large)}, Kind.REGRESSION
    )


def higher_hrnet(rng: np.random.Generator) -> GeneratedHead:
    """Return HigherHRNet's heat maps with tags at stride 4, and heat maps at stride 2."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((512, 512), (256, 384)))), (4,))[0]
    names = pick(rng, (("output_0", "output_1"), ("heatmaps_tags", "heatmaps"), ("3060", "3073")))
    fine = net.conv(net.relu(net.up(feature, 8)), 17)
    return net.finish({names[0]: net.conv(feature, 34), names[1]: fine}, Kind.KEYPOINTS)


def iris(rng: np.random.Generator) -> GeneratedHead:
    """Return MediaPipe's points around an eye (71) and of its iris (5), three numbers each."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(64, 64, channels_last=True), (16,))[0])
    names = pick(rng, (("output_eyes_contours_and_brows", "output_iris"), ("Identity", "Identity_1")))
    return net.finish({names[0]: net.dense(flat, 213), names[1]: net.dense(flat, 15)}, Kind.KEYPOINTS)


def psenet(rng: np.random.Generator) -> GeneratedHead:
    """Return PSENet's seven kernels of text at stride 4."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((640, 640), (736, 736)))), (4,))[0]
    maps = net.conv(feature, 7)
    maps = net.sigmoid(maps) if rng.integers(2) else maps
    return net.finish({pick(rng, ("save_infer_model/scale_0.tmp_1", "output", "kernels")): maps}, Kind.TEXT_REGIONS)


def sentences(rng: np.random.Generator) -> GeneratedHead:
    """Return the features of every token and of a sentence, from embedded tokens `[1, T, C]`."""
    net = drawn_net(rng)
    tokens = net.input("inputs_embeds", 1, 16, 384)
    hidden = normalised(net, product(net, product(net, tokens, 32), 384))
    mean = net.op("ReduceMean", hidden, net.constant([1]), shape=(1, 384), keepdims=0)
    length = net.op("ReduceL2", mean, net.constant([1]), shape=(1, 1), keepdims=1)
    names = pick(rng, (("token_embeddings", "sentence_embedding"), ("last_hidden_state", "embeddings")))
    return net.finish({names[0]: hidden, names[1]: net.op("Div", mean, length)}, Kind.EMBEDDING)


def vocoder(rng: np.random.Generator) -> GeneratedHead:
    """Return HiFi-GAN's wave `[1, 1, 256 T]` of a spectrum `[1, 80, T]`."""
    net = drawn_net(rng)
    frames = pick(rng, (32, 64))
    hidden = along(net, net.input(pick(rng, ("mel", "input")), 1, 80, frames), 8)
    weight = net.uniform(8, 1, 256, low=-0.2, high=0.2)
    wave = net.op("ConvTranspose", hidden, weight, net.uniform(1), shape=(1, 1, 256 * frames), strides=(256,))
    return net.finish({pick(rng, ("audio", "wav", "output")): net.op("Tanh", wave)}, Kind.SIGNAL)


def fair_face(rng: np.random.Generator) -> GeneratedHead:
    """Return FairFace's 18 logits: seven origins, two sexes and nine ages in one list."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(224, 224), (32,))[0])
    return net.finish({pick(rng, ("output", "logits")): net.dense(flat, 18)}, Kind.CLASSIFICATION)


def age_shares(rng: np.random.Generator) -> GeneratedHead:
    """Return DEX's shares of 101 ages, alone or with those of two sexes."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(224, 224, channels_last=bool(rng.integers(2))), (32,))[0])
    outputs = {pick(rng, ("pred_age", "prob", "dense_1")): net.softmax(net.dense(flat, 101))}
    if rng.integers(2):
        outputs["pred_gender"] = net.softmax(net.dense(flat, 2))
    return net.finish(outputs, Kind.CLASSIFICATION)


def vitstr(rng: np.random.Generator) -> GeneratedHead:
    """Return ViTSTR's logits `[1, 25, 96]`: a symbol for each of the first tokens of a square picture."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(224, 224, channels=1), (16,))[0]
    tokens = net.part(net.rows(feature, 8), 0, 25, 1)
    return net.finish({pick(rng, ("output", "logits", "text")): product(net, normalised(net, tokens), 96)}, Kind.TEXT)


def speech_or_not(rng: np.random.Generator) -> GeneratedHead:
    """Return MarbleNet's two logits of a spectrum: noise and speech."""
    net = drawn_net(rng)
    hidden = along(net, net.input("audio_signal", 1, 64, pick(rng, (64, 100))), 16)
    mean = net.op("ReduceMean", hidden, net.constant([2]), shape=(1, 16), keepdims=0)
    return net.finish({pick(rng, ("logits", "output")): net.dense(mean, 2)}, Kind.CLASSIFICATION)


def oriented(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLO-NAS's poses: corners, scores, and points with their scores in outputs of their own."""
    net = drawn_net(rng)
    size = (640, 640)
    features = net.backbone(net.picture(*size), _STRIDES)
    places = net.shape(table(net, features, 1))[1]
    points = net.reshape(table(net, features, 34), 1, places, 17, 2)
    outputs = {
        "boxes": middles(net, features, size) if rng.integers(2) else corners(net, features, size),
        "scores": net.sigmoid(table(net, features, 1)),
        "points": points,
        "points_scores": net.sigmoid(table(net, features, 17)),
    }
    names = list(outputs) if rng.integers(2) else ["1105", "1116", "1121", "1130"]
    return net.finish(dict(zip(names, outputs.values(), strict=True)), Kind.DETECTION)


FAMILIES = (
    HeadFamily("GFL", focal_loss, "implus/GFocal"),
    HeadFamily("YOLO-World", yolo_world, "AILab-CVC/YOLO-World"),
    HeadFamily("SOLOv2", solo, "WXinlong/SOLO"),
    HeadFamily("SSD, TensorFlow", ssd_tensorflow, "tensorflow/models"),
    HeadFamily("YOLOv7, poses", yolov7_pose, "WongKinYiu/yolov7"),
    HeadFamily("LFFD", light_faces, "YonghaoHe/LFFD"),
    HeadFamily("SSD, Caffe", ssd_caffe, "weiliu89/caffe"),
    HeadFamily("Faster R-CNN", faster_rcnn, "onnx/models"),
    HeadFamily("YOLO-NAS, poses", oriented, "Deci-AI/super-gradients"),
    HeadFamily("PIDNet", pidnet, "XuJiacong/PIDNet"),
    HeadFamily("CRAFT", craft, "clovaai/CRAFT-pytorch"),
    HeadFamily("another style", style, "onnx/models"),
    HeadFamily("ESRGAN, TensorFlow", larger_tensorflow, "captain-pool/GSOC"),
    HeadFamily("HigherHRNet", higher_hrnet, "HRNet/HigherHRNet-Human-Pose-Estimation"),
    HeadFamily("iris", iris, "google-ai-edge/mediapipe"),
    HeadFamily("PSENet", psenet, "whai362/PSENet"),
    HeadFamily("sentences", sentences, "UKPLab/sentence-transformers"),
    HeadFamily("HiFi-GAN", vocoder, "jik876/hifi-gan"),
    HeadFamily("FairFace", fair_face, "dchen236/FairFace"),
    HeadFamily("DEX", age_shares, "yu4u/age-gender-estimation"),
    HeadFamily("ViTSTR", vitstr, "roatienza/deep-text-recognition-benchmark"),
    HeadFamily("MarbleNet", speech_or_not, "NVIDIA/NeMo"),
)
