"""The metadata of an ONNX file.

Sources: ONNX's own keys of image inputs (MetadataProps.md), and the keys that Ultralytics' exporter writes.
"""

from __future__ import annotations

import ast
from pathlib import Path

from dovetail.data.preprocess import Channels, PreprocessStep, StepKind
from dovetail.inputs.statement import Statement

_CHANNELS = {"gray8": Channels.GREY, "rgb8": Channels.RGB, "bgr8": Channels.BGR}
_RANGES = {
    "nominalrange_0_255": ((0.0,), (1.0,)),
    "normalized_0_1": ((0.0,), (1 / 255,)),
    "normalized_1_1": ((127.5,), (1 / 127.5,)),
}
_PAD = 114


def read_onnx_metadata(path: Path) -> Statement | None:
    """Return what the metadata of an ONNX file says, or None where it says nothing of pictures."""
    if path.suffix.lower() != ".onnx" or not path.is_file():
        return None
    import onnx

    try:
        model = onnx.load_model(path, load_external_data=False)
    except Exception:  # protobuf's own errors; metadata that cannot be read states nothing
        return None
    entries = {item.key: item.value for item in model.metadata_props}
    return _ultralytics(entries) or _image(entries)


def _image(entries: dict[str, str]) -> Statement | None:
    lower = {key.lower(): value.lower() for key, value in entries.items()}
    pixels = _CHANNELS.get(lower.get("image.bitmappixelformat", ""))
    mean, scale = _RANGES.get(lower.get("image.nominalpixelrange", ""), (None, None))
    if pixels is None and mean is None:
        return None
    return Statement("ONNX metadata", mean, scale, pixels)


def _ultralytics(entries: dict[str, str]) -> Statement | None:
    """Return what Ultralytics' models want: RGB in 0..1, letterboxed but for classifiers, which are cropped."""
    if (
        "ultralytics" not in entries.get("author", "").lower()
        and "ultralytics" not in entries.get("description", "").lower()
    ):
        return None
    size = _size(entries.get("imgsz", ""))
    if size is None:
        return None
    rows, cols = size
    steps = (
        (
            PreprocessStep(StepKind.RESIZE_SHORT, max(rows, cols), max(rows, cols)),
            PreprocessStep(StepKind.CENTRE_CROP, rows, cols),
        )
        if entries.get("task") == "classify"
        else (PreprocessStep(StepKind.LETTERBOX, rows, cols, _PAD),)
    )
    return Statement("Ultralytics' metadata", (0.0,), (1 / 255,), Channels.RGB, steps)


def _size(text: str) -> tuple[int, int] | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    sizes = [value, value] if isinstance(value, int) else value
    whole = isinstance(sizes, list | tuple) and len(sizes) == 2 and all(isinstance(item, int) for item in sizes)
    return (int(sizes[0]), int(sizes[1])) if whole else None
