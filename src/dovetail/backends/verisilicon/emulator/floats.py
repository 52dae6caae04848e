"""The floats of the engines: 21 bits in the tensor processor, 32 bits in the shaders."""

from __future__ import annotations

import numpy as np

from dovetail.ir import AnyArray

_SIGNIFICANT_BITS = 16


def fp21(values: AnyArray | float) -> AnyArray:
    """Round to the tensor processor's floats: 16 significant bits, ties to even; kept in float64."""
    exact = np.asarray(values, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        _, exponent = np.frexp(np.where(np.isfinite(exact), exact, 0.0))
        unit = np.ldexp(1.0, exponent - _SIGNIFICANT_BITS)
        rounded = np.rint(exact / unit) * unit
    return np.where(np.isfinite(exact), rounded, exact)


def fp21_away(values: AnyArray | float) -> AnyArray:
    """Round float32 to 16 significant bits, ties away from zero, as the newest parts' drivers fill tables."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    finite = (bits & np.uint32(0x7F800000)) != np.uint32(0x7F800000)
    moved = np.where(finite, (bits + np.uint32(0x80)) & np.uint32(0xFFFFFF00), bits).astype(np.uint32)
    return np.asarray(moved.view(np.float32).astype(np.float64))


def rounded(values: AnyArray, bits: int) -> AnyArray:
    """Round finite floats to some significant bits, ties to even."""
    unit = np.ldexp(1.0, np.frexp(values)[1] - bits)
    return np.asarray(np.rint(values / unit) * unit)


def rounded_up(values: AnyArray, bits: int) -> AnyArray:
    """Round finite floats to some significant bits, ties upwards."""
    unit = np.ldexp(1.0, np.frexp(values)[1] - bits)
    return np.asarray(np.floor(values / unit + 0.5) * unit)


def truncated(values: AnyArray, bits: int) -> AnyArray:
    """Cut finite floats to some significant bits, towards zero."""
    unit = np.ldexp(1.0, np.frexp(values)[1] - bits)
    return np.asarray(np.trunc(values / unit) * unit)


def single(values: AnyArray | float) -> AnyArray:
    """Round to float32; kept in float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.asarray(values, np.float64).astype(np.float32).astype(np.float64))


def saturated(values: AnyArray, lowest: int, highest: int) -> AnyArray:
    """Round to integers, ties to even, within limits; what is not a number becomes the highest."""
    with np.errstate(invalid="ignore"):
        clipped = np.clip(np.rint(values), lowest, highest)
    return np.where(np.isnan(clipped), float(highest), clipped)
