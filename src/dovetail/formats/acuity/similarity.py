"""Compare golden tensors as `compute_tensor_similarity` does, and then so that one good half hides no bad one.

The two figures of Acuity's tool come first: the length of the difference and the cosine, in float64 without an epsilon.
A whole-tensor cosine of 0.99999 was measured with every class score at zero: the verdict is that of the worst group.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dovetail.errors import FormatError
from dovetail.formats.acuity.tensors import parse_tensor_name, read_tensor_file
from dovetail.ir.dtypes import AnyArray

_SLICE = re.compile(r"(?P<name>[^=]+)=(?P<start>\d{1,9})?:(?P<stop>\d{1,9})?")


@dataclass(frozen=True, slots=True)
class Similarity:
    """The figures of one pair; `worst` names the group with the lowest cosine."""

    euclidean_distance: float
    cos_similarity: float
    max_abs: float
    rmse: float
    sqnr_db: float
    exact_share: float
    worst: str
    worst_cosine: float

    def lines(self) -> tuple[str, ...]:
        """Return what is printed: Acuity's two figures first."""
        return (
            f"euclidean_distance {self.euclidean_distance:.6f}",
            f"cos_similarity {self.cos_similarity:.6f}",
            f"max_abs {self.max_abs:.6g}",
            f"rmse {self.rmse:.6g}",
            f"sqnr_db {self.sqnr_db:.2f}",
            f"exact {100 * self.exact_share:.2f} %",
            f"worst_group {self.worst} cos_similarity {self.worst_cosine:.6f}",
        )


@dataclass(frozen=True, slots=True)
class Grouping:
    """Which parts of a tensor are judged alone: every index of an axis, or named ranges of its last axis."""

    axis: int | None = None
    slices: tuple[tuple[str, int, int | None], ...] = ()


def parse_slices(texts: Sequence[str]) -> Grouping:
    """Return the groups that `NAME=START:STOP` name on the last axis; raise FormatError when one does not."""
    slices: list[tuple[str, int, int | None]] = []
    for text in texts:
        match = _SLICE.fullmatch(text)
        if match is None:
            hint = "For example box=0:4."
            raise FormatError(f"'{text}' is no NAME=START:STOP.", path="slice", line=0, code="SLICE", hint=hint)
        stop = match["stop"]
        slices.append((match["name"], int(match["start"] or 0), None if stop is None else int(stop)))
    return Grouping(slices=tuple(slices))


def similarity(golden: AnyArray, test: AnyArray, grouping: Grouping | None = None, where: str = "pair") -> Similarity:
    """Return the figures of two tensors of one size; raise FormatError when the sizes differ."""
    if golden.size != test.size or not golden.size:
        raise FormatError(f"{golden.size} golden values, {test.size} measured.", path=where, line=0, code="SHAPE")
    one = golden.astype(np.float64)
    other = test.astype(np.float64).reshape(one.shape)
    noise = one - other
    squared = float(np.sum(noise**2))
    signal = float(np.sum(one**2))
    groups = _groups(one, other, grouping or Grouping(), where)
    worst = min(groups, key=lambda name: groups[name])
    # The quotient of the two may be too small for a float.
    sqnr = np.inf if squared == 0 else 10 * (np.log10(signal) - np.log10(squared)) if signal > 0 else -np.inf
    return Similarity(
        euclidean_distance=float(np.sqrt(squared)),
        cos_similarity=cosine(one, other),
        max_abs=float(np.max(np.abs(noise))),
        rmse=float(np.sqrt(np.mean(noise**2))),
        sqnr_db=float(sqnr),
        exact_share=float(np.mean(one == other)),
        worst=worst,
        worst_cosine=groups[worst],
    )


def cosine(one: AnyArray, other: AnyArray) -> float:
    """Return the cosine of two tensors: 1 when both are zero, 0 when one is or a value is not finite."""
    lengths = float(np.linalg.norm(one)), float(np.linalg.norm(other))
    if not np.all(np.isfinite(lengths)):
        return 0.0
    if 0.0 in lengths:
        return 1.0 if lengths == (0.0, 0.0) else 0.0
    return float(np.clip(np.dot(one.reshape(-1) / lengths[0], other.reshape(-1) / lengths[1]), -1.0, 1.0))


def _groups(one: AnyArray, other: AnyArray, grouping: Grouping, where: str) -> Mapping[str, float]:
    cosines: dict[str, float] = {}
    for name, start, stop in grouping.slices:
        parts = one[..., start:stop], other[..., start:stop]
        if not parts[0].size:
            raise FormatError(f"the slice '{name}' is empty.", path=where, line=0, code="SLICE")
        cosines[name] = cosine(*parts)
    axis = grouping.axis
    if axis is None and not cosines and one.ndim > 1:
        axis = one.ndim - 1
    if axis is not None:
        if not -one.ndim <= axis < one.ndim:
            raise FormatError(f"axis {axis} of {one.ndim}.", path=where, line=0, code="SLICE")
        rows = np.moveaxis(one, axis, 0), np.moveaxis(other, axis, 0)
        cosines |= {f"axis {axis} index {i}": cosine(rows[0][i], rows[1][i]) for i in range(rows[0].shape[0])}
    return cosines or {"whole": cosine(one, other)}


def compare_files(golden: Path, test: Path, grouping: Grouping | None = None) -> Similarity:
    """Return the figures of two files."""
    return similarity(read_tensor_file(golden), read_tensor_file(test), grouping, f"{golden} / {test}")


def compare_folders(golden: Path, test: Path, grouping: Grouping | None = None) -> Mapping[str, Similarity]:
    """Return the figures of every tensor that two folders have under one name; raise FormatError when none is."""
    files = sorted(path.name for path in golden.iterdir() if path.is_file() and parse_tensor_name(path.name))
    pairs = [name for name in files if (test / name).is_file()]
    if not pairs:
        hint = "Names are like iter_0_..._out0_1_25200_85.tensor."
        raise FormatError(f"no tensor of the same name in {test}.", path=str(golden), line=0, code="NO_PAIR", hint=hint)
    return {name: compare_files(golden / name, test / name, grouping) for name in pairs}
