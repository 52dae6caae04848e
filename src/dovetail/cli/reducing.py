"""What commands share that look for the smallest failing part: the budget as it is written, and the command itself."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.loading import ALL_PASSES
from dovetail.cli.options import ModelVerb
from dovetail.cli.render import Progress
from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from dovetail.backend.failures import FailureMemory
    from dovetail.partition import ReductionBudget

CASE = "case"
"""The folder in the command that is shown."""
_BUDGET = re.compile(r"(\d{1,9})(?:/(\d{1,9}(?:\.\d+)?))?")

BudgetOption = Annotated[
    str,
    typer.Option(
        "--budget",
        metavar="TRIES[/SECONDS]",
        help="How many parts may be compiled, and for how long, to find the smallest that fails.",
    ),
]


def read_budget(text: str) -> ReductionBudget:
    """Return a budget as it is written: 100, or 100/600."""
    from dovetail.partition import ReductionBudget

    match = _BUDGET.fullmatch(text)
    if match is None or not int(match[1]):
        raise DovetailError(f"--budget '{text}': TRIES[/SECONDS] is expected.", hint="For example 100/600.")
    tries = int(match[1])
    return ReductionBudget(tries) if match[2] is None else ReductionBudget(tries, float(match[2]))


def searching(bar: Progress) -> Callable[[int, int], None]:
    """Return what shows how far the search for the smallest failing part is."""

    def advance(tries: int, nodes: int) -> None:
        bar.rename(f"reducing: {nodes} nodes still fail")
        bar.advance(tries)

    return advance


def user_memory() -> FailureMemory:
    """Return what is remembered on this machine of compilers that crash or hang."""
    from dovetail.backend.failures import FailureMemory
    from dovetail.sdk.location import failures_folder

    return FailureMemory(failures_folder())


def reduce_command(model: ModelVerb, against: str, plan: Path | None, ranges: Path | None, target: str | None) -> str:
    """Return the command that writes the smallest case of what was seen, for a shell."""
    words = ["dovetail", "reduce", str(model.model), "--against", against]
    for option, value in (("--plan", plan), ("--ranges", ranges), ("--target", target)):
        words += [option, str(value)] if value is not None else []
    words += [word for option, values in _loading(model) for value in values for word in (option, value)]
    words += ["--float-weights"] if model.float_weights else []
    words += ["--dequantize"] if model.dequantize else []
    return " ".join(shlex.quote(word) for word in (*words, "-o", CASE))


def _loading(model: ModelVerb) -> tuple[tuple[str, list[str]], ...]:
    return (
        ("--shape", model.shape),
        ("--value", model.value),
        ("--inputs", model.inputs),
        ("--outputs", model.outputs),
        ("--submodule", [model.submodule] if model.submodule else []),
        ("--opt-level", [str(model.opt_level)] if model.opt_level != ALL_PASSES else []),
        ("--disabled-pass", model.disabled_pass),
    )
