"""A case: one model with its data and its metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dovetail.compare.task import TaskMetric
from dovetail.data import Preprocess, Sample, open_samples, specs_of
from dovetail.errors import DataError
from dovetail.ir import Graph


@dataclass(frozen=True, slots=True)
class Figure:
    """A score worth printing beside the one that is searched on: which samples, and what the collection states."""

    name: str
    metric: TaskMetric
    indices: tuple[int, ...]
    stated: float | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """Hold what a case brings: samples to calibrate on, other samples to search and accept on, and figures."""

    calibration: Sequence[Sample]
    samples: Sequence[Sample]
    metric: TaskMetric
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """Name a model of the collection; `open` reads its data, given the normalised graph and the collection."""

    name: str
    family: str
    file: str
    open: Callable[[Graph, Path], Dataset]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    note: str = ""


def read_images(graph: Graph, folder: Path, preprocess: Preprocess, labels: Path | None = None) -> list[Sample]:
    """Return the images of a folder as samples of a model with one input."""
    return list(open_samples(folder, specs_of(graph), preprocess, labels))


def everything(samples: Sequence[Sample]) -> tuple[int, ...]:
    """Return the indices of all samples."""
    return tuple(range(len(samples)))


def halves(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Return every third sample, and the others: to calibrate on, and to search and accept on."""
    return list(samples[::3]), [sample for index, sample in enumerate(samples) if index % 3]


def pad_boxes(samples: Sequence[Sample], rows: int) -> list[Sample]:
    """Return samples whose `boxes` all have as many rows; rows of -1 are padding."""
    padded: list[Sample] = []
    for sample in samples:
        found = sample.labels.get("boxes", np.empty((0, 5)))
        if len(found) > rows:
            raise DataError(f"sample '{sample.id}': {len(found)} boxes, more than {rows}.")
        boxes = np.full((rows, 5), -1.0)
        boxes[: len(found)] = found
        padded.append(Sample(sample.id, sample.inputs, {"boxes": boxes}))
    return padded
