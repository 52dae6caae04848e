"""Arrays in files: inputs row by row from an `.npz`, and outputs into one; nothing that a header says is believed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from dovetail.data.conform import conform
from dovetail.data.npz_rows import open_archive, read_headers, read_rows, zip_errors
from dovetail.data.specs import specs_of
from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.types import TensorType


def read_feeds(path: Path, inputs: Mapping[str, TensorType]) -> Iterator[Mapping[str, AnyArray]]:
    """Yield the inputs of every sample in an `.npz` whose arrays `[N, ...]` are named like the inputs.

    A single input may have any name where the file has one array. Raises DataError for what is missing, damaged or does
    not fit.
    """
    specs = specs_of(inputs)
    if not path.is_file():
        raise DataError(f"{path}: no such file.", hint="Give an .npz with arrays named like the model's inputs.")
    headers = read_headers(path)
    members = {spec.name: spec.name for spec in specs}
    if len(specs) == 1 and specs[0].name not in headers and len(headers) == 1:
        members = {specs[0].name: next(iter(headers))}
    for name, member in members.items():
        if member not in headers:
            raise DataError(f"{path}: no array for input '{name}'; found {', '.join(headers)}.")
        if not headers[member].shape:
            raise DataError(f"{path}: '{member}' is a single number, not [N, ...].")
    counts = {headers[member].shape[0] for member in members.values()}
    if len(counts) > 1:
        raise DataError(f"{path}: the inputs differ in their number of samples: {sorted(counts)}.")
    with ExitStack() as stack:
        archive = stack.enter_context(open_archive(path))
        columns = {
            name: read_rows(archive, member, headers[member], None, f"{path}: '{member}'", stack)
            for name, member in members.items()
        }
        for number in range(counts.pop() if counts else 0):
            with zip_errors(f"{path}: sample {number}"):
                rows = {name: next(column) for name, column in columns.items()}
            yield {spec.name: conform(rows[spec.name], spec, str(number)) for spec in specs}


def write_rows(path: Path, samples: Sequence[Mapping[str, AnyArray]]) -> None:
    """Write arrays `[N, ...]` of N samples, all or nothing; raise DataError where that cannot be.

    Where samples differ in shape, as the boxes of a detector do, the array of sample i is called `NAME@i`.
    """
    columns: dict[str, AnyArray] = {}
    for name in samples[0] if samples else ():
        rows = [sample[name] for sample in samples]
        if len({row.shape for row in rows}) == 1:
            columns[name] = np.stack(rows)
        else:
            columns.update({f"{name}@{number}": row for number, row in enumerate(rows)})
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: is no file that can be replaced.", hint="Choose another name.")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            # Names of tensors are no names of arguments, such as `file`.
            _save(file, columns)
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise DataError(f"{path}: cannot be written: {error.strerror}.", hint="Choose another place.") from error


def _save(file: object, columns: Mapping[str, AnyArray]) -> None:
    import zipfile

    with zipfile.ZipFile(file, "w") as archive:  # type: ignore[call-overload]
        for name, column in columns.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, column, allow_pickle=False)
