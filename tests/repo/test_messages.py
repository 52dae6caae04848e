"""What the library says: values, never the options of the command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from dovetail.cli.main import GROUPS, VERBS
from dovetail.cli.verb import Verb
from dovetail.errors import DovetailError

SOURCE = Path(__file__).parents[2] / "src" / "dovetail"
MODULES = sorted(path for path in SOURCE.rglob("*.py") if "cli" not in path.relative_to(SOURCE).parts)
OTHERS = {
    "environments/install.py": "what pip is called with",
    "sdk/build.py": "what CMake and the linker are called with",
    "sdk/download.py": "what pip is called with",
    "compare/case.py": "the README of a case, with the command that shows it again",
    "compare/difference_case.py": "the README of a difference, with the command that shows it again",
    "kit/kit.py": "the script of a kit",
    "kit/examples.py": "the file for CMake, with the command that builds it",
    "runtime/__main__.py": "the board's own command",
    "fit/result.py": "the first line of a recipe, with the command that reads it",
    "backends/verisilicon/project/write.py": "the README of a project, with the commands that build and run it",
}
"""Where an option is another tool's, or stands in a file for people at a terminal."""


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that are no docstrings, with their lines."""
    documents = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.lineno, node.value


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_library_speaks_of_values(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    spoken = [f"line {line}: {text!r}" for line, text in _texts(tree) if re.search(r"(^|\W)--[a-z]", text)]
    if str(path.relative_to(SOURCE)) in OTHERS:
        assert spoken, "the list of exceptions is out of date"
    else:
        assert spoken == []


def test_an_option_that_an_error_names_is_one_of_a_command() -> None:
    verbs: list[type[Verb]] = [*VERBS.values(), *(kind for _, group in GROUPS.values() for kind in group.values())]
    known = {field.name for kind in verbs for field in fields(kind)}
    named = {
        keyword.value.value
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "option" and isinstance(keyword.value, ast.Constant)
    }
    assert len(named) > 10
    assert named - known == set()


def test_an_error_keeps_its_option() -> None:
    error = DovetailError("the score is too low.", hint="Ask for less.", option="min_score")
    assert str(error) == "the score is too low. Ask for less."
    assert error.option == "min_score"
