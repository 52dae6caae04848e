"""Points, masks and depths as published exporters write them, made after the recogniser and not with it."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, TensorType
from dovetail.outputs.view import Kind
from dovetail.testing.heads.net import GeneratedHead, HeadFamily, channels_last, drawn_net, pick


def centerface(rng: np.random.Generator) -> GeneratedHead:
    """Return CenterFace's four unnamed maps."""
    net = drawn_net(rng)
    (feature,) = net.backbone(net.picture(*pick(rng, ((640, 640), (480, 640)))), (4,))
    parts = (net.sigmoid(net.conv(feature, 1)), *(net.conv(feature, count) for count in (2, 2, 10)))
    return net.finish({str(537 + index): part for index, part in enumerate(parts)}, Kind.DETECTION)


def openpose(rng: np.random.Generator) -> GeneratedHead:
    """Return heat maps `[1, 19, H/8, W/8]` and affinity fields `[1, 38, H/8, W/8]`."""
    net = drawn_net(rng)
    (feature,) = net.backbone(net.picture(*pick(rng, ((256, 456), (368, 368)))), (8,))
    names = pick(rng, (("heatmaps", "pafs"), ("stage_1_output_0_heatmaps", "stage_1_output_1_pafs")))
    return net.finish({names[0]: net.conv(feature, 19), names[1]: net.conv(feature, 38)}, Kind.KEYPOINTS)


def hrnet(rng: np.random.Generator) -> GeneratedHead:
    """Return HRNet's heat maps: no transposed convolution, a 1 x 1 convolution at stride 4."""
    net = drawn_net(rng)
    (feature,) = net.backbone(net.picture(*pick(rng, ((256, 192), (384, 288), (256, 256)))), (4,))
    return net.finish(
        {pick(rng, ("output", "2947", "heatmaps")): net.conv(feature, pick(rng, (17, 16, 21)))}, Kind.KEYPOINTS
    )


def hand_landmarks(rng: np.random.Generator) -> GeneratedHead:
    """Return MediaPipe's hand landmarks: `[1, 63]`, presence, handedness, world landmarks."""
    net = drawn_net(rng)
    (feature,) = net.backbone(net.picture(224, 224, channels_last=True), (32,))
    flat = net.pooled(feature)
    names = {
        "Identity": net.dense(flat, 63),
        "Identity_1": net.sigmoid(net.dense(flat, 1)),
        "Identity_2": net.sigmoid(net.dense(flat, 1)),
        "Identity_3": net.dense(flat, 63),
    }
    return net.finish(
        names,
        {
            "Identity": Kind.KEYPOINTS,
            "Identity_1": Kind.CLASSIFICATION,
            "Identity_2": Kind.CLASSIFICATION,
            "Identity_3": Kind.KEYPOINTS,
        },
    )


def face_mesh(rng: np.random.Generator) -> GeneratedHead:
    """Return `[1, 1, 1, 1404]` and a score `[1, 1, 1, 1]`."""
    net = drawn_net(rng)
    (feature,) = net.backbone(net.picture(192, 192, channels_last=True), (32,))
    flat = net.pooled(feature)
    points = net.reshape(net.dense(flat, 1404), 1, 1, 1, 1404)
    score = net.reshape(net.dense(flat, 1), 1, 1, 1, 1)
    return net.finish(
        {"conv2d_21": points, "conv2d_31": score}, {"conv2d_21": Kind.KEYPOINTS, "conv2d_31": Kind.REGRESSION}
    )


def class_ids(rng: np.random.Generator) -> GeneratedHead:
    """Return PaddleSeg's class of every pixel, as integers of 32 or 64 bits."""
    net = drawn_net(rng)
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
    return net.finish(
        {pick(rng, ("argmax_0.tmp_0", "output", "save_infer_model/scale_0.tmp_0")): best}, Kind.SEGMENTATION
    )


def segformer(rng: np.random.Generator) -> GeneratedHead:
    """Return SegFormer's `logits [1, 150, H/4, W/4]`."""
    net = drawn_net(rng)
    (feature,) = net.backbone(net.picture(*pick(rng, ((512, 512), (256, 256)))), (4,))
    return net.finish({"logits": net.conv(feature, pick(rng, (150, 19, 7)))}, Kind.SEGMENTATION)


def deeplab(rng: np.random.Generator) -> GeneratedHead:
    """Return DeepLab's `out` and `aux` at full size, 21 classes."""
    net = drawn_net(rng)
    size = (256, 256)
    (feature,) = net.backbone(net.picture(*size), (8,))
    factors = net.constant(np.array([1, 1, 8, 8], np.float32))
    empty = net.constant(np.zeros(0, np.float32))
    names = {}
    for name in ("out", "aux")[: 1 + int(rng.integers(2))]:
        scores = net.conv(feature, 21)
        names[name] = net.op("Resize", scores, empty, factors, shape=(1, 21, *size), mode="linear")
    return net.finish(names, Kind.SEGMENTATION)


def selfie(rng: np.random.Generator) -> GeneratedHead:
    """Return MediaPipe's selfie mask, channels last, after a transposed convolution."""
    net = drawn_net(rng)
    size = pick(rng, ((256, 256), (144, 256)))
    (feature,) = net.backbone(net.picture(*size, channels_last=True), (2,))
    return net.finish(
        {pick(rng, ("activation_10", "Identity", "segment")): channels_last(net, net.sigmoid(net.up(feature, 1)))},
        Kind.SEGMENTATION,
    )


def depth_anything(rng: np.random.Generator) -> GeneratedHead:
    """Return a depth `[1, H, W]` without an axis of channels."""
    net = drawn_net(rng)
    size = pick(rng, ((256, 256), (280, 280)))
    picture = net.picture(*size)
    value = net.relu(net.conv(net.relu(net.conv(picture, 8, 3)), 1))
    flat = net.reshape(value, 1, *size)
    return net.finish({pick(rng, ("predicted_depth", "797", "output", "inverse_depth")): flat}, Kind.REGRESSION)


FAMILIES = (
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
)
