"""What verifying finds: tensors counted in steps, how each was read, and what was not looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dovetail.compare.steps import Steps


class Judged(Enum):
    """Where the other backend's tensor was read."""

    DEPLOYED = "deployed"
    """It is an output of what is deployed."""
    TAP = "tap"
    """All inner tensors were asked for at once, and the outputs stayed as they are deployed."""
    CUT = "cut"
    """The partition was compiled up to this tensor."""


class Taps(Enum):
    """Whether inner tensors that are asked for all at once are believed: to ask for them makes another binary."""

    BELIEVED = "believed"
    SILENT = "believed, and all are equal though outputs differ"
    DIFFER = "not believed: with them the outputs are others"
    DENIED = "not believed: what they name is equal where the partition is compiled up to there"
    REFUSED = "refused by the other backend"


@dataclass(frozen=True, slots=True)
class VerifiedTensor:
    """How far a tensor agrees; `node` made it, `""` for outputs of the whole graph."""

    tensor: str
    node: str
    op: str
    target: str
    steps: Steps
    judged: Judged = Judged.DEPLOYED
    nodes: tuple[str, ...] = ()
    """All nodes that are judged together: what is computed as one, and what is not told before it."""


@dataclass(frozen=True, slots=True)
class InsideLook:
    """How the operators of a partition were looked at."""

    partition: int
    target: str
    taps: Taps
    reason: str
    """What the other backend said where it refused; empty otherwise."""
    cuts: int
    """How many parts of the partition were compiled by themselves."""
    operators: int
    unjudged: tuple[str, ...]
    """Operators of which nothing was read."""


@dataclass(frozen=True)
class Verification:
    """How far another backend agrees with our exact simulation.

    `outputs` are the whole graph's, and what leaves each partition that the other backend runs.
    """

    against: str
    samples: int
    outputs: tuple[VerifiedTensor, ...]
    operators: tuple[VerifiedTensor, ...]
    inside: tuple[InsideLook, ...] = ()

    @property
    def equal(self) -> bool:
        """Tell whether every element of every output is equal."""
        return all(item.steps.differing == 0 for item in self.outputs)

    @property
    def first_deviation(self) -> VerifiedTensor | None:
        """Return the first operator that gives something else from the same inputs."""
        return next((item for item in self.operators if item.steps.differing), None)
