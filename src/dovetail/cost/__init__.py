"""Cost: what a plan takes in time and memory, every figure with its source."""

from dovetail.cost.model import CostModel, make_cost_model, units_of_plan
from dovetail.cost.modelled import ModelledPartition, ModelRequest, OperatorRow, model_plan, model_tables
from dovetail.cost.prediction import predict_partitions
from dovetail.cost.probing import ProbeOptions, probe_units
from dovetail.cost.record import BoundaryCost, MemoryCost, PlanCost, UnitCost
from dovetail.cost.table import CostEntry, CostTable, load_cost_table
from dovetail.cost.unit_prices import ProbedPrices

__all__ = [
    "BoundaryCost",
    "CostEntry",
    "CostModel",
    "CostTable",
    "MemoryCost",
    "ModelRequest",
    "ModelledPartition",
    "OperatorRow",
    "PlanCost",
    "ProbeOptions",
    "ProbedPrices",
    "UnitCost",
    "load_cost_table",
    "make_cost_model",
    "model_plan",
    "model_tables",
    "predict_partitions",
    "probe_units",
    "units_of_plan",
]
