"""The generated heads by the time at which the recogniser first saw them, and how it did then."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.testing.heads import (
    detectors,
    fifth,
    fourth,
    others,
    published_detectors,
    published_maps,
    published_vectors,
    second_detectors,
    second_others,
    sixth,
    sixth_others,
    third,
)
from dovetail.testing.heads.net import HeadFamily


@dataclass(frozen=True, slots=True)
class FirstLook:
    """How the recogniser did on a set before it was changed for any of its heads."""

    heads: int
    right: int
    wrong_and_sure: int


@dataclass(frozen=True, slots=True)
class HeadSet:
    """Families of heads that the recogniser saw at one time."""

    name: str
    families: tuple[HeadFamily, ...]
    first: FirstLook | None
    """None where the recogniser was made with the set: it has never been new."""


SETS = (
    HeadSet("made with", (*detectors.FAMILIES, *others.FAMILIES), None),
    HeadSet(
        "first",
        (*published_detectors.FAMILIES, *published_maps.FAMILIES, *published_vectors.FAMILIES),
        FirstLook(123, 105, 3),
    ),
    HeadSet("second", (*second_detectors.FAMILIES, *second_others.FAMILIES), FirstLook(128, 76, 2)),
    HeadSet("third", third.FAMILIES, FirstLook(88, 51, 8)),
    HeadSet("fourth", fourth.FAMILIES, FirstLook(124, 100, 0)),
    HeadSet("fifth", fifth.FAMILIES, FirstLook(108, 92, 4)),
    HeadSet("sixth", (*sixth.FAMILIES, *sixth_others.FAMILIES), FirstLook(184, 82, 5)),
)
"""In the order in which the recogniser saw them. A set was written and committed before the recogniser ran on it once,
on seeds 0 to 3 (the first one on 0 to 2); then it was changed for what was wrong, so that only the first look is
evidence of how it does on heads that it does not know."""
