"""The prices of the parts, as `benchmarks/fit_prices.py` fitted them to the vendor's performance model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from dovetail.backend.fitted import FittedForm, FittedPrices
from dovetail.errors import DovetailError
from dovetail.ir.precision import Precision

SCHEMA = 1
FILE = Path(__file__).with_name("prices.json")


@cache
def fitted_prices() -> Mapping[str, FittedPrices]:
    """Return the prices that are part of this package, by the simulator's name of the part."""
    return prices_from_json(FILE.read_bytes(), FILE.name) if FILE.is_file() else {}


def prices_from_json(data: bytes, where: str) -> dict[str, FittedPrices]:
    """Return the prices in a file; raise DovetailError when it is damaged."""
    try:
        document = json.loads(data)
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r}, this Dovetail reads {SCHEMA}")
        return {str(name): _part(entry, str(document["sdk"])) for name, entry in document["parts"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DovetailError(
            f"{where}: the table of prices is damaged: {error}.", hint="Install Dovetail again."
        ) from error


def prices_to_json(prices: Mapping[str, FittedPrices], version: str, source: str) -> bytes:
    """Return prices as JSON text; `source` says which generated networks they were fitted to."""
    parts = {name: _entry(part) for name, part in sorted(prices.items())}
    return (json.dumps({"schema": SCHEMA, "sdk": version, "source": source, "parts": parts}, indent=1) + "\n").encode()


def _part(entry: Mapping[str, Mapping[str, Mapping[str, object]]], version: str) -> FittedPrices:
    forms = {
        (kind, Precision(precision)): _form(form)
        for kind, by_precision in entry.items()
        for precision, form in by_precision.items()
    }
    return FittedPrices(version, forms)


def _form(entry: Mapping[str, object]) -> FittedForm:
    coefficients = entry["cycles"]
    if not isinstance(coefficients, dict):
        raise TypeError("coefficients are expected as an object")
    numbers = {str(name): float(value) for name, value in coefficients.items()}
    if any(value < 0 for value in numbers.values()):
        raise ValueError("a coefficient is negative")
    operators, median, upper = (entry[name] for name in ("operators", "median_error", "upper_error"))
    return FittedForm(numbers, int(str(operators)), float(str(median)), float(str(upper)))


def _entry(prices: FittedPrices) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for (kind, precision), form in sorted(prices.forms.items(), key=lambda item: (item[0][0], item[0][1].value)):
        found.setdefault(kind, {})[precision.value] = {
            "operators": form.operators,
            "median_error": round(form.median_error, 3),
            "upper_error": round(form.upper_error, 3),
            "cycles": dict(form.coefficients),
        }
    return found
