"""What placing costs without an oracle: price, partition and propose on chains with branches of growing size.

python benchmarks/placement.py [--json]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from dovetail.backend.registry import find_target
from dovetail.cost import make_cost_model
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.partition.schedule import schedule
from dovetail.plan import Override, Placement, Plan, find_units, parse_placement
from dovetail.search.optimum import solve
from dovetail.search.optimum.clauses import Clause, Literal
from dovetail.search.pricing import PricedSpace, price_space
from dovetail.search.space import make_space
from zoo.minimum_cut import minimum_cut

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


def culprits(size: int) -> list[Clause]:
    """Return clauses as a search gives them: eight units in the second half that are each needed."""
    return [Clause(frozenset({Literal(unit, 1)}), ()) for unit in range(size // 2, size, max(1, size // 16))][:8]


def alternatives(size: int, count: int = 20) -> list[Clause]:
    """Return hard clauses: three units each, at random over the graph, half of them to be raised to the last level."""
    rng = np.random.default_rng(7)
    return [
        Clause(frozenset(Literal(int(unit), 1 + index % 2) for unit in rng.choice(size, 3, replace=False)), ())
        for index in range(count)
    ]


@dataclass(frozen=True)
class Row:
    """One line of the table; processor seconds tell more than the clock on a machine that others use too."""

    what: str
    nodes: int
    wall_s: float
    processor_s: float


def measure(what: str, nodes: int, work: Callable[[], object]) -> Row:
    """Return the best of three runs."""
    best = (math.inf, math.inf)
    for _ in range(3):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        best = min(best, (time.perf_counter() - wall, time.process_time() - processor))
    return Row(what, nodes, *best)


def table() -> list[Row]:
    """Measure everything."""
    rows: list[Row] = []
    for count in (1_250, 2_500, 5_000, 10_000):
        graph = residual(count)
        rows.append(measure("price and partition, first plan", count, partial(price_and_partition, graph)))
        model = make_cost_model(graph, find_units(graph), [find_target("vsi:v853"), find_target("cpu")])
        rows.append(measure("price, another plan", count, partial(model.plan_cost, striped(graph, 10))))
    for count in (125, 250, 500, 1_000, 2_000, 4_000):
        space = priced(residual(count), (WIDE,))
        for what, found in (("8 culprits", culprits(count)), ("20 x 3 alternatives", alternatives(count))):
            rows.append(measure(f"propose, {what}", count, partial(solve, space.problem, found)))
        two = replace(
            space.problem,
            switch_ns=0.0,
            choices=tuple((ladder[0], ladder[-1]) for ladder in space.problem.choices),
            cost_ns=tuple((costs[0], costs[-1]) for costs in space.problem.cost_ns),
        )
        rows.append(measure("minimum cut, NPU or CPU", count, partial(minimum_cut, two)))
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    rows = table()
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    print(f"{'what':34} {'nodes':>6} {'clock, s':>9} {'processor, s':>13}")
    for row in rows:
        print(f"{row.what:34} {row.nodes:>6} {row.wall_s:9.3f} {row.processor_s:13.3f}")


if __name__ == "__main__":
    main()
