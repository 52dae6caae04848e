"""In which order test files judge a mutant: the nearest first, and first of all those that look at what is imported."""

from __future__ import annotations

import pytest

from mutation.reach import Reach, TestFile
from mutation.sites import Site

GENERAL, MIRROR, OWN, OTHER = (
    "tests/test_values.py",
    "tests/ir/test_graph.py",
    "tests/ir/test_node.py",
    "tests/x/test_x.py",
)
FILES = (OTHER, OWN, MIRROR, GENERAL)


def _file(name: str, cpu_s: float = 1.0, lines: range = range(10), is_imported: bool = True) -> TestFile:
    test = f"{name}::test"
    reached = {"ir/graph.py": {line: frozenset({test}) for line in lines}}
    return TestFile(name, 0.5, 0.0, {test: cpu_s}, (), reached, frozenset({"ir/graph.py"} if is_imported else ()))


def _site(line: int, *, at_import: bool, body: frozenset[int] | None = None) -> Site:
    return Site("ir/graph.py", line, frozenset({line}), body, at_import, "context", ())


def _order(site: Site, *files: TestFile, cap_s: float = 100.0) -> list[str]:
    return [name for batch in Reach(files).batches(site, cap_s) for name in batch.files]


@pytest.mark.parametrize(
    ("site", "order"),
    [
        (_site(3, at_import=False), [MIRROR, OWN, OTHER, GENERAL]),
        (_site(3, at_import=True), [GENERAL, MIRROR, OWN, OTHER]),
        (_site(3, at_import=True, body=frozenset({4, 5})), [GENERAL, MIRROR, OWN, OTHER]),
    ],
    ids=["a statement of a function", "a constant", "the header of a function"],
)
def test_general_files_come_first_where_a_site_runs_at_import(site: Site, order: list[str]) -> None:
    costs = {OTHER: 1.0, OWN: 1.0, MIRROR: 1.0, GENERAL: 2.0}
    assert _order(site, *(_file(name, costs[name]) for name in FILES)) == order


def test_a_general_file_is_run_though_the_rooms_own_would_use_up_the_time() -> None:
    files = [_file(name, 9.0) for name in FILES]
    assert _order(_site(3, at_import=True), *files, cap_s=10.0) == [GENERAL]
    assert _order(_site(3, at_import=False), *files, cap_s=10.0) == [MIRROR]


def test_what_runs_at_import_is_reached_by_all_that_import_it() -> None:
    """No test executes these lines: they have run before."""
    files = [_file(name, lines=range(0)) for name in FILES]
    assert _order(_site(3, at_import=True), *files) == [GENERAL, MIRROR, OWN, OTHER]
    assert _order(_site(3, at_import=False), *files) == []
    assert _order(_site(3, at_import=True), _file(GENERAL, lines=range(0), is_imported=False)) == []


def test_the_header_of_a_function_is_for_the_tests_of_its_body_and_for_general_files() -> None:
    site = _site(3, at_import=True, body=frozenset({4, 5}))
    nowhere = [_file(name, lines=range(0)) for name in FILES]
    assert _order(site, *nowhere) == [GENERAL]
    assert _order(site, *nowhere[:2], _file(MIRROR, lines=range(4, 5))) == [MIRROR]
