"""Points, masks, texts, sounds and numbers of the sixth set: written without a look at the recogniser."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType
from dovetail.outputs.view import Kind
from dovetail.testing.heads.net import GeneratedHead, HeadFamily, HeadNet, channels_last, drawn_net, pick
from dovetail.testing.heads.parts import along, normalised, product, queries, resized, typed
from dovetail.testing.heads.sixth import any_batch, calm, rare


def _flat(net: HeadNet, feature: str, channels: int = 8) -> str:
    """Return a last map as `[1, C*H*W]`, with every place for itself."""
    small = net.conv(feature, channels)
    return net.relu(net.reshape(small, 1, int(np.prod(net.shape(small)[1:]))))


def _told(net: HeadNet, flat: str, count: int, spread: float = 1.0, level: float = 0.0) -> str:
    """Add a Gemm to `[1, C]` whose values lie about so far from a level; `_flat` gives values of some tens."""
    read = net.shape(flat)[1]
    weight = net.rng.normal(0, spread / (10 * np.sqrt(read)), (read, count)).astype(np.float32)
    bias = net.rng.normal(level, 0.3 * spread, count).astype(np.float32)
    return net.op("Gemm", flat, net.constant(weight), net.constant(bias), shape=(1, count))


def _choice(net: HeadNet, flat: str, count: int) -> str:
    """Add a layer whose logits are as far apart as a trained classifier's."""
    made = net.op("MatMul", flat, net.uniform(net.shape(flat)[1], count), shape=(1, count))
    return net.op("Add", made, net.uniform(count))


def lanes_both_ways(rng: np.random.Generator) -> GeneratedHead:
    """Return UFLDv2's places of lanes by rows and by columns, and whether they are there; any batch."""
    net = drawn_net(rng)
    flat = net.relu(net.dense(_flat(net, net.backbone(net.picture(320, 800), (32,))[0]), 64))
    names, cells = (
        ("loc_row", "loc_col", "exist_row", "exist_col"),
        pick(rng, (((200, 72), (100, 81)), ((100, 56), (100, 41)))),
    )
    shapes = (*cells, (2, cells[0][1]), (2, cells[1][1]))
    values = net.dense(flat, sum(4 * first * second for first, second in shapes))
    outputs, start = {}, 0
    for name, (first, second) in zip(names, shapes, strict=True):
        stop = start + 4 * first * second
        outputs[name] = net.reshape(net.part(values, start, stop, 1), 1, first, second, 4)
        start = stop
    return any_batch(net.finish(outputs, Kind.KEYPOINTS))


def pose_net(rng: np.random.Generator) -> GeneratedHead:
    """Return PoseNet's heat maps, offsets of points and between them, and a mask of people; channels last."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((257, 257), (353, 481))), channels_last=True), (16,))[0]
    counts = {"heatmaps": 17, "short_offsets": 34, "mid_offsets": 64, "segments": 1}
    outputs = {f"float_{name}": channels_last(net, net.conv(feature, count)) for name, count in counts.items()}
    outputs["float_heatmaps"] = channels_last(net, rare(net, feature, 17, -3.0))
    kinds = dict.fromkeys(outputs, Kind.KEYPOINTS)
    return net.finish(outputs, {**kinds, "float_segments": Kind.SEGMENTATION})


def move_net_maps(rng: np.random.Generator) -> GeneratedHead:
    """Return MoveNet before its decoder: heat maps of points, of the middle, distances and offsets at stride 4."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(192, 192), (4,))[0]
    names = pick(rng, (("heatmaps", "centers", "regs", "offsets"), ("1548", "1607", "1665", "1723")))
    parts = (net.sigmoid(rare(net, feature, 17, -3.0)), net.sigmoid(rare(net, feature, 1, -3.0)))
    more = (net.conv(feature, 34), net.conv(feature, 34))
    return net.finish(dict(zip(names, (*parts, *more), strict=True)), Kind.KEYPOINTS)


