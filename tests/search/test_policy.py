"""Every number that steers a search is in the policy, says where it comes from, and comes back from a log."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import typing
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import SearchError
from dovetail.search import SearchPolicy
from dovetail.search.policy import policy_of

GOLDEN = Path(__file__).parent / "golden" / "policy.json"
ROOM = Path(__file__).parents[2] / "src" / "dovetail" / "search"
ELSEWHERE = {
    "bisect/command.py": {"_KEPT_BYTES", "_NOTE_CHARS"},
    "bisect/noise.py": {"_COARSE", "_MOST_ELEMENTS", "_SAMPLES"},
    "bisect/setup.py": {"_LEAST"},
    "bisect/state.py": {"_NOTE_CHARS", "_SCHEMA"},
    "bounds.py": {"_GRID", "_HALVINGS", "_MOST_FACTOR", "_ROUNDS"},
    "confirm.py": {"_MOST_LISTED"},
    "fanout/foresight.py": {"_MOST_RUNS"},
    "fanout/pool.py": {"_DEATHS", "_GRACE_S"},
    "fanout/task.py": {"_KEPT_WORKS"},
    "log.py": {"SCHEMA", "_MOST_BYTES"},
    "noise.py": {"MOST_NOISE", "_BLOCK"},
    "optimum/problem.py": {"OUTSIDE"},
    "optimum/relaxed.py": {"_INFEASIBLE", "_WHOLE"},
    "pieces.py": {"_SMALL"},
    "samples.py": {"_BATCH", "_BATCH_BYTES"},
}
"""Numbers that are not of the policy: schemas, units, sizes of messages and memory, rounding, and workers, whose number
and luck must not change an answer. The three of `bisect` are of its prior, where nothing was measured."""


def _changed(value: object) -> object:
    """Return another value of the same type, at every depth."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{item.name: _changed(getattr(value, item.name)) for item in dataclasses.fields(value)})
    if isinstance(value, tuple):
        return (*map(_changed, value), 0.125)
    if isinstance(value, Mapping):
        return {**{name: _changed(item) for name, item in value.items()}, "Gelu": 0.25}
    assert isinstance(value, int | float)
    return value + 1


def test_a_policy_comes_back_from_a_log() -> None:
    for policy in (SearchPolicy(), _changed(SearchPolicy())):
        assert isinstance(policy, SearchPolicy)
        assert policy_of(json.loads(json.dumps(policy.document()))) == policy
    assert _changed(SearchPolicy()) != SearchPolicy()


def test_the_numbers_change_only_on_purpose() -> None:
    """Plans hang on them: who changes one runs the benchmarks that its source names, and updates the golden text."""
    text = json.dumps(SearchPolicy().document(), indent=2) + "\n"
    if os.environ.get("DOVETAIL_UPDATE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


@given(st.sampled_from(["missing", "unknown", "text", "nested", "boolean", "share"]))
def test_what_is_no_policy_is_refused_with_the_field(damage: str) -> None:
    document: typing.Any = json.loads(json.dumps(SearchPolicy().document()))
    if damage == "missing":
        del document["race"]["alpha"]
    elif damage == "unknown":
        document["race"]["speed"] = 1
    elif damage == "text":
        document["race"]["alpha"] = "small"
    elif damage == "nested":
        document["race"] = 3
    elif damage == "boolean":
        document["race"]["first_block"] = True
    else:
        document["race"]["first_block"] = 1.5
    with pytest.raises(SearchError, match=r"^policy\.race"):
        policy_of(document)


@pytest.mark.parametrize("document", [None, [], {}, "policy"])
def test_what_is_nothing_like_a_policy_is_refused(document: object) -> None:
    with pytest.raises(SearchError, match=r"^policy: .* does not fit"):
        policy_of(document)


def _numbers(tree: ast.Module) -> Iterator[str]:
    """Yield the names of a module's numbers, and of tuples and mappings of numbers are left to the reader."""
    for node in tree.body:
        target = (
            node.targets[0]
            if isinstance(node, ast.Assign)
            else node.target
            if isinstance(node, ast.AnnAssign)
            else None
        )
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and value is not None:
            try:
                known = eval(compile(ast.Expression(value), "", "eval"), {"__builtins__": {}})
            except Exception:  # not a number if it needs a name
                continue
            if isinstance(known, int | float):
                yield target.id


def test_no_number_steers_the_search_from_elsewhere() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(ROOM.rglob("*.py")):
        names = set(_numbers(ast.parse(path.read_text(encoding="utf-8"))))
        if names:
            found[path.relative_to(ROOM).as_posix()] = names
    assert found == ELSEWHERE


def test_every_number_says_what_it_is_and_where_it_comes_from() -> None:
    tree = ast.parse((ROOM / "policy.py").read_text(encoding="utf-8"))
    sources = ("ADR ", "Judgement.", "DESIGN ", "benchmarks/", "in view", "Convention.")
    silent: list[str] = []
    count = 0
    for kind in (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name != "SearchPolicy"):
        for field, after in zip(kind.body, [*kind.body[1:], None], strict=True):
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            if field.target.id == "cuts":
                continue
            count += 1
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            if not any(source in str(text) for source in sources):
                silent.append(f"{kind.name}.{field.target.id}")
    assert silent == []
    assert count > 40
