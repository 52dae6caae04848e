"""Where a module can be changed by one operator of cosmic-ray, and the sample that a seed draws from these sites."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_NOT_USED = {
    "core/VariableReplacer": "needs names",
    "core/VariableInserter": "needs names",
    "core/ReplaceComparisonOperator_Eq_Is": "small values are the same object or not as CPython likes",
    "core/ReplaceComparisonOperator_NotEq_IsNot": "the same",
    "core/ReplaceComparisonOperator_Is_Eq": "the same",
    "core/ReplaceComparisonOperator_IsNot_NotEq": "the same",
}
"""Operators of cosmic-ray that are left out, with the reason."""

_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Statement = ast.stmt | ast.excepthandler


@dataclass(frozen=True)
class Site:
    """A span of source text that at least one operator changes."""

    file: str
    """Path below the package, with slashes."""
    line: int
    """First line of the statement's part that holds the span, from 1."""
    lines: frozenset[int]
    """Lines of the statement (of a compound one: of its header)."""
    body: frozenset[int] | None
    """Lines of the function whose header holds the span; None where no header does."""
    at_import: bool
    """Whether the statement runs when the module is imported."""
    context: str
    """What names the span while code around it moves: file, scope, text of the line, column, which of equal lines."""
    choices: tuple[tuple[str, int], ...]
    """Operators that apply here, each with its count of earlier spans in the file."""


@dataclass(frozen=True)
class Mutant:
    """A module with one change."""

    site: Site
    key: str
    """Stable hash of the change in its context: 12 hexadecimal digits."""
    operator: str
    before: tuple[str, ...]
    """Lines that the change replaces, without indent."""
    after: tuple[str, ...]
    """Lines that stand there instead."""
    code: str
    """The changed text of the module."""


@cache
def operators() -> Mapping[str, Any]:
    """Return cosmic-ray's operators by name, without those that are left out."""
    from cosmic_ray.plugins import get_operator, operator_names

    return {name: get_operator(name)() for name in operator_names() if name not in _NOT_USED}


