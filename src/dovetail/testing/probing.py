"""One-operator graphs to ask a part about: what `dovetail sdk probe` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dovetail.backends.verisilicon.driver.probe import Question, probe_part
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.parts.installed import simulated_profile
from dovetail.backends.verisilicon.parts.measured import MeasuredPart, parts_to_json
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.errors import DeviceNotFound
from dovetail.ir.precision import Precision
from dovetail.sdk import find_verisilicon
from dovetail.testing.cases import CASES, quantized

__all__ = ["QUICK", "MeasuredPart", "parts_to_json", "probe_target", "questions"]

QUICK: tuple[Precision, ...] = (Precision.U8, Precision.I8, Precision.I8PC, Precision.I8DFP, Precision.I16)
"""Precisions whose graphs compile within minutes; those of floats take the vendor's shader compiler much longer."""


def questions(precisions: Sequence[Precision] = QUICK, names: Sequence[str] = ()) -> Iterator[Question]:
    """Yield the graphs of all operators (or of some) at some precisions."""
    for precision in precisions:
        for case in CASES:
            if not names or case.op in names:
                yield Question(case.op, precision, quantized(case, precision).graph)


def probe_target(
    name: str,
    precisions: Sequence[Precision] = QUICK,
    names: Sequence[str] = (),
    told: Callable[[Question], None] = lambda _: None,
) -> MeasuredPart:
    """Return what the simulator answers for a target; raise DeviceNotFound without an SDK that knows it."""
    sdk = find_verisilicon()
    if not sdk.usable:
        raise DeviceNotFound(f"sdk probe: {sdk.reason}.", hint="Run 'dovetail sdk install verisilicon'.")
    profile = simulated_profile(name)
    if profile is None:
        raise DeviceNotFound(
            f"target '{name}' is unknown.", hint="Say vsi:v853, vsi:VIP9000PICO_PID0XEE or vsi:pid=0xee."
        )
    return probe_part(part_of(profile), questions(precisions, names), Settings(sdk.folder), told)
