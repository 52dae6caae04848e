"""Budgets of size, of what is loaded, and of what tests may judge by."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "dovetail"
MODULES = sorted(SOURCE.rglob("*.py"))


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_modules_are_small() -> None:
    sizes = {path.relative_to(SOURCE): _line_count(path) for path in MODULES}
    assert {path: size for path, size in sizes.items() if size > 500} == {}
    assert statistics.median(sizes.values()) <= 180


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_functions_are_short_and_take_few_parameters(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    long = [node.name for node in _functions(tree) if (node.end_lineno or 0) - node.lineno + 1 > 60]
    assert long == []
    wide: list[str] = []
    for node in _functions(tree):
        names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        if len([name for name in names if name not in ("self", "cls")]) > 6 and "cli" not in path.parts:
            wide.append(node.name)
    assert wide == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_refused_names(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    refused = ("Manager", "Helper", "Utils", "Handler")
    assert [name for name in classes if name.endswith(refused)] == []
    assert path.stem not in ("common", "utils", "helpers", "misc")


def test_runtime_import_needs_only_numpy_and_little_else() -> None:
    program = (
        "import sys\n"
        "import numpy\n"
        "before = set(sys.modules)\n"
        "import dovetail.runtime\n"
        "print(*set(sys.modules) - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {"onnx", "onnxruntime", "scipy", "typer", "rich", "PIL"} & {name.split(".")[0] for name in loaded}
    assert "dovetail.runtime" in loaded
    # They were 67 when this was written, and numpy alone 138.
    assert len(loaded) < 90, sorted(loaded)


TESTS = sorted((SOURCE.parents[1] / "tests").rglob("*.py"))
_CLOCKS = (
    "time",
    "time_ns",
    "thread_time",
    "thread_time_ns",
    "process_time",
    "process_time_ns",
    "perf_counter",
    "perf_counter_ns",
)
_SETS_ONE = {"timed_board.py"}
"""A board whose clock a test sets."""


def test_no_test_reads_a_clock_to_judge_by() -> None:
    """What a test asserts of time fails on a busy machine; `time.monotonic` serves those who wait."""
    read = {
        (path.name, node.lineno)
        for path in TESTS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in _CLOCKS
        if isinstance(node.value, ast.Name) and node.value.id in ("time", "timeit") and path.name not in _SETS_ONE
    }
    assert read == set()


def test_floors_are_kept() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        capture_output=True,
        text=True,
        check=False,
        cwd=SOURCE.parents[1],
    )
    assert done.returncode == 0, done.stdout
