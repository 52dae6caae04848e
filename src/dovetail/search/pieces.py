"""Run plans piece by piece: what a plan has in common with an earlier one is neither built nor computed again.

The graph is cut at the same places for every plan. A piece is built once for all plans in which it comes out the same,
and what crosses a cut is kept: a plan that differs from an earlier one in the second half runs that half only.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dovetail.backend.protocols import Executable
from dovetail.data.batches import Batch
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph, read_tensors
from dovetail.ir.types import TensorType
from dovetail.partition.schedule import part_of_graph
from dovetail.quantize.cache import BoundedCache
from dovetail.search.cuts import GraphSection, cut_points, sections
from dovetail.search.policy import EvaluationPolicy
from dovetail.search.threads import Threads

Values = Mapping[str, AnyArray]


@dataclass(frozen=True, slots=True)
class Piece:
    """A section of a quantised graph; `key` is the same for whatever computes the same from the same."""

    key: bytes
    section: GraphSection
    state: bytes
    """A digest of all that is computed up to the end of the piece."""


@dataclass(frozen=True, slots=True)
class PiecedGraph:
    """A quantised graph and its pieces, in order."""

    graph: Graph
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class _BuiltPiece:
    executable: Executable
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A batch, and what of it crosses the cut before the first piece that is run."""

    batch: Batch
    crossing: Values


@dataclass(slots=True)
class _GrowingState:
    """What crosses a cut, batch by batch; all of it goes at once when it turns out too large to be kept."""

    key: bytes
    most_bytes: int
    crossings: list[Values] = field(default_factory=list)
    size_bytes: int = 0

    @property
    def fits(self) -> bool:
        """Tell whether it is small enough so far."""
        return self.size_bytes <= self.most_bytes

    def add(self, crossing: Values) -> None:
        """Take what crosses the cut for one more batch."""
        self.size_bytes += sum(array.nbytes for array in crossing.values())
        if self.fits:
            self.crossings.append(crossing)
        else:
            self.crossings.clear()


class Pieces:
    """Run quantised versions of one graph, of which `load` builds the pieces. Not for two threads.

    Batches go through the pieces in `threads` at a time, where the executables allow it: each is computed by one thread
    alone, and comes out the same in any number of them.
    """

    def __init__(
        self, graph: Graph, load: Callable[[Graph], Executable], policy: EvaluationPolicy, threads: int = 1
    ) -> None:
        self._threads = Threads(threads)
        self._ends = cut_points(graph, policy.cuts)
        self._load = load
        self._policy = policy
        self._digests = ArrayDigests()
        self._built = BoundedCache[_BuiltPiece](policy.built_bytes)
        self._states = BoundedCache[list[Values]](policy.state_bytes)

    def cut(self, graph: Graph) -> PiecedGraph:
        """Return a quantised graph with its pieces."""
        pieces: list[Piece] = []
        state = b""
        for section in sections(graph, self._ends):
            key = self._key(graph, section)
            state = hashlib.blake2b(state + key, digest_size=16).digest()
            pieces.append(Piece(key, section, state))
        return PiecedGraph(graph, tuple(pieces))

    def run(self, pieced: PiecedGraph, indices: Sequence[int], batches: Iterable[Batch]) -> list[Values]:
        """Return the outputs of every batch of the samples at these indices."""
        samples = tuple(indices)
        first, known = self._furthest(pieced, samples)
        rest = pieced.pieces[first:]
        built = [self._executable(pieced, piece) for piece in rest]

        def through(entry: _Entry) -> list[Values]:
            crossing, results = entry.crossing, list[Values]()
            for piece, runnable in zip(rest, built, strict=True):
                values = {**entry.batch.inputs, **crossing}
                values |= runnable.executable.run({name: values[name] for name in runnable.inputs})
                crossing = {name: values[name] for name in piece.section.crossing}
                results.append(crossing)
            return results

        entries = (_Entry(batch, known[number] if known else {}) for number, batch in enumerate(batches))
        concurrent = all(runnable.executable.abilities().concurrent for runnable in built)
        each = self._threads.map(through, entries) if concurrent else map(through, entries)
        # What takes most of the room would push out all that is about to be used.
        most_bytes = int(self._policy.state_share * self._policy.state_bytes)
        growing = [_GrowingState(piece.state, most_bytes) for piece in rest[:-1]]
        outputs: list[Values] = []
        for results in each:
            outputs.append(results[-1])
            for state, crossing in zip(growing, results, strict=False):
                state.add(crossing)
        for state in growing:
            if state.fits:
                self._states.put((state.key, samples), state.crossings, state.size_bytes)
        return outputs

    def _furthest(self, pieced: PiecedGraph, samples: tuple[int, ...]) -> tuple[int, list[Values]]:
        """Return the first piece that has to be run, and what crosses the cut before it."""
        for number in reversed(range(len(pieced.pieces) - 1)):
            known = self._states.get((pieced.pieces[number].state, samples))
            if known is not None:
                return number + 1, known
        return 0, []

    def _executable(self, pieced: PiecedGraph, piece: Piece) -> _BuiltPiece:
        known = self._built.get(piece.key)
        if known is not None:
            return known
        part = pieced.graph if len(pieced.pieces) == 1 else part_of_graph(pieced.graph, piece.section.nodes)
        weights = sum(4 * array.size for array in part.constants.values())
        size = self._policy.weight_copies * weights + self._policy.node_bytes * len(part.nodes)
        return self._built.put(piece.key, _BuiltPiece(self._load(part), part.inputs), size)

    def _key(self, graph: Graph, section: GraphSection) -> bytes:
        """Return a digest of what a section computes: its nodes, types, the content of constants, and what it gives."""
        digest = hashlib.blake2b(digest_size=16)
        names: dict[str, None] = {}
        for node in section.nodes:
            digest.update(repr((node.name, node.op, node.inputs, node.outputs)).encode())
            names |= dict.fromkeys((*read_tensors(node), *node.outputs))
        for name in filter(None, names):
            digest.update(_type_digest(graph.types[name]))
            if name in graph.constants:
                digest.update(self._digests.of(graph.constants[name]))
        digest.update(repr(section.crossing).encode())
        return digest.digest()


_SMALL = 16
"""Elements of an array that is digested anew each time: numpy's scalars are such, and nothing can watch them."""


class ArrayDigests:
    """Digests of the content of arrays, each computed once while the array lives."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[AnyArray], bytes]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, array: AnyArray) -> bytes:
        """Return the digest of an array that nobody changes."""
        if array.size <= _SMALL:
            return _content_digest(array)
        identity, known = id(array), self._known
        entry = known.get(identity)
        if entry is not None and entry[0]() is array:
            return entry[1]
        digest = _content_digest(array)
        known[identity] = weakref.ref(array, lambda _: known.pop(identity, None)), digest
        return digest


def _content_digest(array: AnyArray) -> bytes:
    content = hashlib.blake2b(repr((array.dtype.str, array.shape)).encode(), digest_size=16)
    content.update(np.ascontiguousarray(array).data)
    return content.digest()


@lru_cache(maxsize=8192)
def _type_digest(kind: TensorType) -> bytes:
    return hashlib.blake2b(repr(kind).encode(), digest_size=16).digest()
