"""Requests of one model that are run together: which may be, and that nobody can tell from their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from dovetail.bundle.bundle import Bundle
from dovetail.errors import DovetailError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.types import TensorType
from dovetail.runtime.record import Run
from dovetail.runtime.session import Session

Arrays = Mapping[str, AnyArray]
RowShapes = tuple[tuple[str, tuple[int, ...]], ...]
"""The inputs of a request with their shapes behind the first axis: those that are equal can be joined."""

_SEED = 20


def row_shapes(inputs: Arrays) -> RowShapes | None:
    """Return what requests have in common that can be joined; None where the inputs have no common number of rows."""
    if not inputs or any(array.ndim == 0 for array in inputs.values()):
        return None
    if len({array.shape[0] for array in inputs.values()}) != 1 or not rows_of(inputs):
        return None
    return tuple(sorted((name, array.shape[1:]) for name, array in inputs.items()))


def rows_of(inputs: Arrays) -> int:
    """Return the rows of inputs that have them in common."""
    return len(next(iter(inputs.values())))


def join(parts: Sequence[Arrays]) -> dict[str, AnyArray]:
    """Return the inputs of several requests, one below the other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def split(run: Run, rows: Sequence[int]) -> Iterator[Run]:
    """Yield what each of several requests gets of a run over all of their rows.

    Raises ValueError where an output does not have as many.
    """
    total = sum(rows)
    if any(array.ndim == 0 or len(array) != total for array in run.outputs.values()):
        raise ValueError("an output has other rows than the inputs")
    start = 0
    for count in rows:
        yield replace(run, outputs={name: array[start : start + count] for name, array in run.outputs.items()})
        start += count


def why_not_joined(session: Session, most_rows: int) -> str:
    """Return why requests may not be joined; empty where they may.

    Every input and output has to have the same open first size, and rows have to give the same bytes whatever stands
    beside them: that is tried with random rows, as libraries choose their kernels by the number of rows.
    """
    bundle = session.bundle
    if _row_symbol(bundle) is None:
        return "its inputs and outputs have no open first size in common"
    if any(_is_open(kind) for kind in bundle.inputs.values()):
        return "its inputs have other open sizes, for all of which it cannot be tried"
    try:
        return _tried(session, most_rows)
    except DovetailError as error:
        return f"it cannot be tried: {error.message}"


def _tried(session: Session, most_rows: int) -> str:
    counts = sorted({min(count, most_rows) for count in (2, 3, 5, 8, 13, most_rows)})
    inputs = _random_rows(session.bundle, counts[-1])
    single = [
        dict(session.run({name: array[row : row + 1] for name, array in inputs.items()}).outputs)
        for row in range(counts[-1])
    ]
    for count in counts:
        together = session.run({name: array[:count] for name, array in inputs.items()})
        for name, array in together.outputs.items():
            alone = np.concatenate([outputs[name] for outputs in single[:count]])
            if array.shape != alone.shape or array.tobytes() != alone.tobytes():
                return f"'{name}' of {count} rows differs from that of single ones"
    return ""


def _random_rows(bundle: Bundle, count: int) -> dict[str, AnyArray]:
    rng = np.random.default_rng(_SEED)
    found: dict[str, AnyArray] = {}
    for name, kind in bundle.inputs.items():
        shape = (count, *(size for size in (kind.shape or ())[1:] if isinstance(size, int)))
        if kind.dtype.is_float:
            found[name] = rng.normal(size=shape).astype(kind.dtype.carrier)
        else:
            # Stored values of quantised inputs may be anything; others may be indices, which have to be small.
            low, high = kind.dtype.integer_range if kind.quant is not None else (0, 1)
            found[name] = rng.integers(low, high, size=shape, endpoint=True).astype(kind.dtype.carrier)
    return found


def _row_symbol(bundle: Bundle) -> str | None:
    """Return the open first size that all inputs and outputs have; None where they have none in common."""
    firsts = [kind.shape[0] if kind.shape else None for kind in (*bundle.inputs.values(), *bundle.outputs.values())]
    first = reduce(lambda a, b: a if a == b else None, firsts)
    return first if isinstance(first, str) else None


def _is_open(kind: TensorType) -> bool:
    return not all(isinstance(size, int) for size in (kind.shape or ())[1:])
