"""Samples from one `.npz` file, read row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from dovetail.data.conform import describe_shape, fitted_shape
from dovetail.data.image import is_image_shape
from dovetail.data.npy import MAX_SAMPLE_BYTES, NpyHeader
from dovetail.data.npz_rows import open_archive, read_headers, read_rows, zip_errors
from dovetail.data.reader import Wanted
from dovetail.data.sample import Sample
from dovetail.data.source import hash_file, hash_text
from dovetail.errors import DataError


class NpzStore:
    """Read inputs `[N, ...]` and labels `[N, ...]`; `member` names the array of a single input.

    Arrays without the leading dimension N are no labels and are left out.
    """

    def __init__(self, path: Path, wanted: Wanted, member: str | None = None) -> None:
        self._path = path
        self._wanted = wanted
        self._headers = read_headers(path)
        self._members = self._choose(member)
        self.count = self._common_count()
        used = set(self._members.values())
        self._labels = tuple(
            name
            for name, header in self._headers.items()
            if name not in used and header.shape[:1] == (self.count,) and not header.fortran
        )
        self._check_rows()
        self._check_labels()

    def digest(self) -> str:
        return hash_text([self._wanted.digest(), repr(sorted(self._members.items())), hash_file(self._path)])

    def read(self, indices: Sequence[int] | None) -> Iterator[Sample]:
        columns = {**{name: name for name in self._labels}, **self._members}
        with ExitStack() as stack:
            archive = stack.enter_context(open_archive(self._path))
            rows = {
                key: read_rows(archive, member, self._headers[member], indices, f"{self._path}: {member!r}", stack)
                for key, member in columns.items()
            }
            for index in indices if indices is not None else range(self.count):
                sample_id = f"{index:06d}"
                with zip_errors(f"{self._path}: sample {sample_id!r}"):
                    arrays = {key: next(stream) for key, stream in rows.items()}
                yield Sample(
                    sample_id,
                    self._wanted.inputs_of({name: arrays[name] for name in self._members}, sample_id),
                    {name: arrays[name] for name in self._labels},
                )

    def _choose(self, member: str | None) -> dict[str, str]:
        names = [spec.name for spec in self._wanted.inputs]
        if member is not None:
            spec = self._wanted.single(f"'{self._path}#{member}'")
            if member not in self._headers:
                raise DataError(f"{self._path}: no array {member!r}; found {', '.join(self._headers)}.")
            return {spec.name: member}
        if all(name in self._headers for name in names):
            return {name: name for name in names}
        if len(names) > 1:
            missing = next(name for name in names if name not in self._headers)
            raise DataError(
                f"{self._path}: no array for input {missing!r}; found {', '.join(self._headers)}.",
                hint="Name the arrays as the inputs of the model.",
            )
        fitting = [name for name, header in self._headers.items() if self._fits(header)]
        if len(fitting) == 1:
            return {names[0]: fitting[0]}
        shown = {name: self._headers[name] for name in fitting} or self._headers
        shapes = ", ".join(f"{name} {describe_shape(h.shape)} {h.dtype}" for name, h in shown.items())
        expected = f"input {names[0]!r} {describe_shape(self._wanted.inputs[0].shape)}"
        if fitting:
            choices = " or ".join(f"'{self._path.name}#{name}'" for name in fitting)
            raise DataError(f"{self._path}: several arrays fit {expected}: {shapes}.", hint=f"Write {choices}.")
        raise DataError(
            f"{self._path}: no array fits {expected} with a leading dimension for the samples; found {shapes}.",
            hint="Give a preprocess file when the arrays are raw uint8 pixels."
            if self._wanted.preprocess is None
            else "With a preprocess file the array is uint8 [N, H, W] or [N, H, W, 3].",
        )

    def _fits(self, header: NpyHeader) -> bool:
        if not header.shape or header.dtype.kind not in "biuf":
            return False
        if self._wanted.preprocess is not None:
            return header.dtype == np.uint8 and is_image_shape(header.shape[1:])
        return fitted_shape(header.shape[1:], self._wanted.inputs[0]) is not None

    def _common_count(self) -> int:
        counts: dict[str, int] = {}
        for member in self._members.values():
            shape = self._headers[member].shape
            if not shape:
                raise DataError(f"{self._path}: {member!r} is a single number, not [N, ...].")
            counts[member] = shape[0]
        if len(set(counts.values())) > 1:
            found = ", ".join(f"{name} has {count}" for name, count in counts.items())
            raise DataError(f"{self._path}: the inputs differ in their number of samples: {found}.")
        count = next(iter(counts.values()))
        if count == 0:
            raise DataError(f"{self._path}: the data set is empty.")
        return count

    def _check_labels(self) -> None:
        """Refuse the only array beside the inputs where it has another number of rows: it was meant for labels."""
        others = {name: header for name, header in self._headers.items() if name not in self._members.values()}
        if len(others) != 1:
            return
        ((name, header),) = others.items()
        if len(header.shape) in (1, 2) and header.shape[0] > 1 and header.shape[0] != self.count:
            raise DataError(
                f"{self._path}: {name!r} has {header.shape[0]} rows, and there are {self.count} samples.",
                hint="Give each sample its label, or leave the array out.",
            )

    def _check_rows(self) -> None:
        """Refuse shapes and sizes that cannot work before any value is read."""
        for spec in self._wanted.inputs:
            header = self._headers[self._members[spec.name]]
            row = header.shape[1:]
            if self._wanted.preprocess is None and fitted_shape(row, spec) is None:
                where = f"{self._path}: array {self._members[spec.name]!r}, input {spec.name!r}"
                raise DataError(
                    f"{where}: expected samples of shape {describe_shape(spec.shape)}, "
                    f"found {describe_shape(row)} (after the leading {self.count})."
                )
        for name in (*self._members.values(), *self._labels):
            header = self._headers[name]
            at_once = header.size_bytes if header.fortran else header.size_bytes // self.count
            if at_once > MAX_SAMPLE_BYTES:
                raise DataError(
                    f"{self._path}: {name!r}: {at_once} bytes at once exceed {MAX_SAMPLE_BYTES}.",
                    hint="Save it with numpy.ascontiguousarray." if header.fortran else "Use smaller samples.",
                )
