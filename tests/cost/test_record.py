"""What a plan costs is the sum of its pieces."""

from __future__ import annotations

from dovetail.backend.costs import Figure, Quality
from dovetail.cost import BoundaryCost, PlanCost, UnitCost
from dovetail.cost.record import MemoryCost
from dovetail.ir.precision import Precision
from dovetail.plan import Placement

CPU = Placement("cpu", Precision.FP32)


def _figure(latency_ns: float) -> Figure:
    return Figure(latency_ns, Quality.ROOFLINE, "stated")


def _cost(partition_count: int) -> PlanCost:
    units = tuple(UnitCost(str(ns), (str(ns),), "Relu", CPU, 0, 0, _figure(ns)) for ns in (1.0, 20.0))
    boundaries = tuple(BoundaryCost(str(ns), CPU, CPU, int(ns) // 100, _figure(ns)) for ns in (300.0, 4000.0))
    return PlanCost(units, boundaries, partition_count, _figure(50_000.0), MemoryCost({}, {}, 0))


def test_the_latency_is_units_boundaries_and_switches_one_after_the_other() -> None:
    cost = _cost(3)
    assert (cost.compute_ns, cost.boundary_ns, cost.switch_ns) == (21.0, 4300.0, 100_000.0)
    assert cost.latency_ns == 104_321.0
    assert cost.transfer_bytes == 43


def test_the_first_partition_is_free() -> None:
    assert _cost(1).switch_ns == 0.0
    assert _cost(2).switch_ns == 50_000.0
