"""Run heads and see what is recognised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.compare.decisions import see_random
from dovetail.outputs import SURE, Kind, OutputsView
from dovetail.passes import normalize
from dovetail.testing.heads.net import GeneratedHead, HeadFamily, stripped


@dataclass(frozen=True, slots=True)
class HeadAnswer:
    """What was recognised of one head."""

    family: str
    seed: int
    note: str
    head: GeneratedHead
    view: OutputsView

    @property
    def right(self) -> bool:
        """Tell whether every output is of the kind that it should be."""
        return all(self._kind(name) is kind for name, kind in self.head.kinds.items())

    @property
    def confidence(self) -> float:
        """Return the confidence of the least sure head."""
        return min(head.confidence for head in self.view.heads)

    @property
    def wrong_and_sure(self) -> bool:
        """Tell whether an output of a head taken without asking is of another kind."""
        wanted = self.head.kinds
        return any(
            head.kind is not wanted[name] for head in self.view.heads if head.confidence >= SURE for name in head.roles
        )

    def _kind(self, name: str) -> Kind:
        return next((head.kind for head in self.view.heads if name in head.roles), Kind.UNKNOWN)


def run_head(head: GeneratedHead, seed: int) -> OutputsView:
    """Return what is recognised of a head on random inputs."""
    return see_random(normalize(head.graph), seed, threads=1).view


def answers(families: Sequence[HeadFamily], seeds: Sequence[int], *, names: bool = True) -> Iterator[HeadAnswer]:
    """Yield what is recognised of heads drawn with every seed, with the exporter's names or without."""
    for family in families:
        for seed in seeds:
            head = family.draw(np.random.default_rng(seed))
            head = head if names else stripped(head)
            yield HeadAnswer(family.name, seed, head.note, head, run_head(head, seed))
