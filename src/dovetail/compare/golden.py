"""Keep golden tensors in a folder, and refuse them when they are damaged."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.data.npy import MAX_SAMPLE_BYTES, read_header, read_values
from dovetail.errors import DataError

SCHEMA = "dovetail.golden/1"
_MANIFEST = "manifest.json"
_MAX_MANIFEST_BYTES = 64 << 20
_FILE = re.compile(r"s\d{6,}/t\d{5,}-[A-Za-z0-9_.-]{0,60}\.npy")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class GoldenFile:
    """Where one tensor is, relative to the folder, and its hash."""

    name: str
    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """Read golden tensors sample by sample; every read checks the hash again."""

    folder: Path
    samples: Mapping[str, tuple[GoldenFile, ...]]

    def __iter__(self) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
        for sample_id in self.samples:
            yield sample_id, self.read(sample_id)

    def read(self, sample_id: str) -> dict[str, NDArray[Any]]:
        """Return the tensors of one sample by name.

        Raises DataError for an unknown sample and a damaged file.
        """
        if sample_id not in self.samples:
            raise DataError(f"{self.folder}: no golden tensors of sample {sample_id!r}.")
        return {entry.name: _read(self.folder, entry) for entry in self.samples[sample_id]}


def save_golden(folder: Path, tensors: Iterable[tuple[str, Mapping[str, NDArray[Any]]]]) -> GoldenSet:
    """Write (sample id, tensors by name) into a new or empty folder, one sample in memory at a time.

    Names never become paths: files are numbered. The manifest comes last, so a set cut short is no set.
    Raises DataError for a folder in use, a sample twice, and tensors of Python objects.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise DataError(f"{folder}: not empty.", hint="Golden tensors need a folder of their own.")
        samples: dict[str, tuple[GoldenFile, ...]] = {}
        for number, (sample_id, arrays) in enumerate(tensors):
            if sample_id in samples:
                raise DataError(f"{folder}: sample {sample_id!r} occurs twice.")
            sub = f"s{number:06d}"
            (folder / sub).mkdir()
            samples[sample_id] = tuple(
                _write(folder, f"{sub}/t{i:05d}-{_UNSAFE.sub('_', name)[:60]}.npy", name, array)
                for i, (name, array) in enumerate(arrays.items())
            )
        if not samples:
            raise DataError(f"{folder}: no golden tensor was given.")
        golden = GoldenSet(folder, samples)
        partial = folder / (_MANIFEST + ".part")
        partial.write_text(_manifest(golden), encoding="utf-8")
        os.replace(partial, folder / _MANIFEST)
    except OSError as error:
        raise DataError(f"{folder}: golden tensors cannot be written ({error.strerror}).") from error
    return golden


def load_golden(folder: Path) -> GoldenSet:
    """Open a golden folder after checking every file's hash.

    Raises DataError for a missing or damaged manifest, and for a file that is missing, changed or outside the
    folder.
    """
    golden = GoldenSet(folder, _samples(folder))
    for sample_id in golden.samples:
        golden.read(sample_id)
    return golden


def _write(folder: Path, file: str, name: str, array: NDArray[Any]) -> GoldenFile:
    if array.dtype.hasobject or array.dtype.names is not None:
        raise DataError(f"tensor {name!r}: dtype {array.dtype} cannot be kept.")
    if array.nbytes > MAX_SAMPLE_BYTES:
        raise DataError(f"tensor {name!r}: {array.nbytes} bytes exceed the limit of {MAX_SAMPLE_BYTES}.")
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    data = buffer.getvalue()
    with (folder / file).open("xb") as stream:
        stream.write(data)
    return GoldenFile(name, file, hashlib.sha256(data).hexdigest())


def _read(folder: Path, entry: GoldenFile) -> NDArray[Any]:
    path = folder / entry.file
    where = f"{path} (tensor {entry.name!r})"
    if path.is_symlink() or path.parent.is_symlink():
        raise DataError(f"{where}: a link, which may leave the folder.", hint="Make the golden tensors again.")
    try:
        if path.stat().st_size > MAX_SAMPLE_BYTES + (1 << 20):
            raise DataError(f"{where}: too large.")
        data = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{where}: cannot be read ({error.strerror}).", hint="Make the golden tensors again."
        ) from error
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise DataError(f"{where}: damaged, its hash has changed.", hint="Make the golden tensors again.")
    stream = io.BytesIO(data)
    return read_values(stream, read_header(stream, len(data), where), where)


def _manifest(golden: GoldenSet) -> str:
    samples = [
        {"id": sample_id, "tensors": [{"name": f.name, "file": f.file, "sha256": f.sha256} for f in files]}
        for sample_id, files in golden.samples.items()
    ]
    return json.dumps({"schema": SCHEMA, "samples": samples}, indent=1)


def _samples(folder: Path) -> dict[str, tuple[GoldenFile, ...]]:
    path = folder / _MANIFEST
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_MANIFEST_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: no golden tensors here ({error.strerror}).", hint="Save them first.") from error
    if len(data) > _MAX_MANIFEST_BYTES:
        raise DataError(f"{path}: more than {_MAX_MANIFEST_BYTES} bytes.")
    try:
        document = json.loads(data)
        if document["schema"] != SCHEMA:
            raise DataError(f"{path}: schema {document['schema']!r} is not {SCHEMA!r}.")
        samples = {
            str(sample["id"]): tuple(_entry(tensor, path) for tensor in sample["tensors"])
            for sample in document["samples"]
        }
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path}: damaged manifest ({type(error).__name__}: {error}).") from error
    if not samples:
        raise DataError(f"{path}: damaged manifest: no sample.")
    return samples


def _entry(tensor: Mapping[str, object], path: Path) -> GoldenFile:
    entry = GoldenFile(str(tensor["name"]), str(tensor["file"]), str(tensor["sha256"]))
    if not _FILE.fullmatch(entry.file) or not _SHA256.fullmatch(entry.sha256):
        raise DataError(f"{path}: damaged manifest: {entry.file!r} is no golden file.")
    return entry
