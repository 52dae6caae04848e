"""The facade: one list of names, all of them there, and nothing beside them."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import dovetail

ROOMS = sorted(path.parent.name for path in Path(dovetail.__file__).parent.glob("*/__init__.py"))


def test_every_name_is_there_and_nothing_else_leaks() -> None:
    assert [name for name in dovetail.__all__ if getattr(dovetail, name) is None] == []
    public = {name for name in vars(dovetail) if not name.startswith("_")}
    modules = {name for name in public if isinstance(getattr(dovetail, name), ModuleType)}
    assert public - modules == set(dovetail.__all__)
    assert dir(dovetail) == dovetail.__all__ == sorted(dovetail.__all__)
    assert len(dovetail.__all__) <= 40


@pytest.mark.parametrize("package", ["dovetail", "dovetail.plan"])
def test_type_checkers_see_the_names_that_are_there(package: str) -> None:
    module = import_module(package)
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert set(seen) == set(module.__all__)
    for name, home in seen.items():
        assert getattr(module, str(name)) is getattr(import_module(str(home)), str(name))


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_export_what_they_list(room: str) -> None:
    module = import_module(f"dovetail.{room}")
    listed = getattr(module, "__all__", [])
    assert [name for name in listed if not hasattr(module, name)] == []
    assert len(listed) == len(set(listed))
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    own = [node for node in tree.body if isinstance(node, ast.ImportFrom) and f".{room}" in str(node.module)]
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert {alias.name for node in own for alias in node.names} - used <= set(listed)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = dovetail.nothing  # type: ignore[attr-defined]


def test_verbs_stay_callable_when_packages_of_their_names_are_imported() -> None:
    program = (
        "import dovetail.quantize, dovetail.partition, dovetail.fit, dovetail\n"
        "from dovetail.quantize import Ranges\n"
        "assert callable(dovetail.quantize) and callable(dovetail.partition) and callable(dovetail.fit)\n"
        "dovetail.tune\n"
        "assert dovetail.quantize.__module__ == 'dovetail.quantize.quantizer'\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_import_is_lazy() -> None:
    program = "import sys, dovetail\nassert 'numpy' not in sys.modules\n"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
