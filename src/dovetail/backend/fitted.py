"""Prices that were fitted to a vendor's performance model: a few coefficients for each kind of work and precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.ir.precision import Precision


@dataclass(frozen=True, slots=True)
class FittedForm:
    """What one kind of work takes at one precision; without coefficients it takes nothing, as it joins its neighbour.

    `median_error` and `upper_error` are shares of the vendor's figure: half and nine tenths of the operators that the
    fit had not seen are within them.
    """

    coefficients: Mapping[str, float]
    operators: int
    median_error: float
    upper_error: float


@dataclass(frozen=True, slots=True)
class FittedPrices:
    """The forms of one part by kind of work and precision, and the version of the model that they were fitted to."""

    version: str
    forms: Mapping[tuple[str, Precision], FittedForm]
    other: str = ""
    """The part that they were fitted to, where it is another one of the same generation."""