def attention_mesh(rng: np.random.Generator) -> GeneratedHead:
    """Return MediaPipe's mesh with attention: seven outputs `[1, 1, 1, n]`, the last a logit of a face."""
    net = drawn_net(rng)
    flat = _flat(net, net.backbone(net.picture(192, 192, channels_last=True), (32,))[0])
    counts = {"mesh_identity": 1404, "lips": 160, "left_eye": 142, "right_eye": 142, "left_iris": 10, "right_iris": 10}
    outputs = {
        f"output_{name}": net.reshape(_told(net, flat, count, 30.0, 96.0), 1, 1, 1, count)
        for name, count in counts.items()
    }
    kinds = {**dict.fromkeys(outputs, Kind.KEYPOINTS), "conv_faceflag": Kind.CLASSIFICATION}
    return net.finish({**outputs, "conv_faceflag": net.reshape(net.dense(flat, 1), 1, 1, 1, 1)}, kinds)


def x_feat(rng: np.random.Generator) -> GeneratedHead:
    """Return XFeat's descriptors, logits of places of a point in a cell, and how far to trust them."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((480, 640), (352, 640))), channels=pick(rng, (1, 3))), (8,))[0]
    names = pick(rng, (("feats", "keypoints", "heatmap"), ("M1", "K1", "H1")))
    parts = (net.conv(feature, 64), net.conv(feature, 65), net.sigmoid(net.conv(feature, 1)))
    kinds = (Kind.EMBEDDING, Kind.KEYPOINTS, Kind.KEYPOINTS)
    return net.finish(dict(zip(names, parts, strict=True)), dict(zip(names, kinds, strict=True)))


def pixel_link(rng: np.random.Generator) -> GeneratedHead:
    """Return PixelLink's logits of text and of eight links for every fourth pixel, channels last."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((256, 448), (384, 640))), channels_last=True), (4,))[0]
    names = pick(rng, (("model/link_logits_/add", "model/segm_logits/add"), ("Identity", "Identity_1")))
    parts = (net.conv(feature, 16), net.conv(feature, 2))
    return net.finish(
        {name: channels_last(net, part) for name, part in zip(names, parts, strict=True)}, Kind.TEXT_REGIONS
    )


def tables(rng: np.random.Generator) -> GeneratedHead:
    """Return SLANet's marks of a table one after another, and the four corners of every cell."""
    net = drawn_net(rng)
    seen = queries(net, net.backbone(net.picture(488, 488), (16,))[0], 200)
    marks = net.softmax(product(net, normalised(net, seen), pick(rng, (50, 30))))
    names = pick(
        rng, (("save_infer_model/scale_0.tmp_0", "save_infer_model/scale_1.tmp_0"), ("fetch_name_0", "fetch_name_1"))
    )
    kinds = dict(zip(names, (Kind.KEYPOINTS, Kind.TEXT), strict=True))
    return net.finish({names[0]: net.sigmoid(calm(net, seen, 8)), names[1]: marks}, kinds)


def plate_slots(rng: np.random.Generator) -> GeneratedHead:
    """Return fast-plate-ocr's shares of 37 symbols in nine places: a layer, cut to places, no time."""
    net = drawn_net(rng)
    flat = _flat(net, net.backbone(net.picture(64, 128, pick(rng, (1, 3)), channels_last=True), (16,))[0])
    places, symbols = pick(rng, ((9, 37), (10, 37), (7, 37)))
    shares = net.softmax(net.reshape(_choice(net, flat, places * symbols), 1, places, symbols))
    return net.finish({pick(rng, ("plate", "output", "concatenate")): shares}, Kind.TEXT)


def face_parameters(rng: np.random.Generator) -> GeneratedHead:
    """Return 3DDFA's 62 parameters of a face: pose, shape and expression."""
    net = drawn_net(rng)
    flat = _flat(net, net.backbone(net.picture(120, 120), (16,))[0])
    return net.finish({pick(rng, ("output", "params", "param")): _told(net, flat, 62)}, Kind.REGRESSION)


