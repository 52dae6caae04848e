"""Write figures for people."""

from __future__ import annotations

import math

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def bytes_text(size_bytes: int | None) -> str:
    """Write a size: `1.5 KiB`; a size that depends on the input is `?`."""
    if size_bytes is None:
        return "?"
    value, unit = float(size_bytes), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{size_bytes} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def count_text(count: int | None) -> str:
    """Write a large count: `12.3 M`; None is `?`."""
    if count is None:
        return "?"
    for factor, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return str(count)


def time_text(elapsed_ns: float | None) -> str:
    """Write a duration given in nanoseconds; None is `-`."""
    if elapsed_ns is None:
        return "-"
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if elapsed_ns >= factor:
            return f"{elapsed_ns / factor:.2f} {unit}"
    return f"{elapsed_ns:.0f} ns"


def number_text(value: float | None, digits: int = 4) -> str:
    """Write a figure to some significant digits; None is `-`."""
    if value is None:
        return "-"
    if math.isnan(value) or math.isinf(value):
        return str(value)
    return f"{value:.{digits}g}"
