"""Packages whose names load on first use, from one table of names by module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType

Exports = tuple[Callable[[str], object], Callable[[], list[str]], list[str]]


def exports(package: str, homes: Mapping[str, Sequence[str]]) -> Exports:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose names are defined in other modules.

    A name may be that of a package inside too, which the import system would put in its place: it stays what it is.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    names = sorted(home_of)

    class Package(ModuleType):
        """A package whose names cannot be hidden by modules of the same name."""

        def __setattr__(self, name: str, value: object) -> None:
            if not (name in home_of and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

    def load(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    sys.modules[package].__class__ = Package
    return load, lambda: names, names
