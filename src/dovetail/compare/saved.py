"""Open saved tensors, golden and measured, as stacked arrays."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from dovetail.compare.golden import GoldenSet, load_golden
from dovetail.compare.layers import stack_samples
from dovetail.data.npz_rows import read_headers
from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray

_MAX_BYTES = 8 << 30

Tensors = dict[str, AnyArray]


def load_tensor_pair(golden: Path, measured: Path) -> tuple[Tensors, Tensors]:
    """Return the tensors of two golden folders, or of two `.npz` files.

    Folders are stacked to `[N, ...]`, both in the order of the golden samples; arrays of a file are as they are.
    Raises DataError when one is missing or damaged, and when the folders are about different samples.
    """
    for path in (golden, measured):
        if not path.exists():
            raise DataError(
                f"{path}: no such file or folder.", hint="Save golden tensors first, as 'dovetail run' can."
            )
    if golden.is_dir() != measured.is_dir():
        raise DataError(f"{golden} and {measured}: one is a folder, the other a file.", hint="Give two of a kind.")
    if not golden.is_dir():
        return _arrays(golden), _arrays(measured)
    first, other = load_golden(golden), load_golden(measured)
    for here, there in ((first, other), (other, first)):
        missing = [sample_id for sample_id in here.samples if sample_id not in there.samples]
        if missing:
            raise DataError(
                f"{there.folder}: {len(missing)} samples of {here.folder} are missing, the first is '{missing[0]}'.",
                hint="Run both on the same data.",
            )
    return _stacked(first, list(first.samples)), _stacked(other, list(first.samples))


def _stacked(saved: GoldenSet, order: list[str]) -> Tensors:
    parts: dict[str, list[AnyArray]] = {}
    for sample_id in order:
        for name, array in saved.read(sample_id).items():
            parts.setdefault(name, []).append(array)
    for name, arrays in parts.items():
        if len(arrays) != len(order):
            raise DataError(f"{saved.folder}: tensor '{name}' is there for {len(arrays)} of {len(order)} samples.")
    return {name: stack_samples(name, arrays) for name, arrays in parts.items()}


def _arrays(path: Path) -> Tensors:
    size_bytes = sum(header.size_bytes for header in read_headers(path).values())
    if size_bytes > _MAX_BYTES:
        raise DataError(f"{path}: {size_bytes} bytes exceed the limit of {_MAX_BYTES}.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: damaged: {error}.", hint="Save it again.") from error
