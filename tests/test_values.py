"""The values of the inner rooms: which of them may change, and what they are where nobody says otherwise."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import pkgutil
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

ROOMS = ("ir", "plan", "quantize", "partition", "search", "bundle", "cost")
MUTABLE = {
    "ir.parse._Draft",
    "quantize.statistics.PowerMeter",
    "quantize.statistics._Sum",
    "search.bisect.strategy._State",
    "search.confirm._Repeats",
    "search.fanout.pool._Running",
    "search.optimum.hitting._Search",
    "search.optimum.programme._Rows",
    "search.oracle._Progress",
    "search.strategy._Block",
}
"""What is filled step by step, in one function or by one owner."""
NO_DATACLASSES = {"ir.node.Body", "search.fanout.contained._ThreadChild"}
"""Classes with fields that are something else: a protocol, and what a thread has of its own."""
GOLDEN = Path(__file__).parent / "golden" / "defaults.txt"


def _classes() -> Iterator[tuple[str, type]]:
    for room in ROOMS:
        package = importlib.import_module(f"dovetail.{room}")
        walked = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        for name in (package.__name__, *(item.name for item in walked if not item.name.endswith("__main__"))):
            for value in vars(importlib.import_module(name)).values():
                if isinstance(value, type) and value.__module__ == name:
                    yield f"{name}.{value.__qualname__}".removeprefix("dovetail."), value


def test_values_cannot_be_changed_but_for_a_few() -> None:
    mutable, others = set(), set()
    for name, value in _classes():
        if dataclasses.is_dataclass(value):
            if not value.__dataclass_params__.frozen:  # type: ignore[attr-defined]
                mutable.add(name)
        elif inspect.get_annotations(value) and not issubclass(value, Enum):
            others.add(name)
    assert mutable == MUTABLE
    assert others == NO_DATACLASSES


def _defaults() -> Iterator[str]:
    """Yield the plain defaults; those of the policies have a golden text of their own."""
    for name, value in _classes():
        if dataclasses.is_dataclass(value) and not name.startswith("search.policy."):
            for item in dataclasses.fields(value):
                if isinstance(item.default, bool | int | float | str | bytes | None | tuple | Enum):
                    yield f"{name}.{item.name} = {item.default!r}"


def test_defaults_are_these() -> None:
    """Who says nothing gets these: to change one is to change what users get."""
    text = "\n".join(sorted(set(_defaults()))) + "\n"
    if os.environ.get("DOVETAIL_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
