"""The values of the inner rooms: which of them may change, and the figures that nobody gives."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import os
import pkgutil
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType

import numpy as np

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
    "search.pieces._GrowingState",
    "search.strategy._Block",
}
"""What is filled step by step, in one function or by one owner."""
NO_DATACLASSES = {"ir.node.Body", "search.fanout.contained._ThreadChild"}
"""Classes with fields that are something else: a protocol, and what a thread has of its own."""
OPEN = {
    "cost.features.Features",
    "cost.table.CostTable",
    "cost.wiring.Wiring",
    "ir.graph.Graph",
    "plan.plan.Plan",
    "plan.units.Units",
    "plan.verdicts.Verdicts",
    "quantize.ranges.Ranges",
    "search.context.SearchContext",
    "search.fanout.dispatch.Order",
    "search.fanout.task.Work",
    "search.optimum.problem.Problem",
    "search.pricing.PricedSpace",
    "search.space.Space",
}
"""Frozen values that compute something of themselves once, and so have a dictionary."""
FLAGS = {
    "cost.model.CostModel._kept: repr",
    "cost.model.CostModel._rows: repr",
    "cost.sizes.Sizer._kept: repr",
    "cost.sizes.Sizer._macs: repr",
    "ir.graph.Graph: eq",
    "ir.node.Node: eq",
    "ir.precision.NumberFormat.key: compare",
    "ir.precision.NumberFormat.key: init",
    "ir.precision.NumberFormat.key: repr",
    "search.optimum.clauses.Literal: order",
}
"""Fields that are not given, shown or compared like others, and classes that have an order."""
GOLDEN = Path(__file__).parent / "golden"


def _modules() -> Iterator[ModuleType]:
    for room in ROOMS:
        package = importlib.import_module(f"dovetail.{room}")
        yield package
        walked = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        yield from (importlib.import_module(item.name) for item in walked if not item.name.endswith("__main__"))


MODULES = tuple(_modules())


def _name(module: ModuleType, *parts: str) -> str:
    return ".".join((module.__name__, *parts)).removeprefix("dovetail.")


def _classes() -> Iterator[tuple[str, type]]:
    for module in MODULES:
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield _name(module, value.__qualname__), value


def _dataclasses() -> Iterator[tuple[str, type]]:
    return ((name, value) for name, value in _classes() if dataclasses.is_dataclass(value))


def test_values_cannot_be_changed_but_for_a_few() -> None:
    others = {
        name
        for name, value in _classes()
        if not dataclasses.is_dataclass(value) and inspect.get_annotations(value) and not issubclass(value, Enum)
    }
    assert {name for name, value in _dataclasses() if not value.__dataclass_params__.frozen} == MUTABLE  # type: ignore[attr-defined]
    assert others == NO_DATACLASSES


def test_values_take_no_further_attributes_but_for_a_few() -> None:
    """Without slots a misspelt name is a new attribute, and every value has a dictionary."""
    assert {name for name, value in _dataclasses() if "__slots__" not in vars(value)} == OPEN


def _flags() -> Iterator[str]:
    """Yield what is not as a plain frozen dataclass has it."""
    for name, value in _dataclasses():
        given = value.__dataclass_params__  # type: ignore[attr-defined]
        usual = {"init": True, "repr": True, "eq": True, "order": False, "unsafe_hash": False}
        yield from (f"{name}: {flag}" for flag, on in usual.items() if getattr(given, flag) is not on)
        for item in dataclasses.fields(value):
            flags = {"init": True, "repr": True, "compare": True, "kw_only": False, "hash": None}
            yield from (f"{name}.{item.name}: {flag}" for flag, on in flags.items() if getattr(item, flag) is not on)


def test_fields_are_given_shown_and_compared_but_for_a_few() -> None:
    assert set(_flags()) == FLAGS


def _text(value: object) -> str | None:
    """Return a plain value as text, the same in every run; None for what is not plain."""
    if isinstance(value, bool | int | float | str | bytes | Enum | None):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"{value.size} from {value[0]:.6g} to {value[-1]:.6g}, together {value.sum():.6g}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return repr(value)
    if not isinstance(value, dict | tuple | frozenset):
        return None
    texts = [_text(part) for part in (*value, *(value.values() if isinstance(value, dict) else ()))]
    known = [text for text in texts if text is not None]
    if len(known) < len(texts):
        return None
    if isinstance(value, dict):
        known = [f"{key}: {item}" for key, item in zip(known, known[len(value) :], strict=False)]
    # Sets come in another order in every run.
    return f"({', '.join(sorted(known) if isinstance(value, frozenset) else known)})"


def _check(file: str, lines: Iterable[str]) -> None:
    """Compare lines with a golden text; DOVETAIL_UPDATE_GOLDEN=1 writes it."""
    path, text = GOLDEN / file, "\n".join(sorted(set(lines))) + "\n"
    if os.environ.get("DOVETAIL_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def _defaults() -> Iterator[str]:
    """Yield the plain defaults of fields; those of the policies have a golden text of their own."""
    for name, value in _dataclasses():
        if not name.startswith("search.policy."):
            for item in dataclasses.fields(value):
                if item.default is not dataclasses.MISSING and (text := _text(item.default)) is not None:
                    yield f"{name}.{item.name} = {text}"


def _functions() -> Iterator[tuple[str, object]]:
    """Yield the functions of the modules, and those of their classes."""
    for module in MODULES:
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) == module.__name__ and not isinstance(value, type):
                yield _name(module, name), value
    for name, value in _classes():
        for part, member in vars(value).items():
            yield f"{name}.{part}", getattr(member, "__func__", member)


def _parameters() -> Iterator[str]:
    """Yield the plain defaults of parameters that are not None, but for the constructors that dataclasses write."""
    for name, value in _functions():
        called = inspect.unwrap(value) if callable(value) else None
        if inspect.isfunction(called) and called.__code__.co_filename != "<string>":
            for item in inspect.signature(called).parameters.values():
                if item.default not in (None, (), item.empty) and (text := _text(item.default)) is not None:
                    yield f"{name}({item.name}) = {text}"


def test_defaults_are_these() -> None:
    """Who says nothing gets these: to change one is to change what users get."""
    _check("defaults.txt", (*_defaults(), *_parameters()))


def _constants() -> Iterator[str]:
    for module in MODULES:
        tree = ast.parse(inspect.getsource(module))
        targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
        targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
        for target in targets:
            name = target.id if isinstance(target, ast.Name) else ""
            value = vars(module).get(name)
            is_prose = isinstance(value, str) and " " in value
            if value is not None and not is_prose and not name.startswith("__") and (text := _text(value)) is not None:
                yield f"{_name(module, name)} = {text}"


def _caches() -> Iterator[str]:
    for name, value in _functions():
        if hasattr(value, "cache_parameters"):
            yield f"{name} keeps {value.cache_parameters()['maxsize']}"


def test_constants_are_these() -> None:
    """Caps, thresholds and tables steer what comes out, or how much memory that takes, and most tests stay below."""
    _check("constants.txt", (*_constants(), *_caches()))
