"""Repairs in a row: found and applied one on the other, checked against what they claim, and repeated from a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from dovetail.errors import PlanError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.plan.plan import Plan
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize.calibrate import Calibration, load_float
from dovetail.repair.base import Exactness, Repair, RepairBasis
from dovetail.repair.bias import CorrectBiases
from dovetail.repair.dead import ZeroDeadChannels
from dovetail.repair.equalise import Equalise
from dovetail.repair.split import SplitRanges

REPAIRS: Mapping[str, Repair] = {
    item.kind: item
    for item in (
        ZeroDeadChannels(),
        Equalise(),
        Equalise("equalise-stored", stored=1.0),
        Equalise("equalise-exact", clips=False),
        CorrectBiases(),
        SplitRanges(),
    )
}
"""All repairs by kind, in the order in which they are applied."""

PRICED = frozenset({"split-ranges"})
"""Kinds that cost latency: they are for what has to be raised else."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "all": ("dead-channels", "equalise", "equalise-stored", "bias-correction", "split-ranges"),
    "data": ("dead-channels", "equalise", "equalise-stored", "split-ranges"),
    "exact": ("equalise-exact", "split-ranges"),
    "none": (),
}
"""Kinds by what may become of float: anything that helps, equal on data, equal on any data, none."""


@dataclass(frozen=True, slots=True)
class HealedModel:
    """A repaired graph, its calibration, and what was done."""

    graph: Graph
    calibration: Calibration
    records: tuple[RepairRecord, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of the repairs."""
        return tuple(record.kind for record in self.records)


def repair(
    start: HealedModel, kinds: Sequence[str], per_channel: bool, raised: frozenset[str] = frozenset()
) -> HealedModel:
    """Return a graph with repairs of some kinds; those that find nothing to do are left out.

    `raised` are nodes that have to be raised else: only those are split.
    """
    state = start
    for kind in (item for item in REPAIRS if item in kinds):
        record = REPAIRS[kind].find(RepairBasis(state.graph, state.calibration.statistics, per_channel, raised))
        if record is not None:
            graph = REPAIRS[kind].apply(state.graph, record)
            calibration = REPAIRS[kind].carry(state.graph, state.calibration, record)
            ranges = replace(calibration.ranges, graph_digest=graph.digest)
            state = HealedModel(graph, replace(calibration, ranges=ranges), (*state.records, record))
    return state


def repeat_repairs(graph: Graph, records: Iterable[RepairRecord]) -> Graph:
    """Return a graph as shipped with recorded repairs applied; raise PlanError for a kind that is not known."""
    for record in records:
        known = REPAIRS.get(record.kind)
        if known is None:
            raise PlanError(
                f"the plan has a repair of kind '{record.kind}' that is not known here (there are: "
                f"{', '.join(REPAIRS)}).",
                hint="Update Dovetail.",
            )
        graph = known.apply(graph, record)
    return graph


def repaired_for(plan: Plan, graph: Graph) -> Graph:
    """Return the graph that a plan is for, given it or the one as shipped."""
    if not plan.repairs or graph.digest == plan.graph_digest:
        return graph
    return repeat_repairs(graph, plan.repairs)


def claims(records: Iterable[RepairRecord]) -> tuple[Exactness, ...]:
    """Return what repairs claim of the float graph."""
    return tuple(REPAIRS[record.kind].exactness for record in records)


def float_error(graph: Graph, repaired: Graph, inputs: Iterable[Mapping[str, AnyArray]]) -> float:
    """Return the largest difference of the float outputs of two graphs, as a share of the output's largest value."""
    worst = 0.0
    with closing(load_float(graph)) as before, closing(load_float(repaired)) as after:
        for sample in inputs:
            expected, measured = before.run(sample), after.run(sample)
            worst = max([worst, *(_relative(expected[name], measured[name]) for name in graph.outputs)])
    return worst


def _relative(expected: AnyArray, measured: AnyArray) -> float:
    if not np.issubdtype(expected.dtype, np.floating) or expected.size == 0:
        return float(not np.array_equal(expected, measured))
    largest = float(np.abs(expected).max())
    difference = float(np.abs(expected.astype(np.float64) - measured).max())
    return difference / largest if largest > 0 else difference
