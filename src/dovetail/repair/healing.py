"""Repairs in a row: found and applied one on the other, checked against what they claim, and repeated from a plan."""

from __future__ import annotations

import math
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
from dovetail.quantize.ranges import Range
from dovetail.repair.base import Exactness, Repair, RepairBasis
from dovetail.repair.bias import CorrectBiases
from dovetail.repair.dead import ZeroDeadChannels
from dovetail.repair.equalise import Equalise
from dovetail.repair.gates import FreeGates
from dovetail.repair.split import SplitRanges
from dovetail.repair.tighten import TightenRanges

REPAIRS: Mapping[str, Repair] = {
    item.kind: item
    for item in (
        ZeroDeadChannels(),
        FreeGates(),
        Equalise(),
        Equalise("equalise-stored", stored=1.0),
        Equalise("equalise-exact", clips=False),
        TightenRanges(),
        CorrectBiases(),
        SplitRanges(),
    )
}
"""All repairs by kind, in the order in which they are applied."""

PRICED = frozenset({"free-gates", "split-ranges"})
"""Kinds that cost latency: they are for what has to be raised else."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "all": (
        *("dead-channels", "free-gates", "equalise", "equalise-stored", "tighten-ranges", "bias-correction"),
        "split-ranges",
    ),
    "data": ("dead-channels", "free-gates", "equalise", "equalise-stored", "split-ranges"),
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
    start: HealedModel,
    kinds: Sequence[str],
    per_channel: bool,
    raised: frozenset[str] = frozenset(),
    needed: Mapping[str, Range] | None = None,
    gates: Sequence[str] = (),
) -> HealedModel:
    """Return a graph with repairs of some kinds; those that find nothing to do are left out.

    `raised` are nodes that have to be raised else: only those are split. `needed` is what is needed of the ranges of
    outputs, `gates` are the tensors whose gates are freed.
    """
    state = start
    for kind in (item for item in REPAIRS if item in kinds):
        found = state.calibration
        basis = RepairBasis(
            state.graph,
            found.statistics,
            per_channel,
            raised,
            found.ranges.tensors,
            needed if needed is not None else {},
            gates,
        )
        record = REPAIRS[kind].find(basis)
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
            worst = max([worst, *(relative_error(expected[name], measured[name]) for name in graph.outputs)])
    return worst


def relative_error(expected: AnyArray, measured: AnyArray) -> float:
    """Return the largest difference as a share of the largest expected value; of what is no float, whether any is.

    Infinity where one side alone is no finite number, or shapes differ.
    """
    if expected.shape != measured.shape:
        return math.inf
    if not np.issubdtype(expected.dtype, np.floating) or expected.size == 0:
        return float(not np.array_equal(expected, measured))
    finite = np.isfinite(expected) & np.isfinite(measured)
    if not np.array_equal(expected[~finite], measured[~finite], equal_nan=True):
        return math.inf
    largest = float(np.abs(expected[finite]).max(initial=0))
    difference = float(np.abs(expected[finite].astype(np.float64) - measured[finite]).max(initial=0))
    return difference / largest if largest > 0 else difference
