"""Read labels beside images or arrays: a CSV table, or JSON boxes."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os.path
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import DataError

MAX_LABEL_BYTES = 256 << 20
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_SEPARATOR = re.compile(r"[;\s]+")


@dataclass(frozen=True, slots=True)
class LabelTable:
    """The labels of every listed file; the list is the data set.

    `rows` maps the file as written to its labels. File names are relative to `folder`, that of the samples,
    or to the table's own folder.
    """

    path: Path
    rows: Mapping[str, Mapping[str, NDArray[Any]]]
    digest: str
    folder: Path = Path()
    has_boxes: bool = False

    def of(self, key: str) -> Mapping[str, NDArray[Any]]:
        return self.rows[key]

    def select(self, known: Mapping[str, str], suffix: str = "") -> list[str]:
        """Return the keys of `known` that the table lists, sorted.

        Raises DataError for a listed file that should be in the folder and is not.
        """
        chosen = {self._key(file, known, suffix) for file in self.rows} - {None}
        if not chosen:
            raise DataError(f"{self.path}: none of the listed files is in the data set.")
        return sorted(key for key in chosen if key is not None)

    def _key(self, file: str, known: Mapping[str, str], suffix: str) -> str | None:
        plain = posixpath.normpath(file.replace("\\", "/"))
        beside = Path(os.path.relpath(self.path.absolute().parent / plain, self.folder.absolute())).as_posix()
        for name in (plain, beside):
            for key in (name, name.removesuffix(suffix)) if suffix else (name,):
                if key in known:
                    return key
        if beside.startswith("../"):
            return None  # another folder of the same table: another split
        raise DataError(f"{self.path}: {file!r} is not in the data set.", hint="Correct the file column.")

    def renamed(self, known: Mapping[str, str], suffix: str = "") -> LabelTable:
        """Return the table with its rows under the keys of `known`."""
        pairs = [(self._key(file, known, suffix), labels) for file, labels in self.rows.items()]
        rows = {key: labels for key, labels in pairs if key is not None}
        return LabelTable(self.path, rows, self.digest, self.folder, self.has_boxes)


def load_labels(path: Path, folder: Path | None = None) -> LabelTable:
    """Read `labels.csv` (columns `file` and more) or a JSON object of boxes, for samples in `folder`.

    CSV: a column of integers gives `[]` int64; when a cell holds several (`a;b` or `a b`) the column gives
    `[K]` sets padded with -1; a column of numbers gives `[]` float64; any other column gives text.
    JSON: `{file: [[class, x1, y1, x2, y2], ...]}`, also under the key `gt`, boxes in pixels of the original
    image, gives `boxes` `[K, 5]` float64 padded with rows of -1.
    Raises DataError.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_LABEL_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    if len(data) > MAX_LABEL_BYTES:
        raise DataError(f"{path}: more than {MAX_LABEL_BYTES} bytes.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text.") from error
    is_json = path.suffix.lower() == ".json"
    rows = _boxes(text, path) if is_json else _table(text, path)
    return LabelTable(path, rows, hashlib.sha256(data).hexdigest(), folder or path.parent, is_json)


def _table(text: str, path: Path) -> dict[str, dict[str, NDArray[Any]]]:
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise DataError(f"{path}: not a CSV table ({error}).") from error
    lines = [line for line in lines if line]
    header = [name.strip() for name in lines[0]] if lines else []
    if "file" not in header or len(set(header)) != len(header):
        raise DataError(f"{path}: the first line {header} needs a column 'file' and no column twice.")
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(header):
            raise DataError(f"{path}: row {number} has {len(line)} cells, the header {len(header)}.")
    files = [line[header.index("file")].strip() for line in lines[1:]]
    if not files:
        raise DataError(f"{path}: the table lists no file.")
    repeated = next((name for name in files if files.count(name) > 1), None) if len(set(files)) < len(files) else None
    if repeated is not None:
        raise DataError(f"{path}: {repeated!r} is listed twice.")
    rows: dict[str, dict[str, NDArray[Any]]] = {name: {} for name in files}
    for index, name in enumerate(header):
        if name != "file":
            values = _column([line[index].strip() for line in lines[1:]])
            for file, value in zip(files, values, strict=True):
                rows[file][name] = value
    return rows


def _column(cells: Sequence[str]) -> list[NDArray[Any]]:
    parts = [[item for item in _SEPARATOR.split(cell) if item] for cell in cells]
    if all(items and all(_INTEGER.fullmatch(item) for item in items) for items in parts):
        widest = max(len(items) for items in parts)
        if widest == 1:
            return [np.array(int(items[0]), dtype=np.int64) for items in parts]
        return [np.array([*map(int, items), *[-1] * (widest - len(items))], dtype=np.int64) for items in parts]
    numbers = [_float(cell) for cell in cells]
    if all(value is not None for value in numbers):
        return [np.array(value, dtype=np.float64) for value in numbers]
    return [np.array(cell) for cell in cells]


def _float(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _boxes(text: str, path: Path) -> dict[str, dict[str, NDArray[Any]]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not a JSON file ({error}).") from error
    table = document.get("gt", document) if isinstance(document, dict) else None
    if not isinstance(table, dict) or not table:
        raise DataError(f"{path}: expected an object from file to [[class, x1, y1, x2, y2], ...].")
    arrays: dict[str, NDArray[np.float64]] = {}
    for file, value in table.items():
        try:
            array = np.array(value, dtype=np.float64).reshape(-1, 5)
        except (OverflowError, TypeError, ValueError) as error:
            raise DataError(f"{path}: {file!r}: expected rows of class, x1, y1, x2, y2.") from error
        if not np.isfinite(array).all() or (array[:, 0] < 0).any() or (array[:, 3:] < array[:, 1:3]).any():
            raise DataError(f"{path}: {file!r}: a box is not finite, has a negative class, or x2 < x1 or y2 < y1.")
        arrays[file] = array
    most = max(len(array) for array in arrays.values())
    return {
        file: {"boxes": np.concatenate([array, np.full((most - len(array), 5), -1.0)])}
        for file, array in arrays.items()
    }
