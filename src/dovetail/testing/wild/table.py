"""The table of random operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dovetail.testing.operator_case import OperatorCase
from dovetail.testing.wild.elementwise import ELEMENTWISE
from dovetail.testing.wild.moving import MOVING
from dovetail.testing.wild.products import PRODUCTS
from dovetail.testing.wild.values import Draw

_DRAWINGS: Mapping[str, Callable[[Draw], OperatorCase]] = {**PRODUCTS, **ELEMENTWISE, **MOVING}

WILD_OPERATORS: tuple[str, ...] = tuple(sorted(_DRAWINGS))
"""Every operator that can be drawn."""


def wild_operator(op: str, seed: int) -> OperatorCase:
    """Return a random case of an operator, the same for the same seed; raise KeyError outside the table."""
    return _DRAWINGS[op](Draw(op, seed))
