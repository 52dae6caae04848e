"""Words that exporters put into the names of outputs."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.outputs.ends import End

BOXES = ("bbox", "box", "boxes", "loc", "location", "regression", "regressor", "reg", "rect", "delta", "deltas")
SCORES = ("score", "scores", "conf", "confidence", "cls", "prob", "probs", "logits", "classificator", "classification")
OBJECTNESS = ("obj", "objectness")
CENTRENESS = ("centerness", "centreness", "ctr", "ctrness", "cnt", "iou")
LANDMARKS = ("kps", "kpt", "kpts", "landm", "landms", "landmark", "landmarks", "keypoints", "ldm", "points")
CLASSES = ("class", "classes", "labels", "label", "category", "ids")
COUNT = ("num", "count", "detections")
HEATMAP = ("hm", "heatmap", "heatmaps", "heat")
SIZES = ("wh", "size", "sizes", "scale", "dims")
OFFSETS = ("offset", "offsets", "reg", "off")
FIELDS = ("paf", "pafs", "affinity", "displacement", "vectors", "limbs")
SEGMENTATION = (
    "seg",
    "segmentation",
    "segments",
    "mask",
    "masks",
    "semantic",
    "argmax",
    "alpha",
    "matte",
    "pha",
    "saliency",
)
EMBEDDING = (
    "embedding",
    "embeddings",
    "embed",
    "embeds",
    "emb",
    "embs",
    "feature",
    "features",
    "feat",
    "feats",
    "descriptor",
    "xvector",
    "fc",
)
CLASSIFICATION = (
    *SCORES,
    "softmax",
    "predictions",
    "prediction",
    "class",
    "classes",
    "labels",
    "gender",
    "emotion",
    "presence",
    "flag",
    "faceflag",
    "handflag",
)
REGRESSION = (
    "age",
    "disp",
    "flow",
    "rotation",
    "gaze",
    "normal",
    "normals",
    "translation",
    "quaternion",
    "throttle",
    "forecast",
    "tilt",
    "angle",
    "angles",
    "yaw",
    "pitch",
    "roll",
    "depth",
    "value",
    "distance",
    "steering",
    "disparity",
    "iou",
    "quality",
    "velocity",
    "cov",
    "std",
    "logstd",
)
DEVIATION = ("cov", "std", "logstd", "variance", "logvar", "sigma", "uncertainty")
PARAMETERS = ("param", "params", "parameters", "coeffs", "coefficients")
HIDDEN = ("hidden", "pooler", "encoder", "tokens", "desc", "descriptor", "descriptors")
TEXT = ("ctc", "text", "chars", "char", "rec", "tokens", "transcript")
SIGNAL = (
    "audio",
    "denoise",
    "wav",
    "waveform",
    "signal",
    "speech",
    "enhanced",
    "denoised",
    "spec",
    "spectrum",
    "gain",
    "gains",
)
STATE = ("state", "states", "hidden", "cache", "memory", "hn", "cn", "h", "c", "past", "present", "stateful", "rnn")


def named(end: End, words: Iterable[str]) -> bool:
    """Tell whether the name of an output holds one of some words, as a word of its own."""
    return not end.words.isdisjoint(words)
