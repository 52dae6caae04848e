"""Maps, texts, sounds and vectors of the second set: written before the recogniser saw any of them."""

from __future__ import annotations

import numpy as np

from dovetail.outputs.view import Kind
from dovetail.testing.heads.net import GeneratedHead, HeadFamily, channels_last, drawn_net, pick
from dovetail.testing.heads.parts import along, normalised, product, resized


def bisenet(rng: np.random.Generator) -> GeneratedHead:
    """Return BiSeNetV2's class scores at full size with those of its auxiliary heads."""
    net = drawn_net(rng)
    size, classes = pick(rng, ((256, 512), (224, 224))), pick(rng, (19, 21))
    feature = net.backbone(net.picture(*size), (8,))[0]
    names = (
        ("logits", "logits_aux2", "logits_aux3", "logits_aux4") if rng.integers(2) else ("preds", "421", "466", "511")
    )
    outputs = {name: resized(net, net.conv(feature, classes), size) for name in names}
    return net.finish(outputs, Kind.SEGMENTATION)


def u2net(rng: np.random.Generator) -> GeneratedHead:
    """Return U-2-Net's seven maps at full size, each a Sigmoid: the joined one first."""
    net = drawn_net(rng)
    size = pick(rng, ((320, 320), (256, 256)))
    features = net.backbone(net.picture(*size), (2, 4, 8))
    maps = [resized(net, net.conv(item, 1, 3), size) for item in features]
    joined = net.conv(net.concat(maps, 1), 1)
    names = ("d0", "d1", "d2", "d3") if rng.integers(2) else ("1959", "1960", "1961", "1962")
    outputs = {name: net.sigmoid(item) for name, item in zip(names, (joined, *maps), strict=True)}
    return net.finish(outputs, Kind.SEGMENTATION)


def video_matting(rng: np.random.Generator) -> GeneratedHead:
    """Return Robust Video Matting's foreground, alpha and states at four strides."""
    net = drawn_net(rng)
    size = (128, 192)
    picture = net.input("src", 1, 3, *size)
    features = net.backbone(picture, (2, 4, 8, 16))
    outputs, kinds = {}, {}
    fine = net.up(features[0], 8)
    colour = net.op("Add", net.conv(fine, 3), picture)
    limits = net.constant(np.float32(0.0)), net.constant(np.float32(1.0))
    outputs["fgr"], kinds["fgr"] = net.op("Clip", colour, *limits), Kind.REGRESSION
    outputs["pha"], kinds["pha"] = net.op("Clip", net.conv(fine, 1), *limits), Kind.SEGMENTATION
    for index, (feature, width) in enumerate(zip(features, (16, 20, 40, 64), strict=True), 1):
        rows, cols = net.shape(feature)[2:]
        state = net.input(f"r{index}i", 1, width, rows, cols)
        outputs[f"r{index}o"] = net.op("Tanh", net.op("Add", net.conv(feature, width), state))
        kinds[f"r{index}o"] = Kind.STATE
    return net.finish(outputs, kinds)


def monodepth(rng: np.random.Generator) -> GeneratedHead:
    """Return Monodepth2's disparity: a Sigmoid at full size, alone or with those of coarser scales."""
    net = drawn_net(rng)
    size = pick(rng, ((192, 640), (128, 416)))
    features = net.backbone(net.picture(*size), (2, 4))
    several = bool(rng.integers(2))
    outputs = {"disp_0" if several else "disp": net.sigmoid(net.conv(net.up(features[0], 8), 1, 3))}
    if several:
        outputs.update({f"disp_{index}": net.sigmoid(net.conv(item, 1, 3)) for index, item in enumerate(features, 1)})
    return net.finish(outputs, Kind.REGRESSION)


def flow(rng: np.random.Generator) -> GeneratedHead:
    """Return RAFT's flow between two pictures: two numbers for every pixel."""
    net = drawn_net(rng)
    size = pick(rng, ((128, 192), (256, 256)))
    pair = [net.input(name, 1, 3, *size) for name in pick(rng, (("image1", "image2"), ("0", "1")))]
    feature = net.backbone(net.concat(pair, 1), (8,))[0]
    return net.finish(
        {pick(rng, ("flow_up", "output", "12049")): resized(net, net.conv(feature, 2), size)}, Kind.REGRESSION
    )


