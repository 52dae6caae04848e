"""Samples from sound files: windows of the length that the model takes, through libsndfile (an extra)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.data.conform import describe_shape
from dovetail.data.listing import list_files
from dovetail.data.reader import Wanted
from dovetail.data.sample import Sample
from dovetail.data.source import hash_files, hash_text
from dovetail.errors import DataError

AUDIO_SUFFIXES = frozenset({".wav", ".flac", ".ogg", ".aiff", ".aif"})
_WINDOWS = 64
"""Most windows that are taken of one file."""
_SHORTEST = 200
"""An input shorter than this takes features, not a wave."""


@dataclass(frozen=True, slots=True)
class _Window:
    file: str
    start: int

    @property
    def id(self) -> str:
        return f"{self.file}#{self.start}"


class AudioStore:
    """Read windows of every sound below a folder: mono, in -1..1, one after another, at most 64 a file, evenly spread.

    Shorter files are filled with silence at the end. All files must have one sample rate; which one the model wants is
    not known.
    """

    def __init__(self, root: Path, wanted: Wanted) -> None:
        self._spec = wanted.single("a folder of sounds")
        self._length = _length(self._spec.shape, self._spec.name)
        self._wanted = wanted
        self._root = root if root.is_dir() else root.parent
        self._files = list_files(root, AUDIO_SUFFIXES) if root.is_dir() else [root.name]
        if not self._files:
            raise DataError(f"{root}: the data set is empty: no .wav, .flac or .ogg file.")
        lengths = self._survey()
        self._windows = [item for file, length in lengths.items() for item in _windows(file, length, self._length)]
        self.count = len(self._windows)

    def digest(self) -> str:
        return hash_text([self._wanted.digest(), hash_files(self._root, self._files)])

    def read(self, indices: Sequence[int] | None) -> Iterator[Sample]:
        for index in range(self.count) if indices is None else indices:
            window = self._windows[index]
            wave = self._wave(window)
            shaped = wave.reshape([1 if size is None else size for size in self._spec.shape])
            yield Sample(window.id, self._wanted.inputs_of({self._spec.name: shaped}, window.id), {})

    def _survey(self) -> dict[str, int]:
        """Return the length of every file; raise DataError where rates differ or a file cannot be read."""
        sounds = _soundfile(self._root)
        rates: dict[int, str] = {}
        lengths: dict[str, int] = {}
        for file in self._files:
            try:
                about = sounds.info(str(self._root / file))
            except (RuntimeError, OSError) as error:
                raise _damaged(self._root / file, error) from error
            rates.setdefault(int(about.samplerate), file)
            lengths[file] = int(about.frames)
        if len(rates) > 1:
            listed = ", ".join(f"{rate} Hz ({file})" for rate, file in sorted(rates.items()))
            raise DataError(f"{self._root}: sounds of different sample rates: {listed}.", hint="Resample to one rate.")
        return lengths

    def _wave(self, window: _Window) -> NDArray[np.float32]:
        path = self._root / window.file
        try:
            values, _ = _soundfile(self._root).read(
                str(path), start=window.start, frames=self._length, dtype="float32", always_2d=True
            )
        except (RuntimeError, OSError) as error:
            raise _damaged(path, error) from error
        mono = np.zeros(self._length, np.float32)
        mono[: len(values)] = values.mean(axis=1)
        return mono


def _length(shape: Sequence[int | None], name: str) -> int:
    """Return how many samples an input takes; raise DataError for one that takes no wave."""
    sizes = [1 if size is None else size for size in shape]
    longest = max(sizes, default=0)
    if longest < _SHORTEST or longest != int(np.prod(sizes)):
        raise DataError(
            f"input {name!r} {describe_shape(shape)} takes no sound as it is.",
            hint="Give the features that the model wants as .npy or .npz.",
        )
    return longest


def _windows(file: str, frames: int, length: int) -> list[_Window]:
    starts = np.arange(0, max(frames - length, 0) + 1, length)
    chosen = np.unique(np.linspace(0, len(starts) - 1, min(len(starts), _WINDOWS)).astype(int))
    return [_Window(file, int(starts[index])) for index in chosen]


def _damaged(path: Path, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:200]
    return DataError(f"{path}: not a sound that can be read ({reason}).", hint="Replace or remove it.")


def _soundfile(root: Path) -> Any:
    try:
        import soundfile
    except (ImportError, OSError) as error:
        raise DataError(
            f"{root}: reading sounds needs soundfile, which is not installed.", hint="pip install 'dovetail[audio]'."
        ) from error
    return soundfile
