"""What the collection's manifest states of detectors, speech and pose, measured again on what the importers load.

DOVETAIL_MODELS=... python benchmarks/importers_tasks.py

The recipe behind the detectors' figures, found by trying: images are resized as OpenCV does; a box counts with its best
class; boxes above 0.05 are suppressed at IoU 0.45 and ranked at COCO's 101 recalls; `boxes` are those above 0.3.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from dovetail.backend.arithmetic import TFLITE
from dovetail.backends.reference import run_graph
from dovetail.compare.detection import mean_average_precision
from dovetail.data import Anchor, Channels, Interpolation, Preprocess, PreprocessStep, StepKind
from dovetail.importers import LoadOptions, load_model
from dovetail.passes import normalize
from dovetail.quantize import load_float
from judges.frameworks import Ask, run_framework
from zoo.audio import run_frames
from zoo.case import pad_boxes, read_images
from zoo.catalogue import CASES, models_root
from zoo.detection import BestRows, Outputs, Rows, ScoredCorners, darknet_rows, objects_of, yolox_rows

_SIDE = 320
_RANKED, _COUNTED, _OVERLAP = 0.05, 0.3, 0.45


@dataclass(frozen=True, slots=True)
class Figure:
    """One line: a model on some data, what it scores here and what is stated."""

    file: str
    data: str
    what: str
    found: str
    stated: str


@dataclass(frozen=True, slots=True)
class Detector:
    """Say how a detector is fed and read."""

    file: str
    image: Preprocess
    read: Callable[[Outputs], Rows]
    stated: Mapping[str, tuple[float, int]]


def _opencv(*steps: PreprocessStep, channels: Channels, mean: float = 0.0, scale: float = 1.0) -> Preprocess:
    return Preprocess(steps, channels, mean=(mean,), scale=(scale,), interpolation=Interpolation.OPENCV_BILINEAR)


_DETECTORS = (
    Detector(
        "yolox_nano/yolox_nano_decoded.onnx",
        _opencv(PreprocessStep(StepKind.LETTERBOX, 416, 416, pad=114, anchor=Anchor.TOP_LEFT), channels=Channels.BGR),
        yolox_rows,
        {"data_coco20": (0.7562, 185), "data_detect_ccby": (1.0, 15)},
    ),
    Detector(
        "yolo_fastest_darknet/yolo-fastest-1.1.cfg",
        _opencv(PreprocessStep(StepKind.RESIZE, _SIDE, _SIDE), channels=Channels.RGB, scale=1 / 255),
        darknet_rows,
        {"data_coco20": (0.4793, 142), "data_detect_ccby": (0.8, 14)},
    ),
)


def _boxes(root: Path, detector: Detector) -> Iterator[Figure]:
    graph = normalize(load_model(root / detector.file))
    runner = load_float(graph, 1)
    for data, (precision, boxes) in detector.stated.items():
        folder = root / data
        ran = {sample.id: dict(runner.run(sample.inputs)) for sample in read_images(graph, folder, detector.image)}
        labelled = pad_boxes(read_images(graph, folder, detector.image, folder / "gt.json"), 100)
        real = [objects_of(np.asarray(sample.labels["boxes"], np.float64)) for sample in labelled]
        decode, count = (BestRows(detector.read, least, _OVERLAP) for least in (_RANKED, _COUNTED))
        ranked = [decode(ran[sample.id], 0) for sample in labelled]
        score = mean_average_precision(ranked, real, (0.5,), recalls=101)
        yield Figure(detector.file, f"{data}, {len(labelled)} images", "AP50", f"{score:.4f}", f"{precision:.4f}")
        counted = sum(len(count(outputs, 0).scores) for outputs in ran.values())
        yield Figure(detector.file, f"{data}, {len(ran)} images", "boxes", str(counted), str(boxes))


_FACES = {
    "ultraface_rfb320/imgs": {"1": 46, "2": 4, "3": 5, "5": 1, "6": 14, "8": 52, "9": 8, "10": 19},
    "data_detect_ccby": {"face": 4, "grace_hopper": 1},
}


def _faces(root: Path) -> Iterator[Figure]:
    file = "ultraface_rfb320/version-RFB-320.onnx"
    graph = normalize(load_model(root / file))
    runner = load_float(graph, 1)
    image = _opencv(PreprocessStep(StepKind.RESIZE, 240, 320), channels=Channels.RGB, mean=127.0, scale=1 / 128)
    decode = ScoredCorners("boxes", "scores", min_score=0.7, iou=0.3)
    for data, stated in _FACES.items():
        counted = {
            Path(sample.id).stem: len(decode(dict(runner.run(sample.inputs)), 0).scores)
            for sample in read_images(graph, root / data, image)
        }
        found = " ".join(str(counted[name]) for name in stated)
        yield Figure(file, f"{data}, {len(stated)} images", "faces", found, " ".join(map(str, stated.values())))


def _voice(root: Path) -> Iterator[Figure]:
    """Yield the share of clips whose loudest frame is on the right side of 0.5."""
    case = next(case for case in CASES if case.name == "silero_vad")
    runner = load_float(normalize(load_model(root / case.file, LoadOptions(shapes=case.shapes))), 1)
    with np.load(root / "data_speech_commands" / "dev.npz", allow_pickle=False) as file:
        waves = file["wav"]
        speech = [str(file["classes"][label]) != "Silence" for label in file["label"]]
    right = 0
    for wave, spoken in zip(waves, speech, strict=True):
        highest = max(float(outputs["output"].reshape(-1)[0]) for _, outputs in run_frames(runner, wave))
        right += (highest > 0.5) == spoken
    yield Figure(case.file, f"dev.npz, {len(waves)} clips", "accuracy", f"{right / len(waves):.4f}", "0.9917")


def _text(root: Path) -> Iterator[Figure]:
    """Yield how far the mask of text agrees with Paddle's."""
    case = next(case for case in CASES if case.name == "ppocrv3_det")
    graph = normalize(load_model(root / case.file, LoadOptions(shapes=case.shapes)))
    runner = load_float(graph, 1)
    feeds = [dict(sample.inputs) for sample in case.open(graph, root).samples]
    name, judged = run_framework(Ask(root / "ppocrv3_det/model.pdmodel", feeds))
    if judged is None:
        yield Figure(case.file, "data_ocr", "mask IoU with Paddle", name, "1.0000")
        return
    shares = []
    for feed, (theirs,) in zip(feeds, judged, strict=True):
        ours, real = runner.run(feed)[graph.outputs[0]] > 0.3, theirs > 0.3
        shares.append(float((ours & real).sum() / max((ours | real).sum(), 1)))
    score = f"{np.mean(shares):.4f}"
    yield Figure(case.file, f"data_ocr, {len(feeds)} images", "mask IoU with Paddle", score, "1.0000")