def super_point(rng: np.random.Generator) -> GeneratedHead:
    """Return SuperPoint's cells of 64 pixels and one for none, and a descriptor of every cell."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((240, 320), (480, 640))), channels=1), (8,))[0]
    names = pick(rng, (("semi", "desc"), ("scores", "descriptors")))
    descriptor = net.conv(feature, 256)
    if rng.integers(2):
        rows, cols = net.shape(descriptor)[2:]
        length = net.op("ReduceL2", descriptor, net.constant([1]), shape=(1, 1, rows, cols), keepdims=1)
        descriptor = net.op("Div", descriptor, length)
    kinds = {names[0]: Kind.KEYPOINTS, names[1]: Kind.EMBEDDING}
    return net.finish({names[0]: net.conv(feature, 65), names[1]: descriptor}, kinds)


def blaze_pose(rng: np.random.Generator) -> GeneratedHead:
    """Return BlazePose's landmarks, presence, mask, heat maps and landmarks in metres; channels last."""
    net = drawn_net(rng)
    four, last = net.backbone(net.picture(256, 256, channels_last=True), (4, 32))
    flat = net.pooled(last)
    outputs = {
        "Identity": net.dense(flat, 195),
        "Identity_1": net.sigmoid(net.dense(flat, 1)),
        "Identity_2": channels_last(net, resized(net, net.conv(four, 1), (256, 256))),
        "Identity_3": channels_last(net, net.conv(four, 39)),
        "Identity_4": net.dense(flat, 117),
    }
    kinds = dict.fromkeys(outputs, Kind.KEYPOINTS)
    kinds.update({"Identity_1": Kind.CLASSIFICATION, "Identity_2": Kind.SEGMENTATION})
    return net.finish(outputs, kinds)


def head_angles(rng: np.random.Generator) -> GeneratedHead:
    """Return 6DRepNet's rotation `[1, 3, 3]`, or three angles."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(224, 224), (32,))[0])
    matrix = bool(rng.integers(2))
    values = net.reshape(net.op("Tanh", net.dense(flat, 9)), 1, 3, 3) if matrix else net.dense(flat, 3)
    names = ("output", "rotation") if matrix else ("output", "pose")
    return net.finish({pick(rng, names): values}, Kind.REGRESSION, "a matrix" if matrix else "angles")


def parseq(rng: np.random.Generator) -> GeneratedHead:
    """Return PARSeq's logits `[1, 26, 95]`: symbols one after another, read by queries."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(32, 128), (8,))[0]
    tokens = net.rows(feature, 8)
    asked = net.uniform(1, 26, 8)
    places = net.shape(tokens)[1]
    weights = net.softmax(net.op("MatMul", asked, net.transpose(tokens, (0, 2, 1)), shape=(1, 26, places)))
    seen = normalised(net, net.op("MatMul", weights, tokens, shape=(1, 26, 8)))
    scores = product(net, seen, pick(rng, (95, 37)))
    return net.finish({pick(rng, ("output", "logits", "1830")): scores}, Kind.TEXT)


def text_direction(rng: np.random.Generator) -> GeneratedHead:
    """Return PP-OCR's classifier of directions: two shares of a strip."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(48, 192), (16,))[0])
    names = ("softmax_0.tmp_0", "save_infer_model/scale_0.tmp_1", "fetch_name_0", "output")
    return net.finish({pick(rng, names): net.softmax(net.dense(flat, 2))}, Kind.CLASSIFICATION)


def whisper(rng: np.random.Generator) -> GeneratedHead:
    """Return the features of Whisper's encoder: `[1, 1500, 384]` of a spectrum `[1, 80, 3000]`."""
    net = drawn_net(rng)
    spectrum = net.input(pick(rng, ("input_features", "mel")), 1, 80, 3000)
    tokens = net.transpose(along(net, spectrum, 16, 2), (0, 2, 1))
    hidden = normalised(net, product(net, tokens, pick(rng, (384, 512))))
    return net.finish({pick(rng, ("last_hidden_state", "output_features", "output")): hidden}, Kind.EMBEDDING)


def quartz_net(rng: np.random.Generator) -> GeneratedHead:
    """Return QuartzNet's logarithms of shares `[1, T, 29]` of a spectrum `[1, 64, 2 T]`."""
    net = drawn_net(rng)
    hidden = along(net, net.input("audio_signal", 1, 64, pick(rng, (256, 400))), 16, 2)
    scores = product(net, net.transpose(hidden, (0, 2, 1)), pick(rng, (29, 129)))
    return net.finish({pick(rng, ("logprobs", "output")): net.op("LogSoftmax", scores, axis=2)}, Kind.TEXT)


def words_of_sound(rng: np.random.Generator) -> GeneratedHead:
    """Return BC-ResNet's logits of 12 spoken words of a spectrum `[1, 1, 40, T]`."""
    net = drawn_net(rng)
    feature = net.backbone(net.input("input", 1, 1, 40, 101), (4,))[0]
    maps = net.conv(feature, pick(rng, (12, 35)))
    scores = net.op("ReduceMean", maps, net.constant([2, 3]), shape=(1, net.shape(maps)[1]), keepdims=0)
    return net.finish({pick(rng, ("output", "logits")): scores}, Kind.CLASSIFICATION)


