"""What the rooms hand around are values: nobody can change one, or hang something on it, after it was made."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from functools import cached_property

import pytest

ROOMS = ("ir", "plan", "quantize", "partition", "search", "bundle", "cost", "backend")
GROWING = {"PowerMeter", "ContainedExecutable"}
"""Public classes that add up or hold what runs, and are meant to change."""


def _dataclasses() -> list[type]:
    found: dict[str, type] = {}
    for room in ROOMS:
        package = importlib.import_module(f"dovetail.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, kind in vars(importlib.import_module(module.name)).items():
                if isinstance(kind, type) and kind.__module__ == module.name and dataclasses.is_dataclass(kind):
                    found[f"{module.name}.{name}"] = kind
    return [found[name] for name in sorted(found)]


ALL = _dataclasses()
VALUES = [kind for kind in ALL if not kind.__name__.startswith("_") and kind.__name__ not in GROWING]


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_a_value_cannot_be_changed(kind: type) -> None:
    value: object = object.__new__(kind)
    for name in (*(field.name for field in dataclasses.fields(kind)), "anything"):
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            setattr(value, name, 1)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_there_is_room_for_the_fields_alone_unless_what_is_computed_is_kept(kind: type) -> None:
    keeps = any(isinstance(member, cached_property) for base in kind.__mro__ for member in vars(base).values())
    assert hasattr(object.__new__(kind), "__dict__") is keeps
