"""Formats that are lists: names of nodes or tensors, each with a word."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dovetail.errors import FormatError
from dovetail.formats.binding import Binding
from dovetail.formats.format import Diagnostic, ReadRequest, Severity, WriteRequest, Written, diagnostic_of
from dovetail.formats.numerics import ToolNumerics
from dovetail.formats.spelling import Side, Spelling, Vocabulary, Word, read_plan, spell
from dovetail.ir.graph import Graph
from dovetail.plan.placement import HOST, Placement
from dovetail.plan.plan import Override, Plan

_LONGEST_PATTERN = 500


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a file: a name, or a regular expression over names when `pattern` is set."""

    item: str
    word: str
    line: int = 0
    pattern: bool = False


@dataclass(frozen=True, slots=True)
class EntryFormat:
    """A file that lists names; `encode` and `decode` know its syntax, `bind` its names.

    `bind_file` is for files that list the toolchain's own names beside the entries; it takes the file and its path.
    `bind_listing` takes the listing and its path, where one is given; models that end on `listed` are their own.
    `decode` and both raise FormatError. Entries with the base word take a node back to the base.
    """

    name: str
    title: str
    pattern: str
    granularity: str
    vocabulary: Vocabulary
    bind: Callable[[Graph], Binding]
    encode: Callable[[Spelling, WriteRequest], bytes]
    decode: Callable[[bytes, str], Sequence[Entry]]
    needs: str = ""
    bind_file: Callable[[Graph, bytes, str], Binding] | None = None
    bind_listing: Callable[[Graph, bytes, str], Binding] | None = None
    listed: str = ""
    numerics: ToolNumerics | None = None

    def write(self, request: WriteRequest) -> Written:
        """Return the file; raise InexpressiblePlan when it cannot say what the plan says."""
        binding = self.binding(request)
        spelling = spell(request.plan, request.graph, binding, self.vocabulary)
        return Written(self.encode(spelling, request))

    def binding(self, request: WriteRequest) -> Binding:
        """Return the nodes that every entry stands for; raise FormatError for a listing that is none."""
        return self._bind(request, request.previous)

    def read(self, content: bytes, request: ReadRequest) -> Plan:
        """Return the plan that a file says; raise FormatError naming the line that is wrong."""
        binding = self._bind(request, content)
        overrides: dict[str, Override] = {}
        for entry in self.decode(content, request.path):
            placement = self._placement(entry, request)
            for item in match_items(entry, binding, request.path):
                if item in binding.nodes_of:
                    overrides[item] = Override(placement, f"{request.path}: {entry.item[:120]}")
        return read_plan(request.graph, binding, request.base, overrides)

    def lint(self, content: bytes, request: ReadRequest) -> tuple[Diagnostic, ...]:
        """Return what is wrong or doubtful in a file; never raises on bad text."""
        try:
            entries = self.decode(content, request.path)
            binding = self._bind(request, content)
        except FormatError as error:
            return (diagnostic_of(error),)
        diagnostics: list[Diagnostic] = []
        seen: set[str] = set()
        for entry in entries:
            if entry.item in seen:
                message = f"'{entry.item}' is listed twice."
                diagnostics.append(Diagnostic("DUPLICATE", Severity.WARNING, request.path, entry.line, message))
            seen.add(entry.item)
            try:
                self._placement(entry, request)
                match_items(entry, binding, request.path)
            except FormatError as error:
                diagnostics.append(diagnostic_of(error))
        return tuple(diagnostics)

    def _bind(self, request: WriteRequest | ReadRequest, content: bytes | None) -> Binding:
        if self.bind_listing is not None and request.listing is not None:
            return self.bind_listing(request.graph, request.listing, "the listing")
        if self.bind_file is None or content is None:
            return self.bind(request.graph)
        return self.bind_file(request.graph, content, request.path)

    def _placement(self, entry: Entry, request: ReadRequest) -> Placement:
        for word in self.vocabulary.base:
            if word.text == entry.word:
                return request.base
        for word in self.vocabulary.exceptions:
            if word.text == entry.word:
                return placement_of(word, request)
        known = ", ".join(word.text for word in self.vocabulary.exceptions)
        raise FormatError(
            f"'{entry.item}': '{entry.word}' is not known.",
            path=request.path,
            line=entry.line,
            code="UNKNOWN_WORD",
            hint=f"Known: {known}.",
        )


def placement_of(word: Word, request: ReadRequest) -> Placement:
    """Return where a word puts a node: what the reader asked for if the word may mean it, else its first meaning."""
    if word.takes(request.exception):
        return request.exception
    target = HOST if word.side is Side.CPU else request.base.target
    return Placement(target, word.precisions[0])


def match_items(entry: Entry, binding: Binding, path: str) -> tuple[str, ...]:
    """Return the items that an entry names; raise FormatError when it names none."""
    if not entry.pattern:
        binding.require(entry.item, path=path, line=entry.line, code="UNKNOWN_NAME")
        return (entry.item,)
    items = matching(entry.item, tuple(binding.nodes_of), path, entry.line)
    if not items:
        raise FormatError(
            f"the expression '{entry.item[:120]}' matches no name of this network.",
            path=path,
            line=entry.line,
            code="UNKNOWN_NAME",
        )
    return items


def matching(expression: str, names: Sequence[str], path: str, line: int) -> tuple[str, ...]:
    """Return the names in which an expression is found; refuse one that could take exponential time."""
    quantifiers = re.sub(r"\\.|\[[^]]*\]", "", expression)
    slow = re.search(r"\)[*+{]", quantifiers) or len(re.findall(r"[*+{]", quantifiers)) > 2
    if slow or len(expression) > _LONGEST_PATTERN:
        raise FormatError(
            f"the expression '{expression[:120]}' is not read: it could take for ever.",
            path=path,
            line=line,
            code="PATTERN",
            hint="Use at most two of * + { and none after a group.",
        )
    try:
        compiled = re.compile(expression)
    except re.error as error:
        message = f"'{expression[:120]}' is no regular expression: {error}."
        raise FormatError(message, path=path, line=line, code="PATTERN") from error
    return tuple(name for name in names if compiled.search(name))
