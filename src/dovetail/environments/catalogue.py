"""The environments that can be made: what each is for, and the packages that lie in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import DovetailError, suggestion

_PINS = Path(__file__).with_name("pins")


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment; `size_bytes` is what it takes on disc, measured with the smallest builds.

    With `resolve` pip also takes what the pinned packages ask for beyond the list: the builds of one version differ.
    """

    name: str
    purpose: str
    pythons: tuple[tuple[int, int], ...]
    size_bytes: int
    resolve: bool = False

    @property
    def pins(self) -> Path:
        """Return the file of requirements: every package of the environment with its version."""
        return _PINS / f"{self.name}.txt"

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the requirements."""
        return tuple(self.pins.read_text(encoding="ascii").split())

    @property
    def digest(self) -> str:
        """Return a digest of the requirements: an environment made from others is made again."""
        return hashlib.sha256(" ".join(self.packages).encode()).hexdigest()[:16]


ENVIRONMENTS = (
    Environment("acuity", "Acuity (pegasus), which reads .quantize tables (x86-64 Linux)", ((3, 10),), 6900 << 20),
    Environment("paddle", "Paddle models in two files (.pdmodel, .pdiparams)", ((3, 11), (3, 12)), 109 << 20),
    Environment("paddle-pir", "Paddle models whose network is JSON (Paddle 3)", ((3, 11), (3, 12)), 900 << 20),
    Environment(
        "tensorflow", "TensorFlow: frozen graphs, SavedModel, Keras (.keras, .h5)", ((3, 11), (3, 12)), 1500 << 20
    ),
    Environment(
        "torch", "PyTorch: exported programs (.pt2), TorchScript", ((3, 11), (3, 12), (3, 13)), 1013 << 20, resolve=True
    ),
)


def find_environment(name: str) -> Environment:
    """Return an environment; raise DovetailError when there is none of that name."""
    for environment in ENVIRONMENTS:
        if environment.name == name:
            return environment
    known = [environment.name for environment in ENVIRONMENTS]
    raise DovetailError(f"there is no environment '{name}'.", hint=suggestion(name, known))
