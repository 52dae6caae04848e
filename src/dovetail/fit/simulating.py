"""What the vendor's own compiler and simulator make of a model in 8 bits, before it is recommended."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from dovetail.backend.registry import backend, backends_for, find_target
from dovetail.compare.sides import opened
from dovetail.compare.steps import Steps, compare_steps
from dovetail.compare.verify import random_samples
from dovetail.cost import ModelRequest, make_cost_model, model_plan, model_tables, units_of_plan
from dovetail.data.sample import Sample
from dovetail.data.source import StoredSamples
from dovetail.errors import CompileError, CompileFailure, DeviceLost, DeviceNotFound, DovetailError
from dovetail.fit.policy import choose_low
from dovetail.ir import AnyArray, Graph
from dovetail.partition import Partition, partition
from dovetail.plan import Recipe, make_plan
from dovetail.plan.placement import HOST, parse_placement
from dovetail.plan.resolve import placeable_units
from dovetail.quantize import quantize
from dovetail.quantize.calibrate import calibrate, load_float
from dovetail.report.advice import SimulatedOutcome, SimulatedRow

_VENDOR, _OURS = "vsi", "npusim"
_SEED, _CALIBRATED = 1, 4
_NOISIER = 2.0
"""Times the noise that exact simulation has against float, beyond which the vendor's answer is another one."""

_Values = dict[str, AnyArray]


@dataclass(frozen=True, slots=True)
class _Store:
    """Random samples, in memory."""

    items: tuple[Mapping[str, AnyArray], ...]

    @property
    def count(self) -> int:
        return len(self.items)

    def digest(self) -> str:
        values = (array.tobytes() for item in self.items for _, array in sorted(item.items()))
        return hashlib.sha256(b"".join(values)).hexdigest()

    def read(self, indices: Sequence[int] | None) -> Iterator[Sample]:
        for index in range(self.count) if indices is None else indices:
            yield Sample(str(index), self.items[index])


def can_simulate(target: str) -> bool:
    """Tell whether the vendor's simulator is installed and knows a target."""
    return any(owner.name == _VENDOR for owner in backends_for(target))


def modelled_ns(graph: Graph, target: str, precision: str | None, seconds: float | None = None) -> float:
    """Return what a float graph takes by the vendor's performance model, everything in 8 bits that a target takes.

    What the target refuses takes what it does on the CPU by our prices. Raises DovetailError where the vendor's
    compiler refuses a part of it, or is not done with one in so many seconds.
    """
    low, host = choose_low(target, precision), parse_placement(f"{HOST}@fp32")
    targets = {name: find_target(name) for name in (target, HOST)}
    plan = make_plan(graph, Recipe(low, (host,)), targets)
    units = units_of_plan(placeable_units(graph, low, targets), plan)
    tables = model_tables(model_plan(graph, plan, ModelRequest(seconds=seconds)))
    return make_cost_model(graph, units, list(targets.values()), tables, None).plan_cost(plan).latency_ns


def simulate(graph: Graph, target: str, precision: str | None, seconds: float) -> SimulatedRow:
    """Return what the vendor's compiler and simulator make of a float graph, everything in 8 bits that a target takes.

    Ranges are those of random samples, of which one more is run, by the vendor and by our exact simulation; what
    the target refuses runs on the CPU. Nothing raises where the vendor fails: that is the answer.
    """
    began = time.monotonic()
    low = choose_low(target, precision)
    row = SimulatedRow(target, low.precision.value)
    try:
        parts, samples = _parts(graph, target, precision)
        run = _Run(graph, parts, samples[-1], target, began + seconds)
        outcome, why, steps = run.judged()
    except DovetailError as error:
        outcome, why, steps = SimulatedOutcome.FAILS, error.message, Steps()
        if _is_late(error) and time.monotonic() >= began + seconds:
            outcome, why = SimulatedOutcome.UNDECIDED, f"it did not end within {seconds:g} s"
    return SimulatedRow(
        row.target,
        row.precision,
        outcome=outcome,
        why=why,
        elements=steps.elements,
        differing=steps.differing,
        most_steps=steps.largest,
    )


def _is_late(error: DovetailError) -> bool:
    hung = isinstance(error, CompileError) and error.failure is CompileFailure.HUNG
    return hung or isinstance(error, DeviceLost)


def _parts(
    graph: Graph, target: str, precision: str | None
) -> tuple[Sequence[Partition], Sequence[Mapping[str, AnyArray]]]:
    low, host = choose_low(target, precision), parse_placement(f"{HOST}@fp32")
    plan = make_plan(graph, Recipe(low, (host,)), {target: find_target(target), HOST: find_target(HOST)})
    samples = tuple(random_samples(graph, _CALIBRATED + 1, _SEED))
    ranges = calibrate(graph, StoredSamples(_Store(samples))).ranges
    return partition(quantize(graph, plan, ranges)).partitions, samples


class _Run:
    """One sample through the partitions of a model, on both sides."""

    def __init__(
        self, graph: Graph, parts: Sequence[Partition], sample: Mapping[str, AnyArray], target: str, until: float
    ) -> None:
        self._graph, self._parts, self._target, self._until = graph, parts, target, until
        self._sample = sample

    def judged(self) -> tuple[SimulatedOutcome, str, Steps]:
        """Run both sides; raise DovetailError where one fails."""
        ours, theirs = dict(self._sample), dict(self._sample)
        steps = Steps()
        for part in self._parts:
            owner = _OURS if part.target == self._target else HOST
            _through(part, owner, ours, None)
            if owner == HOST:
                _through(part, owner, theirs, None)
                continue
            left = self._until - time.monotonic()
            if left <= 0:
                return SimulatedOutcome.UNDECIDED, "the time was up before it was run", Steps()
            _through(part, _VENDOR, theirs, left)
            for name in part.graph.outputs:
                steps += compare_steps(theirs[name], ours[name])
        if not steps.elements:
            return SimulatedOutcome.UNDECIDED, f"{self._target} takes no node of it", steps
        if not steps.differing:
            return SimulatedOutcome.RUNS, "", steps
        return self._compared(ours, theirs, steps)

    def _compared(self, ours: _Values, theirs: _Values, steps: Steps) -> tuple[SimulatedOutcome, str, Steps]:
        """Tell by the float outputs whether what differs is more than rounding."""
        with closing(load_float(self._graph)) as model:
            golden = model.run(self._sample)
        for name, expected in golden.items():
            noise = [
                float(np.mean(np.square(expected.astype(np.float64) - side[name].astype(np.float64))))
                for side in (ours, theirs)
            ]
            if not noise[1] <= _NOISIER * noise[0]:
                return SimulatedOutcome.DIFFERS, "", steps
        return SimulatedOutcome.NEARLY, "", steps


def _through(part: Partition, owner: str, values: _Values, seconds: float | None) -> None:
    """Run a partition on a backend, and add what it gives."""
    chosen = backend(owner)
    limited = chosen.abilities().with_limit
    if seconds is not None and limited is not None:
        chosen = limited(seconds)
    if owner == _VENDOR and not any(device.accepts(part.target) for device in chosen.devices()):
        raise DeviceNotFound(f"the vendor's simulator does not know '{part.target}'.")
    with opened(chosen, part.graph, part.target) as executable:
        values.update(executable.run({name: values[name] for name in part.graph.inputs}))
