"""Run heads and see what is recognised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import AnyArray
from dovetail.outputs import SURE, Kind, OutputsView, recognise
from dovetail.passes import normalize
from dovetail.quantize import load_float
from dovetail.testing.heads.net import GeneratedHead, HeadFamily, stripped

_SAMPLES = 3


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
    graph = normalize(head.graph)
    rng = np.random.default_rng(seed)
    executable = load_float(graph, 1)
    inputs = {name: _sizes(graph.types[name].shape or ()) for name in graph.inputs}
    runs: list[dict[str, AnyArray]] = []
    for _ in range(_SAMPLES):
        feed: dict[str, AnyArray] = {
            name: rng.uniform(0, 1, shape).astype(np.float32) for name, shape in inputs.items()
        }
        runs.append(dict(executable.run(feed)))
    executable.close()
    return recognise(graph, runs, inputs)


def answers(families: Sequence[HeadFamily], seeds: Sequence[int], *, names: bool = True) -> Iterator[HeadAnswer]:
    """Yield what is recognised of heads drawn with every seed, with the exporter's names or without."""
    for family in families:
        for seed in seeds:
            head = family.draw(np.random.default_rng(seed))
            head = head if names else stripped(head)
            yield HeadAnswer(family.name, seed, head.note, head, run_head(head, seed))


def _sizes(shape: Sequence[object]) -> tuple[int, ...]:
    return tuple(dim if isinstance(dim, int) else 1 for dim in shape)
