"""Repair: what can be cured without more bits; each repair checks its own claim, and none is believed."""

from dovetail.repair.alone import rounded_activations, rounded_weights
from dovetail.repair.base import Cause, Exactness, Repair, RepairBasis
from dovetail.repair.bias import CorrectBiases
from dovetail.repair.dead import ZeroDeadChannels
from dovetail.repair.equalise import Equalise
from dovetail.repair.gates import FreeGates, find_gates, spared_nodes
from dovetail.repair.healing import (
    CHOICES,
    PRICED,
    REPAIRS,
    HealedModel,
    claims,
    float_error,
    relative_error,
    repair,
    repaired_for,
    repeat_repairs,
)
from dovetail.repair.split import SplitRanges, find_splits
from dovetail.repair.tighten import TightenRanges

__all__ = [
    "CHOICES",
    "PRICED",
    "REPAIRS",
    "Cause",
    "CorrectBiases",
    "Equalise",
    "Exactness",
    "FreeGates",
    "HealedModel",
    "Repair",
    "RepairBasis",
    "SplitRanges",
    "TightenRanges",
    "ZeroDeadChannels",
    "claims",
    "find_gates",
    "find_splits",
    "float_error",
    "relative_error",
    "repair",
    "repaired_for",
    "repeat_repairs",
    "rounded_activations",
    "rounded_weights",
    "spared_nodes",
]
