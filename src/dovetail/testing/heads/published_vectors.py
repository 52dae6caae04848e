"""Texts, sounds, embeddings, classes as published exporters write them, made after the recogniser and not with it."""

from __future__ import annotations

import numpy as np

from dovetail.outputs.view import Kind
from dovetail.testing.heads.net import GeneratedHead, HeadFamily, channels_last, drawn_net, pick


def east(rng: np.random.Generator) -> GeneratedHead:
    """Return EAST's score and geometry at stride 4, channels last."""
    net = drawn_net(rng)
    (feature,) = net.backbone(net.picture(320, 320, channels_last=True), (4,))
    score = channels_last(net, net.sigmoid(net.conv(feature, 1)))
    sides = net.op("Mul", net.sigmoid(net.conv(feature, 4)), net.constant(np.float32(512.0)))
    angle = net.op("Sub", net.sigmoid(net.conv(feature, 1)), net.constant(np.float32(0.5)))
    geometry = channels_last(net, net.concat([sides, angle], 1))
    names = {"feature_fusion/Conv_7/Sigmoid:0": score, "feature_fusion/concat_3:0": geometry}
    return net.finish(names, Kind.TEXT_REGIONS)


def crnn(rng: np.random.Generator) -> GeneratedHead:
    """Return CRNN's `[T, 1, C]` after a recurrent layer, with a LogSoftmax or not."""
    net = drawn_net(rng)
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
    return net.finish({pick(rng, ("output", "out", "271")): scores}, Kind.TEXT)


def lprnet(rng: np.random.Generator) -> GeneratedHead:
    """Return LPRNet's `[1, 68, 18]`: symbols before time."""
    net = drawn_net(rng)
    feature = net.backbone(net.picture(24, 94), (4,))[0]
    maps = net.conv(feature, 68)
    steps = net.shape(maps)[3]
    logits = net.op("ReduceMean", maps, net.constant([2]), shape=(1, 68, steps), keepdims=0)
    return net.finish({"output": net.part(logits, 0, 18, 2)}, Kind.TEXT)


def wav2vec(rng: np.random.Generator) -> GeneratedHead:
    """Return `logits [1, T, 32]` of a wave."""
    net = drawn_net(rng)
    wave = net.input("input_values", 1, 16000)
    rows = net.op("Conv", net.reshape(wave, 1, 1, 16000), net.uniform(8, 1, 320), shape=(1, 8, 50), strides=(320,))
    tokens = net.transpose(net.relu(rows), (0, 2, 1))
    scores = net.op("MatMul", tokens, net.uniform(8, 32), shape=(1, 50, 32))
    return net.finish({"logits": scores}, Kind.TEXT)


def yamnet(rng: np.random.Generator) -> GeneratedHead:
    """Return scores of 521 sounds and an embedding of 1024 numbers."""
    net = drawn_net(rng)
    patch = net.input("melspec", 1, 1, 96, 64)
    flat = net.pooled(net.relu(net.down(net.relu(net.down(patch, 16)), 32)))
    embedding = net.relu(net.dense(flat, 1024))
    names = {"Identity": net.sigmoid(net.dense(embedding, 521)), "Identity_1": embedding}
    return net.finish(names, {"Identity": Kind.CLASSIFICATION, "Identity_1": Kind.EMBEDDING})


def enhancer(rng: np.random.Generator) -> GeneratedHead:
    """Return an enhanced spectrum and three caches (GTCRN and its like)."""
    net = drawn_net(rng)
    bins = 257
    spectrum = net.input("mix", 1, bins, 1, 2)
    caches = {
        name: net.input(name, *shape) for name, shape in (("conv_cache", (2, 1, 16)), ("inter_cache", (2, 1, 33)))
    }
    scale = net.op("Tanh", net.op("Mul", spectrum, net.uniform(1, bins, 1, 2)))
    names = {"enh": net.op("Mul", scale, spectrum)}
    kinds = {"enh": Kind.SIGNAL}
    for name, tensor in caches.items():
        names[f"{name}_out"] = net.op("Tanh", net.op("Add", tensor, net.uniform(*net.shape(tensor))))
        kinds[f"{name}_out"] = Kind.STATE
    return net.finish(names, kinds)


def voice(rng: np.random.Generator) -> GeneratedHead:
    """Return Silero's probability with `hn` and `cn`, which come from `h` and `c`."""
    net = drawn_net(rng)
    wave, hidden, cell = net.input("input", 1, 512), net.input("h", 2, 1, 64), net.input("c", 2, 1, 64)
    flat = net.relu(net.dense(wave, 64))
    names = {
        "output": net.sigmoid(net.dense(flat, 1)),
        "hn": net.op("Tanh", net.op("Add", hidden, net.uniform(2, 1, 64))),
        "cn": net.op("Tanh", net.op("Add", cell, net.uniform(2, 1, 64))),
    }
    return net.finish(names, {"output": Kind.CLASSIFICATION, "hn": Kind.STATE, "cn": Kind.STATE})


