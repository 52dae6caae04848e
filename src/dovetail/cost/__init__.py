"""Cost: what a plan takes in time and memory, every figure with its source."""

from dovetail.cost.model import CostModel, make_cost_model, units_of_plan
from dovetail.cost.record import BoundaryCost, MemoryCost, PlanCost, UnitCost
from dovetail.cost.table import CostEntry, CostTable, load_cost_table

__all__ = [
    "BoundaryCost",
    "CostEntry",
    "CostModel",
    "CostTable",
    "MemoryCost",
    "PlanCost",
    "UnitCost",
    "load_cost_table",
    "make_cost_model",
    "units_of_plan",
]
