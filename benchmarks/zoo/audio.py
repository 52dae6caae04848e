"""Keyword spotting and voice activity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dovetail.backend.protocols import Executable
from dovetail.compare.classification import TopK
from dovetail.compare.task import Arrays, Reference
from dovetail.data import Sample, open_samples, specs_of
from dovetail.ir import AnyArray, Graph
from dovetail.quantize import load_float
from zoo.case import Case, Dataset, Figure, everything

_TOP1 = TopK("top1", 1)
_KEYWORDS = ("Silence", "Unknown", "Yes", "No", "Up", "Down", "Left", "Right", "On", "Off", "Stop", "Go")
_FULL_SCALE = 32768.0


def _dscnn(graph: Graph, root: Path) -> Dataset:
    with np.load(root / "data_speech_commands" / "mfcc_int8_kws01.npz", allow_pickle=False) as file:
        maps = (file["x"].astype(np.float32) - np.float32(file["zero_point"])) * np.float32(file["scale"])
        labels = file["label"]
    name = graph.inputs[0]
    items = [{name: item.transpose(2, 0, 1)[None], "label": label} for item, label in zip(maps, labels, strict=True)]
    samples = list(open_samples(items, specs_of(graph)))
    # The collection calibrates on the first hundred, which it also counts in the figure of all.
    calibration, rest = samples[:100], samples[100:]
    whole = [*calibration, *rest]
    return Dataset(calibration, whole, _TOP1, (Figure("top-1", _TOP1, everything(whole), 0.9135),))


def _keywords(graph: Graph, root: Path) -> Dataset:
    def read(file_name: str) -> list[Sample]:
        with np.load(root / "data_speech_commands" / file_name, allow_pickle=False) as file:
            classes = [_KEYWORDS.index(str(item)) for item in file["classes"]]
            items = [
                {graph.inputs[0]: wave[None].astype(np.float32) / _FULL_SCALE, "label": np.int64(classes[label])}
                for wave, label in zip(file["wav"], file["label"], strict=True)
            ]
        return list(open_samples(items, specs_of(graph)))

    samples = read("dev.npz")
    return Dataset(read("calib.npz"), samples, _TOP1, (Figure("top-1", _TOP1, everything(samples), 0.9333),))


@dataclass(frozen=True, slots=True)
class SameSide:
    """Agreement with the float model on which side of a threshold every value of the first output is."""

    output: str
    threshold: float = 0.5
    name: str = "same decision as float"
    higher_is_better: bool = True
    reference: Reference = Reference.GOLDEN

    def per_sample(self, outputs: Arrays, labels: Arrays) -> NDArray[np.float64]:
        """Return `[N]`."""
        measured, golden = outputs[self.output], labels[self.output]
        same = (measured > self.threshold) == (golden > self.threshold)
        return np.asarray(same.reshape(len(same), -1).mean(axis=1), np.float64)

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        """Return the mean over the samples."""
        return float(self.per_sample(outputs, labels).mean())


_FRAME, _CONTEXT, _RATE = 512, 64, 16000


def run_frames(
    runner: Executable, wave: NDArray[np.int16]
) -> Iterator[tuple[dict[str, AnyArray], dict[str, AnyArray]]]:
    """Yield the inputs and outputs of every frame of a clip, the state carried from frame to frame."""
    sound = np.concatenate([np.zeros(_CONTEXT), wave / _FULL_SCALE]).astype(np.float32)
    state = np.zeros((2, 1, 128), np.float32)
    for start in range(0, len(wave) - _FRAME + 1, _FRAME):
        inputs: dict[str, AnyArray] = {
            "input": sound[None, start : start + _CONTEXT + _FRAME],
            "state": state,
            "sr": np.array(_RATE, np.int64),
        }
        outputs = dict(runner.run(inputs))
        yield inputs, outputs
        state = np.asarray(outputs["stateN"])


def _frames(graph: Graph, waves: NDArray[np.int16], every: int) -> list[Sample]:
    """Return every so many frames of some clips, with the state that the float model carries into them."""
    executable = load_float(graph, 1)
    samples = [
        Sample(f"{clip}/{frame}", inputs)
        for clip, wave in enumerate(waves)
        for frame, (inputs, _) in enumerate(run_frames(executable, wave))
        if frame % every == clip % every
    ]
    executable.close()
    return samples


def _voice(graph: Graph, root: Path) -> Dataset:
    folder = root / "data_speech_commands"
    with (
        np.load(folder / "calib.npz", allow_pickle=False) as calib,
        np.load(folder / "dev.npz", allow_pickle=False) as dev,
    ):
        calibration = _frames(graph, calib["wav"][:16], 4)
        samples = _frames(graph, dev["wav"][:60], 8)
    metric = SameSide("output")
    return Dataset(calibration, samples, metric, (Figure(metric.name, metric, everything(samples)),))


CASES = (
    Case(
        "kws_dscnn",
        "audio, separable convolutions",
        "kws01_dscnn/kws_dscnn_fp32_nchw.onnx",
        _dscnn,
        note="calibrated on the first 100 of its 994 samples",
    ),
    Case("kwt1", "audio, transformer", "kwt1_transformer/kwt1_non_stream.onnx", _keywords),
    Case(
        "silero_vad",
        "audio, LSTM and If",
        "silero_vad/silero_vad_16k_op15.onnx",
        _voice,
        shapes={"input": (1, 576), "state": (2, 1, 128), "sr": ()},
        note=(
            "frame by frame with the float model's state, frames of one clip on both splits; "
            "the LSTM sits in an If and stays on the CPU"
        ),
    ),
)
