"""What Dovetail itself takes to partition and compile large graphs: the backends' own time is subtracted.

Run `python benchmarks/bookkeeping.py`. Columns: graph, nodes, partitions, best of three in ms of partitioning, of
compiling without the backends, of both, and that over the time for a tenth of the nodes (10 is linear).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from dovetail.backend.protocols import Blob, CompileOptions
from dovetail.backend.target import Target
from dovetail.backends.null.plugin import NullBackend
from dovetail.backends.reference.plugin import ReferenceBackend
from dovetail.compile import compile_model
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.partition import partition
from dovetail.plan import Placement, Plan
from dovetail.plan.quantized import QuantizedGraph
from partition import alternating, chain, dag, halves, scattered

_SIZES = (1_000, 10_000)
_PLACES = {"cpu": Placement("null", Precision.FP32), "npu": Placement("reference", Precision.FP32)}
_CASES: tuple[tuple[str, Callable[[int], Graph], Callable[[int], str]], ...] = (
    ("chain, blocks of 500", chain, halves),
    ("chain, alternating", chain, alternating),
    ("random graph, scattered", dag, scattered),
)


class _Clock:
    """Count the time inside the backends' compilers."""

    def __init__(self) -> None:
        self.inside = 0.0

    def watch(self, kind: type[NullBackend] | type[ReferenceBackend]) -> None:
        """Count the compiler of a backend."""
        original = kind.compile

        def timed(backend: NullBackend, graph: Graph, target: Target, options: CompileOptions) -> Blob:
            start = time.process_time()
            try:
                return original(backend, graph, target, options)  # type: ignore[arg-type]
            finally:
                self.inside += time.process_time() - start

        kind.compile = timed  # type: ignore[method-assign,assignment]


def _measure(placed: QuantizedGraph, clock: _Clock) -> tuple[int, float, float]:
    best = float("inf"), float("inf")
    count = 0
    for _ in range(3):
        start = time.process_time()
        cut = partition(placed)
        parted = time.process_time() - start
        clock.inside = 0.0
        start = time.process_time()
        count = len(compile_model(cut).partitions)
        own = time.process_time() - start - clock.inside
        best = min(best, (parted, own), key=sum)
    return count, *best


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    clock = _Clock()
    for kind in (NullBackend, ReferenceBackend):
        clock.watch(kind)
    for title, make, side in _CASES:
        before = 0.0
        for size in _SIZES:
            graph = make(size)
            places = {node.name: _PLACES[side(index)] for index, node in enumerate(graph.nodes)}
            placed = QuantizedGraph(graph, Plan("g", _PLACES["cpu"]), places)
            parts, parted, own = _measure(placed, clock)
            total = parted + own
            growth = f"{total / before:6.1f}" if before else "     -"
            print(f"{title:26} {size:7d} {parts:7d} {parted * 1e3:8.1f} {own * 1e3:8.1f} {total * 1e3:8.1f} {growth}")
            before = total


if __name__ == "__main__":
    main()
