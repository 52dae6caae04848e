"""Prices that a board measured: its layers timed alone and together, and what a partition and a byte cost besides.

A partition of layers takes `overhead + bytes / bandwidth + the sum of its layers`, where bytes are those of its
inputs and outputs. Layers are timed one by one and in rows of two and of four; non-negative least squares tell the
parts apart. What the fit has not seen, rows of three and whole partitions, says how far off it is.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.optimize import nnls

from dovetail.backend.costs import Quality
from dovetail.backend.registry import backend, find_target
from dovetail.compare import random_samples
from dovetail.compile import CompileRequest, choose_backend, compile_model
from dovetail.cost import CostEntry, CostTable
from dovetail.errors import CostError
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision
from dovetail.partition.partitioned import Partition, PartitionedGraph
from dovetail.partition.schedule import part_of_graph
from dovetail.runtime.place import Runtime
from dovetail.runtime.profiling import ProfileOptions

_FITTED, _HELD_OUT = (1, 2, 4), 3
_SIMULATION = "npusim"


@dataclass(frozen=True, slots=True)
class BoardCostRequest:
    """What to time and where: for each precision a model as it is quantised and cut; partitions of one target count."""

    target: str
    models: Mapping[Precision, PartitionedGraph]
    place: Runtime
    source: str
    """What the table says of where its figures come from."""
    backends: Mapping[str, str] = field(default_factory=dict)
    options: ProfileOptions = field(default_factory=ProfileOptions)
    advance: Callable[[int], None] = field(default=lambda done: None)


@dataclass(frozen=True, slots=True)
class TimedRow:
    """Some layers that were timed as a partition of their own."""

    layers: tuple[tuple[str, Precision], ...]
    """By the node that does the work."""
    border_bytes: int
    measured_ns: float
    held_out: bool


@dataclass(frozen=True)
class BoardCosts:
    """What was measured, and what the fit makes of it."""

    target: str
    source: str
    rows: tuple[TimedRow, ...]
    overhead_ns: float
    ns_per_byte: float
    layers: Mapping[tuple[str, Precision], float]

    def predicted_ns(self, row: TimedRow) -> float:
        """Return what the fit says of a row."""
        return self.overhead_ns + row.border_bytes * self.ns_per_byte + sum(self.layers[layer] for layer in row.layers)

    def errors(self, held_out: bool) -> list[float]:
        """Return the relative errors of the rows that were fitted, or of those that were held out."""
        rows = [row for row in self.rows if row.held_out is held_out]
        return [abs(self.predicted_ns(row) - row.measured_ns) / row.measured_ns for row in rows]

    @cached_property
    def table(self) -> CostTable:
        """Return the table that searches read."""
        entries = tuple(CostEntry(node, precision, value) for (node, precision), value in self.layers.items())
        per_s = 1e9 / self.ns_per_byte if self.ns_per_byte > 0 else None
        return CostTable(self.target, self.source, Quality.MEASURED, entries, self.overhead_ns, per_s)


def measure_costs(request: BoardCostRequest) -> BoardCosts:
    """Time the layers of a model on a board and fit what they cost; raise CostError where there is nothing to time.

    Errors of the board and of the compiler pass through: a row that does not run is no price.
    """
    rows: list[TimedRow] = []
    for precision, partitioned in request.models.items():
        for part in partitioned.partitions:
            if part.target == request.target:
                for nodes, held_out in _windows(part, _groups(part, request)):
                    rows.append(_timed(request, partitioned, part, nodes, held_out, precision))
                    request.advance(len(rows))
    if not rows:
        raise CostError(f"no partition of the model runs on {request.target}.", hint="Place it there.", option="places")
    return fit_costs(request.target, request.source, rows)


def fit_costs(target: str, source: str, rows: Sequence[TimedRow]) -> BoardCosts:
    """Return the overhead, the time of a byte and those of layers, by relative least squares, none below zero."""
    layers = list(dict.fromkeys(layer for row in rows for layer in row.layers))
    column = {layer: 2 + index for index, layer in enumerate(layers)}
    used = [row for row in rows if not row.held_out]
    matrix = np.zeros((len(used), 2 + len(layers)))
    for at, row in enumerate(used):
        matrix[at, 0], matrix[at, 1] = 1, row.border_bytes
        for layer in row.layers:
            matrix[at, column[layer]] = 1
        # An error counts by its share of the time: rows are long and short.
        matrix[at] /= max(row.measured_ns, 1.0)
    scale = np.maximum(np.abs(matrix).max(axis=0), 1e-300)
    found, _ = nnls(matrix / scale, np.ones(len(used)))
    solved = found / scale
    prices = {layer: float(solved[index]) for layer, index in column.items()}
    return BoardCosts(target, source, tuple(rows), float(solved[0]), float(solved[1]), prices)


_Groups = Sequence[tuple[str, ...]]


def _groups(part: Partition, request: BoardCostRequest) -> _Groups:
    """Return the nodes that are computed as one, by the backend that compiles or else by our simulation of the part."""
    for owner in (choose_backend(part.target, request.backends), backend(_SIMULATION)):
        pieces = owner.abilities().pieces
        if pieces is not None and part.target.startswith("vsi:"):
            return pieces(part.graph, find_target(part.target)).nodes
    return [(node.name,) for node in part.graph.nodes]


def _windows(part: Partition, groups: _Groups) -> Iterator[tuple[_Groups, bool]]:
    """Yield rows of neighbours, and whether the fit may not see them; all rows of a length together cover every layer.

    Neighbours in the order of a schedule can be cut out: no path leaves them and comes back.
    """
    count = len(groups)
    for length in (*_FITTED, _HELD_OUT):
        step = max(1, length // 2)
        for at in range(0, count - length + 1, step):
            yield groups[at : at + length], length == _HELD_OUT
    if count > max(_FITTED):
        yield groups, True


def _timed(
    request: BoardCostRequest,
    whole: PartitionedGraph,
    part: Partition,
    groups: _Groups,
    held_out: bool,
    precision: Precision,
) -> TimedRow:
    names = [name for group in groups for name in group]
    graph = part_of_graph(part.graph, [part.graph.node(name) for name in names])
    alone = replace(
        whole, source=replace(whole.source, graph=graph), partitions=(Partition(0, part.target, graph),), borders=()
    )
    bundle = compile_model(alone, CompileRequest(backends=request.backends))
    with request.place.load(bundle) as model:
        profile = model.profile(random_samples(graph, 1, 0), request.options)
    times = [mark.elapsed_ns for run in profile.runs for mark in run.timings]
    if not times:
        raise CostError("the board does not say what partitions take.", hint="It has to be 'dovetail serve'.")
    layers = tuple((group[0], precision) for group in groups)
    return TimedRow(layers, _border_bytes(graph), max(1.0, statistics.median(times)), held_out)


def _border_bytes(graph: Graph) -> int:
    sizes = [graph.types[name].size_bytes() for name in dict.fromkeys((*graph.inputs, *graph.outputs))]
    return sum(size for size in sizes if size is not None)
