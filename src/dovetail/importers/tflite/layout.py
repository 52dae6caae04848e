"""Orders of dimensions: channels last as in the file, channels first as ONNX operators want them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum


class TensorForm(Enum):
    """Where the channels of a tensor are."""

    LAST = "channels_last"
    FIRST = "channels_first"


def order_to(form: TensorForm, rank: int) -> tuple[int, ...]:
    """Return the permutation that brings a tensor of the other form into this one."""
    if rank < 3:
        return tuple(range(rank))
    if form is TensorForm.FIRST:
        return (0, rank - 1, *range(1, rank - 1))
    return (0, *range(2, rank), 1)


def axis_in(form: TensorForm, axis: int, rank: int) -> int:
    """Return where an axis of the file's order (negative counts from the end) lies in a form."""
    axis = axis + rank if axis < 0 else axis
    if form is TensorForm.LAST or rank < 3:
        return axis
    return order_to(TensorForm.LAST, rank)[axis]


def permuted(sizes: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Return sizes in a new order."""
    return tuple(sizes[axis] for axis in order)


def moves_nothing(shape: Sequence[int], order: Sequence[int]) -> bool:
    """Tell whether a permutation leaves the elements where they are in memory."""
    kept = [axis for axis in order if shape[axis] != 1]
    return kept == sorted(kept)
