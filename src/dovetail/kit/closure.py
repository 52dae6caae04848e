"""Which modules a module needs when it is imported, read from the sources: nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

_PACKAGE = "dovetail"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def needed_files(root: Path, modules: Sequence[str]) -> tuple[Path, ...]:
    """Return the sources below `root`, the folder of the package, that importing these modules reads, sorted.

    Imports inside functions are not followed, nor those for type checkers: what is loaded on demand has to be named.
    Raises ModuleNotFoundError for a module that is not there.
    """
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        path = _source(root, name)
        if path is None:
            raise ModuleNotFoundError(f"no module named '{name}' below {root}", name=name)
        found[name] = path
        waiting += [".".join(name.split(".")[:count]) for count in range(1, name.count(".") + 1)]
        for module, names in _imports(ast.parse(path.read_text(encoding="utf-8")).body):
            waiting.append(module)
            # `from dovetail.a import b`: b is a module or a name in one.
            waiting += [f"{module}.{one}" for one in names if _source(root, f"{module}.{one}") is not None]
    return tuple(sorted(found.values()))


def _source(root: Path, module: str) -> Path | None:
    path = root.joinpath(*module.split(".")[1:])
    choices = (path.with_name(f"{path.name}.py"), path / "__init__.py")
    return next((one for one in choices if one.is_file()), None)


def _imports(body: Sequence[ast.stmt]) -> Iterator[tuple[str, list[str]]]:
    """Yield the modules of this package that statements import, with the names taken from them."""
    for statement in body:
        if isinstance(statement, ast.ImportFrom) and _is_own(statement.module or ""):
            yield statement.module or "", [one.name for one in statement.names]
        elif isinstance(statement, ast.Import):
            yield from ((one.name, []) for one in statement.names if _is_own(one.name))
        elif isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test):
            yield from _imports(statement.orelse)
        elif not isinstance(statement, _FUNCTIONS):
            inner = [part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.stmt)]
            handlers = getattr(statement, "handlers", [])
            yield from _imports([*inner, *(part for one in handlers for part in one.body)])


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE
