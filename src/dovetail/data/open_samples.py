"""Open a data set, whatever holds it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from dovetail.data.audio_store import AUDIO_SUFFIXES, AudioStore
from dovetail.data.image_store import ImageStore, list_images
from dovetail.data.iterable_store import Item, IterableStore
from dovetail.data.labels import LabelTable, load_labels
from dovetail.data.listing import list_files
from dovetail.data.npy_store import NpyStore
from dovetail.data.npz_store import NpzStore
from dovetail.data.preprocess import Preprocess
from dovetail.data.reader import Wanted
from dovetail.data.sample import InputSpec, SampleSource
from dovetail.data.source import SampleStore, StoredSamples
from dovetail.data.video_store import VIDEO_SUFFIXES, VideoStore
from dovetail.errors import DataError

_LABEL_FILE = "labels.csv"


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
    path, member = Path(source), None
    if "#" in path.name and not path.exists():
        name, member = source.rsplit("#", 1)
        path = Path(name)
    if path.is_dir():
        if any(path.glob("*.npy")) or any(path.glob("*/*.npy")):
            table = _labels(path, labels)
            return NpyStore(path, wanted, table)
        if not labels and not list_images(path):
            if list_files(path, VIDEO_SUFFIXES):
                return VideoStore(path, wanted)
            if list_files(path, AUDIO_SUFFIXES):
                return AudioStore(path, wanted)
        return ImageStore(path, wanted, _labels(path, labels) if labels or list_images(path) else None)
    if not path.is_file():
        raise DataError(f"{path}: no such file or folder.")
    if path.suffix.lower() in VIDEO_SUFFIXES:
        return VideoStore(path, wanted)
    if path.suffix.lower() in AUDIO_SUFFIXES:
        return AudioStore(path, wanted)
    if path.suffix.lower() != ".npz":
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
