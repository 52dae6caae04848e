"""Heads of the fourth set: written after the recogniser was mended for the third, before it saw any of them."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType
from dovetail.outputs.view import Kind
from dovetail.testing.heads.net import GeneratedHead, HeadFamily, channels_last, drawn_net, pick
from dovetail.testing.heads.parts import (
    along,
    best_places,
    cast,
    corners,
    kept_by_suppression,
    middles,
    normalised,
    picked,
    product,
    queries,
    resized,
    table,
)

_STRIDES = (8, 16, 32)


def darknet_tiny(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOv3-tiny's two maps of three anchors a cell, at strides 16 and 32."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(*pick(rng, ((416, 416), (320, 320)))), (16, 32))
    names = pick(rng, (("convolution_output1", "convolution_output"), ("016_convolutional", "023_convolutional")))
    count = 3 * (5 + pick(rng, (80, 1, 20)))
    return net.finish({name: net.conv(item, count) for name, item in zip(names, features, strict=True)}, Kind.DETECTION)


def yolov5_masks(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOv5's rows with 32 weights of masks, and the prototypes."""
    net = drawn_net(rng)
    size = pick(rng, ((640, 640), (320, 320)))
    fine, *features = net.backbone(net.picture(*size), (4, *_STRIDES))
    scores = net.sigmoid(table(net, features, 1 + pick(rng, (80, 2))))
    joined = net.concat([middles(net, features, size), scores, table(net, features, 32)], 2)
    return net.finish({"output0": joined, "output1": net.relu(net.conv(fine, 32, 3))}, Kind.DETECTION)


