"""Checks of what goes in and of what a device gives back: nothing wrong is handed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from dovetail.backend.protocols import Signature
from dovetail.errors import DeviceError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.types import TensorType


class Guard(Enum):
    """What is checked of every tensor that a partition makes."""

    SHAPES = "shapes"
    """Presence, type and shape."""
    NUMBERS = "numbers"
    """That no partition makes NaN or infinity of finite inputs, too; reads every tensor once more."""


Known = tuple[str, tuple[int, ...], np.dtype[Any]]
"""A tensor of static shape: name, shape, element type."""


def known_of(kinds: Mapping[str, TensorType]) -> tuple[Known, ...]:
    """Return the tensors whose shape is static."""
    return tuple(
        (name, kind.static_shape, kind.dtype.carrier) for name, kind in kinds.items() if kind.static_shape is not None
    )


def fits(known: Sequence[Known], arrays: Mapping[str, AnyArray]) -> bool:
    """Tell whether arrays are certainly right, at little cost; the checks below say what is wrong with others."""
    for name, shape, dtype in known:
        array = arrays.get(name)
        if type(array) is not np.ndarray or array.shape != shape or array.dtype != dtype:
            return False
    return bool(known)


def check_inputs(expected: Mapping[str, TensorType], arrays: Mapping[str, AnyArray]) -> None:
    """Raise DeviceError when inputs are missing, unknown or of the wrong type or shape."""
    for name in arrays:
        if name not in expected:
            raise DeviceError(f"input '{name}' is unknown.", hint=f"The model reads: {', '.join(expected)}.")
    symbols: dict[str, int] = {}
    for name, kind in expected.items():
        if name not in arrays:
            raise DeviceError(f"input '{name}' is missing.", hint=f"The model reads: {', '.join(expected)}.")
        array = arrays[name]
        if not isinstance(array, np.ndarray) or array.dtype != kind.dtype.carrier:
            found = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise DeviceError(f"input '{name}' is {found}; {kind.dtype.carrier} is expected.")
        if kind.shape is not None and not _fits(kind.shape, array.shape, symbols):
            raise DeviceError(f"input '{name}' has shape {list(array.shape)}; [{_text(kind.shape)}] is expected.")


def check_outputs(where: str, signature: Signature, outputs: Mapping[str, AnyArray]) -> None:
    """Raise DeviceError when a partition gives back what its signature does not say."""
    for name, kind in signature.outputs.items():
        array = outputs.get(name)
        if array is None:
            raise DeviceError(f"{where}: output '{name}' is missing.", hint=_DEFECT)
        if not isinstance(array, np.ndarray) or array.dtype != kind.dtype.carrier:
            found = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise DeviceError(f"{where}: output '{name}' is {found}, not {kind.dtype.carrier}.", hint=_DEFECT)
        # Sizes that depend on data have names that no input tells: only what is known is compared.
        if kind.shape is not None and not _fits(kind.shape, array.shape, {}):
            raise DeviceError(
                f"{where}: output '{name}' has shape {list(array.shape)}, not [{_text(kind.shape)}].", hint=_DEFECT
            )


_DEFECT = "This is a defect of the backend: place these nodes elsewhere."


def check_numbers(where: str, inputs: Mapping[str, AnyArray], outputs: Mapping[str, AnyArray]) -> None:
    """Raise DeviceError when finite inputs gave NaN or infinity."""
    bad = [name for name, array in outputs.items() if not is_finite(array)]
    if bad and all(map(is_finite, inputs.values())):
        what = "NaN" if np.isnan(outputs[bad[0]]).any() else "infinity"
        raise DeviceError(
            f"{where}: output '{bad[0]}' holds {what}, and its inputs are finite.",
            hint="Compare each border with the golden run, as 'dovetail run' can.",
            option="verify",
        )


def is_finite(array: AnyArray) -> bool:
    """Tell whether an array has neither NaN nor infinity."""
    if array.dtype.kind != "f":
        return True
    if array.dtype.itemsize > 2:
        # NaN and infinity reach the sum of squares, which takes less than looking at every element.
        flat = array.ravel(order="K")
        with np.errstate(all="ignore"):
            if np.isfinite(np.dot(flat, flat)):
                return True
    return bool(np.isfinite(array).all())


def _text(shape: Sequence[int | str | None]) -> str:
    return ", ".join("?" if dim is None else str(dim) for dim in shape)


def _fits(expected: Sequence[int | str | None], shape: Sequence[int], symbols: dict[str, int]) -> bool:
    if len(expected) != len(shape):
        return False
    for want, size in zip(expected, shape, strict=True):
        known = symbols.setdefault(want, size) if isinstance(want, str) else want
        if known is not None and known != size:
            return False
    return True
