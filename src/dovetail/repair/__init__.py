"""Repair: what can be cured without more bits; each repair checks its own claim, and none is believed."""

from dovetail.repair.base import Evidence, Exactness, Repair
from dovetail.repair.bias import CorrectBiases
from dovetail.repair.dead import ZeroDeadChannels
from dovetail.repair.equalise import Equalise
from dovetail.repair.healing import (
    CHOICES,
    REPAIRS,
    Repaired,
    claims,
    float_error,
    repair,
    repaired_for,
    repeat_repairs,
)

__all__ = [
    "CHOICES",
    "REPAIRS",
    "CorrectBiases",
    "Equalise",
    "Evidence",
    "Exactness",
    "Repair",
    "Repaired",
    "ZeroDeadChannels",
    "claims",
    "float_error",
    "repair",
    "repaired_for",
    "repeat_repairs",
]
