"""Check what crosses between partitions against the golden run, and what backends took against the plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.bundle.bundle import Bundle
from dovetail.compare.isolate import worst_error
from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.quantize.calibrate import load_float
from dovetail.runtime.session import Session, open_session

FLOAT_SQNR_DB = 60.0
"""A partition in float that differs by more than this from the golden run computes something else."""
QUANTIZED_SQNR_DB = 10.0


@dataclass(frozen=True, slots=True)
class BorderCheck:
    """How far a tensor that leaves a partition is from the golden run: SQNR of its worst channel in dB."""

    tensor: str
    partition: int
    target: str
    device: str
    sqnr_db: float
    least_db: float

    @property
    def passed(self) -> bool:
        """Tell whether it is as near as it has to be."""
        return self.sqnr_db >= self.least_db


@dataclass(frozen=True, slots=True)
class BorderReport:
    """The checks of all borders in the order of the partitions."""

    checks: tuple[BorderCheck, ...]
    unchecked: tuple[str, ...]
    """Borders that the golden run has no tensor for: they hold no reals, or are made by the cut."""

    @property
    def first_deviation(self) -> BorderCheck | None:
        """Return the first tensor that deviates, None when none does."""
        return next((check for check in self.checks if not check.passed), None)


def verify_borders(
    graph: Graph, bundle: Bundle, feeds: Sequence[Mapping[str, AnyArray]], least_db: float | None = None
) -> BorderReport:
    """Compare every tensor that leaves a partition with the float run of the graph.

    Raises PlanError when the bundle was made from another graph, DataError when there is no sample.
    """
    bundle.plan.check(graph)
    if not feeds:
        raise DataError("there is no sample to check the borders on.", hint="Give at least one.")
    known = {name: _golden_name(graph, bundle, name) for part in bundle.partitions for name in part.outputs}
    sources = {name: source for name, source in known.items() if source is not None}
    golden: dict[str, list[AnyArray]] = {name: [] for name in sources}
    measured: dict[str, list[AnyArray]] = {name: [] for name in sources}
    model = load_float(graph)
    try:
        with open_session(bundle) as session:
            for inputs in feeds:
                taps = [source for source in dict.fromkeys(sources.values()) if source not in graph.outputs]
                reals = model.run(inputs, taps)
                run = session.run(inputs, [name for name in sources if name not in bundle.outputs])
                for name, source in sources.items():
                    golden[name].append(reals[source])
                    measured[name].append(run.real(name))
            checks = _checks(session, golden, measured, least_db)
    finally:
        model.close()
    return BorderReport(checks, tuple(name for name, source in known.items() if source is None))


def _golden_name(graph: Graph, bundle: Bundle, name: str) -> str | None:
    """Return the tensor of the float graph that a border stands for."""
    for source in (name, bundle.origins.get(name, name), name.rpartition("@")[0]):
        if source in graph.types and source not in graph.constants and graph.types[source].holds_reals:
            return source
    return None


def _checks(
    session: Session,
    golden: Mapping[str, Sequence[AnyArray]],
    measured: Mapping[str, Sequence[AnyArray]],
    least_db: float | None,
) -> tuple[BorderCheck, ...]:
    checks: list[BorderCheck] = []
    rounded = False
    for index, part in enumerate(session.bundle.partitions):
        # Rounding goes on downstream: after the first 8-bit tensor no later one is as near as float.
        rounded = rounded or any(kind.quant is not None for kind in part.tensors.values())
        least = least_db if least_db is not None else QUANTIZED_SQNR_DB if rounded else FLOAT_SQNR_DB
        for name in part.outputs:
            if name in golden:
                sqnr = _sqnr_db(golden[name], measured[name])
                checks.append(BorderCheck(name, index, part.target, session.devices[index], sqnr, least))
    return tuple(checks)


def _sqnr_db(golden: Sequence[AnyArray], measured: Sequence[AnyArray]) -> float:
    if any(
        one.shape != other.shape or not np.isfinite(other).all() for one, other in zip(golden, measured, strict=True)
    ):
        return -math.inf
    error = worst_error(golden, measured)
    return math.inf if error == 0.0 else -20.0 * math.log10(error)


@dataclass(frozen=True, slots=True)
class Misplaced:
    """That a backend ran an operator elsewhere than on the partition's device."""

    partition: int
    operator: str
    wanted: str
    found: str


def check_accounts(session: Session) -> tuple[Misplaced, ...]:
    """Return what the backends' own accounts contradict in the plan; silent backends contradict nothing."""
    misplaced: list[Misplaced] = []
    for index, account in enumerate(session.accounts()):
        wanted = session.devices[index]
        misplaced += [
            Misplaced(index, operator, wanted, device) for operator, device in account.items() if device != wanted
        ]
    return tuple(misplaced)
