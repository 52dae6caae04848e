"""Repair: what can be cured without more bits; each repair checks its own claim, and none is believed."""

from dovetail.repair.alone import rounded_activations, rounded_weights
from dovetail.repair.base import Cause, Exactness, Repair, RepairBasis
from dovetail.repair.bias import CorrectBiases
from dovetail.repair.dead import ZeroDeadChannels
from dovetail.repair.equalise import Equalise
from dovetail.repair.healing import (
    CHOICES,
    REPAIRS,
    HealedModel,
    claims,
    float_error,
    repair,
    repaired_for,
    repeat_repairs,
)

__all__ = [
    "CHOICES",
    "REPAIRS",
    "Cause",
    "CorrectBiases",
    "Equalise",
    "Exactness",
    "HealedModel",
    "Repair",
    "RepairBasis",
    "ZeroDeadChannels",
    "claims",
    "float_error",
    "repair",
    "repaired_for",
    "repeat_repairs",
    "rounded_activations",
    "rounded_weights",
]
