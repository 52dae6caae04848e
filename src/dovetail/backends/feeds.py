"""Checks of what a caller gives an executable: no runtime below should meet a wrong array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.backend.protocols import Signature
from dovetail.errors import DeviceError
from dovetail.ir import AnyArray, TensorType

Sizes = dict[str, int]
"""What the symbolic sizes of a signature are in one run."""


def check_feeds(where: str, signature: Signature, inputs: Mapping[str, AnyArray]) -> Sizes:
    """Return the symbolic sizes of a run; raise DeviceError when an input does not fit the signature."""
    unknown = [name for name in inputs if name not in signature.inputs]
    if unknown:
        raise DeviceError(f"{where}: no input is called '{unknown[0]}'.", hint=f"Known: {_names(signature.inputs)}.")
    sizes: Sizes = {}
    for name, kind in signature.inputs.items():
        if name not in inputs:
            raise DeviceError(f"{where}: input '{name}' is missing.", hint=f"Needed: {_names(signature.inputs)}.")
        _check(f"{where}: input '{name}'", inputs[name], kind, sizes)
    return sizes


def _check(what: str, value: object, kind: TensorType, sizes: Sizes) -> None:
    if not isinstance(value, np.ndarray):
        raise DeviceError(f"{what} is {type(value).__name__}, not a numpy array.")
    if value.dtype != kind.dtype.carrier:
        raise DeviceError(
            f"{what} holds {value.dtype} but must hold {kind.dtype.carrier}.",
            hint="Quantised tensors are given as stored integers." if kind.quant is not None else None,
        )
    if kind.shape is None:
        return
    if value.ndim != len(kind.shape):
        raise DeviceError(f"{what} has {value.ndim} dimensions but must have {len(kind.shape)}.")
    for axis, (size, expected) in enumerate(zip(value.shape, kind.shape, strict=True)):
        known = sizes.setdefault(expected, size) if isinstance(expected, str) else expected
        if known is not None and known != size:
            label = f" ('{expected}')" if isinstance(expected, str) else ""
            raise DeviceError(f"{what} has {size} along axis {axis} but must have {known}{label}.")


def same_signature(where: str, signature: Signature, inputs: Mapping[str, TensorType], outputs: Sequence[str]) -> None:
    """Raise DeviceError when a blob was made for other inputs or outputs than the caller expects."""
    if set(signature.inputs) != set(inputs) or set(signature.outputs) != set(outputs):
        raise DeviceError(
            f"{where}: made for inputs {_names(inputs)} and outputs {', '.join(sorted(outputs))}, "
            f"but asked for {_names(signature.inputs)} and {_names(signature.outputs)}.",
            hint="Compile the model again.",
        )
    for name, kind in inputs.items():
        expected = signature.inputs[name]
        if kind.dtype is not expected.dtype or kind.quant != expected.quant:
            raise DeviceError(
                f"{where}: input '{name}' was compiled as {kind.dtype.value}, asked for as {expected.dtype.value}, "
                "or with another scale.",
                hint="Compile the model again.",
            )


def _names(names: Mapping[str, object]) -> str:
    return ", ".join(sorted(names)) or "none"