def unwarping(rng: np.random.Generator) -> GeneratedHead:
    """Return UVDoc's grid `[1, 2, 45, 31]`: where points of a flat page lie in the picture, from -1 to 1."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(720, 496), (16,))[0]
    grid = net.op("Tanh", rare(net, feature, 2, 0.0))
    return net.finish(
        {pick(rng, ("point_positions2D", "output", "save_infer_model/scale_0.tmp_0")): grid}, Kind.REGRESSION
    )


def blend_shapes(rng: np.random.Generator) -> GeneratedHead:
    """Return MediaPipe's 52 strengths of expressions of 146 points, without a batch."""
    net = drawn_net(rng)
    flat = net.reshape(net.input("input_points", 1, 146, 2), 1, 292)
    strengths = net.sigmoid(net.dense(net.relu(net.dense(flat, 64)), 52))
    return net.finish({pick(rng, ("output", "StatefulPartitionedCall:0")): net.reshape(strengths, 52)}, Kind.REGRESSION)


def three_angles(rng: np.random.Generator) -> GeneratedHead:
    """Return OpenVINO's three angles of a head in degrees, an output each."""
    net = drawn_net(rng)
    flat = _flat(net, net.backbone(net.picture(60, 60), (8,))[0])
    names = pick(rng, (("angle_y_fc", "angle_p_fc", "angle_r_fc"), ("fc_y", "fc_p", "fc_r")))
    return net.finish({name: _told(net, flat, 1, 25.0) for name in names}, Kind.REGRESSION)


def age_openvino(rng: np.random.Generator) -> GeneratedHead:
    """Return OpenVINO's age as a share of 100 years and two shares of sexes, both with four axes."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(62, 62), (16,))[0]
    batch, read, rows, cols = net.shape(feature)
    heads = [
        net.op(
            "Conv",
            feature,
            net.uniform(count, read, rows, cols, low=-reach, high=reach),
            net.uniform(count, low=0.2, high=0.4),
            shape=(batch, count, 1, 1),
        )
        for count, reach in ((1, 0.002), (2, 0.1))
    ]
    names = pick(rng, (("fc3_a", "prob"), ("age_conv3", "prob")))
    kinds = dict(zip(names, (Kind.REGRESSION, Kind.CLASSIFICATION), strict=True))
    return net.finish({names[0]: heads[0], names[1]: net.softmax(heads[1], 1)}, kinds)


def look_of_eyes(rng: np.random.Generator) -> GeneratedHead:
    """Return OpenVINO's direction of a gaze of two eyes and three angles of the head."""
    net = drawn_net(rng)
    eyes = [net.input(name, 1, 3, 60, 60) for name in ("left_eye_image", "right_eye_image")]
    seen = [net.pooled(net.relu(net.down(net.relu(net.down(eye, 8)), 8))) for eye in eyes]
    joined = net.concat([*seen, net.input("head_pose_angles", 1, 3)], 1)
    return net.finish({pick(rng, ("gaze_vector", "gaze_vector:0")): net.dense(joined, 3)}, Kind.REGRESSION)


def colour_and_type(rng: np.random.Generator) -> GeneratedHead:
    """Return OpenVINO's shares of seven colours and four types of a car, four axes each."""
    net = drawn_net(rng)
    flat = _flat(net, net.backbone(net.picture(72, 72), (16,))[0])
    outputs = {
        name: net.reshape(net.softmax(_choice(net, flat, count)), 1, count, 1, 1)
        for name, count in (("color", 7), ("type", 4))
    }
    return net.finish(outputs, Kind.CLASSIFICATION)


def anomaly(rng: np.random.Generator) -> GeneratedHead:
    """Return anomalib's score and verdict of a picture, its map, and the mask of what is above a threshold."""
    net = drawn_net(rng)
    size = (256, 256)
    feature = net.backbone(net.picture(*size), (8,))[0]
    shares = net.sigmoid(resized(net, rare(net, feature, 1, -2.0), size))
    score = net.op("ReduceMax", shares, net.constant([1, 2, 3]), shape=(1,), keepdims=0)
    half = net.constant(np.float32(0.5))
    label = typed(net, net.op("Greater", score, half), DType.BOOL)
    mask = typed(net, net.op("Greater", shares, half), DType.BOOL)
    outputs = {"pred_score": score, "pred_label": label, "anomaly_map": net.op("Identity", shares), "pred_mask": mask}
    kinds = (Kind.CLASSIFICATION, Kind.CLASSIFICATION, Kind.SEGMENTATION, Kind.SEGMENTATION)
    return net.finish(outputs, dict(zip(outputs, kinds, strict=True)))


