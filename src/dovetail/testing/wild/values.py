"""Random sizes, shapes, ranges and choices."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from dovetail.ir import DType
from dovetail.testing.operator_case import Data, Exactly, Fixed, Operand, OperatorCase

_T = TypeVar("_T")

CHANNELS = (1, 2, 3, 4, 5, 8, 12, 16, 17, 32, 130)
_BATCHES = (1, 1, 1, 2, 3)
_LARGEST_SIDE = 40
_MOST_ELEMENTS = 6000
"""Of one tensor: the reference has to run it quickly."""
_MAGNITUDES = (1e-8, 1e-5, 1e-3, 0.1, 1.0, 3.0, 6.0, 100.0, 1e4)


def wild_range(rng: np.random.Generator) -> tuple[float, float]:
    """Return the lowest and highest value of a tensor: of any magnitude, often one-sided, at times always 0."""
    size = float(rng.choice(_MAGNITUDES)) * float(rng.uniform(0.5, 2.0))
    skew = float(rng.uniform(0.0, 1.0))
    sides = [(-size, size), (-size * skew, size), (0.0, size), (-size, 0.0), (0.0, 0.0), (size * skew, size)]
    return sides[int(rng.choice(len(sides), p=(0.3, 0.3, 0.2, 0.05, 0.05, 0.1)))]


class Draw:
    """Draw the operands and attributes of one operator."""

    def __init__(self, op: str, seed: int) -> None:
        self.op = op
        self.seed = seed
        self.rng = np.random.default_rng((zlib.crc32(op.encode()), seed))

    def case(self, *operands: Operand, **attributes: object) -> OperatorCase:
        """Return the case of an operator with one output of reals."""
        return OperatorCase(f"{self.op}.wild{self.seed}", self.op, operands, attributes)

    def pick(self, *options: _T) -> _T:
        """Return one of some values."""
        return options[int(self.rng.integers(len(options)))]

    def whole(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def real(self, low: float, high: float) -> float:
        """Return a float32 number."""
        return float(np.float32(self.rng.uniform(low, high)))

    def chance(self, probability: float) -> bool:
        """Return True as often as told."""
        return bool(self.rng.random() < probability)

    def side(self) -> int:
        """Return a spatial size."""
        return self.pick(1, 2, 3, 4, 7, 8, 9, self.whole(1, _LARGEST_SIDE))

    def shape(self, ranks: Sequence[int] = (1, 2, 3, 4, 4, 4, 5)) -> tuple[int, ...]:
        """Return a shape `[batch, channels, sides...]` of one of some ranks."""
        rank = self.pick(*ranks)
        while math.prod(shape := self._shape(rank)) > _MOST_ELEMENTS:
            pass
        return shape

    def _shape(self, rank: int) -> tuple[int, ...]:
        if rank == 1:
            return (self.pick(*CHANNELS),)
        return (self.pick(*_BATCHES), self.pick(*CHANNELS), *(self.side() for _ in range(rank - 2)))

    def axis(self, rank: int) -> int:
        """Return an axis, negative half the time."""
        return self.whole(0, rank - 1) - (rank if self.chance(0.5) else 0)

    def data(self, shape: tuple[int, ...], low: float | None = None, high: float | None = None) -> Data:
        """Return a graph input; of a random range unless one is given."""
        if low is not None and high is not None:
            return Data(shape, low, high)
        return Data(shape, *wild_range(self.rng))

    def fixed(self, shape: tuple[int, ...]) -> Fixed:
        """Return a float constant of a random range."""
        return Fixed(shape, *wild_range(self.rng))

    def operand(self, shape: tuple[int, ...]) -> Operand:
        """Return a graph input or a constant."""
        return self.fixed(shape) if self.chance(0.3) else self.data(shape)

    def broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape that broadcasts against another: of its rank or less, with some sizes 1."""
        if self.chance(0.4):
            return shape
        kept = shape[self.whole(0, len(shape)) :]
        return tuple(1 if self.chance(0.4) else size for size in kept)


def integers(*values: int) -> Exactly:
    """Return a constant list of int64."""
    return Exactly(tuple(values), shape=(len(values),))


def number(value: float) -> Exactly:
    """Return a float constant of no dimensions."""
    return Exactly((value,), DType.F32, ())
