"""Sum up what runs give: values of tensors, and how long partitions take."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dovetail.ir import AnyArray
    from dovetail.report import Table

_MANIFEST_BYTES = 64 << 20


@dataclass(slots=True)
class _Values:
    shape: tuple[int, ...]
    dtype: str
    low: float = float("inf")
    high: float = float("-inf")
    total: float = 0.0
    count: int = 0
    bad: int = 0


@dataclass(slots=True)
class Tally:
    """Sum up the values of tensors over samples."""

    samples: int = 0
    _tensors: dict[str, _Values] = field(default_factory=dict)

    def add(self, tensors: Mapping[str, AnyArray]) -> None:
        """Take the tensors of one sample."""
        import numpy as np

        self.samples += 1
        for name, array in tensors.items():
            values = self._tensors.setdefault(name, _Values(array.shape, str(array.dtype)))
            real = array.astype(np.float64, copy=False)
            good = real[np.isfinite(real)]
            values.bad += int(real.size - good.size)
            values.count += int(good.size)
            if good.size:
                values.low, values.high = min(values.low, float(good.min())), max(values.high, float(good.max()))
                values.total += float(good.sum())

    def document(self) -> list[Mapping[str, object]]:
        """Return the sums as plain data."""
        return [
            {
                "name": name,
                "shape": list(item.shape),
                "dtype": item.dtype,
                "min": item.low,
                "max": item.high,
                "mean": item.total / item.count if item.count else None,
                "non_finite": item.bad,
            }
            for name, item in self._tensors.items()
        ]

    def table(self) -> Table:
        """Return the sums as a table."""
        from dovetail.report.figures import number_text
        from dovetail.report.page import Table, flexible, left, right

        rows = tuple(
            (
                name,
                f"{item.dtype}{list(item.shape)}",
                number_text(item.low),
                number_text(item.high),
                number_text(item.total / item.count if item.count else None),
                str(item.bad),
            )
            for name, item in self._tensors.items()
        )
        columns = (flexible("tensor"), left("type"), right("min"), right("max"), right("mean"), right("NaN or inf"))
        return Table("Outputs and taps (real values, all samples)", columns, rows)


@dataclass(slots=True)
class Timings:
    """How long every partition took on every sample."""

    _parts: dict[tuple[int, str, str], list[int]] = field(default_factory=dict)

    def add(self, index: int, target: str, device: str, elapsed_ns: int) -> None:
        """Take one run of one partition."""
        self._parts.setdefault((index, target, device), []).append(elapsed_ns)

    @contextmanager
    def measure(self, index: int, target: str, device: str) -> Iterator[None]:
        """Measure the body as one run."""
        start = time.perf_counter_ns()
        yield
        self.add(index, target, device, time.perf_counter_ns() - start)

    def document(self) -> list[Mapping[str, object]]:
        """Return the timings as plain data."""
        return [
            {
                "index": index,
                "target": target,
                "device": device,
                "median_ns": int(statistics.median(times)),
                "min_ns": min(times),
                "max_ns": max(times),
            }
            for (index, target, device), times in self._parts.items()
        ]

    def table(self) -> Table:
        """Return the timings as a table."""
        from dovetail.report.figures import time_text
        from dovetail.report.page import Table, left, right

        rows = [
            (
                str(index),
                target,
                device,
                time_text(statistics.median(times)),
                time_text(min(times)),
                time_text(max(times)),
            )
            for (index, target, device), times in self._parts.items()
        ]
        total = sum(statistics.median(times) for times in self._parts.values())
        columns = (right("#"), left("target"), left("device"), right("median"), right("fastest"), right("slowest"))
        note = f"Medians add up to {time_text(total)} a sample. A simulated device's time is not the hardware's."
        return Table("Partitions", columns, tuple(rows), note)


def golden_here(folder: Path) -> bool:
    """Tell whether a folder holds golden tensors."""
    return manifest_text(folder, "schema").startswith("dovetail.golden/")


def bundle_here(folder: Path) -> bool:
    """Tell whether a folder holds a bundle."""
    return manifest_text(folder, "kind") == "dovetail-bundle"


def manifest_text(folder: Path, key: str) -> str:
    """Return a text of a folder's manifest, or nothing when there is none."""
    path = folder / "manifest.json"
    try:
        if path.stat().st_size > _MANIFEST_BYTES:
            return ""
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    return str(document.get(key, "")) if isinstance(document, dict) else ""