def speaker(rng: np.random.Generator) -> GeneratedHead:
    """Return a speaker's or a face's embedding as it comes: 192 or 512 numbers."""
    net = drawn_net(rng)
    features = net.input("feats", 1, 80, 200)
    wide = net.reshape(features, 1, 80, 1, 200)
    flat = net.pooled(net.relu(net.conv(wide, 32)))
    return net.finish(
        {pick(rng, ("embs", "embedding", "output")): net.dense(flat, pick(rng, (192, 256, 512)))}, Kind.EMBEDDING
    )


def clip_image(rng: np.random.Generator) -> GeneratedHead:
    """Return CLIP's image embedding: a product without a bias, divided by its length."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(224, 224), (32,))[0])
    values = net.op("MatMul", flat, net.uniform(8, 512), shape=(1, 512))
    length = net.op("ReduceL2", values, net.constant([1]), shape=(1, 1), keepdims=1)
    return net.finish({pick(rng, ("image_embeds", "output", "1847")): net.op("Div", values, length)}, Kind.EMBEDDING)


def reid(rng: np.random.Generator) -> GeneratedHead:
    """Return a person's features: the mean over places, without a layer after it."""
    net = drawn_net(rng)
    (feature,) = net.backbone(net.picture(256, 128), (16,), width=64)
    wide = net.relu(net.conv(feature, pick(rng, (512, 768, 2048))))
    return net.finish({pick(rng, ("output", "feature", "500")): net.pooled(wide)}, Kind.EMBEDDING)


def attributes(rng: np.random.Generator) -> GeneratedHead:
    """Return 26 attributes of a person, each yes or no."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(256, 192), (32,))[0])
    return net.finish({"sigmoid_2.tmp_0": net.sigmoid(net.dense(flat, pick(rng, (26, 40))))}, Kind.CLASSIFICATION)


def vision_transformer(rng: np.random.Generator) -> GeneratedHead:
    """Return a transformer's class logits from its first token."""
    net = drawn_net(rng)
    (feature,) = net.backbone(net.picture(224, 224), (16,))
    tokens = net.rows(feature, 8)
    first = net.reshape(net.part(tokens, 0, 1, 1), 1, 8)
    count = pick(rng, (1000, 21843, 10))
    logits = net.op("Add", net.op("MatMul", first, net.uniform(8, count), shape=(1, count)), net.uniform(count))
    return net.finish({pick(rng, ("logits", "output", "1456")): logits}, Kind.CLASSIFICATION)


def channels_last_classes(rng: np.random.Generator) -> GeneratedHead:
    """Return TensorFlow's class probabilities: a mean over places, a product, a Softmax; channels last."""
    net = drawn_net(rng)
    (feature,) = net.backbone(net.picture(224, 224, channels_last=True), (32,))
    flat = net.pooled(feature)
    scores = net.softmax(net.dense(flat, pick(rng, (1000, 1001, 7, 120, 6))))
    names = ("Identity", "predictions/Softmax", "StatefulPartitionedCall:0", "dense/Softmax", "final_result")
    return net.finish({pick(rng, names): scores}, Kind.CLASSIFICATION)


def age_and_sex(rng: np.random.Generator) -> GeneratedHead:
    """Return an age and the scores of two sexes."""
    net = drawn_net(rng)
    flat = net.pooled(net.backbone(net.picture(96, 96), (16,))[0])
    names = {"age": net.relu(net.dense(flat, 1)), "gender": net.softmax(net.dense(flat, 2))}
    return net.finish(names, {"age": Kind.REGRESSION, "gender": Kind.CLASSIFICATION})


def autoencoder(rng: np.random.Generator) -> GeneratedHead:
    """Return what is rebuilt of 640 features (MLPerf Tiny's anomaly detection)."""
    net = drawn_net(rng)
    hidden = net.relu(net.dense(net.input("input_1", 1, 640), 8))
    return net.finish({"Identity": net.dense(hidden, 640)}, Kind.SIGNAL)


def super_resolution(rng: np.random.Generator) -> GeneratedHead:
    """Return a picture three times as large, of brightness only, clamped or not."""
    net = drawn_net(rng)
    size = pick(rng, ((224, 224), (64, 96)))
    picture = net.picture(*size, channels=1)
    wide = net.conv(net.relu(net.conv(picture, 8, 3)), 9, 3)
    large = net.op("DepthToSpace", wide, shape=(1, 1, size[0] * 3, size[1] * 3), blocksize=3, mode="CRD")
    return net.finish({"output": large}, Kind.REGRESSION)


def pose_net(rng: np.random.Generator) -> GeneratedHead:
    """Return RTMPose's whole body with unnamed bins, or MoveNet's six people `[1, 6, 56]`."""
    net = drawn_net(rng)
    (feature,) = net.backbone(net.picture(256, 256, channels_last=True), (32,))
    values = net.sigmoid(net.dense(net.pooled(feature), 6 * 56))
    return net.finish({"Identity": net.reshape(values, 1, 6, 56)}, Kind.KEYPOINTS)


FAMILIES = (
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
