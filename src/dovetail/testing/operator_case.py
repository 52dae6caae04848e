"""Single-operator graphs with the data to run them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dovetail.backends.reference import run_graph
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType

SAMPLES = 4
"""Float samples that the ranges of a case come from."""


@dataclass(frozen=True, slots=True)
class Data:
    """A graph input of reals, drawn uniformly from a range."""

    shape: tuple[int, ...]
    low: float = -3.0
    high: float = 3.0


@dataclass(frozen=True, slots=True)
class Fixed:
    """A float constant, drawn uniformly from a range: a weight, a bias, an operand or a parameter."""

    shape: tuple[int, ...]
    low: float = -1.0
    high: float = 1.0


@dataclass(frozen=True, slots=True)
class Exactly:
    """A constant with given values."""

    values: tuple[float, ...] | tuple[int, ...] | tuple[bool, ...]
    dtype: DType = DType.I64
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Omitted:
    """An optional input that is left out."""


Operand = Data | Fixed | Exactly | Omitted


@dataclass(frozen=True, slots=True)
class OperatorCase:
    """Apply one operator to random data; the same name gives the same constants and samples everywhere."""

    name: str
    op: str
    operands: tuple[Operand, ...]
    attributes: Mapping[str, object] = field(default_factory=dict)
    outputs: tuple[DType, ...] = (DType.F32,)
    same_scale: bool = False
    """The output has the quantised type of the first input, as behind a node that clamps for free."""

    def graph(self) -> Graph:
        """Return the float32 graph; inputs are `x0, x1, ...` and outputs `y0, y1, ...`.

        A boundary operator (QuantizeLinear and so on) does nothing to reals: its float graph is an Identity.
        """
        generator = self._generator(0)
        types: dict[str, TensorType] = {}
        constants: dict[str, AnyArray] = {}
        names: list[str] = []
        for index, operand in enumerate(self.operands):
            name = "" if isinstance(operand, Omitted) else f"{'x' if isinstance(operand, Data) else 'c'}{index}"
            names.append(name)
            if isinstance(operand, Data):
                types[name] = TensorType(DType.F32, operand.shape)
            elif not isinstance(operand, Omitted):
                constants[name] = _constant(operand, generator)
                types[name] = TensorType(DType.of(constants[name].dtype), tuple(constants[name].shape))
        results = tuple(f"y{index}" for index in range(len(self.outputs)))
        types.update({name: TensorType(dtype, None) for name, dtype in zip(results, self.outputs, strict=True)})
        op = "Identity" if self.is_boundary else self.op
        node = Node("node", op, tuple(names), results, self.attributes)
        inputs = tuple(name for name in names if name.startswith("x"))
        rough = Graph(self.name, (node,), inputs, results, types, constants)
        values = run_graph(rough, self._draw(self._generator(1)))
        shaped = {name: TensorType(types[name].dtype, tuple(values[name].shape)) for name in results}
        return rough.evolve(types={**types, **shaped})

    @property
    def is_boundary(self) -> bool:
        """Tell whether the operator only changes how reals are stored."""
        return self.op in ("QuantizeLinear", "DequantizeLinear", "Requantize")

    def samples(self) -> tuple[Mapping[str, AnyArray], ...]:
        """Return float32 inputs within the declared ranges."""
        return tuple(self._draw(self._generator(1 + index)) for index in range(SAMPLES))

    def _draw(self, generator: np.random.Generator) -> dict[str, AnyArray]:
        return {
            f"x{index}": generator.uniform(operand.low, operand.high, operand.shape).astype(np.float32)
            for index, operand in enumerate(self.operands)
            if isinstance(operand, Data)
        }

    def _generator(self, stream: int) -> np.random.Generator:
        return np.random.default_rng((zlib.crc32(self.name.encode()), stream))


def _constant(operand: Fixed | Exactly, generator: np.random.Generator) -> AnyArray:
    if isinstance(operand, Fixed):
        return generator.uniform(operand.low, operand.high, operand.shape).astype(np.float32)
    shape = (len(operand.values),) if operand.shape is None else operand.shape
    return np.array(operand.values, dtype=operand.dtype.carrier).reshape(shape)
