"""Samples from a folder of `.npy` files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dovetail.data.labels import LabelTable
from dovetail.data.listing import check_listed
from dovetail.data.npy import read_header, read_values
from dovetail.data.reader import Wanted
from dovetail.data.sample import Sample
from dovetail.data.source import hash_files, hash_text
from dovetail.errors import DataError


@dataclass(frozen=True, slots=True)
class _Entry:
    id: str
    files: Mapping[str, str]


class NpyStore:
    """Read one sample from each `<id>.npy`; for several inputs `<input>/<id>.npy` or `<id>.<input>.npy`."""

    def __init__(self, root: Path, inputs: Wanted, labels: LabelTable | None) -> None:
        self._root = root
        self._wanted = inputs
        self._labels = labels
        entries = _entries(root, tuple(spec.name for spec in inputs.inputs))
        if labels is not None:
            by_id = {entry.id: entry for entry in entries}
            known = {entry.id: entry.id for entry in entries}
            entries = [by_id[key] for key in labels.select(known, ".npy")]
            self._labels = labels.renamed(known, ".npy")
        self._entries = entries
        self.count = len(entries)

    def digest(self) -> str:
        names = [name for entry in self._entries for name in entry.files.values()]
        labels = self._labels.digest if self._labels is not None else ""
        return hash_text([self._wanted.digest(), labels, hash_files(self._root, names)])

    def read(self, indices: Sequence[int] | None) -> Iterator[Sample]:
        for index in range(self.count) if indices is None else indices:
            entry = self._entries[index]
            arrays = {name: read_npy(self._root / file) for name, file in entry.files.items()}
            labels = self._labels.of(entry.id) if self._labels is not None else {}
            yield Sample(entry.id, self._wanted.inputs_of(arrays, entry.id), labels)


def read_npy(path: Path) -> NDArray[Any]:
    """Read one `.npy` file whose header agrees with its size.

    Raises DataError.
    """
    try:
        with path.open("rb") as stream:
            header = read_header(stream, path.stat().st_size, str(path))
            stream.seek(header.offset)
            return read_values(stream, header, str(path))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error


def _entries(root: Path, inputs: tuple[str, ...]) -> list[_Entry]:
    flat = sorted(path.name for path in root.glob("*.npy") if not path.name.startswith("."))
    folders = {name: root / name for name in inputs if _plain(name) and (root / name).is_dir()}
    if flat and len(inputs) == 1:
        return [_Entry(name.removesuffix(".npy"), {inputs[0]: name}) for name in flat]
    parts: dict[str, dict[str, str]] = {}
    if flat:
        for name in flat:
            stem = name.removesuffix(".npy")
            owner = next((i for i in sorted(inputs, key=len, reverse=True) if stem.endswith(f".{i}")), None)
            if owner is None:
                raise DataError(f"{root}: {name!r} names no input of {list(inputs)}.", hint="Use <id>.<input>.npy.")
            parts.setdefault(stem.removesuffix(f".{owner}"), {})[owner] = name
    else:
        for name, folder in folders.items():
            check_listed(folder)
            for path in folder.glob("*.npy"):
                parts.setdefault(path.stem, {})[name] = f"{name}/{path.name}"
    if not parts:
        raise DataError(f"{root}: the data set is empty: no .npy file for {list(inputs)}.")
    for sample_id, files in parts.items():
        for name in inputs:
            if name not in files:
                raise DataError(f"{root}: sample {sample_id!r} has no file for input {name!r}.")
    return [_Entry(sample_id, parts[sample_id]) for sample_id in sorted(parts)]


def _plain(name: str) -> bool:
    """Tell whether a name from a model is safe as the name of one folder."""
    return bool(name) and name not in (".", "..") and not set(name) & set("/\\:\0")