def lane_masks(rng: np.random.Generator) -> GeneratedHead:
    """Return SCNN's logits of four lanes and background, and whether each lane is there."""
    net = drawn_net(rng)
    size = (288, 512)
    fine, coarse = net.backbone(net.picture(*size), (8, 32))
    names = pick(rng, (("seg_pred", "exist_pred"), ("output1", "output2")))
    there = net.sigmoid(net.dense(_flat(net, coarse), 4))
    kinds = dict(zip(names, (Kind.SEGMENTATION, Kind.CLASSIFICATION), strict=True))
    return net.finish({names[0]: resized(net, net.conv(fine, 5), size), names[1]: there}, kinds)


def two_masks(rng: np.random.Generator) -> GeneratedHead:
    """Return TwinLiteNet's two logits for the road and two for lanes, at full size."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(*pick(rng, ((360, 640), (320, 320)))), (2,))[0]
    names = pick(rng, (("da", "ll"), ("output", "output2"), ("745", "871")))
    return net.finish({name: net.up(feature, 2) for name in names}, Kind.SEGMENTATION)


def asked_masks(rng: np.random.Generator) -> GeneratedHead:
    """Return the masks that Segment Anything draws around points, and how good it thinks each is."""
    net = drawn_net(rng)
    picture = net.input("image_embeddings", 1, 32, 64, 64)
    asked = net.reshape(net.dense(net.reshape(net.input("point_coords", 1, 2, 2), 1, 4), 32), 1, 32, 1, 1)
    feature = net.relu(net.conv(net.op("Add", picture, asked), 8, 3))
    small = net.up(net.relu(net.up(feature, 8)), 4)
    outputs = {"iou_predictions": net.sigmoid(net.dense(net.pooled(feature), 4))}
    outputs["low_res_masks"] = small
    if rng.integers(2):
        outputs = {"masks": resized(net, small, (512, 512)), **outputs}
    kinds = {**dict.fromkeys(outputs, Kind.SEGMENTATION), "iou_predictions": Kind.REGRESSION}
    return net.finish(outputs, kinds)


def from_above(rng: np.random.Generator) -> GeneratedHead:
    """Return cars seen from above, a logit a cell, of the pictures of six cameras."""
    net = drawn_net(rng)
    cameras = net.input("imgs", 1, 6, 3, 128, 352)
    feature = net.backbone(net.reshape(cameras, 1, 18, 128, 352), (4,))[0]
    plane = resized(net, feature, (200, 200))
    return net.finish({pick(rng, ("output", "bev_seg")): rare(net, plane, 1, -3.0)}, Kind.SEGMENTATION)


def depth_tflite(rng: np.random.Generator) -> GeneratedHead:
    """Return MiDaS's inverse depth as TFLite has it: one channel, last."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(256, 256, channels_last=True), (4,))[0]
    value = net.relu(resized(net, net.conv(feature, 1), (256, 256)))
    large = net.op("Mul", value, net.constant(np.float32(400.0)))
    return net.finish({pick(rng, ("Identity", "default", "midas/output")): channels_last(net, large)}, Kind.REGRESSION)


def movement(rng: np.random.Generator) -> GeneratedHead:
    """Return TLIO's shift in three directions and the logarithm of its deviation, of an inertial sensor."""
    net = drawn_net(rng)
    hidden = along(net, net.input(pick(rng, ("imu", "input")), 1, 6, 200), 16, 4)
    flat = net.reshape(hidden, 1, int(np.prod(net.shape(hidden)[1:])))
    names = pick(rng, (("mean", "logstd"), ("output", "output_cov")))
    return net.finish({name: net.dense(flat, 3) for name in names}, Kind.REGRESSION)


