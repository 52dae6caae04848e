"""Open a data set, whatever holds it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path

from dovetail.data.audio_store import AUDIO_SUFFIXES, AudioStore
from dovetail.data.image_store import IMAGE_SUFFIXES, ImageStore
from dovetail.data.iterable_store import Item, IterableStore
from dovetail.data.labels import LabelTable, load_labels
from dovetail.data.listing import check_listed, list_files
from dovetail.data.npy_store import NpyStore
from dovetail.data.npz_store import NpzStore
from dovetail.data.preprocess import Preprocess
from dovetail.data.reader import Wanted
from dovetail.data.sample import InputSpec, SampleSource
from dovetail.data.source import SampleStore, StoredSamples
from dovetail.data.video_store import VIDEO_SUFFIXES, VideoStore
from dovetail.errors import DataError

_LABEL_FILE = "labels.csv"


class DataKind(Enum):
    """What a file or a folder holds."""

    ARRAYS = "arrays"
    PICTURES = "pictures"
    VIDEOS = "videos"
    SOUNDS = "sounds"


def samples_path(source: str | Path) -> Path:
    """Return where samples are; raise DataError for an empty path, which `Path` takes for the current folder."""
    if source == "":
        raise DataError("the samples are given as an empty path.", hint="Name a file or a folder.", option="data")
    return Path(source)


def data_kind(path: Path) -> DataKind | None:
    """Return what a file or a folder holds; the first of arrays, pictures, videos and sounds of which it holds any.

    Raises DataError for a folder that cannot be read.
    """
    if not path.is_dir():
        suffix = path.suffix.lower()
        if suffix == ".npz":
            return DataKind.ARRAYS
        return DataKind.VIDEOS if suffix in VIDEO_SUFFIXES else DataKind.SOUNDS if suffix in AUDIO_SUFFIXES else None
    check_listed(path)
    if any(path.glob("*.npy")) or any(path.glob("*/*.npy")):
        return DataKind.ARRAYS
    kinds = ((IMAGE_SUFFIXES, DataKind.PICTURES), (VIDEO_SUFFIXES, DataKind.VIDEOS), (AUDIO_SUFFIXES, DataKind.SOUNDS))
    return next((kind for suffixes, kind in kinds if list_files(path, suffixes)), None)


def open_samples(
    source: str | Path | Iterable[Item],
    inputs: Sequence[InputSpec],
    preprocess: Preprocess | None = None,
    labels: Path | None = None,
) -> SampleSource:
    """Open samples for a model with these `inputs`.

    `source` is an iterable of arrays, mappings or Samples; an `.npz` file (`file.npz#array` names the array
    of a single input); a folder of `.npy` files; or a folder of images, which needs `preprocess`, of videos, of
    which frames are taken, or of sounds, of which windows are. A
    preprocess also serves uint8 pixels in arrays. `labels` is a CSV or JSON file (see `load_labels`); without
    it, `labels.csv` in the folder or beside it is used, and then it lists the samples.
    Raises DataError, at once for what the file names and headers show, else at the sample.
    """
    wanted = Wanted(tuple(inputs), preprocess)
    if not isinstance(source, str | Path):
        if labels is not None:
            raise DataError("a labels file serves a folder.", hint="Put the labels into the mappings or the Samples.")
        return StoredSamples(IterableStore(source, wanted))
    return StoredSamples(_store(str(source), wanted, labels))


def _store(source: str, wanted: Wanted, labels: Path | None) -> SampleStore:
    path, member = samples_path(source), None
    if "#" in path.name and not path.exists():
        name, member = source.rsplit("#", 1)
        path = Path(name)
    if not path.is_dir() and not path.is_file():
        hint = "Check the path; patterns, and '~' in quotes, are not resolved."
        raise DataError(f"{path}: no such file or folder.", hint=hint)
    kind = data_kind(path)
    if kind in (DataKind.VIDEOS, DataKind.SOUNDS):
        if labels is not None:
            raise DataError(f"{path}: a labels file serves a folder of pictures or arrays, not {kind.value}.")
        return VideoStore(path, wanted) if kind is DataKind.VIDEOS else AudioStore(path, wanted)
    if path.is_dir():
        if kind is DataKind.ARRAYS:
            return NpyStore(path, wanted, _labels(path, labels))
        return ImageStore(path, wanted, _labels(path, labels) if labels or kind is DataKind.PICTURES else None)
    if kind is not DataKind.ARRAYS:
        raise DataError(f"{path}: not a data set.", hint="Give an .npz file, a folder of .npy files or of images.")
    if labels is not None:
        raise DataError(f"{path}: a labels file serves a folder.", hint="Put the labels into the .npz as [N, ...].")
    return NpzStore(path, wanted, member)


def _labels(folder: Path, given: Path | None) -> LabelTable | None:
    if given is not None:
        return load_labels(given, folder)
    for parent in (folder, folder.absolute().parent):
        if (parent / _LABEL_FILE).is_file():
            return load_labels(parent / _LABEL_FILE, folder)
    return None
