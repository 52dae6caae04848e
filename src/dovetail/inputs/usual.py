"""What is usual: the normalisations of public models, and which designs are published with which.

Sources are the preprocessing of the published code of each design: Megvii-BaseDetection/YOLOX, ultralytics/yolov5 and
ultralytics, AlexeyAB/darknet, RangiLyu/nanodet, dog-qiuqiu/FastestDet, opencv/opencv_zoo, deepinsight/insightface,
biubug6/Pytorch_Retinaface, weiliu89/caffe, tensorflow/models, google-ai-edge/mediapipe, xingyizhou/CenterNet,
facebookresearch/detr, PaddlePaddle/PaddleOCR, torchvision, tf.keras.applications.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dovetail.data.preprocess import Anchor, Channels, Preprocess, PreprocessStep, StepKind
from dovetail.outputs.ends import ImageInput
from dovetail.outputs.view import HeadView, Kind

_DEVIATIONS = (0.229, 0.224, 0.225)
_MEANS = (0.485, 0.456, 0.406)
_CAFFE = (122.7, 116.7, 104.0)
_PAD = 114
"""The grey that YOLO's preprocessing pads with."""
_CROP_SHARE = 0.875
"""Share of a classifier's picture that its central crop keeps: 224 of 256."""


class Normal(Enum):
    """A usual normalisation; the text is how people write it."""

    RAW = "pixels 0..255"
    UNIT = "x / 255"
    HALF = "x / 127.5 - 1"
    IMAGENET = "ImageNet's mean and deviation"
    CAFFE = "x - (123, 117, 104)"


class PictureFit(Enum):
    """A usual way to fit a picture to an input."""

    STRETCH = "stretched"
    LETTERBOX = "letterboxed"
    LETTERBOX_TOP_LEFT = "letterboxed, top left"
    CROP = "cropped"
    AS_IS = "as they are"
    """Where pictures have the size of the input already."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to make the input of pictures; `normal` None is one that is stated."""

    normal: Normal | None
    channels: Channels
    fit: PictureFit
    preprocess: Preprocess

    @property
    def name(self) -> str:
        """Return the variant in words."""
        values = "as stated" if self.normal is None else self.normal.value
        return f"{self.channels.value.upper()}, {values}, {self.fit.value}"


@dataclass(frozen=True, slots=True)
class Convention:
    """What a design is published with; an empty tuple is no convention."""

    normals: tuple[Normal, ...]
    channels: Channels
    fits: tuple[PictureFit, ...]


_RGB, _BGR = Channels.RGB, Channels.BGR
_YOLO = Convention((Normal.UNIT,), _RGB, (PictureFit.LETTERBOX, PictureFit.LETTERBOX_TOP_LEFT))
_SSD = Convention((Normal.HALF,), _RGB, (PictureFit.STRETCH,))

_BY_FAMILY: dict[str, Convention] = {
    "yolox": Convention((Normal.RAW,), _BGR, (PictureFit.LETTERBOX_TOP_LEFT, PictureFit.LETTERBOX)),
    "grid with objectness, decoded": Convention(
        (Normal.RAW,), _BGR, (PictureFit.LETTERBOX_TOP_LEFT, PictureFit.LETTERBOX)
    ),
    "yolo with anchors": Convention((Normal.UNIT,), _RGB, (PictureFit.LETTERBOX, PictureFit.STRETCH)),
    "anchors, decoded": _YOLO,
    "grid, decoded": _YOLO,
    "yolov8": _YOLO,
    "a list of boxes": _YOLO,
    "yolov7, suppressed": _YOLO,
    "nanodet": Convention((Normal.IMAGENET,), _BGR, (PictureFit.STRETCH, PictureFit.LETTERBOX)),
    "fastestdet": Convention((Normal.UNIT,), _BGR, (PictureFit.STRETCH,)),
    "yunet": Convention((Normal.RAW,), _BGR, (PictureFit.STRETCH,)),
    "mediapipe": Convention((Normal.HALF, Normal.UNIT), _RGB, (PictureFit.LETTERBOX, PictureFit.STRETCH)),
    "scrfd": Convention((Normal.HALF,), _RGB, (PictureFit.LETTERBOX_TOP_LEFT,)),
    "retinaface": Convention((Normal.CAFFE,), _BGR, (PictureFit.STRETCH,)),
    "ssd": _SSD,
    "ssd, decoded": _SSD,
    "boxes, suppressed": _SSD,
    "centernet": Convention((Normal.IMAGENET,), _BGR, (PictureFit.LETTERBOX, PictureFit.STRETCH)),
    "detr": Convention((Normal.IMAGENET, Normal.UNIT), _RGB, (PictureFit.STRETCH,)),
    "fcos": Convention((Normal.IMAGENET, Normal.CAFFE), _BGR, (PictureFit.LETTERBOX,)),
    "db": Convention((Normal.IMAGENET,), _BGR, (PictureFit.STRETCH,)),
}
_CLASSES_FIRST = Convention((Normal.IMAGENET,), _RGB, (PictureFit.CROP, PictureFit.STRETCH))
"""Classifiers with channels first come from PyTorch and its like."""
_CLASSES_LAST = Convention((Normal.HALF, Normal.UNIT), _RGB, (PictureFit.CROP, PictureFit.STRETCH))
"""Classifiers with channels last come from TensorFlow and its like."""
_GREY = Convention((Normal.UNIT,), Channels.GREY, (PictureFit.STRETCH,))
_OTHERS = Convention((), _RGB, (PictureFit.STRETCH,))


