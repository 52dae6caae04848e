"""Heads that are no dense detectors."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Node, TensorType
from dovetail.outputs.view import Kind
from dovetail.testing.heads.net import GeneratedHead, HeadFamily, HeadNet, drawn_net, pick


def _image(rng: np.random.Generator, net: HeadNet, size: tuple[int, int], stride: int) -> str:
    """Return features at one stride of a picture that comes in either layout."""
    picture = net.picture(*size, channels_last=bool(rng.integers(3) == 0))
    return net.backbone(picture, (stride,))[0]


def centernet(rng: np.random.Generator) -> GeneratedHead:
    """Return `hm`, `wh` and `reg` on a grid of stride 4; face detectors add landmarks."""
    net = drawn_net(rng)
    feature = _image(rng, net, pick(rng, ((512, 512), (320, 320), (256, 384))), 4)
    classes, face = pick(rng, (80, 1, 20, 3)), bool(rng.integers(3) == 0)
    heat = net.conv(feature, 1 if face else classes)
    outputs = {"hm": net.sigmoid(heat) if rng.integers(3) else heat, "wh": net.conv(feature, 2)}
    outputs["reg"] = net.conv(feature, 2)
    if face:
        outputs["landmarks"] = net.conv(feature, 10)
    return net.finish(outputs, Kind.DETECTION, "with landmarks" if face else "")


def detr(rng: np.random.Generator) -> GeneratedHead:
    """Return `pred_logits [1, Q, C + 1]` and `pred_boxes [1, Q, 4]` of queries, or both joined (RT-DETR)."""
    net = drawn_net(rng)
    feature = _image(rng, net, pick(rng, ((512, 512), (320, 320), (800, 1066))), 32)
    queries, classes = pick(rng, (100, 300)), pick(rng, (91, 80, 20))
    tokens = net.rows(feature, net.shape(feature)[1])
    places, width = net.shape(tokens)[1:]
    asked = net.uniform(1, queries, width)
    weights = net.softmax(net.op("MatMul", asked, net.transpose(tokens, (0, 2, 1)), shape=(1, queries, places)))
    seen = net.op("MatMul", weights, tokens, shape=(1, queries, width))
    joined = bool(rng.integers(3) == 0)
    score = net.op(
        "MatMul", seen, net.uniform(width, classes + (not joined)), shape=(1, queries, classes + (not joined))
    )
    box = net.sigmoid(net.op("MatMul", seen, net.uniform(width, 4), shape=(1, queries, 4)))
    if joined:
        return net.finish({"output0": net.concat([box, net.sigmoid(score)], 2)}, Kind.DETECTION, "joined")
    return net.finish({"pred_logits": score, "pred_boxes": box}, Kind.DETECTION)


def top_rows(rng: np.random.Generator) -> GeneratedHead:
    """Return `[1, K, 6]`: corners, score and class of the best places (YOLOv10, YOLO26)."""
    net = drawn_net(rng)
    size = pick(rng, ((640, 640), (320, 320)))
    feature = _image(rng, net, size, 16)
    classes, count = pick(rng, (80, 10, 3)), pick(rng, (300, 100))
    scores = net.sigmoid(net.rows(net.conv(feature, classes), classes))
    boxes = net.rows(net.conv(feature, 4), 4)
    places = net.shape(boxes)[1]
    best = net.op("ReduceMax", scores, net.constant([2]), shape=(1, places), keepdims=0)
    index = _top(net, best, min(count, places))
    rows = net.shape(index)[1]
    wide = net.op("Unsqueeze", index, net.constant([2]), shape=(1, rows, 1))
    net.types[wide] = TensorType(DType.I64, (1, rows, 1))
    picked = [_gathered(net, item, wide) for item in (boxes, scores)]
    low, spread = net.part(picked[0], 0, 2, 2), net.op("Exp", net.part(picked[0], 2, 4, 2))
    corners = net.concat([low, net.op("Add", low, spread)], 2)
    corners = net.op("Mul", corners, net.constant(np.float32(size[0])))
    score = net.op("ReduceMax", picked[1], net.constant([2]), shape=(1, rows, 1), keepdims=1)
    label = net.arg_max(picked[1], 2, keep=True)
    label = net.op("Cast", label, shape=(1, rows, 1), to=1)
    return net.finish({"output0": net.concat([corners, score, label], 2)}, Kind.DETECTION)


def _top(net: HeadNet, scores: str, count: int) -> str:
    number = len(net.nodes)
    names = (f"top{number}", f"at{number}")
    net.types[names[0]] = TensorType(DType.F32, (1, count))
    net.types[names[1]] = TensorType(DType.I64, (1, count))
    net.nodes.append(Node(f"n{number}", "TopK", (scores, net.constant([count])), names, {"axis": 1}))
    return names[1]


def _gathered(net: HeadNet, table: str, index: str) -> str:
    rows, width = net.shape(index)[1], net.shape(table)[2]
    spread = net.op("Expand", index, net.constant([1, rows, width]), shape=(1, rows, width))
    net.types[spread] = TensorType(DType.I64, (1, rows, width))
    return net.op("GatherElements", table, spread, shape=(1, rows, width), axis=1)


def segmentation(rng: np.random.Generator) -> GeneratedHead:
    """Return class scores at full size or at stride 4 or 8, a Softmax of them, or the best class of every pixel."""
    net = drawn_net(rng)
    size = pick(rng, ((256, 256), (128, 256), (224, 224), (192, 192)))
    feature = _image(rng, net, size, 8)
    classes, form = pick(rng, (2, 19, 21, 150, 11, 5)), int(rng.integers(5))
    scores = net.conv(feature, classes)
    if form != 1:
        rows, cols = net.shape(scores)[2:]
        sizes = net.constant(np.array([1.0, 1.0, size[0] / rows, size[1] / cols], np.float32))
        empty = net.constant(np.zeros(0, np.float32))
        scores = net.op("Resize", scores, empty, sizes, shape=(1, classes, *size), mode="linear")
    if form == 2:
        scores = net.softmax(scores, 1)
    if form == 3:
        scores = net.arg_max(scores, 1)
    if form == 4:
        scores = net.transpose(scores, (0, 2, 3, 1))
    note = ("logits, full size", "logits, stride 8", "Softmax", "class ids", "channels last")[form]
    return net.finish({pick(rng, ("out", "output", "seg", "mask", "logits")): scores}, Kind.SEGMENTATION, note)


def one_mask(rng: np.random.Generator) -> GeneratedHead:
    """Return the Sigmoid of one map at full size: a person, a matte, what stands out."""
    net = drawn_net(rng)
    size = pick(rng, ((256, 256), (192, 192), (320, 320)))
    feature = net.conv(_image(rng, net, size, 2), 8, 3)
    factors = net.constant(np.array([1.0, 1.0, 2.0, 2.0], np.float32))
    empty = net.constant(np.zeros(0, np.float32))
    large = net.op("Resize", net.relu(feature), empty, factors, shape=(1, 8, *size), mode="linear")
    mask = net.sigmoid(net.conv(large, 1))
    last = bool(rng.integers(3) == 0)
    return net.finish(
        {pick(rng, ("output", "pha", "d0", "mask")): net.transpose(mask, (0, 2, 3, 1)) if last else mask},
        Kind.SEGMENTATION,
    )


def text_map(rng: np.random.Generator) -> GeneratedHead:
    """Return a DB head: two transposed convolutions and a Sigmoid, at full size."""
    net = drawn_net(rng)
    feature = _image(rng, net, pick(rng, ((320, 320), (480, 480), (640, 640))), 4)
    step = net.relu(net.up(net.relu(net.conv(feature, 8, 3)), 8))
    names = ("sigmoid_0.tmp_0", "save_infer_model/scale_0.tmp_1", "maps", "fetch_name_0", "output")
    return net.finish({pick(rng, names): net.sigmoid(net.up(step, 1))}, Kind.TEXT_REGIONS)


def heat_maps(rng: np.random.Generator) -> GeneratedHead:
    """Return `[1, K, H/4, W/4]` after transposed convolutions (SimpleBaseline, HRNet)."""
    net = drawn_net(rng)
    feature = _image(rng, net, pick(rng, ((256, 192), (256, 256), (384, 288), (192, 192))), 16)
    points = pick(rng, (17, 16, 21, 68, 14, 133))
    maps = net.conv(net.relu(net.up(net.relu(net.up(feature, 8)), 8)), points)
    return net.finish({pick(rng, ("output", "heatmap", "heatmaps", "keypoints")): maps}, Kind.KEYPOINTS)


def simcc(rng: np.random.Generator) -> GeneratedHead:
    """Return `simcc_x [1, K, 2W]` and `simcc_y [1, K, 2H]` (RTMPose)."""
    net = drawn_net(rng)
    size = pick(rng, ((256, 192), (384, 288), (256, 256)))
    feature = _image(rng, net, size, 32)
    points = pick(rng, (17, 21, 133, 26))
    maps = net.conv(feature, points)
    rows, cols = net.shape(maps)[2:]
    flat = net.reshape(maps, 1, points, rows * cols)
    outputs = {
        name: net.op("MatMul", flat, net.uniform(rows * cols, 2 * side), shape=(1, points, 2 * side))
        for name, side in (("simcc_x", size[1]), ("simcc_y", size[0]))
    }
    return net.finish(outputs, Kind.KEYPOINTS)


def coordinates(rng: np.random.Generator) -> GeneratedHead:
    """Return coordinates of keypoints: a list (PFLD, FaceMesh) or `[1, 1, K, 3]` (MoveNet)."""
    net = drawn_net(rng)
    feature = _image(rng, net, pick(rng, ((112, 112), (192, 192), (256, 256))), 16)
    form = int(rng.integers(3))
    points = pick(rng, (68, 98, 106) if form == 0 else (468, 21) if form == 1 else (17,))
    width = 2 if form == 0 else 3
    values = net.dense(net.pooled(feature), points * width)
    if form == 2:
        values = net.reshape(net.sigmoid(values), 1, 1, points, 3)
        return net.finish({pick(rng, ("output_0", "StatefulPartitionedCall:0")): values}, Kind.KEYPOINTS, "triples")
    names = ("landmarks", "output", "conv2d_21", "ld_21_3d", "Identity")
    return net.finish({pick(rng, names): values}, Kind.KEYPOINTS, "a list")


def ctc(rng: np.random.Generator) -> GeneratedHead:
    """Return scores of symbols along the width of a line of text: `[1, T, C]` or `[T, 1, C]`, with a Softmax or not."""
    net = drawn_net(rng)
    size = pick(rng, ((32, 320), (48, 320), (32, 100), (24, 94)))
    picture = net.picture(*size, channels=pick(rng, (1, 3)))
    feature = net.backbone(picture, (4,))[0]
    width, steps = net.shape(feature)[1], net.shape(feature)[3]
    means = net.op("ReduceMean", feature, net.constant([2]), shape=(1, width, steps), keepdims=0)
    symbols = pick(rng, (37, 97, 6625, 68, 11, 63))
    scores = net.op("MatMul", net.transpose(means, (0, 2, 1)), net.uniform(width, symbols), shape=(1, steps, symbols))
    scores = net.op("Add", scores, net.uniform(symbols))
    scores = net.softmax(scores) if rng.integers(2) else scores
    first = bool(rng.integers(3) == 0)
    names = ("softmax_5.tmp_0", "output", "fetch_name_0", "out")
    return net.finish({pick(rng, names): net.transpose(scores, (1, 0, 2)) if first else scores}, Kind.TEXT)


def classes(rng: np.random.Generator) -> GeneratedHead:
    """Return class scores: logits, probabilities, or a Sigmoid of several labels."""
    net = drawn_net(rng)
    feature = _image(rng, net, pick(rng, ((224, 224), (96, 96), (32, 32), (128, 128))), 16)
    form = int(rng.integers(3))
    count = pick(rng, (10, 1000, 1001, 2, 100, 5, 37)) if form else pick(rng, (1000, 10, 100, 365))
    scores = net.dense(net.pooled(feature), count)
    scores = net.softmax(scores) if form == 1 else net.sigmoid(scores) if form == 2 else scores
    names = (("output", "logits", "fc", "495"), ("prob", "softmaxout_1", "Identity", "output"), ("output", "probs"))[
        form
    ]
    return net.finish({pick(rng, names): scores}, Kind.CLASSIFICATION, ("logits", "Softmax", "Sigmoid")[form])


def several_classes(rng: np.random.Generator) -> GeneratedHead:
    """Return two or three heads of classes, such as age group, gender and mask."""
    net = drawn_net(rng)
    feature = net.pooled(_image(rng, net, (112, 112), 16))
    soft = bool(rng.integers(2))
    outputs = {}
    for name, count in (("age", 8), ("gender", 2), ("mask", 2))[: 2 + int(rng.integers(2))]:
        scores = net.dense(feature, count)
        outputs[f"{name}_probs" if soft else f"{name}_logits"] = net.softmax(scores) if soft else scores
    return net.finish(outputs, Kind.CLASSIFICATION, "Softmax" if soft else "logits")


def embedding(rng: np.random.Generator) -> GeneratedHead:
    """Return an embedding, divided by its length or not."""
    net = drawn_net(rng)
    feature = net.pooled(_image(rng, net, pick(rng, ((112, 112), (160, 160), (224, 224))), 16))
    size, form = pick(rng, (512, 128, 256)), int(rng.integers(2))
    values = net.dense(feature, size)
    if form:
        length = net.op("ReduceL2", values, net.constant([1]), shape=(1, 1), keepdims=1)
        values = net.op("Div", values, length)
    names = ("embedding", "fc1", "683", "features", "output")
    return net.finish({pick(rng, names): values}, Kind.EMBEDDING, "of length 1" if form else "as it comes")


def regression(rng: np.random.Generator) -> GeneratedHead:
    """Return one or a few quantities."""
    net = drawn_net(rng)
    feature = net.pooled(_image(rng, net, (128, 128), 16))
    name, count = pick(rng, (("age", 1), ("angles", 3), ("output", 1), ("steering", 1), ("yaw_pitch_roll", 3)))
    return net.finish({name: net.dense(feature, count)}, Kind.REGRESSION)


def depth(rng: np.random.Generator) -> GeneratedHead:
    """Return a value for every pixel: a depth, or a larger picture."""
    net = drawn_net(rng)
    size = pick(rng, ((64, 64), (128, 128), (96, 128)))
    picture = net.picture(*size)
    feature = net.relu(net.conv(picture, 8, 3))
    if rng.integers(2):
        scale = pick(rng, (2, 3, 4))
        wide = net.conv(feature, 3 * scale * scale, 3)
        large = net.op(
            "DepthToSpace", wide, shape=(1, 3, size[0] * scale, size[1] * scale), blocksize=scale, mode="CRD"
        )
        return net.finish({"output": large}, Kind.REGRESSION, "a larger picture")
    value = net.relu(net.conv(feature, 1))
    return net.finish({pick(rng, ("depth", "output", "disparity")): value}, Kind.REGRESSION, "depth")


def denoiser(rng: np.random.Generator) -> GeneratedHead:
    """Return the mask of a spectrum and the state that goes back in (DTLN and its like)."""
    net = drawn_net(rng)
    bins, units = pick(rng, (257, 161, 129)), pick(rng, (64, 128))
    frame = net.input("input_2", 1, bins)
    state = net.input("input_3", 1, units)
    hidden = net.op("Tanh", net.op("Add", net.dense(frame, units), net.dense(state, units)))
    mask = net.sigmoid(net.dense(hidden, bins))
    names = pick(rng, (("activation_2", "state_out"), ("mask", "h_out"), ("output", "states")))
    kinds = {names[0]: Kind.SIGNAL, names[1]: Kind.STATE}
    return net.finish({names[0]: mask, names[1]: hidden}, kinds)


def waves(rng: np.random.Generator) -> GeneratedHead:
    """Return a wave for every source in a wave (Conv-TasNet and its like), or one cleaned."""
    net = drawn_net(rng)
    length, sources = pick(rng, (8000, 16000, 4096)), pick(rng, (1, 2))
    wave = net.input(pick(rng, ("mix", "input", "audio")), 1, 1, length)
    weight = net.uniform(8, 1, 15, low=-0.3, high=0.3)
    hidden = net.op("Conv", wave, weight, net.uniform(8), shape=(1, 8, length), pads=(7, 7))
    out = net.op("Conv", net.relu(hidden), net.uniform(sources, 8, 1), net.uniform(sources), shape=(1, sources, length))
    out = net.op("Tanh", out) if rng.integers(2) else out
    return net.finish({pick(rng, ("est_sources", "output", "enhanced")): out}, Kind.SIGNAL)


FAMILIES = (
    HeadFamily("CenterNet", centernet, "xingyizhou/CenterNet, Star-Clouds/CenterFace"),
    HeadFamily("DETR", detr, "facebookresearch/detr, lyuwenyu/RT-DETR"),
    HeadFamily("best rows", top_rows, "THU-MIG/yolov10, ultralytics/ultralytics"),
    HeadFamily("segmentation", segmentation, "open-mmlab/mmsegmentation, PaddleSeg, DeepLab"),
    HeadFamily("one mask", one_mask, "xuebinqin/U-2-Net, ZHKKKe/MODNet, MediaPipe"),
    HeadFamily("DB", text_map, "PaddlePaddle/PaddleOCR"),
    HeadFamily("heat maps", heat_maps, "microsoft/human-pose-estimation.pytorch"),
    HeadFamily("SimCC", simcc, "open-mmlab/mmpose, RTMPose"),
    HeadFamily("coordinates", coordinates, "polarisZhao/PFLD-pytorch, MediaPipe, MoveNet"),
    HeadFamily("CTC", ctc, "PaddlePaddle/PaddleOCR, meijieru/crnn.pytorch"),
    HeadFamily("classes", classes, "torchvision, tf.keras.applications"),
    HeadFamily("several heads of classes", several_classes, ""),
    HeadFamily("embedding", embedding, "deepinsight/insightface"),
    HeadFamily("regression", regression, ""),
    HeadFamily("depth and larger pictures", depth, "MiDaS, ESPCN"),
    HeadFamily("mask of a spectrum with a state", denoiser, "breizhn/DTLN"),
    HeadFamily("waves", waves, "Conv-TasNet, asteroid"),
)