def streamed_filter(rng: np.random.Generator) -> GeneratedHead:
    """Return DeepFilterNet's frame of 480 samples, its states and the ratio of speech to noise; no batch."""
    net = drawn_net(rng)
    count = pick(rng, (4530, 9061))
    frame, states, limit = net.input("input_frame", 480), net.input("states", count), net.input("atten_lim_db", 1)
    head = net.reshape(net.part(states, 0, 480, 0), 1, 480)
    hidden = net.op("Tanh", net.op("Add", net.dense(net.reshape(frame, 1, 480), 64), net.dense(head, 64)))
    gain = net.sigmoid(net.op("Add", net.reshape(net.dense(hidden, 480), 480), limit))
    outputs = {
        "enhanced_audio_frame": net.op("Mul", gain, frame),
        pick(rng, ("out_states", "new_states")): net.concat([net.part(states, 480, count, 0), frame], 0),
        "lsnr": net.op("Mul", net.op("Tanh", net.reshape(net.dense(hidden, 1), 1)), net.constant(np.float32(15.0))),
    }
    return net.finish(outputs, dict(zip(outputs, (Kind.SIGNAL, Kind.STATE, Kind.REGRESSION), strict=True)))


def frames_of_speech(rng: np.random.Generator) -> GeneratedHead:
    """Return FSMN-VAD's shares of 248 sounds for every frame, the first of which is silence, and four caches."""
    net = drawn_net(rng)
    hidden = product(net, net.input("speech", 1, 100, 400), 32)
    outputs = {"logits": net.softmax(product(net, net.relu(hidden), 248))}
    kinds = {"logits": Kind.CLASSIFICATION}
    for index in range(4):
        cache = net.input(f"in_cache{index}", 1, 128, 19, 1)
        kept = net.part(cache, 1, 19, 2)
        last = net.reshape(net.dense(net.reshape(net.part(hidden, 99, 100, 1), 1, 32), 128), 1, 128, 1, 1)
        outputs[f"out_cache{index}"] = net.concat([kept, last], 2)
        kinds[f"out_cache{index}"] = Kind.STATE
    return net.finish(outputs, kinds)


def ten_vad(rng: np.random.Generator) -> GeneratedHead:
    """Return TEN-VAD's share of speech `[1, 1, 1]` and four states, all called by numbers."""
    net = drawn_net(rng)
    frames = net.reshape(net.input("input_1", 1, 3, 41), 1, 123)
    states = [net.input(f"input_{index}", 1, 64) for index in (2, 3, 6, 7)]
    hidden = [net.op("Tanh", net.op("Add", net.dense(frames, 64), net.dense(state, 64))) for state in states]
    outputs = {"output_1": net.reshape(net.sigmoid(net.dense(hidden[0], 1)), 1, 1, 1)}
    outputs.update({f"output_{index}": state for index, state in zip((2, 3, 6, 7), hidden, strict=True)})
    kinds = dict.fromkeys(outputs, Kind.STATE)
    return net.finish(outputs, {**kinds, "output_1": Kind.CLASSIFICATION})


def word_stream(rng: np.random.Generator) -> GeneratedHead:
    """Return wekws' scores of words for every frame, and the cache of its convolutions."""
    net = drawn_net(rng)
    frames, cache = net.input("input", 1, 80, 40), net.input("cache", 1, 64, 105)
    hidden = net.relu(product(net, frames, 64))
    seen = net.concat([cache, net.transpose(hidden, (0, 2, 1))], 2)
    mixed = net.transpose(net.part(along(net, seen, 16), 105, 185, 2), (0, 2, 1))
    scores = net.sigmoid(net.op("Sub", product(net, mixed, pick(rng, (1, 2))), net.constant(np.float32(4.0))))
    outputs = {"output": scores, "r_cache": net.part(seen, 80, 185, 2)}
    return net.finish(outputs, {"output": Kind.CLASSIFICATION, "r_cache": Kind.STATE})


def speaker_with_logits(rng: np.random.Generator) -> GeneratedHead:
    """Return TitaNet's logits of the speakers that it was trained with, and the embedding that is used."""
    net = drawn_net(rng)
    hidden = along(net, net.input("audio_signal", 1, 80, 200), 16, 2)
    flat = net.op("ReduceMax", hidden, net.constant([2]), shape=(1, 16), keepdims=0)
    embedding = net.dense(flat, pick(rng, (192, 256)))
    outputs = {"logits": _told(net, embedding, pick(rng, (16681, 7205)), 6.0), "embs": net.op("Identity", embedding)}
    return net.finish(outputs, {"logits": Kind.CLASSIFICATION, "embs": Kind.EMBEDDING})


