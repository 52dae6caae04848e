"""Samples from a folder of images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.data.conform import conform
from dovetail.data.image import Placement2d, load_image, place
from dovetail.data.labels import LabelTable
from dovetail.data.listing import list_files
from dovetail.data.preprocess import Preprocess
from dovetail.data.reader import Wanted
from dovetail.data.sample import Sample
from dovetail.data.source import hash_files, hash_text
from dovetail.data.tensor import to_tensor
from dovetail.errors import DataError

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp"})
OTHER_SUFFIXES = frozenset({".webp", ".gif", ".tif", ".tiff", ".heic", ".avif", ".jp2", ".ppm"})
"""Kinds of pictures that are not read."""


class ImageStore:
    """Read every image below a folder, hidden files and linked folders excepted; the id is the path below it.

    Without a label table, images that all sit in sub-folders take the first folder as their class: its number
    when all these names are integers, else its place in the sorted list.
    """

    def __init__(self, root: Path, inputs: Wanted, labels: LabelTable | None) -> None:
        files = list_images(root)
        if not files:
            raise no_images(root)
        if inputs.preprocess is None:
            raise DataError(
                f"{root}: a folder of images needs a preprocess file.",
                hint='For example: resize = [224, 224], channels = "rgb", mean = 127.5, scale = 0.00784.',
            )
        self._spec = inputs.single("a folder of images")
        self._preprocess: Preprocess = inputs.preprocess
        self._root = root
        self._wanted = inputs
        self._table: LabelTable | None = None
        self._classes: Mapping[str, int] = {}
        if labels is not None:
            known = {name: name for name in files}
            files = labels.select(known)
            self._table = labels.renamed(known)
        elif all("/" in name for name in files):
            self._classes = _class_ids(sorted({name.split("/")[0] for name in files}))
        self._files = files
        self.count = len(files)

    def digest(self) -> str:
        labels = self._table.digest if self._table is not None else ""
        return hash_text([self._wanted.digest(), labels, hash_files(self._root, self._files)])

    def read(self, indices: Sequence[int] | None) -> Iterator[Sample]:
        for index in range(self.count) if indices is None else indices:
            name = self._files[index]
            where = f"sample {name!r}, input {self._spec.name!r}"
            image = load_image(self._root / name, self._preprocess.channels, where)
            image, placement = place(image, self._preprocess, where)
            tensor = conform(to_tensor(image, self._preprocess, self._spec, where), self._spec, name)
            yield Sample(name, {self._spec.name: tensor}, self._labels(name, placement))

    def _labels(self, name: str, placement: Placement2d) -> Mapping[str, NDArray[Any]]:
        if self._classes:
            return {"label": np.array(self._classes[name.split("/")[0]], dtype=np.int64)}
        if self._table is None:
            return {}
        labels = self._table.of(name)
        if not self._table.has_boxes:
            return labels
        boxes = labels["boxes"].copy()
        real = boxes[:, 0] >= 0
        boxes[real, 1:] = placement.boxes(boxes[real, 1:])
        return {"boxes": boxes}


def list_images(root: Path) -> list[str]:
    """Return the images below `root` as sorted `/`-separated relative paths."""
    return list_files(root, IMAGE_SUFFIXES)


def no_images(root: Path) -> DataError:
    """Return the error of a folder without images, which names those of kinds that are not read."""
    others = list_files(root, OTHER_SUFFIXES)
    beside = f", but {len(others)} of other kinds ({others[0]}, ...)" if others else ""
    hint = "Save them as one of these." if others else ""
    return DataError(f"{root}: the data set is empty: no .jpg, .jpeg, .png or .bmp file{beside}.", hint=hint)


def _class_ids(names: Sequence[str]) -> dict[str, int]:
    if all(name.isascii() and name.isdigit() for name in names):
        return {name: int(name) for name in names}
    return {name: index for index, name in enumerate(names)}
