"""Write docs/reference/api.md from the docstrings of the public names.

python docs/make_api_reference.py            # writes the page
python docs/make_api_reference.py --check    # fails when the page is out of date
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).parent / "reference" / "api.md"

MODULES = {
    "dovetail": "What most programs need. `import dovetail` loads each name on its first use.",
    "dovetail.runtime": "What runs bundles, on a host and, by the distribution `dovetail-runtime`, on a board.",
    "dovetail.metrics": "What outputs say, and how it is scored.",
    "dovetail.errors": "The one tree of exceptions.",
    "dovetail.backend.protocols": "What a backend of one's own implements ([how](../how-to/backend.md)).",
    "dovetail.backend.target": "What a target is.",
}

HEAD = """# Python

Written by `docs/make_api_reference.py` from the docstrings; do not edit it.

These names are public: [what that promises](../stability.md). Types are written as in the source.
"""


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    told: set[int] = set()
    for module, what in MODULES.items():
        parts += [f"## {module}", "", what, ""]
        for name, item in _public(module):
            if id(item) in told:
                continue
            told.add(id(item))
            parts += _entry(module, name, item)
    return "\n".join(parts).rstrip("\n") + "\n"


def _public(module: str) -> Iterator[tuple[str, object]]:
    """Yield the names of a package's list, or what a module defines itself."""
    loaded = import_module(module)
    names = getattr(loaded, "__all__", None) or [
        name
        for name, item in vars(loaded).items()
        if not name.startswith("_") and getattr(item, "__module__", None) == module
    ]
    for name in sorted(names):
        item = getattr(loaded, name)
        if inspect.isclass(item) or inspect.isfunction(item):
            yield name, item


def _entry(module: str, name: str, item: object) -> list[str]:
    lines = [f"### {module}.{name}", ""]
    if inspect.isfunction(item):
        return [*lines, "```python", _signature(name, item), "```", "", *_prose(item), ""]
    assert inspect.isclass(item)
    kind = "exception" if issubclass(item, BaseException) else "class"
    base = item.__mro__[1].__name__
    suffix = "" if base in ("object", "Protocol", "Generic") else f", a kind of `{base}`"
    lines += [f"*{kind}* `{name}`{suffix}.", "", *_prose(item), ""]
    rows = list(_fields(item))
    if rows:
        lines += ["| field | type | what |", "| --- | --- | --- |"]
        lines += [f"| `{field}` | {_code(kind)} | {_cell(what)} |" for field, kind, what in rows]
        lines += [""]
    for method, function in vars(item).items():
        made = function.__func__ if isinstance(function, classmethod | staticmethod) else function
        if isinstance(function, property) and not method.startswith("_") and function.fget is not None:
            lines += [f"- `{method}`: {_first(function.fget)}"]
        elif inspect.isfunction(made) and not method.startswith("_") and made.__doc__:
            lines += [f"- `{_signature(method, made)}`: {_first(made)}"]
    return [*lines, ""] if lines[-1] else lines


def _signature(name: str, function: object) -> str:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    kept = [
        parameter.replace(annotation=_written(parameter.annotation), default=_plain(parameter.default))
        for key, parameter in signature.parameters.items()
        if key not in ("self", "cls")
    ]
    return f"{name}{signature.replace(parameters=kept, return_annotation=_written(signature.return_annotation))}"


class _Text:
    """An annotation as it is written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _written(annotation: object) -> object:
    return _Text(annotation) if isinstance(annotation, str) else annotation


def _plain(default: object) -> object:
    """Return a default, or three dots for one whose text is an address in memory."""
    return _Text("...") if " at 0x" in repr(default) else default


def _prose(item: object) -> list[str]:
    text = inspect.cleandoc(getattr(item, "__doc__", None) or "")
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        part
        if part.startswith(("    ", "|", "- "))
        else textwrap.fill(" ".join(part.split()), 120, break_on_hyphens=False)
        for part in paragraphs
    ).splitlines()


def _first(item: object) -> str:
    return " ".join(inspect.cleandoc(getattr(item, "__doc__", None) or "").split("\n\n")[0].split())


def _fields(item: type) -> Iterator[tuple[str, str, str]]:
    """Yield the public fields of a dataclass or the members of an enumeration, with the texts that stand below them."""
    own = {**_texts(item)}
    if issubclass(item, enum.Enum):
        for member in item:
            yield member.name, "", own.get(member.name) or repr(member.value)
    elif dataclasses.is_dataclass(item):
        for field in dataclasses.fields(item):
            if not field.name.startswith("_"):
                yield field.name, str(field.type), own.get(field.name, "")


def _texts(item: type) -> dict[str, str]:
    found: dict[str, str] = {}
    for kind in reversed(item.__mro__):
        if kind.__module__.partition(".")[0] != "dovetail":
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
        assert isinstance(body, ast.ClassDef)
        for before, after in zip(body.body, body.body[1:], strict=False):
            target = before.target if isinstance(before, ast.AnnAssign) else None
            if isinstance(before, ast.Assign):
                target = before.targets[0]  # type: ignore[assignment]
            said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if isinstance(target, ast.Name) and said:
                found[target.id] = str(after.value.value)  # type: ignore[attr-defined]
    return found


def _code(text: str) -> str:
    return f"`{_escape(text)}`" if text else ""


def _cell(text: str) -> str:
    return _escape(" ".join(text.split()))


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Write the page, or check it."""
    text = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