def who_speaks(rng: np.random.Generator) -> GeneratedHead:
    """Return pyannote's logarithms of shares of seven sets of speakers along ten seconds."""
    net = drawn_net(rng)
    wave = net.input("x", 1, 1, 16000)
    steps = net.op("Conv", wave, net.uniform(16, 1, 270), shape=(1, 16, 59), strides=(270,))
    scores = product(net, net.transpose(net.relu(steps), (0, 2, 1)), 7)
    return net.finish({pick(rng, ("y", "logits")): net.op("LogSoftmax", scores, axis=2)}, Kind.CLASSIFICATION)


def features_of_speech(rng: np.random.Generator) -> GeneratedHead:
    """Return the 96 features of 76 frames that openWakeWord's classifiers read: `[1, 1, 1, 96]`."""
    net = drawn_net(rng)
    frames = net.transpose(net.input("input_1", 1, 76, 32, 1), (0, 3, 1, 2))
    hidden = net.relu(net.down(net.relu(net.down(frames, 16)), 24))
    batch, read, rows, cols = net.shape(hidden)
    weight = net.uniform(96, read, rows, cols, low=-0.1, high=0.1)
    last = net.op("Conv", hidden, weight, net.uniform(96), shape=(batch, 96, 1, 1))
    return net.finish({pick(rng, ("conv2d_19", "conv2d_19:0")): channels_last(net, last)}, Kind.EMBEDDING)


FAMILIES = (
    HeadFamily("UFLDv2", lanes_both_ways, "cfzd/Ultra-Fast-Lane-Detection-v2"),
    HeadFamily("PoseNet, TFLite", pose_net, "google-coral/project-posenet"),
    HeadFamily("MoveNet, maps", move_net_maps, "lucasjinreal/movenet.pytorch"),
    HeadFamily("mesh with attention", attention_mesh, "google-ai-edge/mediapipe"),
    HeadFamily("XFeat", x_feat, "verlab/accelerated_features"),
    HeadFamily("PixelLink", pixel_link, "openvinotoolkit/open_model_zoo"),
    HeadFamily("SLANet", tables, "PaddlePaddle/PaddleOCR"),
    HeadFamily("plates by places", plate_slots, "ankandrew/fast-plate-ocr"),
    HeadFamily("3DDFA", face_parameters, "cleardusk/3DDFA_V2"),
    HeadFamily("UVDoc", unwarping, "PaddlePaddle/PaddleOCR"),
    HeadFamily("blend shapes", blend_shapes, "google-ai-edge/mediapipe"),
    HeadFamily("angles, OpenVINO", three_angles, "openvinotoolkit/open_model_zoo"),
    HeadFamily("age and sex, OpenVINO", age_openvino, "openvinotoolkit/open_model_zoo"),
    HeadFamily("gaze, OpenVINO", look_of_eyes, "openvinotoolkit/open_model_zoo"),
    HeadFamily("colour and type", colour_and_type, "openvinotoolkit/open_model_zoo"),
    HeadFamily("anomalib", anomaly, "openvinotoolkit/anomalib"),
    HeadFamily("SCNN", lane_masks, "XingangPan/SCNN"),
    HeadFamily("TwinLiteNet", two_masks, "chequanghuy/TwinLiteNet"),
    HeadFamily("Segment Anything, decoder", asked_masks, "facebookresearch/segment-anything"),
    HeadFamily("cars from above", from_above, "nv-tlabs/lift-splat-shoot"),
    HeadFamily("MiDaS, TFLite", depth_tflite, "isl-org/MiDaS"),
    HeadFamily("TLIO", movement, "CathIAS/TLIO"),
    HeadFamily("DeepFilterNet, streamed", streamed_filter, "Rikorose/DeepFilterNet"),
    HeadFamily("FSMN-VAD", frames_of_speech, "modelscope/FunASR"),
    HeadFamily("TEN-VAD", ten_vad, "TEN-framework/ten-vad"),
    HeadFamily("words in a stream", word_stream, "wenet-e2e/wekws"),
    HeadFamily("TitaNet", speaker_with_logits, "NVIDIA/NeMo"),
    HeadFamily("who speaks", who_speaks, "pyannote/pyannote-audio"),
    HeadFamily("features of speech", features_of_speech, "dscripka/openWakeWord"),
)
