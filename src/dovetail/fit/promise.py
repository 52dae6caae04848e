"""Find what a search promises of its plan, and the same anew when the plan is checked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from dovetail.backend.profiles.hosts import find_host
from dovetail.backend.registry import backends_for, find_target
from dovetail.compile import compile_model
from dovetail.cost import load_cost_table, make_cost_model, units_of_plan
from dovetail.errors import CostError
from dovetail.fit.metric import ChosenMetric
from dovetail.fit.request import FitRequest, PriceRequest
from dovetail.ir import Graph
from dovetail.partition.partitioned import PartitionedGraph
from dovetail.plan import Plan
from dovetail.plan.placement import HOST
from dovetail.plan.resolve import placeable_units
from dovetail.plan.units import Units
from dovetail.report.promise import Promise
from dovetail.runtime import open_session
from dovetail.search import TuneRequest, TuneResult
from dovetail.search.samples import SampleSet

_INTEGER_SAMPLES = 4
_EXACT = frozenset({"QuantizeLinear", "DequantizeLinear", "Reshape", "Transpose", "Identity", "Flatten", "Squeeze"})
"""What a CPU computes to the same bits on every machine, among what stands at borders."""


def make_promise(
    asked: TuneRequest, request: FitRequest, chosen: ChosenMetric, result: TuneResult, parts: PartitionedGraph
) -> Promise:
    """Return what a search promises of its plan; `parts` is the plan's graph in partitions."""
    graph = asked.graph if result.repaired is None else result.repaired.graph
    samples = SampleSet(graph, asked.samples)
    sign = 1.0 if result.higher_is_better else -1.0
    exact = result.holdout.tuned_exact
    return Promise(
        plan=result.plan,
        graph=asked.graph.digest,
        target=result.low.target,
        metric=request.metric or chosen.metric.name,
        decisions=request.decisions,
        max_drop=request.max_drop,
        min_score=request.min_score,
        data=samples.digest,
        samples=samples.count,
        holdout=request.split.holdout,
        seed=request.split.seed,
        higher_is_better=result.higher_is_better,
        float_score=sign * result.holdout.float_score,
        score=None if exact is None else sign * exact,
        latency_ns=predicted_ns(graph, result.plan, request.price),
        host=request.price.host,
        integers=integer_digests(parts, samples, asked.splits.holdout),
        units={unit.name: unit.nodes for unit in plan_units(graph, result.plan).items},
    )


def plan_units(graph: Graph, plan: Plan) -> Units:
    """Return the units of a graph as a plan has them."""
    targets = {name: find_target(name) for name in dict.fromkeys((*plan.targets, HOST))}
    return units_of_plan(placeable_units(graph, plan.default, targets), plan)


def predicted_ns(graph: Graph, plan: Plan, price: PriceRequest) -> float | None:
    """Return what a plan takes by tables and fitted figures, without a vendor's model; None where nothing prices it."""
    targets = [find_target(name) for name in dict.fromkeys((*plan.targets, HOST))]
    tables = [load_cost_table(Path(path)) for path in price.tables]
    host = None if price.host is None else find_host(price.host)
    try:
        model = make_cost_model(graph, plan_units(graph, plan), targets, tables, host)
        return float(model.plan_cost(plan).latency_ns)
    except CostError:
        return None


def integer_digests(parts: PartitionedGraph, samples: SampleSet, indices: Sequence[int]) -> dict[str, str]:
    """Return SHA-256 by tensor of the integers that simulated partitions give for the first of some samples.

    What depends on arithmetic in float on the CPU is left out: its last bits differ from machine to machine.
    """
    names = _exact_tensors(parts)
    if not names:
        return {}
    hashes = {name: hashlib.sha256() for name in names}
    with open_session(compile_model(parts)) as session:
        outputs = set(session.bundle.outputs)
        for sample in samples.samples(indices[:_INTEGER_SAMPLES]):
            run = session.run(sample.inputs, [name for name in names if name not in outputs])
            for name in names:
                array = run.outputs[name] if name in outputs else run.taps[name]
                hashes[name].update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return {name: item.hexdigest() for name, item in hashes.items()}


def _exact_tensors(parts: PartitionedGraph) -> list[str]:
    """Return the integer outputs of simulated partitions that nothing in float on the CPU comes before."""
    uncertain: set[str] = set()
    found: list[str] = []
    for part in parts.partitions:
        graph = part.graph
        simulated = _is_simulated(part.target)
        sure = simulated or all(node.op in _EXACT for node in graph.nodes)
        if not sure or uncertain & set(graph.inputs):
            uncertain |= set(graph.outputs)
        elif simulated:
            found += [name for name in graph.outputs if graph.types[name].quant is not None]
    return found


def _is_simulated(target: str) -> bool:
    owners = backends_for(target)
    return target != HOST and bool(owners) and "fidelity" in owners[0].abilities().options
