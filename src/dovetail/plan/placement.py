"""Where a node runs and in which number formats."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import PlanError, suggestion
from dovetail.ir.precision import Precision

HOST = "cpu"
"""The target that every model can fall back to."""


@dataclass(frozen=True, slots=True, order=False)
class Placement:
    """Pair a target with a precision; the text form is `vsi:v853@i8pc`."""

    target: str
    precision: Precision

    def __str__(self) -> str:
        return f"{self.target}@{self.precision.value}"


def parse_placement(text: str) -> Placement:
    """Return the placement that `TARGET@PRECISION` names; raise PlanError when it does not."""
    target, sign, name = text.strip().rpartition("@")
    known = [item.value for item in Precision]
    if not sign or not target:
        raise PlanError(
            f"'{text}' is not a placement: TARGET@PRECISION is expected.", hint="For example vsi:v853@i8pc or cpu@fp32."
        )
    if name not in known:
        raise PlanError(f"placement '{text}': precision '{name}' is unknown.", hint=suggestion(name, known))
    return Placement(target, Precision(name))
