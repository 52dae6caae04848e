"""What placing costs without an oracle: price, partition and propose on chains with branches of growing size.

python benchmarks/placement.py [--json]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np

from dovetail.backend.registry import find_target
from dovetail.cost import make_cost_model
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.partition.schedule import schedule
from dovetail.plan import Override, Placement, Plan, find_units, parse_placement
from dovetail.search.optimum import minimum_cut, solve
from dovetail.search.optimum.clauses import Clause, Literal
from dovetail.search.pricing import PricedSpace, price_space
from dovetail.search.space import make_space

LOW, WIDE, CPU = (parse_placement(text) for text in ("vsi:v853@i8pc", "vsi:v853@i16", "cpu@fp32"))


def residual(count: int) -> Graph:
    """Return `count` nodes, Conv and Add in turn: every Add joins what went in two blocks before."""
    kind = TensorType(DType.F32, (1, 8, 16, 16))
    types = {"x": kind, "w": TensorType(DType.F32, (8, 8, 3, 3))}
    constants = {"w": np.zeros((8, 8, 3, 3), np.float32)}
    nodes: list[Node] = []
    last, before = "x", "x"
    for index in range(count):
        made = f"t{index}"
        types[made] = kind
        if index % 2 == 0:
            nodes.append(Node(f"n{index}", "Conv", (last, "w"), (made,), {"pads": (1, 1, 1, 1)}))
        else:
            nodes.append(Node(f"n{index}", "Add", (last, before), (made,)))
            before = made
        last = made
    return Graph("residual", tuple(nodes), ("x",), (last,), types, constants)


def timed(work: Callable[[], object]) -> float:
    """Return the seconds of the best of three runs."""
    found: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def striped(graph: Graph, every: int) -> Plan:
    """Return a plan that puts every so many nodes on the CPU."""
    chosen = [node.name for node in graph.nodes[::every]]
    return Plan(graph.digest, LOW, dict.fromkeys(chosen, Override(CPU, "stripe")))


def price_and_partition(graph: Graph) -> None:
    """Do what one candidate needs when nothing is known yet."""
    plan = striped(graph, 10)
    make_cost_model(graph, find_units(graph), [find_target("vsi:v853"), find_target("cpu")]).plan_cost(plan)
    schedule(graph, {node.name: plan.placement(node.name).target for node in graph.nodes})


def priced(graph: Graph, ladder: tuple[Placement, ...]) -> PricedSpace:
    """Return the placement problem."""
    space = make_space(graph, LOW, ladder)
    model = make_cost_model(graph, find_units(graph), [find_target("vsi:v853"), find_target("cpu")])
    return price_space(space, model)


def clauses(size: int, count: int) -> list[Clause]:
    """Return clauses of three literals, spread over the units, as failing candidates give them."""
    rng = np.random.default_rng(7)
    return [
        Clause(frozenset(Literal(int(unit), 1 + index % 2) for unit in rng.choice(size, 3, replace=False)), ())
        for index in range(count)
    ]


def main() -> None:
    """Print the table."""
    rows: list[dict[str, object]] = []
    for count in (1_250, 2_500, 5_000, 10_000):
        graph = residual(count)
        rows.append({"what": "price and partition", "nodes": count, "seconds": timed(lambda g=graph: price_and_partition(g))})
    for count in (125, 250, 500, 1_000, 2_000):
        found = priced(residual(count), (WIDE,))
        found_clauses = clauses(count, 20)
        for name, places in (("int16", (WIDE,)), ("int16 or CPU", (WIDE, CPU))):
            found = priced(residual(count), places) if places != (WIDE,) else found
            problem = found.problem
            seconds = timed(lambda p=problem: solve(p, found_clauses))
            rows.append({"what": f"propose, {name}, 20 clauses", "nodes": count, "seconds": seconds})
    if "--json" in sys.argv:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print(f"{row['what']:34} {row['nodes']:>6} nodes {row['seconds']:8.3f} s")


if __name__ == "__main__":
    main()
