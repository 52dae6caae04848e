"""Names: a public class has one name of its own in the whole package, and its docstring says what it is."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "dovetail"
_IMPERATIVES = ("Hold", "Say", "Keep", "Know", "Hear", "Describe", "Name", "Give", "Tell")
"""What a docstring of a value must not begin with: verbs that tell what any class does."""


def _classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield path.relative_to(SOURCE), node


def test_no_two_public_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path, node in _classes():
        if not node.name.startswith("_"):
            homes[node.name].append(str(path))
    assert len(homes) > 500
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_a_class_is_described_as_what_it_is() -> None:
    # A command's docstring is its help: what it does, at the terminal.
    told = {
        f"{path}:{node.name}": docstring
        for path, node in _classes()
        if (docstring := ast.get_docstring(node)) and path.parts[0] != "cli"
    }
    assert len(told) > 500
    assert [where for where, text in told.items() if text.split()[0] in _IMPERATIVES] == []