def sources(rng: np.random.Generator) -> GeneratedHead:
    """Return Demucs's four sources of two channels: `[1, 4, 2, L]`."""
    net = drawn_net(rng)
    length = pick(rng, (8192, 11025))
    hidden = along(net, net.input(pick(rng, ("mix", "input")), 1, 2, length), 8)
    made = net.op("Conv", hidden, net.uniform(8, 8, 1), net.uniform(8), shape=(1, 8, length))
    return net.finish({pick(rng, ("sources", "output", "add_74")): net.reshape(made, 1, 4, 2, length)}, Kind.SIGNAL)


def noise_gains(rng: np.random.Generator) -> GeneratedHead:
    """Return RNNoise's gains of 22 bands, whether somebody speaks, and a state."""
    net = drawn_net(rng)
    frame, state = net.input("main_input", 1, 42), net.input("denoise_state", 1, 96)
    hidden = net.op("Tanh", net.op("Add", net.dense(frame, 96), net.dense(state, 96)))
    outputs = {
        "denoise_output": net.sigmoid(net.dense(hidden, 22)),
        "vad_output": net.sigmoid(net.dense(hidden, 1)),
        "denoise_state_out": hidden,
    }
    kinds = dict(zip(outputs, (Kind.SIGNAL, Kind.CLASSIFICATION, Kind.STATE), strict=True))
    return net.finish(outputs, kinds)


def dino(rng: np.random.Generator) -> GeneratedHead:
    """Return DINOv2's features of every patch and of the picture."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(224, 224), (16,))[0]
    width = pick(rng, (384, 768))
    hidden = normalised(net, product(net, net.rows(feature, 8), width))
    pooled = net.reshape(net.part(hidden, 0, 1, 1), 1, width)
    names = ("last_hidden_state", "pooler_output")
    outputs = dict(zip(names, (hidden, pooled), strict=True))
    return net.finish(outputs if rng.integers(2) else {names[0]: hidden}, Kind.EMBEDDING)


def emotions(rng: np.random.Generator) -> GeneratedHead:
    """Return eight emotions of a grey face, logits without a usual name."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(64, 64, channels=1), (16,))[0])
    names = ("Plus692_Output_0", "output", "dense_2")
    return net.finish({pick(rng, names): net.dense(flat, pick(rng, (8, 7)))}, Kind.CLASSIFICATION)


def forecast(rng: np.random.Generator) -> GeneratedHead:
    """Return a forecast of several quantities: `[1, 24, 7]` of `[1, 96, 7]`."""
    net = drawn_net(rng)
    series = net.input(pick(rng, ("past_values", "x_enc")), 1, 96, 7)
    mixed = product(net, net.transpose(series, (0, 2, 1)), pick(rng, (24, 96, 192)))
    outputs = {pick(rng, ("prediction_outputs", "output")): net.transpose(mixed, (0, 2, 1))}
    return net.finish(outputs, Kind.REGRESSION)


FAMILIES = (
    HeadFamily("BiSeNetV2", bisenet, "CoinCheung/BiSeNet"),
    HeadFamily("U-2-Net", u2net, "xuebinqin/U-2-Net"),
    HeadFamily("video matting", video_matting, "PeterL1n/RobustVideoMatting"),
    HeadFamily("Monodepth2", monodepth, "nianticlabs/monodepth2"),
    HeadFamily("RAFT", flow, "princeton-vl/RAFT"),
    HeadFamily("SuperPoint", super_point, "magicleap/SuperPointPretrainedNetwork"),
    HeadFamily("BlazePose", blaze_pose, "google-ai-edge/mediapipe"),
    HeadFamily("angles of a head", head_angles, "thohemp/6DRepNet"),
    HeadFamily("PARSeq", parseq, "baudm/parseq"),
    HeadFamily("direction of text", text_direction, "PaddlePaddle/PaddleOCR"),
    HeadFamily("Whisper, encoder", whisper, "openai/whisper"),
    HeadFamily("QuartzNet", quartz_net, "NVIDIA/NeMo"),
    HeadFamily("BC-ResNet", words_of_sound, "Qualcomm-AI-research/bcresnet"),
    HeadFamily("Demucs", sources, "facebookresearch/demucs"),
    HeadFamily("RNNoise", noise_gains, "xiph/rnnoise"),
    HeadFamily("DINOv2", dino, "facebookresearch/dinov2"),
    HeadFamily("emotions", emotions, "onnx/models"),
    HeadFamily("forecast", forecast, "thuml/Time-Series-Library"),
)
