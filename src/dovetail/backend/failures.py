"""What vendors' compilers were seen to crash or hang on, kept by content in a folder of the user.

An entry holds for one target, and for one backend with the very software that it stands on: another version is tried
again. The files are untrusted; one that makes no sense is left aside. To forget an entry is to delete its file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dovetail.backend.patterns import PartPattern, PatternNode
from dovetail.errors import CompileFailure
from dovetail.ir.graph import Graph

_SUFFIX = ".json"
_MOST_NODES = 64
_MOST_BYTES = 1 << 17
_MOST_TEXT = 400
REMEMBERED = frozenset({CompileFailure.CRASHED, CompileFailure.HUNG})
"""What is kept: a refusal costs nothing to hear again, and what was killed says nothing about the graph."""


@dataclass(frozen=True, slots=True)
class FailureScope:
    """Whose failures: a backend, its version with the vendor's software in it, a target and its mark."""

    backend: str
    version: str
    target: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A part on which a compiler failed twice, the second time alone in a process of its own."""

    scope: FailureScope
    failure: CompileFailure
    reason: str
    """What was said, without names."""
    software: str
    """The vendor's software and its version."""
    pattern: PartPattern

    @property
    def digest(self) -> str:
        """Return the key: a SHA-256 of the scope and the pattern."""
        facts = [*_scope_facts(self.scope).values(), _pattern_facts(self.pattern)]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @property
    def ops(self) -> tuple[str, ...]:
        """Return the operators, in order."""
        return tuple(node.op for node in self.pattern.nodes)

    @property
    def told(self) -> str:
        """Return what happened, as the end of a sentence."""
        return f"{self.software or self.scope.backend} {self.failure.value} it, as was seen before: {self.reason}"


@dataclass(frozen=True, slots=True)
class FoundFailure:
    """A known failure and the nodes of a graph that it is about."""

    known: KnownFailure
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailureMemory:
    """A folder with a file for every known failure; several processes may share it. The oldest go beyond `most`."""

    folder: Path
    most: int = 256

    @property
    def stamp(self) -> int:
        """Return a number that changes with the entries; 0 where there is no folder."""
        try:
            return self.folder.stat().st_mtime_ns
        except OSError:
            return 0

    def entries(self) -> tuple[KnownFailure, ...]:
        """Return everything that is known, the oldest first."""
        return _read_all(self.folder, self.stamp)

    def within(self, scope: FailureScope) -> tuple[KnownFailure, ...]:
        """Return what is known of one target."""
        return tuple(entry for entry in self.entries() if entry.scope == scope)

    def find(self, scope: FailureScope, graph: Graph) -> FoundFailure | None:
        """Return a known failure of which a graph holds the part, or None."""
        present = {node.op for node in graph.nodes}
        for entry in self.within(scope):
            nodes = entry.pattern.find(graph) if present.issuperset(entry.ops) else ()
            if nodes:
                return FoundFailure(entry, nodes)
        return None

    def remember(self, scope: FailureScope, graph: Graph, failure: CompileFailure, reason: str, software: str) -> bool:
        """Keep a failing part, where it is one that can be kept; tell whether it was.

        A disk that is full or read-only is no reason to fail.
        """
        pattern = PartPattern.of(graph)
        if failure not in REMEMBERED or pattern is None or not 0 < len(pattern.nodes) <= _MOST_NODES:
            return False
        entry = KnownFailure(scope, failure, _line(reason), software, pattern)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, draft = tempfile.mkstemp(dir=self.folder)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(_facts(entry), file)
                os.replace(draft, self._path(entry.digest))
            except OSError:
                Path(draft).unlink(missing_ok=True)
                raise
            self._trim()
        except OSError:
            return False
        finally:
            _read_all.cache_clear()
        return True

    def forget(self, entries: Iterable[KnownFailure]) -> None:
        """Delete entries; one that is gone already is no error."""
        for entry in entries:
            with contextlib.suppress(OSError):
                self._path(entry.digest).unlink()
        _read_all.cache_clear()

    def _path(self, digest: str) -> Path:
        return self.folder / f"{digest}{_SUFFIX}"

    def _trim(self) -> None:
        for path in _by_age(self.folder)[: -self.most]:
            path.unlink(missing_ok=True)


def _by_age(folder: Path) -> list[Path]:
    return [path for _, path in sorted((path.stat().st_mtime_ns, path) for path in folder.glob(f"*{_SUFFIX}"))]


@lru_cache(maxsize=8)
def _read_all(folder: Path, stamp: int) -> tuple[KnownFailure, ...]:
    if not stamp:
        return ()
    try:
        found = (_read(path) for path in _by_age(folder))
        return tuple(entry for entry in found if entry is not None)
    except OSError:
        return ()


def _read(path: Path) -> KnownFailure | None:
    """Return the entry in a file; None where the file is not what its name says."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        entry = _entry(json.loads(path.read_bytes()))
    except (KeyError, OSError, OverflowError, RecursionError, TypeError, ValueError):
        return None
    return entry if entry.digest == path.stem else None


def _facts(entry: KnownFailure) -> dict[str, object]:
    return {
        **_scope_facts(entry.scope),
        "failure": entry.failure.name,
        "reason": entry.reason,
        "software": entry.software,
        "nodes": _pattern_facts(entry.pattern),
    }


def _line(text: str) -> str:
    """Return a text on one line of bounded length, without signs that steer a terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))[:_MOST_TEXT]


def _scope_facts(scope: FailureScope) -> dict[str, str]:
    return {"backend": scope.backend, "version": scope.version, "target": scope.target, "mark": scope.mark}


def _pattern_facts(pattern: PartPattern) -> list[list[object]]:
    return [[node.op, node.label, list(node.reads), list(node.makes)] for node in pattern.nodes]


def _entry(facts: Mapping[str, Any]) -> KnownFailure:
    nodes = tuple(
        PatternNode(str(op), str(label), tuple(map(int, reads)), tuple(map(int, makes)))
        for op, label, reads, makes in facts["nodes"]
    )
    if not 0 < len(nodes) <= _MOST_NODES:
        raise ValueError("no part that is kept")
    scope = FailureScope(*(str(facts[name]) for name in ("backend", "version", "target", "mark")))
    reason, software = (_line(str(facts[name])) for name in ("reason", "software"))
    return KnownFailure(scope, CompileFailure[facts["failure"]], reason, software, PartPattern(nodes))