def fastest_v2(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLO-FastestV2's two maps, channels last: boxes and objectness of three anchors, classes of all."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(352, 352), (16, 32))
    classes = pick(rng, (80, 2))
    outputs = {}
    for name, item in zip(pick(rng, (("794", "796"), ("output1", "output2"))), features, strict=True):
        parts = [
            net.sigmoid(net.conv(item, 12)),
            net.sigmoid(net.conv(item, 3)),
            net.softmax(net.conv(item, classes), 1),
        ]
        outputs[name] = channels_last(net, net.concat(parts, 1))
    return net.finish(outputs, Kind.DETECTION)


def paddle_suppressed(rng: np.random.Generator) -> GeneratedHead:
    """Return PaddleDetection's rows after suppression `[n, 6]`: class, score, corners."""
    net = drawn_net(rng)
    size = (320, 320)
    features = net.backbone(net.picture(*size), (16, 32))
    boxes, scores = corners(net, features, size), net.sigmoid(table(net, features, pick(rng, (4, 2))))
    places, labels = kept_by_suppression(net, boxes, net.transpose(scores, (0, 2, 1)), 25)
    best = net.op("ReduceMax", scores, net.constant([0, 2]), shape=(net.shape(scores)[1],), keepdims=0)
    flat = net.reshape(boxes, net.shape(boxes)[1], 4)
    axis = net.constant([1])
    columns = (
        net.op("Unsqueeze", cast(net, labels, DType.F32), axis, shape=("n", 1)),
        net.op("Unsqueeze", net.op("Gather", best, places, shape=("n",), axis=0), axis, shape=("n", 1)),
        net.op("Gather", flat, places, shape=("n", 4), axis=0),
    )
    name = pick(rng, ("multiclass_nms3_0.tmp_0", "save_infer_model/scale_0.tmp_0"))
    return net.finish({name: net.op("Concat", *columns, shape=("n", 6), axis=1)}, Kind.DETECTION)


def retinaface_maps(rng: np.random.Generator) -> GeneratedHead:
    """Return InsightFace's RetinaFace: nine maps, two anchors a cell."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(*pick(rng, ((640, 640), (480, 640)))), _STRIDES)
    outputs = {}
    for stride, item in list(zip(_STRIDES, features, strict=True))[::-1]:
        rows, cols = net.shape(item)[2:]
        pairs = net.softmax(net.reshape(net.conv(item, 4), 1, 2, 2 * rows, cols), 1)
        outputs[f"face_rpn_cls_prob_reshape_stride{stride}"] = net.reshape(pairs, 1, 4, rows, cols)
        outputs[f"face_rpn_bbox_pred_stride{stride}"] = net.conv(item, 8)
        outputs[f"face_rpn_landmark_pred_stride{stride}"] = net.conv(item, 20)
    return net.finish(outputs, Kind.DETECTION)


def driving(rng: np.random.Generator) -> GeneratedHead:
    """Return YOLOP's detections with a mask of the road and one of lanes."""
    net = drawn_net(rng)
    size = (320, 320)
    fine, *features = net.backbone(net.picture(*size), (4, *_STRIDES))
    rows = net.concat([middles(net, features, size), net.sigmoid(table(net, features, 2))], 2)
    names = ("det_out", "drive_area_seg", "lane_line_seg") if rng.integers(2) else ("1480", "1493", "1506")
    masks = [net.sigmoid(resized(net, net.conv(fine, 2), size)) for _ in range(2)]
    kinds = dict(zip(names, (Kind.DETECTION, Kind.SEGMENTATION, Kind.SEGMENTATION), strict=True))
    return net.finish(dict(zip(names, (rows, *masks), strict=True)), kinds)


def efficientdet_maps(rng: np.random.Generator) -> GeneratedHead:
    """Return EfficientDet's ten maps, channels last: nine anchors a cell, five strides."""
    net = drawn_net(rng)
    features = net.backbone(net.picture(*pick(rng, ((320, 320), (512, 512))), channels_last=True), (8, 16, 32, 64, 128))
    classes = pick(rng, (90, 3))
    names = pick(rng, (("class_net", "box_net"), ("Identity", "Identity_b")))
    outputs = {
        f"{names[0]}_{index}": channels_last(net, net.conv(item, 9 * classes)) for index, item in enumerate(features)
    }
    outputs.update(
        {f"{names[1]}_{index}": channels_last(net, net.conv(item, 36)) for index, item in enumerate(features)}
    )
    return net.finish(outputs, Kind.DETECTION)


def fine_queries(rng: np.random.Generator) -> GeneratedHead:
    """Return D-FINE's labels, corners and scores, the best first."""
    net = drawn_net(rng)
    seen = queries(net, net.backbone(net.picture(640, 640), (32,))[0], 300)
    box = net.op("Mul", net.sigmoid(product(net, seen, 4)), net.constant(np.float32(640.0)))
    scores = net.sigmoid(product(net, seen, pick(rng, (80, 5))))
    best = net.op("ReduceMax", scores, net.constant([2]), shape=(1, 300), keepdims=0)
    score, at = best_places(net, best, 300)
    labels = picked(net, net.reshape(cast(net, net.arg_max(scores, 2), DType.F32), 1, 300, 1), at)
    labels = cast(net, net.reshape(labels, 1, 300), DType.I64)
    names = ("labels", "boxes", "scores") if rng.integers(2) else ("3160", "3164", "3158")
    return net.finish(dict(zip(names, (labels, picked(net, box, at), score), strict=True)), Kind.DETECTION)


def grounding(rng: np.random.Generator) -> GeneratedHead:
    """Return Grounding DINO's boxes and likeness of 900 queries to 256 tokens."""
    net = drawn_net(rng)
    seen = queries(net, net.backbone(net.picture(*pick(rng, ((544, 960), (320, 320)))), (32,))[0], 900)
    texts = net.input("text_features", 1, 256, 8)
    likeness = net.op("MatMul", seen, net.transpose(texts, (0, 2, 1)), shape=(1, 900, 256))
    return net.finish({"logits": likeness, "pred_boxes": net.sigmoid(product(net, seen, 4))}, Kind.DETECTION)


def tracker(rng: np.random.Generator) -> GeneratedHead:
    """Return a Siamese tracker's two scores and four distances of every cell around the last place."""
    net = drawn_net(rng)
    search = net.backbone(net.picture(255, 255), (16,))[0]
    kernel = net.input("template", 1, 8, 1, 1)
    told = net.op("Mul", search, kernel)
    names = pick(rng, (("cls", "loc"), ("output1", "output2")))
    return net.finish({names[0]: net.conv(told, 2), names[1]: net.op("Exp", net.conv(told, 4))}, Kind.DETECTION)


def deeplab_tflite(rng: np.random.Generator) -> GeneratedHead:
    """Return DeepLab's 21 class scores at full size, channels last, sides of 257 or 513."""
    net = drawn_net(rng)
    side = pick(rng, (257, 513))
    feature = net.backbone(net.picture(side, side, channels_last=True), (16,))[0]
    scores = channels_last(net, resized(net, net.conv(feature, 21), (side, side)))
    return net.finish({pick(rng, ("ResizeBilinear_3", "Identity")): scores}, Kind.SEGMENTATION)


def u_net(rng: np.random.Generator) -> GeneratedHead:
    """Return U-Net's class scores at full size, from a convolution: logits, Sigmoid or Softmax."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((256, 256), (320, 480))), channels=pick(rng, (1, 3))), (2,))[0]
    form = int(rng.integers(3))
    maps = net.conv(net.relu(net.up(feature, 8)), (2, 1, 4)[form])
    maps = (maps, net.sigmoid(maps), net.softmax(maps, 1))[form]
    return net.finish({pick(rng, ("output", "conv2d_18", "logits")): maps}, Kind.SEGMENTATION)


def embedded_picture(rng: np.random.Generator) -> GeneratedHead:
    """Return Segment Anything's features of a picture: `[1, 256, H/16, W/16]`."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(1024, 1024), (16,))[0]
    rows, cols = net.shape(feature)[2:]
    tokens = normalised(net, product(net, net.rows(feature, 8), 256))
    maps = net.transpose(net.reshape(tokens, 1, rows, cols, 256), (0, 3, 1, 2))
    return net.finish({pick(rng, ("image_embeddings", "output")): maps}, Kind.EMBEDDING)


def bottom_up(rng: np.random.Generator) -> GeneratedHead:
    """Return DEKR's heat maps with one for the middle, and offsets of every point from there."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((512, 512), (384, 640)))), (4,))[0]
    names = ("heatmap", "offset") if rng.integers(2) else ("3478", "3481")
    return net.finish({names[0]: net.conv(feature, 18), names[1]: net.conv(feature, 34)}, Kind.KEYPOINTS)


def points_in_cells(rng: np.random.Generator) -> GeneratedHead:
    """Return PIPNet's scores, offsets and offsets of neighbours of 68 or 98 points, at stride 32."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(256, 256), (32,))[0]
    points = pick(rng, (68, 98))
    names = pick(rng, (("cls", "x", "y", "nb_x", "nb_y"), ("output1", "output2", "output3", "output4", "output5")))
    counts = (points, points, points, 10 * points, 10 * points)
    return net.finish(
        {name: net.conv(feature, count) for name, count in zip(names, counts, strict=True)}, Kind.KEYPOINTS
    )


def gaze(rng: np.random.Generator) -> GeneratedHead:
    """Return L2CS's two angles, each as logits of 90 bins."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(448, 448), (32,))[0])
    names = ("pitch", "yaw") if rng.integers(2) else ("495", "496")
    return net.finish({name: net.dense(flat, 90) for name in names}, Kind.CLASSIFICATION)


def second_stage(rng: np.random.Generator) -> GeneratedHead:
    """Return DTLN's second stage: a block of sound as long as the one that goes in, and a state."""
    net = drawn_net(rng)
    block, state = net.input("input_4", 1, 512), net.input("input_5", 1, 128)
    hidden = net.op("Tanh", net.op("Add", net.dense(block, 128), net.dense(state, 128)))
    names = pick(rng, (("conv1d_3", "tf_op_layer_stack_5"), ("Identity", "Identity_1")))
    kinds = dict(zip(names, (Kind.SIGNAL, Kind.STATE), strict=True))
    return net.finish({names[0]: net.dense(hidden, 512), names[1]: hidden}, kinds)


def wake_word(rng: np.random.Generator) -> GeneratedHead:
    """Return openWakeWord's one score of 16 frames of features."""
    net = drawn_net(rng)
    flat = net.reshape(net.input(pick(rng, ("onnx::Flatten_0", "x.1")), 1, 16, 96), 1, 16 * 96)
    return net.finish(
        {pick(rng, ("39", "output")): net.sigmoid(net.dense(net.relu(net.dense(flat, 32)), 1))}, Kind.CLASSIFICATION
    )


def pitch_of_sound(rng: np.random.Generator) -> GeneratedHead:
    """Return CREPE's 360 scores of pitches of 1,024 samples."""
    net = drawn_net(rng)
    hidden = net.relu(net.dense(net.input("frames", 1, 1024), 64))
    return net.finish(
        {pick(rng, ("probabilities", "classifier")): net.sigmoid(net.dense(hidden, 360))}, Kind.CLASSIFICATION
    )


def streaming(rng: np.random.Generator) -> GeneratedHead:
    """Return a streaming encoder's features of speech, and its caches."""
    net = drawn_net(rng)
    hidden = along(net, net.transpose(net.input("x", 1, 64, 80), (0, 2, 1)), 32, 2)
    outputs = {"encoder_out": normalised(net, product(net, net.transpose(hidden, (0, 2, 1)), pick(rng, (384, 512))))}
    kinds = {"encoder_out": Kind.EMBEDDING}
    for index in range(2):
        for name, shape in ((f"cached_key_{index}", (64, 1, 96)), (f"cached_conv_{index}", (1, 96, 15))):
            cache = net.input(name, *shape)
            outputs[f"new_{name}"] = net.op("Tanh", net.op("Add", cache, net.uniform(*shape)))
            kinds[f"new_{name}"] = Kind.STATE
    return net.finish(outputs, kinds)


def many_symbols(rng: np.random.Generator) -> GeneratedHead:
    """Return SenseVoice's or Conformer's logits of thousands of symbols along time."""
    net = drawn_net(rng)
    frames, bands = pick(rng, ((93, 560), (200, 80)))
    hidden = along(net, net.transpose(net.input(pick(rng, ("x", "speech")), 1, frames, bands), (0, 2, 1)), 16)
    scores = product(net, net.transpose(hidden, (0, 2, 1)), pick(rng, (4233, 25055)))
    scores = net.op("LogSoftmax", scores, axis=2) if rng.integers(2) else scores
    return net.finish({pick(rng, ("logits", "log_probs", "ctc_logits")): scores}, Kind.TEXT)


def coloured_plate(rng: np.random.Generator) -> GeneratedHead:
    """Return the symbols of a number plate along its width, and its colour."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(48, 168), (8,))[0]
    width, steps = net.shape(feature)[1], net.shape(feature)[3]
    means = net.op("ReduceMean", feature, net.constant([2]), shape=(1, width, steps), keepdims=0)
    names = pick(rng, (("output_1", "output_2"), ("plate", "color")))
    outputs = {
        names[0]: product(net, net.transpose(means, (0, 2, 1)), 78),
        names[1]: net.dense(net.pooled(feature), 5),
    }
    return net.finish(outputs, {names[0]: Kind.TEXT, names[1]: Kind.CLASSIFICATION})


def places_of_pictures(rng: np.random.Generator) -> GeneratedHead:
    """Return NetVLAD's descriptor of a picture: thousands of numbers, of length 1."""
    net = drawn_net(rng)
    values = net.dense(net.pooled(net.backbone(net.picture(480, 640), (32,))[0]), pick(rng, (4096, 2048)))
    length = net.op("ReduceL2", values, net.constant([1]), shape=(1, 1), keepdims=1)
    return net.finish(
        {pick(rng, ("descriptor", "output", "global_feature")): net.op("Div", values, length)}, Kind.EMBEDDING
    )


def crowd(rng: np.random.Generator) -> GeneratedHead:
    """Return CSRNet's density of people at stride 8."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((384, 512), (576, 768)))), (8,))[0]
    return net.finish({pick(rng, ("density", "output")): net.relu(net.conv(feature, 1))}, Kind.REGRESSION)


def camera_pose(rng: np.random.Generator) -> GeneratedHead:
    """Return PoseNet's place and turn of a camera: three and four numbers."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(224, 224), (32,))[0])
    names = ("xyz", "wpqr") if rng.integers(2) else ("translation", "rotation")
    return net.finish({names[0]: net.dense(flat, 3), names[1]: net.dense(flat, 4)}, Kind.REGRESSION)


def car(rng: np.random.Generator) -> GeneratedHead:
    """Return Donkey Car's steering and throttle, one number each."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(120, 160, channels_last=True), (16,))[0])
    names = pick(rng, (("n_outputs0", "n_outputs1"), ("angle", "throttle")))
    return net.finish({name: net.dense(flat, 1) for name in names}, Kind.REGRESSION)


def taste(rng: np.random.Generator) -> GeneratedHead:
    """Return NIMA's shares of ten marks."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(224, 224, channels_last=bool(rng.integers(2))), (32,))[0])
    return net.finish({pick(rng, ("dense_1", "output", "mos")): net.softmax(net.dense(flat, 10))}, Kind.CLASSIFICATION)


def stereo(rng: np.random.Generator) -> GeneratedHead:
    """Return the disparity of two pictures for every pixel."""
    net = drawn_net(rng)
    size = pick(rng, ((128, 256), (240, 320)))
    pair = [net.input(name, 1, 3, *size) for name in ("left", "right")]
    feature = net.backbone(net.concat(pair, 1), (4,))[0]
    values = net.relu(resized(net, net.conv(feature, 1), size))
    return net.finish({pick(rng, ("output", "disparity", "reg")): values}, Kind.REGRESSION)


def brighter(rng: np.random.Generator) -> GeneratedHead:
    """Return Zero-DCE's brighter picture, alone or with the curves that make it so."""
    net = drawn_net(rng)
    picture = net.picture(*pick(rng, ((256, 256), (320, 480))))
    curves = net.op("Tanh", net.conv(net.relu(net.conv(picture, 8, 3)), 24, 3))
    change = net.op("Mul", net.part(curves, 0, 3, 1), net.op("Sub", net.op("Mul", picture, picture), picture))
    outputs = {pick(rng, ("enhance_image", "output")): net.op("Add", picture, change)}
    if rng.integers(2):
        outputs["curves"] = curves
    return net.finish(outputs, Kind.REGRESSION)


def inpainting(rng: np.random.Generator) -> GeneratedHead:
    """Return LaMa's filled picture; a mask goes in beside the picture."""
    net = drawn_net(rng)
    size = (256, 256)
    both = [net.input("image", 1, 3, *size), net.input("mask", 1, 1, *size)]
    made = net.sigmoid(net.conv(net.relu(net.conv(net.concat(both, 1), 8, 3)), 3, 3))
    made = net.op("Mul", made, net.constant(np.float32(255.0)))
    return net.finish({pick(rng, ("output", "inpainted")): made}, Kind.REGRESSION)


def movements(rng: np.random.Generator) -> GeneratedHead:
    """Return the shares of six movements of a series of nine quantities."""
    net = drawn_net(rng)
    hidden = along(net, net.transpose(net.input("input_1", 1, 128, 9), (0, 2, 1)), 16, 2)
    mean = net.op("ReduceMean", hidden, net.constant([2]), shape=(1, 16), keepdims=0)
    count = pick(rng, (6, 12))
    scores = net.softmax(net.dense(mean, count))
    return net.finish({pick(rng, ("dense_1", "Identity", "output")): scores}, Kind.CLASSIFICATION)


FAMILIES = (
    HeadFamily("YOLOv3-tiny", darknet_tiny, "AlexeyAB/darknet"),
    HeadFamily("YOLOv5, masks", yolov5_masks, "ultralytics/yolov5"),
    HeadFamily("YOLO-FastestV2", fastest_v2, "dog-qiuqiu/Yolo-FastestV2"),
    HeadFamily("Paddle, suppressed", paddle_suppressed, "PaddlePaddle/PaddleDetection"),
    HeadFamily("RetinaFace, maps", retinaface_maps, "deepinsight/insightface"),
    HeadFamily("YOLOP", driving, "hustvl/YOLOP"),
    HeadFamily("EfficientDet, maps", efficientdet_maps, "google/automl"),
    HeadFamily("D-FINE", fine_queries, "Peterande/D-FINE"),
    HeadFamily("Grounding DINO", grounding, "IDEA-Research/GroundingDINO"),
    HeadFamily("tracker", tracker, "HonglinChu/SiamTrackers"),
    HeadFamily("DeepLab, TFLite", deeplab_tflite, "tensorflow/models"),
    HeadFamily("U-Net", u_net, "milesial/Pytorch-UNet"),
    HeadFamily("Segment Anything, encoder", embedded_picture, "facebookresearch/segment-anything"),
    HeadFamily("DEKR", bottom_up, "HRNet/DEKR"),
    HeadFamily("PIPNet", points_in_cells, "jhb86253817/PIPNet"),
    HeadFamily("L2CS", gaze, "Ahmednull/L2CS-Net"),
    HeadFamily("DTLN, second stage", second_stage, "breizhn/DTLN"),
    HeadFamily("wake word", wake_word, "dscripka/openWakeWord"),
    HeadFamily("CREPE", pitch_of_sound, "marl/crepe"),
    HeadFamily("streaming encoder", streaming, "k2-fsa/icefall"),
    HeadFamily("thousands of symbols", many_symbols, "FunAudioLLM/SenseVoice"),
    HeadFamily("plate and colour", coloured_plate, "we0091234/crnn_plate_recognition"),
    HeadFamily("NetVLAD", places_of_pictures, "Nanne/pytorch-NetVlad"),
    HeadFamily("CSRNet", crowd, "leeyeehoo/CSRNet-pytorch"),
    HeadFamily("PoseNet, cameras", camera_pose, "alexgkendall/caffe-posenet"),
    HeadFamily("Donkey Car", car, "autorope/donkeycar"),
    HeadFamily("NIMA", taste, "idealo/image-quality-assessment"),
    HeadFamily("stereo", stereo, "ibaiGorordo/ONNX-HITNET-Stereo-Depth-estimation"),
    HeadFamily("Zero-DCE", brighter, "Li-Chongyi/Zero-DCE"),
    HeadFamily("LaMa", inpainting, "advimman/lama"),
    HeadFamily("movements", movements, "mlcommons/tiny"),
)
