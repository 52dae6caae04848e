"""Parameters that would be two in one: a tuple of unlike things is a type that nobody has named."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "dovetail"
MODULES = sorted(SOURCE.rglob("*.py"))
_NUMBERS = ({"int"}, {"float"}, {"bool"})
"""Pairs of these are sizes, spans or flags of two sides, and need no name."""


def _unlike(annotation: ast.expr) -> bool:
    """Tell whether an annotation is a tuple of fixed length whose items are not all the same kind of number."""
    if isinstance(annotation, ast.BinOp):
        return _unlike(annotation.left) or _unlike(annotation.right)
    if not isinstance(annotation, ast.Subscript) or ast.unparse(annotation.value) != "tuple":
        return False
    items = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    kinds = [ast.unparse(item) for item in items]
    return kinds[-1] != "..." and set(kinds) not in _NUMBERS


def _offenders(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if item.annotation is not None and _unlike(item.annotation):
                    yield f"{node.name}({item.arg})"


@pytest.mark.parametrize(
    ("parameter", "refused"),
    [
        ("where: tuple[str, str]", True),
        ("what: tuple[int, str] | None", True),
        ("arrays: tuple[Mapping[str, int], Mapping[str, int]]", True),
        ("sizes: tuple[int, int]", False),
        ("names: tuple[str, ...]", False),
        ("table: dict[tuple[str, str], int]", False),
    ],
)
def test_the_rule_itself(parameter: str, refused: bool) -> None:
    assert list(_offenders(f"def made({parameter}): ...")) == (["made(" + parameter.split(":")[0] + ")"] * refused)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_parameter_is_a_tuple_of_unlike_things(path: Path) -> None:
    assert list(_offenders(path.read_text(encoding="utf-8"))) == []
