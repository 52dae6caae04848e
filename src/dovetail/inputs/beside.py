"""Files that exporters put beside a model: Hugging Face's preprocessor, PaddleDetection's and timm's configurations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from dovetail.data.preprocess import Channels, Interpolation, PreprocessStep, StepKind
from dovetail.errors import DataError
from dovetail.inputs.statement import Statement

_MOST_BYTES = 1 << 20
_FILTERS = {0: Interpolation.NEAREST, 2: Interpolation.BILINEAR, 3: Interpolation.BICUBIC}
_PADDLE = ("infer_cfg.yml", "inference.yml", "deploy.yaml")


def read_beside(path: Path) -> Statement | None:
    """Return what a file beside the model says, or None where there is none; raise DataError where it is damaged."""
    names = ("preprocessor_config.json", *_PADDLE, "config.json")
    file = next((path.parent / name for name in names if (path.parent / name).is_file()), None)
    if file is None:
        return None
    try:
        return _stated(file)
    except (ArithmeticError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{file}: what it says of pictures cannot be: {str(error)[:80]}.", hint="Repair or remove it."
        ) from error


def _stated(file: Path) -> Statement | None:
    if file.name in _PADDLE:
        return _paddle(_yaml(file), str(file))
    if file.name == "preprocessor_config.json":
        return _hugging_face(_json(file), str(file))
    values = _json(file).get("pretrained_cfg")
    return _timm(values, str(file)) if isinstance(values, Mapping) else None


def _hugging_face(values: Mapping[str, object], where: str) -> Statement | None:
    factor = _number(values.get("rescale_factor"), 1 / 255) if values.get("do_rescale", True) else 1.0
    mean, deviation = _numbers(values.get("image_mean")), _numbers(values.get("image_std"))
    if not values.get("do_normalize", mean is not None) or mean is None or deviation is None:
        mean, deviation = (0.0,), (1.0,)
    steps: list[PreprocessStep] = []
    kind = _FILTERS.get(int(_number(values.get("resample"), 2)))
    size = _hugging_size(values.get("size"))
    if values.get("do_resize", True) and size is not None:
        steps.append(PreprocessStep(*size, interpolation=kind))
    crop = _hugging_size(values.get("crop_size"))
    if values.get("do_center_crop", False) and crop is not None:
        steps.append(PreprocessStep(StepKind.CENTRE_CROP, crop[1], crop[2]))
    return _normalised(where, mean, deviation, factor, tuple(steps))


def _hugging_size(value: object) -> tuple[StepKind, int, int] | None:
    if isinstance(value, int):
        return StepKind.RESIZE_SHORT, value, value
    if isinstance(value, Mapping) and {"height", "width"} <= value.keys():
        return StepKind.RESIZE, int(value["height"]), int(value["width"])
    if isinstance(value, Mapping) and "shortest_edge" in value and "longest_edge" not in value:
        return StepKind.RESIZE_SHORT, int(value["shortest_edge"]), int(value["shortest_edge"])
    return None


def _paddle(values: Mapping[str, object], where: str) -> Statement | None:
    """Return what PaddleDetection's export says: pictures are read as RGB, a list of operations follows."""
    listed = values.get("Preprocess")
    operations = [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
    by_kind = {str(item.get("type")): item for item in operations}
    normalise = by_kind.get("NormalizeImage")
    if normalise is None:
        return None
    mean, deviation = _numbers(normalise.get("mean")), _numbers(normalise.get("std"))
    if normalise.get("norm_type") == "none" or mean is None or deviation is None:
        mean, deviation = (0.0,), (1.0,)
    factor = 1 / 255 if normalise.get("is_scale", True) else 1.0
    return _normalised(where, mean, deviation, factor, _paddle_steps(by_kind.get("Resize"), where))


def _paddle_steps(resize: Mapping[str, object] | None, where: str) -> tuple[PreprocessStep, ...]:
    if resize is None:
        return ()
    size = _numbers(resize.get("target_size"))
    if size is None or len(size) != 2:
        raise DataError(f"{where}: Resize has no target_size of two numbers.")
    kind = StepKind.LETTERBOX if resize.get("keep_ratio") else StepKind.RESIZE
    # 1 is OpenCV's INTER_LINEAR, 2 its INTER_CUBIC.
    cubic = int(_number(resize.get("interp"), 1)) == 2
    return (
        PreprocessStep(
            kind,
            int(size[0]),
            int(size[1]),
            interpolation=Interpolation.BICUBIC if cubic else Interpolation.OPENCV_BILINEAR,
        ),
    )


def _timm(values: Mapping[str, object], where: str) -> Statement | None:
    mean, deviation = _numbers(values.get("mean")), _numbers(values.get("std"))
    size = _numbers(values.get("input_size"))
    if mean is None or deviation is None or size is None or len(size) != 3:
        return None
    rows, cols = int(size[1]), int(size[2])
    short = round(max(rows, cols) / _number(values.get("crop_pct"), 0.875))
    kind = Interpolation.BICUBIC if values.get("interpolation") == "bicubic" else Interpolation.BILINEAR
    steps = (
        PreprocessStep(StepKind.RESIZE_SHORT, short, short, interpolation=kind),
        PreprocessStep(StepKind.CENTRE_CROP, rows, cols),
    )
    return _normalised(where, mean, deviation, 1 / 255, steps)


def _normalised(
    where: str,
    mean: Sequence[float],
    deviation: Sequence[float],
    factor: float,
    steps: tuple[PreprocessStep, ...],
) -> Statement:
    """Return (pixel * factor - mean) / deviation as (pixel - mean) * scale."""
    if not all(deviation) or not factor:
        raise DataError(f"{where}: a standard deviation of 0.")
    return Statement(
        where,
        tuple(value / factor for value in mean),
        tuple(factor / value for value in deviation),
        Channels.RGB,
        steps or None,
    )


def _json(path: Path) -> Mapping[str, object]:
    try:
        values = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error}).", hint="Repair or remove it.") from error
    return values if isinstance(values, Mapping) else {}


def _yaml(path: Path) -> Mapping[str, object]:
    try:
        values = yaml.safe_load(_text(path))
    except (yaml.YAMLError, RecursionError) as error:
        raise DataError(f"{path}: not YAML ({error}).", hint="Repair or remove it.") from error
    return values if isinstance(values, Mapping) else {}


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    if len(data) > _MOST_BYTES:
        raise DataError(f"{path}: more than {_MOST_BYTES} bytes.")
    return data.decode("utf-8", errors="replace")


def _numbers(value: object) -> tuple[float, ...] | None:
    items = value if isinstance(value, list | tuple) else [value]
    real = [float(item) for item in items if isinstance(item, int | float) and not isinstance(item, bool)]
    return tuple(real) if items and len(real) == len(items) else None


def _number(value: object, default: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default
