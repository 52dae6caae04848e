"""How long partitioning takes as graphs grow: it has to be linear.

Run `python benchmarks/partition.py`. Columns: graph, nodes, partitions, best of three in ms, and that time over the
time for a tenth of the nodes (10 is linear).
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.partition import partition
from dovetail.plan import Placement, Plan
from dovetail.plan.quantized import QuantizedGraph

_SIZES = (1_000, 10_000)
_KIND = TensorType(DType.F32, (1, 8))
_PLACES = {name: Placement(name, Precision.FP32) for name in ("cpu", "npu")}


def chain(count: int) -> Graph:
    """Return a chain of activations."""
    nodes = tuple(Node(f"n{index}", "Relu", (_tensor(index),), (_tensor(index + 1),)) for index in range(count))
    return _graph(nodes, (_tensor(count),))


def dag(count: int) -> Graph:
    """Return a chain of additions, each with one of the twenty tensors before."""
    rng = random.Random(1)
    nodes: list[Node] = []
    for index in range(count):
        earlier = _tensor(rng.randint(max(0, index - 20), index))
        nodes.append(Node(f"n{index}", "Add", (earlier, _tensor(index)), (_tensor(index + 1),)))
    return _graph(tuple(nodes), (_tensor(count),))


def fan(count: int) -> Graph:
    """Return activations of one input, every one an output."""
    nodes = tuple(Node(f"n{index}", "Relu", (_tensor(0),), (_tensor(index + 1),)) for index in range(count))
    return _graph(nodes, tuple(_tensor(index + 1) for index in range(count)))


def alternating(index: int) -> str:
    """Change the target at every node."""
    return ("cpu", "npu")[index % 2]


def scattered(index: int) -> str:
    """Choose a target by the bits of the node's number."""
    return ("cpu", "npu")[(index * 2654435761 >> 16) % 2]


def halves(index: int) -> str:
    """Change the target every five hundred nodes."""
    return ("cpu", "npu")[index // 500 % 2]


_CASES: tuple[tuple[str, Callable[[int], Graph], Callable[[int], str]], ...] = (
    ("chain, blocks of 500", chain, halves),
    ("chain, alternating", chain, alternating),
    ("random graph, scattered", dag, scattered),
    ("fan of outputs, alternating", fan, alternating),
)


def _tensor(index: int) -> str:
    return f"t{index}"


def _graph(nodes: tuple[Node, ...], outputs: tuple[str, ...]) -> Graph:
    return Graph("g", nodes, ("t0",), outputs, {_tensor(index): _KIND for index in range(len(nodes) + 1)})


def _measure(graph: Graph, target: Callable[[int], str]) -> tuple[int, float]:
    places = {node.name: _PLACES[target(index)] for index, node in enumerate(graph.nodes)}
    placed = QuantizedGraph(graph, Plan("g", _PLACES["cpu"]), places)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        found = partition(placed)
        best = min(best, time.perf_counter() - start)
    return len(found.partitions), best * 1e3


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for title, make, target in _CASES:
        before = 0.0
        for size in _SIZES:
            parts, elapsed_ms = _measure(make(size), target)
            growth = f"{elapsed_ms / before:6.1f}" if before else "     -"
            print(f"{title:28} {size:7d} {parts:7d} {elapsed_ms:10.1f} {growth}")
            before = elapsed_ms


if __name__ == "__main__":
    main()