def convention_of(head: HeadView, image: ImageInput) -> Convention:
    """Return what a head like this is published with."""
    if head.family in _BY_FAMILY:
        return _BY_FAMILY[head.family]
    if image.channels == 1:
        return _GREY
    if head.kind is Kind.CLASSIFICATION:
        return _CLASSES_LAST if image.channels_last else _CLASSES_FIRST
    if head.kind in (Kind.KEYPOINTS, Kind.SEGMENTATION, Kind.EMBEDDING) and not image.channels_last:
        return Convention((Normal.IMAGENET,), _RGB, (PictureFit.STRETCH,))
    return _OTHERS


def fits_for(head: HeadView) -> tuple[PictureFit, ...]:
    """Return the ways to fit a picture that make sense for a head: what is cut away cannot be found."""
    whole = (PictureFit.STRETCH, PictureFit.LETTERBOX, PictureFit.LETTERBOX_TOP_LEFT)
    return (*whole, PictureFit.CROP) if head.kind in (Kind.CLASSIFICATION, Kind.EMBEDDING) else whole


def variant(normal: Normal, channels: Channels, fit: PictureFit, image: ImageInput) -> Variant:
    """Return a usual variant for an input."""
    mean, scale = _numbers(normal)
    if channels is _BGR:
        mean, scale = mean[::-1], scale[::-1]
    return Variant(normal, channels, fit, Preprocess(steps_of(fit, image), channels, mean=mean, scale=scale))


def normals_for(channels: Channels) -> tuple[Normal, ...]:
    """Return the normalisations that are usual for pictures of these channels."""
    if channels is Channels.GREY:
        return (Normal.UNIT, Normal.RAW, Normal.HALF)
    return (Normal.UNIT, Normal.RAW, Normal.HALF, Normal.IMAGENET, Normal.CAFFE)


def steps_of(fit: PictureFit, image: ImageInput) -> tuple[PreprocessStep, ...]:
    """Return the steps that fit a picture to an input."""
    rows, cols = image.rows, image.cols
    if fit is PictureFit.AS_IS:
        return ()
    if fit is PictureFit.LETTERBOX:
        return (PreprocessStep(StepKind.LETTERBOX, rows, cols, _PAD),)
    if fit is PictureFit.LETTERBOX_TOP_LEFT:
        return (PreprocessStep(StepKind.LETTERBOX, rows, cols, _PAD, Anchor.TOP_LEFT),)
    if fit is PictureFit.CROP:
        short = round(max(rows, cols) / _CROP_SHARE)
        return (PreprocessStep(StepKind.RESIZE_SHORT, short, short), PreprocessStep(StepKind.CENTRE_CROP, rows, cols))
    return (PreprocessStep(StepKind.RESIZE, rows, cols),)


def _numbers(normal: Normal) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and scale for RGB pixels."""
    if normal is Normal.IMAGENET:
        return tuple(255 * value for value in _MEANS), tuple(1 / (255 * value) for value in _DEVIATIONS)
    return {
        Normal.RAW: ((0.0,), (1.0,)),
        Normal.UNIT: ((0.0,), (1 / 255,)),
        Normal.HALF: ((127.5,), (1 / 127.5,)),
        Normal.CAFFE: (_CAFFE, (1.0,)),
    }[normal]
