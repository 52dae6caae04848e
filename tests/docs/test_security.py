"""Every promise of the page about security names a test that there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "security.md").read_text(encoding="utf-8")


def test_every_promise_has_a_test() -> None:
    rows = [row for row in re.findall(r"^\| (.+) \| (.+) \|$", PAGE, re.M) if row[0] not in ("promise", "---")]
    assert len(rows) > 20
    for promise, cell in rows:
        found = re.fullmatch(r"`([\w/]+\.py)::(\w+)`", cell)
        assert found is not None, promise
        tree = ast.parse((ROOT / "tests" / found[1]).read_text(encoding="utf-8"))
        assert found[2] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, cell


def test_every_attack_is_on_the_page() -> None:
    tree = ast.parse((ROOT / "tests" / "serve" / "test_attacks.py").read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    assert {name for name in names if name not in PAGE} == {"test_the_right_token_is_served"}
