"""What a fit decides where its request leaves it open: the start of the search, the ladder."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from dovetail.backend.registry import find_target
from dovetail.errors import SearchError
from dovetail.ir.precision import Precision
from dovetail.plan.placement import Placement, parse_placement
from dovetail.repair import CHOICES, REPAIRS

_EIGHT_BITS = (Precision.I8PC, Precision.U8)
"""The precisions that a search starts from, the more accurate first."""


def choose_low(target: str, precision: str | None) -> Placement:
    """Return where the search starts: as named, else the first 8-bit precision that is cheaper than 16 bits."""
    order = find_target(target).precisions
    if precision is not None:
        return parse_placement(f"{target}@{precision}")
    cheap = order[: order.index(Precision.I16)] if Precision.I16 in order else order
    low = next((item for item in _EIGHT_BITS if item in cheap), None)
    if low is None:
        raise SearchError(
            f"target '{target}' has no 8-bit precision to start from.", hint="Name the precision.", option="low"
        )
    return Placement(target, low)


def choose_repairs(choice: str) -> tuple[str, ...]:
    """Return the kinds of repairs that a choice allows, in the order in which they are applied.

    A choice is a word for several, a kind, or these joined by commas; a kind with a minus is left out. Raises
    SearchError for what is none of these.
    """
    kinds = set[str]()
    for word in (text.strip() for text in choice.split(",")):
        bare = word.removeprefix("-")
        if bare not in REPAIRS and (bare != word or word not in CHOICES):
            near = difflib.get_close_matches(bare, [*CHOICES, *REPAIRS], n=1)
            words = f"One of {', '.join(CHOICES)}, or of the kinds {', '.join(REPAIRS)}."
            hint = f"Did you mean '{near[0]}'?" if near else words
            raise SearchError(f"'{word}' is no choice of repairs, and no kind of them.", hint=hint, option="repair")
        kinds = kinds - {bare} if bare != word else kinds | set(CHOICES.get(word, (word,)))
    return tuple(kind for kind in REPAIRS if kind in kinds)


def choose_ladder(target: str, steps: Sequence[str]) -> tuple[Placement, ...]:
    """Return the placements that culprits are raised to; raise DovetailError for a target that is not known."""
    ladder = tuple(parse_placement(text if "@" in text else f"{target}@{text}") for text in steps)
    for place in ladder:
        find_target(place.target)
    return ladder
