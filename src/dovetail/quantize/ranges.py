"""Ranges: what calibration learnt about every tensor."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from dovetail.errors import QuantizeError
from dovetail.seal import parse_json, sealed, unsealed

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Range:
    """Bound the values of a tensor."""

    low: float
    high: float


@dataclass(frozen=True)
class Ranges:
    """The range of every real tensor of one graph, and how it was found."""

    graph_digest: str
    method: str
    samples: int
    tensors: Mapping[str, Range]
    means: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The mean of every channel (axis 1) of tensors; biases behind them are corrected for the rounding of weights."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))
        object.__setattr__(self, "means", MappingProxyType(dict(self.means)))

    def of(self, tensor: str) -> Range:
        """Return the range of a tensor; raise QuantizeError when calibration has not seen it."""
        known = self.tensors.get(tensor)
        if known is None and not self.tensors:
            raise QuantizeError(
                f"tensor '{tensor}' needs a range for its integers, and there are no ranges.",
                hint="Calibrate first.",
                option="ranges",
            )
        if known is None:
            raise QuantizeError(
                f"tensor '{tensor}' has no range: calibration never saw a value of it.",
                hint="Calibrate with samples that reach it, or place its nodes on cpu@fp32.",
            )
        return known

    @cached_property
    def digest(self) -> str:
        """Return a SHA-256 over the ranges."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Return the ranges as JSON text."""
        document: dict[str, object] = {
            "schema": SCHEMA,
            "kind": "dovetail-ranges",
            "graph": self.graph_digest,
            "method": self.method,
            "samples": self.samples,
            "tensors": {name: [item.low, item.high] for name, item in sorted(self.tensors.items())},
        }
        if self.means:
            document["means"] = {name: list(values) for name, values in sorted(self.means.items())}
        return json.dumps(sealed(document), indent=1, ensure_ascii=False) + "\n"

    def save(self, path: Path) -> None:
        """Write the ranges to a file."""
        path.write_text(self.to_json(), encoding="utf-8")


def ranges_from_json(text: str, where: str = "ranges") -> Ranges:
    """Return the ranges in a JSON text; raise QuantizeError naming what is wrong."""
    try:
        document = parse_json(text)
        document = unsealed(document) if isinstance(document, dict) else document
        if document["kind"] != "dovetail-ranges" or document["schema"] != SCHEMA:
            raise QuantizeError(f"{where}: not Dovetail ranges of schema {SCHEMA}.")
        tensors = {str(name): _range(low, high) for name, (low, high) in document["tensors"].items()}
        means = {str(name): _means(values) for name, values in document.get("means", {}).items()}
        return Ranges(str(document["graph"]), str(document["method"]), int(document["samples"]), tensors, means)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise QuantizeError(
            f"{where}: malformed: {error!r}.", hint="Calibrate again with 'dovetail calibrate'."
        ) from error


def load_ranges(path: Path) -> Ranges:
    """Return the ranges in a file; raise QuantizeError when it cannot be read."""
    try:
        return ranges_from_json(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise QuantizeError(f"{path}: cannot be read: not text, so no file of ranges.") from error
    except OSError as error:
        raise QuantizeError(f"{path}: cannot be read: {error}.") from error


def _range(low: object, high: object) -> Range:
    limits = Range(_number(low), _number(high))
    if not (math.isfinite(limits.low) and math.isfinite(limits.high) and limits.low <= limits.high):
        raise ValueError(f"[{low}, {high}] is not a range")
    return limits


def _means(values: object) -> tuple[float, ...]:
    if not isinstance(values, list) or not all(math.isfinite(_number(value)) for value in values):
        raise ValueError(f"{str(values)[:40]} are no means")
    return tuple(map(_number, values))


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a range is a pair of numbers")
    return float(value)