class Source:
    """A module's text and tree."""

    def __init__(self, root: Path, file: str) -> None:
        self.file = file
        self.text = (root / file).read_text(encoding="utf-8")
        self._lines = self.text.splitlines()
        self._tree = ast.parse(self.text)
        self._parents = {child: node for node in ast.walk(self._tree) for child in ast.iter_child_nodes(node)}
        self._statements = [node for node in ast.walk(self._tree) if isinstance(node, _Statement)]
        self._skipped = [self._span(node) for node in _not_run(self._tree)]

    def sites(self) -> list[Site]:
        """Return every span that is code and that an operator changes, in no particular order."""
        import parso
        from cosmic_ray.ast import ast_nodes

        spans: defaultdict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
        counts: Counter[str] = Counter()
        for node in ast_nodes(parso.parse(self.text)):
            for name, operator in operators().items():
                for start, _ in operator.mutation_positions(node):
                    # The sign before a signature's keywords is taken for a product.
                    if node.parent.type != "parameters":
                        spans[start].append((name, counts[name]))
                    counts[name] += 1
        return [self._site(start, tuple(choices)) for start, choices in spans.items() if not self._skips(start)]

    def mutants(self, site: Site) -> Iterator[Mutant]:
        """Yield what the operators make of a span: what compiles and is another program."""
        from cosmic_ray.mutating import mutate_code

        for key, (name, occurrence) in zip(keys(site), site.choices, strict=True):
            try:
                code = mutate_code(self.text, operators()[name], occurrence)
            except AttributeError:
                # cosmic-ray's operator for exceptions knows plain names only, and not `errors.Missing`.
                continue
            if self._is_another_program(code):
                yield Mutant(site, key, name.removeprefix("core/"), *_changed(self._lines, code.splitlines()), code)

    def _is_another_program(self, code: str) -> bool:
        try:
            return ast.dump(ast.parse(code)) != ast.dump(self._tree)
        except SyntaxError:
            return False

    def _skips(self, start: tuple[int, int]) -> bool:
        return any(first <= start < last for first, last in self._skipped)

    def _span(self, node: Any) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return first and last position of a node: line from 1, column in characters."""
        decorators = getattr(node, "decorator_list", ())
        # A decorator's node begins after its sign.
        start = (decorators[0].lineno, 0) if decorators else self._position(node.lineno, node.col_offset)
        return start, self._position(node.end_lineno, node.end_col_offset)

    def _position(self, line: int, column: int) -> tuple[int, int]:
        return line, len(self._lines[line - 1].encode()[:column].decode())

    def _site(self, start: tuple[int, int], choices: tuple[tuple[str, int], ...]) -> Site:
        around = [node for node in self._statements if _holds(self._span(node), start)]
        statement = max(around, key=lambda node: self._span(node)[0])
        lines = frozenset(range(self._span(statement)[0][0], _header_end(statement) + 1))
        scopes = [node for node in self._outward(statement) if isinstance(node, _Scope)]
        body = None
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            body = frozenset(range(statement.body[0].lineno, (statement.end_lineno or 0) + 1))
        outer = scopes if isinstance(statement, _Scope) else [statement, *scopes]
        at_import = not any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in outer)
        name = ".".join(scope.name for scope in reversed([statement, *scopes]) if isinstance(scope, _Scope))
        text = self._lines[start[0] - 1]
        column = start[1] - (len(text) - len(text.lstrip()))
        scope_start = self._span(scopes[0])[0][0] if scopes else 1
        which = sum(line.strip() == text.strip() for line in self._lines[scope_start - 1 : start[0] - 1])
        context = f"{self.file}|{name}|{text.strip()}|{column}|{which}"
        return Site(self.file, start[0], lines, body, at_import, context, choices)

    def _outward(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self._parents:
            node = self._parents[node]
            yield node


def keys(site: Site) -> list[str]:
    """Return the stable hash of each change at a site."""
    nth: Counter[str] = Counter()
    made: list[str] = []
    for name, _ in site.choices:
        made.append(_digest(f"{site.context}|{name}|{nth[name]}")[:12])
        nth[name] += 1
    return made


def draw(sources: Iterable[Source], seed: int, count: int) -> Iterator[Mutant]:
    """Yield `count` mutants: every site is as likely as any other, and there every change that is another program.

    The order hangs on a site's context alone, so that an edit elsewhere leaves the rest of the sample as it was.
    """
    pairs = [(source, site) for source in sources for site in source.sites()]
    pairs.sort(key=lambda pair: _digest(f"{seed}|{pair[1].context}"))
    for source, site in pairs:
        if count == 0:
            return
        mutants = list(source.mutants(site))
        if mutants:
            count -= 1
            yield min(mutants, key=lambda mutant: _digest(f"{seed}|{mutant.key}"))


def _not_run(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what no run evaluates: annotations, and what only a type checker imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield node


def _holds(span: tuple[tuple[int, int], tuple[int, int]], position: tuple[int, int]) -> bool:
    return span[0] <= position < span[1]


def _header_end(statement: Any) -> int:
    """Return the last line of a statement, of a compound one the last before its body."""
    body = getattr(statement, "body", None)
    if not body:
        return int(statement.end_lineno)
    first = min([body[0], *getattr(body[0], "decorator_list", ())], key=lambda part: int(part.lineno))
    return max(int(statement.lineno), int(first.lineno) - 1)


def _changed(old: Sequence[str], new: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lines of both texts between what they begin and end with alike."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    room = shorter - head
    tail = next((at for at in range(room) if old[-1 - at] != new[-1 - at]), room)
    return (
        tuple(line.strip() for line in old[head : len(old) - tail]),
        tuple(line.strip() for line in new[head : len(new) - tail]),
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
