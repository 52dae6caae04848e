"""Samples from video files: frames at even distances, through OpenCV (an extra)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.data.listing import list_files
from dovetail.data.reader import Wanted
from dovetail.data.sample import Sample
from dovetail.data.source import hash_files, hash_text
from dovetail.errors import DataError

VIDEO_SUFFIXES = frozenset({".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v"})
_FRAMES = 64
"""Most frames that are taken of one file."""


@dataclass(frozen=True, slots=True)
class _Frame:
    file: str
    number: int

    @property
    def id(self) -> str:
        return f"{self.file}#{self.number:06d}"


class VideoStore:
    """Read frames of every video below a folder, or of one file: one a second, at most 64 a file, evenly spread.

    The id is the file below the folder with the number of the frame. Frames of one video resemble each other: they are
    less evidence than as many pictures.
    """

    def __init__(self, root: Path, wanted: Wanted) -> None:
        if wanted.preprocess is None:
            raise DataError(f"{root}: a video needs a preprocess file.", hint="For example: resize = [224, 224].")
        self._spec = wanted.single("a video")
        self._wanted = wanted
        self._root, self._files = _files_of(root)
        self._frames = [frame for file in self._files for frame in _frames_of(self._root, file)]
        if not self._frames:
            raise DataError(f"{root}: the data set is empty: no frame in any video.")
        self.count = len(self._frames)

    def digest(self) -> str:
        return hash_text([self._wanted.digest(), hash_files(self._root, self._files)])

    def read(self, indices: Sequence[int] | None) -> Iterator[Sample]:
        wanted = list(range(self.count)) if indices is None else list(indices)
        cv2 = _opencv(self._root)
        opened: tuple[str, Any] | None = None
        try:
            for index in wanted:
                frame = self._frames[index]
                if opened is None or opened[0] != frame.file:
                    if opened is not None:
                        opened[1].release()
                    opened = frame.file, cv2.VideoCapture(str(self._root / frame.file))
                pixels = _read(cv2, opened[1], frame)
                yield Sample(frame.id, self._wanted.inputs_of({self._spec.name: pixels}, frame.id), {})
        finally:
            if opened is not None:
                opened[1].release()


def write_frames(root: Path, folder: Path, most: int) -> list[Path]:
    """Write frames of videos as PNG files, at most so many, spread evenly over all that a `VideoStore` takes.

    `root` is a video or a folder of some. Raises DataError for videos that cannot be read.
    """
    import PIL.Image

    home, files = _files_of(root)
    frames = [frame for file in files for frame in _frames_of(home, file)]
    cv2, written = _opencv(home), list[Path]()
    for index in np.unique(np.linspace(0, len(frames) - 1, min(most, len(frames))).astype(int)):
        capture = cv2.VideoCapture(str(home / frames[index].file))
        try:
            pixels = _read(cv2, capture, frames[index])
        finally:
            capture.release()
        written.append(folder / f"{index:06d}.png")
        PIL.Image.fromarray(pixels).save(written[-1])
    return written


def _files_of(root: Path) -> tuple[Path, list[str]]:
    """Return the folder of videos and the files in it."""
    return (root, list_files(root, VIDEO_SUFFIXES)) if root.is_dir() else (root.parent, [root.name])


def _frames_of(root: Path, file: str) -> list[_Frame]:
    cv2 = _opencv(root)
    capture = cv2.VideoCapture(str(root / file))
    try:
        total = int(capture.get(cv2.CAP_PROP_FRAME_COUNT)) if capture.isOpened() else 0
        rate = float(capture.get(cv2.CAP_PROP_FPS)) if total else 0.0
    finally:
        capture.release()
    if total < 1:
        raise DataError(f"{root / file}: not a video that can be read.", hint="Replace or remove it.")
    # A file that states no rate gives every frame, up to the limit.
    count = min(total, _FRAMES, max(1, round(total / rate)) if rate > 0 else total)
    return [_Frame(file, int(number)) for number in np.unique(np.linspace(0, total - 1, count).astype(int))]


def _read(cv2: Any, capture: Any, frame: _Frame) -> NDArray[np.uint8]:
    """Return the RGB pixels of a frame."""
    capture.set(cv2.CAP_PROP_POS_FRAMES, frame.number)
    good, pixels = capture.read()
    if not good:
        raise DataError(f"sample {frame.id!r}: the frame cannot be read.", hint="The video is damaged: replace it.")
    return np.ascontiguousarray(pixels[..., ::-1])


def _opencv(root: Path) -> Any:
    try:
        import cv2
    except ImportError as error:
        raise DataError(
            f"{root}: reading videos needs OpenCV, which is not installed.", hint="pip install 'dovetail[video]'."
        ) from error
    return cv2
