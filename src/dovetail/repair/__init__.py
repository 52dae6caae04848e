"""Repair: what can be cured without more bits; each repair checks its own claim, and none is believed."""

from dovetail.repair.alone import rounded_activations, rounded_weights
from dovetail.repair.base import Cause, Exactness, Repair, RepairBasis
from dovetail.repair.bias import CorrectBiases
from dovetail.repair.dead import ZeroDeadChannels
from dovetail.repair.equalise import Equalise
from dovetail.repair.healing import (
    CHOICES,
    PRICED,
    REPAIRS,
    HealedModel,
    claims,
    float_error,
    repair,
    repaired_for,
    repeat_repairs,
)
from dovetail.repair.split import SplitRanges

__all__ = [
    "CHOICES",
    "PRICED",
    "REPAIRS",
    "Cause",
    "CorrectBiases",
    "Equalise",
    "Exactness",
    "HealedModel",
    "Repair",
    "RepairBasis",
    "SplitRanges",
    "ZeroDeadChannels",
    "claims",
    "float_error",
    "repair",
    "repaired_for",
    "repeat_repairs",
    "rounded_activations",
    "rounded_weights",
]