def _pose(root: Path) -> Iterator[Figure]:
    """Yield the errors of the keypoints; the manifest's are LiteRT's with optimised kernels and Lanczos' filter."""
    folder = root / "movenet_lightning_int8"
    file = folder / "movenet_single_pose_lightning_ptq.tflite"
    with (folder / "reference.csv").open(newline="", encoding="utf-8") as rows:
        real = np.array([[float(row["keypoint_y"]), float(row["keypoint_x"])] for row in csv.DictReader(rows)])
    with Image.open(folder / "squat.bmp") as image:
        pixels = np.asarray(image.convert("RGB").resize((192, 192), Image.Resampling.LANCZOS), np.uint8)[None]
    graph = load_model(file)
    feed = {graph.inputs[0]: pixels}
    found = {"here": run_graph(graph, feed, TFLITE)[graph.outputs[0]]}
    for what, usual in (("LiteRT, reference kernels", False), ("LiteRT, optimised kernels", True)):
        outputs = run_framework(Ask(file, [feed], usual=usual))[1]
        assert outputs is not None
        found[what] = outputs[0][0]
    for what, points in found.items():
        errors = np.abs(points.reshape(-1, 3)[:, :2] - real)
        score = f"{errors.max():.4f} {errors.mean():.4f}"
        yield Figure(str(file.relative_to(root)), f"squat.bmp, {what}", "keypoint error", score, "0.0216 0.0088")


def figures(root: Path) -> Iterator[Figure]:
    """Yield every figure."""
    for detector in _DETECTORS:
        yield from _boxes(root, detector)
    yield from _faces(root)
    yield from _voice(root)
    yield from _text(root)
    yield from _pose(root)


def task_lines(root: Path) -> list[str]:
    """Return the figures as a chapter of the page of importers."""
    rows = [f"| {row.file} | {row.data} | {row.what} | {row.found} | {row.stated} |" for row in figures(root)]
    return [
        "## Detectors, speech and pose",
        "",
        "What the manifest states, measured again here (`python benchmarks/importers_tasks.py`). Its detectors'",
        "images are resized as OpenCV does, a box counts with its best class, boxes above 0.05 are suppressed at IoU",
        "0.45 and ranked at COCO's 101 recalls, `boxes` and `faces` are counted above 0.3 and 0.7. Its figure for the",
        "pose is of LiteRT's optimised kernels; ours are those of the reference kernels, bit by bit.",
        "",
        "| file | data | figure | here | stated |",
        "| --- | --- | --- | --- | --- |",
        *rows,
    ]


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print("\n".join(task_lines(models_root())))
