"""Random graphs with ranges and samples, and their files."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dovetail.backends.reference import run_graph
from dovetail.ir import AnyArray, Graph
from dovetail.ir.storage import graph_from_bytes, graph_to_bytes
from dovetail.partition.schedule import part_of_graph
from dovetail.quantize import Range, Ranges
from dovetail.testing.operator_case import OperatorCase

_EXTREME = 2
"""Every sample of that number and its multiples takes only the ends of the ranges."""


@dataclass(frozen=True)
class WildCase:
    """A float graph of static shapes, the range of each of its real tensors, and the seed of its samples."""

    graph: Graph
    ranges: Mapping[str, Range]
    seed: int
    raised: frozenset[str] = frozenset()
    """Nodes that are placed at 16 bits, whatever the others are at."""

    def calibration(self) -> Ranges:
        """Return the ranges as the quantiser takes them."""
        names = [name for name, kind in self.graph.types.items() if kind.holds_reals and name in self.ranges]
        return Ranges(self.graph.digest, "wild", 1, {name: self.ranges[name] for name in names})

    def samples(self, count: int) -> list[dict[str, AnyArray]]:
        """Return float samples within the ranges of the inputs: uniform ones, and some of only their ends."""
        rng = np.random.default_rng((self.seed, 7))
        return [
            {name: self._values(rng, name, extreme=index % (_EXTREME + 1) == _EXTREME) for name in self.graph.inputs}
            for index in range(count)
        ]

    def _values(self, rng: np.random.Generator, name: str, *, extreme: bool) -> AnyArray:
        kind, limits = self.graph.types[name], self.ranges[name]
        shape = kind.static_shape or ()
        ends = np.array([limits.low, limits.high], np.float32)
        drawn = rng.choice(ends, shape) if extreme else rng.uniform(limits.low, limits.high, shape)
        return np.asarray(drawn, np.float32).reshape(shape)

    def part(self, names: Sequence[str]) -> WildCase:
        """Return the case of some of the nodes; what they read of others becomes an input."""
        kept = [node for node in self.graph.nodes if node.name in names]
        return WildCase(part_of_graph(self.graph, kept), self.ranges, self.seed, self.raised.intersection(names))

    def to_bytes(self, facts: Mapping[str, object]) -> bytes:
        """Return the case as an npz file, with facts about it."""
        ranges = {name: [item.low, item.high] for name, item in self.calibration().tensors.items()}
        raised = {"raised": sorted(self.raised)} if self.raised else {}
        text = json.dumps({"ranges": ranges, "seed": self.seed, "facts": dict(facts), **raised}, sort_keys=True)
        stream = io.BytesIO()
        np.savez_compressed(stream, graph=np.frombuffer(graph_to_bytes(self.graph), np.uint8), case=np.array(text))
        return stream.getvalue()


def read_case(path: Path) -> tuple[WildCase, dict[str, str]]:
    """Return the case in a file, and the facts about it."""
    with np.load(path, allow_pickle=False) as held:
        graph, document = graph_from_bytes(held["graph"].tobytes(), str(path)), json.loads(str(held["case"]))
    ranges = {name: Range(low, high) for name, (low, high) in document["ranges"].items()}
    return WildCase(graph, ranges, document["seed"], frozenset(document.get("raised", ()))), document["facts"]


def case_of(operator: OperatorCase, seed: int) -> WildCase:
    """Return the case of one operator, with the ranges of its own samples."""
    graph = operator.graph()
    return WildCase(graph, measured_ranges(graph, operator.samples()), seed)


def measured_ranges(graph: Graph, samples: Sequence[Mapping[str, AnyArray]]) -> dict[str, Range]:
    """Return the ranges of all real tensors that a graph computes or takes, over some samples."""
    names = [name for name in graph.types if name not in graph.constants and graph.types[name].holds_reals]
    whole = graph.evolve(outputs=tuple(name for name in names if name not in graph.inputs))
    found: dict[str, Range] = {}
    for sample in samples:
        values = {**sample, **run_graph(whole, sample)}
        for name in names:
            known = found.get(name, Range(np.inf, -np.inf))
            found[name] = Range(min(known.low, float(values[name].min())), max(known.high, float(values[name].max())))
    return found
