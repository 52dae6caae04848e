"""Heads of the fifth set: written after the recogniser was mended for the fourth, before it saw any of them."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType
from dovetail.outputs.view import Kind
from dovetail.testing.heads.net import GeneratedHead, HeadFamily, channels_last, drawn_net, pick
from dovetail.testing.heads.parts import along, best_places, cast, corners, middles, picked, product, resized, table

_STRIDES = (8, 16, 32)


def yolov5_tflite(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOv5's rows as TFLite has them: shares of the picture, objectness and classes."""
    net = drawn_net(rng)
    size = pick(rng, ((320, 320), (640, 640)))
    features = net.backbone(net.picture(*size, channels_last=True), _STRIDES)
    boxes = net.op("Mul", middles(net, features, size), net.constant(np.float32(1 / size[0])))
    scores = net.sigmoid(table(net, features, 1 + pick(rng, (80, 3))))
    name = pick(rng, ("StatefulPartitionedCall:0", "Identity"))
    return net.finish({name: net.concat([boxes, scores], 2)}, Kind.DETECTION)


def yolov8_tflite(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOv8's columns as TFLite has them: shares of the picture and classes."""
    net = drawn_net(rng)
    size = pick(rng, ((320, 320), (640, 640)))
    features = net.backbone(net.picture(*size, channels_last=True), _STRIDES)
    boxes = net.op("Mul", middles(net, features, size), net.constant(np.float32(1 / size[0])))
    joined = net.concat([boxes, net.sigmoid(table(net, features, pick(rng, (80, 2))))], 2)
    return net.finish({pick(rng, ("PartitionedCall:0", "Identity")): net.transpose(joined, (0, 2, 1))}, Kind.DETECTION)


def best_poses(rng: np.random.Generator) -> GeneratedHead:
    """Return the best poses of YOLO26: corners, score, class and 17 points of three numbers."""
    net = drawn_net(rng)
    size = pick(rng, ((320, 320), (640, 640)))
    features = net.backbone(net.picture(*size), (16, 32))
    scores = net.sigmoid(table(net, features, 1))
    places = net.shape(scores)[1]
    score, at = best_places(net, net.reshape(scores, 1, places), 300)
    label = net.op("Floor", net.reshape(score, 1, 300, 1))
    parts = [picked(net, corners(net, features, size), at), net.reshape(score, 1, 300, 1), label]
    return net.finish({"output0": net.concat([*parts, picked(net, table(net, features, 51), at)], 2)}, Kind.DETECTION)


def ssd_torchvision(rng: np.random.Generator) -> GeneratedHead:
    """Return torchvision's SSDLite: `bbox_regression` and `cls_logits`, six anchors a cell."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(320, 320), (16, 32, 64, 128, 256))
    names = pick(rng, (("bbox_regression", "cls_logits"), ("1221", "1188")))
    return net.finish(
        {names[0]: table(net, features, 4, 6), names[1]: table(net, features, pick(rng, (91, 21)), 6)}, Kind.DETECTION
    )


def nanodet_rows(rng: np.random.Generator) -> GeneratedHead:
    """Return NanoDet-Plus's rows of classes and distributions, an output a stride."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(*pick(rng, ((320, 320), (416, 416)))), (8, 16, 32, 64))
    classes = pick(rng, (80, 4))
    outputs = {}
    for name, item in zip(pick(rng, (("792", "814", "836", "858"), ("a", "b", "c", "d"))), features, strict=True):
        joined = net.concat([net.sigmoid(net.conv(item, classes)), net.conv(item, 32)], 1)
        outputs[name] = net.rows(joined, classes + 32)
    return net.finish(outputs, Kind.DETECTION)


def older_yunet(rng: np.random.Generator) -> GeneratedHead:
    """Return YuNet of 2022: `loc [P, 14]`, `conf [P, 2]` and `iou [P, 1]`, without a batch."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(*pick(rng, ((120, 160), (320, 320)))), (8, 16, 32, 64))
    parts = {"loc": table(net, features, 14, 3), "conf": net.softmax(table(net, features, 2, 3))}
    parts["iou"] = table(net, features, 1, 3)
    flat = {name: net.reshape(item, *net.shape(item)[1:]) for name, item in parts.items()}
    return net.finish(flat, Kind.DETECTION)


def face_centres(rng: np.random.Generator) -> GeneratedHead:
    """Return DBFace's centres, distances and landmarks at stride 4."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((480, 640), (320, 320)))), (4,))[0]
    names = pick(rng, (("hm", "tlrb", "landmark"), ("1028", "1029", "1027")))
    parts = (net.sigmoid(net.conv(feature, 1)), net.op("Exp", net.conv(feature, 4)), net.conv(feature, 10))
    return net.finish(dict(zip(names, parts, strict=True)), Kind.DETECTION)


def people_centres(rng: np.random.Generator) -> GeneratedHead:
    """Return CSP's centres of people, logarithms of heights, and offsets at stride 4."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((336, 448), (640, 1280)))), (4,))[0]
    names = pick(rng, (("pos", "height", "offset"), ("out1", "out2", "out3")))
    parts = (net.sigmoid(net.conv(feature, 1)), net.conv(feature, 1), net.conv(feature, 2))
    return net.finish(dict(zip(names, parts, strict=True)), Kind.DETECTION)


def people_masks(rng: np.random.Generator) -> GeneratedHead:
    """Return PP-HumanSeg's shares of background and person at full size."""
    net = drawn_net(rng)
    size = pick(rng, ((192, 192), (144, 256)))
    maps = resized(net, net.conv(net.backbone(net.picture(*size), (4,))[0], 2), size)
    name = pick(rng, ("save_infer_model/scale_0.tmp_1", "softmax_0.tmp_0", "output"))
    return net.finish({name: net.softmax(maps, 1)}, Kind.SEGMENTATION)


def hair(rng: np.random.Generator) -> GeneratedHead:
    """Return MediaPipe's mask of hair: two logits a pixel; the last mask goes in as a fourth channel."""
    net = drawn_net(rng)
    size = pick(rng, ((256, 256), (512, 512)))
    feature = net.backbone(net.picture(*size, 4, channels_last=True), (2,))[0]
    name = pick(rng, ("conv2d_transpose_4", "Identity"))
    return net.finish({name: channels_last(net, net.up(feature, 2))}, Kind.SEGMENTATION)


def edges(rng: np.random.Generator) -> GeneratedHead:
    """Return DexiNed's edges of several depths, each a Sigmoid at full size."""
    net = drawn_net(rng)
    size = pick(rng, ((320, 320), (240, 320)))
    features = net.backbone(net.picture(*size), (2, 4, 8))
    names = pick(rng, (("output1", "output2", "output3"), ("block0", "block1", "cat")))
    maps = (net.sigmoid(resized(net, net.conv(item, 1), size)) for item in features)
    return net.finish(dict(zip(names, maps, strict=True)), Kind.SEGMENTATION)


def depth_and_normals(rng: np.random.Generator) -> GeneratedHead:
    """Return a depth and a direction for every pixel (Metric3D)."""
    net = drawn_net(rng)
    size = (224, 224)
    feature = net.backbone(net.picture(*size), (4,))[0]
    depth = net.relu(resized(net, net.conv(feature, 1), size))
    normals = resized(net, net.conv(feature, 3), size)
    length = net.op("ReduceL2", normals, net.constant([1]), shape=(1, 1, *size), keepdims=1)
    names = pick(rng, (("predicted_depth", "predicted_normal"), ("depth", "normal")))
    return net.finish({names[0]: depth, names[1]: net.op("Div", normals, length)}, Kind.REGRESSION)


def less_noise(rng: np.random.Generator) -> GeneratedHead:
    """Return DnCNN's grey picture without its noise."""
    net = drawn_net(rng)
    picture = net.picture(*pick(rng, ((256, 256), (180, 180))), 1)
    noise = net.conv(net.relu(net.conv(picture, 8, 3)), 1, 3)
    return net.finish({pick(rng, ("output", "denoised")): net.op("Sub", picture, noise)}, Kind.REGRESSION)


def colours(rng: np.random.Generator) -> GeneratedHead:
    """Return the two colours of every pixel of a grey picture."""
    net = drawn_net(rng)
    size = (256, 256)
    feature = net.backbone(net.picture(*size, 1), (4,))[0]
    ab = net.op("Mul", resized(net, net.op("Tanh", net.conv(feature, 2)), size), net.constant(np.float32(110.0)))
    return net.finish({pick(rng, ("out_ab", "output")): ab}, Kind.REGRESSION)


def alignment(rng: np.random.Generator) -> GeneratedHead:
    """Return FAN's heat maps of 68 points of a face at stride 4."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(256, 256), (4,))[0]
    return net.finish({pick(rng, ("output", "hm", "1234")): net.conv(feature, 68)}, Kind.KEYPOINTS)


def hand_points(rng: np.random.Generator) -> GeneratedHead:
    """Return 21 points of a hand with three numbers each, and whether there is a hand."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(224, 224), (32,))[0])
    points = net.reshape(net.dense(flat, 63), 1, 21, 3)
    names = pick(rng, (("landmarks", "confidence"), ("xyz_x21", "hand_score")))
    kinds = {names[0]: Kind.KEYPOINTS, names[1]: Kind.CLASSIFICATION}
    return net.finish({names[0]: points, names[1]: net.sigmoid(net.dense(flat, 1))}, kinds)


def pieces_of_words(rng: np.random.Generator) -> GeneratedHead:
    """Return MGP-STR's logits of symbols, and of pieces of words."""
    net = drawn_net(rng)
    tokens = net.part(net.rows(net.backbone(net.picture(32, 128), (4,))[0], 8), 0, 27, 1)
    names = pick(rng, (("char_logits", "bpe_logits"), ("logits", "onnx::logits_1")))
    return net.finish({names[0]: product(net, tokens, 38), names[1]: product(net, tokens, 30522)}, Kind.TEXT)


def spectra(rng: np.random.Generator) -> GeneratedHead:
    """Return MDX-Net's spectrum of a voice: two channels, real and imaginary, as it goes in."""
    net = drawn_net(rng)
    spectrum = net.input("input", 1, 4, pick(rng, (512, 1024)), 64)
    hidden = net.relu(net.conv(spectrum, 8, 3))
    return net.finish({"output": net.op("Mul", net.conv(hidden, 4, 3), spectrum)}, Kind.SIGNAL)


def gains(rng: np.random.Generator) -> GeneratedHead:
    """Return NSNet2's gains of 161 bins over time."""
    net = drawn_net(rng)
    frames = net.input("input", 1, pick(rng, (100, 250)), 161)
    hidden = net.relu(product(net, frames, 32))
    return net.finish({pick(rng, ("output", "gain")): net.sigmoid(product(net, hidden, 161))}, Kind.SIGNAL)


def language(rng: np.random.Generator) -> GeneratedHead:
    """Return logits of 107 languages of a spectrum."""
    net = drawn_net(rng)
    hidden = along(net, net.input("feats", 1, 80, 200), 16)
    mean = net.op("ReduceMean", hidden, net.constant([2]), shape=(1, 16), keepdims=0)
    return net.finish({pick(rng, ("logits", "output")): net.dense(mean, pick(rng, (107, 99)))}, Kind.CLASSIFICATION)


def sface(rng: np.random.Generator) -> GeneratedHead:
    """Return SFace's 128 numbers of a face."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(112, 112), (16,))[0])
    scaled = net.op("Add", net.op("Mul", net.dense(flat, 128), net.uniform(128)), net.uniform(128))
    return net.finish({pick(rng, ("fc1", "embedding", "output")): scaled}, Kind.EMBEDDING)


def look(rng: np.random.Generator) -> GeneratedHead:
    """Return where somebody looks: two angles."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(224, 224), (32,))[0])
    return net.finish({pick(rng, ("gaze", "output", "angles")): net.dense(flat, 2)}, Kind.REGRESSION)


def actions(rng: np.random.Generator) -> GeneratedHead:
    """Return the logits of 400 actions of a film `[1, 3, 8, H, W]`."""
    net = drawn_net(rng)
    film = net.input("input", 1, 3, 8, 56, 56)
    wide = net.reshape(film, 1, 24, 56, 56)
    flat = net.pooled(net.relu(net.down(net.relu(net.down(wide, 8)), 8)))
    return net.finish({pick(rng, ("output", "logits")): net.dense(flat, pick(rng, (400, 101)))}, Kind.CLASSIFICATION)


def heart(rng: np.random.Generator) -> GeneratedHead:
    """Return six findings, each yes or no, of twelve leads of a heart."""
    net = drawn_net(rng)
    hidden = along(net, net.transpose(net.input("signal", 1, 1024, 12), (0, 2, 1)), 16, 4)
    mean = net.op("ReduceMean", hidden, net.constant([2]), shape=(1, 16), keepdims=0)
    name = pick(rng, ("diagn", "output", "pred"))
    return net.finish({name: net.sigmoid(net.dense(mean, pick(rng, (6, 5))))}, Kind.CLASSIFICATION)


def life(rng: np.random.Generator) -> GeneratedHead:
    """Return how long a machine will last, of a series of 14 quantities."""
    net = drawn_net(rng)
    hidden = along(net, net.transpose(net.input("window", 1, 30, 14), (0, 2, 1)), 16)
    mean = net.op("ReduceMean", hidden, net.constant([2]), shape=(1, 16), keepdims=0)
    scaled = net.op("Mul", net.dense(mean, 1), net.constant(np.float32(125.0)))
    return net.finish({pick(rng, ("rul", "output", "dense_2")): scaled}, Kind.REGRESSION)


def real_or_not(rng: np.random.Generator) -> GeneratedHead:
    """Return whether a face is real: three shares, or logits."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(80, 80), (16,))[0])
    scores = net.dense(flat, 3)
    return net.finish({pick(rng, ("output", "softmax")): net.softmax(scores)}, Kind.CLASSIFICATION)


def labels_of_boxes(rng: np.random.Generator) -> GeneratedHead:
    """Return TorchVision's and MMDeploy's masks: boxes with scores, labels, and a mask of the picture a box."""
    net = drawn_net(rng)
    size = (256, 256)
    features = net.backbone(net.picture(*size), (16,))
    scores = net.sigmoid(table(net, features, 1))
    places, count = net.shape(scores)[1], 50
    score, at = best_places(net, net.reshape(scores, 1, places), count)
    joined = net.concat([picked(net, corners(net, features, size), at), net.reshape(score, 1, count, 1)], 2)
    labels = cast(net, net.op("Mul", score, net.constant(np.float32(3.0))), DType.I64)
    cut = picked(net, table(net, features, 784), at)
    masks = net.sigmoid(net.reshape(cut, 1, count, 28, 28))
    return net.finish({"dets": joined, "labels": labels, "masks": masks}, Kind.DETECTION)


FAMILIES = (
    HeadFamily("YOLOv5, TFLite", yolov5_tflite, "ultralytics/yolov5"),
    HeadFamily("YOLOv8, TFLite", yolov8_tflite, "ultralytics/ultralytics"),
    HeadFamily("best poses", best_poses, "ultralytics/ultralytics"),
    HeadFamily("SSDLite, torchvision", ssd_torchvision, "torchvision"),
    HeadFamily("NanoDet, rows a stride", nanodet_rows, "RangiLyu/nanodet"),
    HeadFamily("YuNet of 2022", older_yunet, "opencv/opencv_zoo"),
    HeadFamily("DBFace", face_centres, "dlunion/DBFace"),
    HeadFamily("CSP", people_centres, "liuwei16/CSP"),
    HeadFamily("PP-HumanSeg", people_masks, "PaddlePaddle/PaddleSeg"),
    HeadFamily("hair", hair, "google-ai-edge/mediapipe"),
    HeadFamily("DexiNed", edges, "xavysp/DexiNed"),
    HeadFamily("Metric3D", depth_and_normals, "YvanYin/Metric3D"),
    HeadFamily("DnCNN", less_noise, "cszn/DnCNN"),
    HeadFamily("colours", colours, "richzhang/colorization"),
    HeadFamily("FAN", alignment, "1adrianb/face-alignment"),
    HeadFamily("points of a hand", hand_points, "google-ai-edge/mediapipe"),
    HeadFamily("MGP-STR", pieces_of_words, "AlibabaResearch/AdvancedLiterateMachinery"),
    HeadFamily("MDX-Net", spectra, "kuielab/mdx-net"),
    HeadFamily("NSNet2", gains, "microsoft/DNS-Challenge"),
    HeadFamily("languages", language, "speechbrain/speechbrain"),
    HeadFamily("SFace", sface, "opencv/opencv_zoo"),
    HeadFamily("ETH-XGaze", look, "xucong-zhang/ETH-XGaze"),
    HeadFamily("actions", actions, "facebookresearch/pytorchvideo"),
    HeadFamily("hearts", heart, "antonior92/automatic-ecg-diagnosis"),
    HeadFamily("life of a machine", life, "NASA's turbofan data"),
    HeadFamily("faces that are real", real_or_not, "minivision-ai/Silent-Face-Anti-Spoofing"),
    HeadFamily("MMDeploy, masks", labels_of_boxes, "open-mmlab/mmdeploy"),
)
