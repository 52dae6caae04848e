"""Small TFLite models, one operator each, with inputs: what the importer is judged by.

The output's shape is what LiteRT finds; the case only names its type.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from dovetail.ir import AnyArray, DType, Quantization
from judges.tflite_model import LiteOperator, LiteTensor

_CODES = {name: value for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
_KINDS = {name: value for name, value in vars(schema.BuiltinOptions).items() if isinstance(value, int)}
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class LiteCase:
    """An operator with inputs; `label` names the builtin and a variant."""

    label: str
    operator: LiteOperator
    feeds: tuple[tuple[AnyArray, ...], ...]

    @property
    def builtin(self) -> str:
        """Return the operator's name."""
        return self.label.partition(".")[0]

    def expected(self) -> list[list[AnyArray]]:
        """Return what LiteRT's reference kernels give."""
        return self.operator.run_all(self.feeds)


@dataclass(frozen=True, slots=True)
class Input:
    """Describe an input: fed when `value` is None."""

    shape: tuple[int, ...]
    dtype: DType = DType.F32
    quant: Quantization | None = None
    value: AnyArray | None = None
    low: float = -2.0
    high: float = 2.0

    def draw(self, generator: np.random.Generator) -> AnyArray:
        """Return values to feed."""
        if self.dtype is DType.BOOL:
            return np.asarray(generator.integers(0, 2, self.shape)).astype(np.bool_)
        if self.dtype.is_float:
            return np.asarray(generator.uniform(self.low, self.high, self.shape)).astype(self.dtype.carrier)
        if self.quant is not None:
            lowest, highest = self.dtype.integer_range
            return np.asarray(generator.integers(lowest, highest + 1, self.shape)).astype(self.dtype.carrier)
        return np.asarray(generator.integers(int(self.low), int(self.high), self.shape)).astype(self.dtype.carrier)


def real(*shape: int, low: float = -2.0, high: float = 2.0) -> Input:
    """Return a float input."""
    return Input(shape, low=low, high=high)


def constant(value: object, dtype: DType = DType.F32, quant: Quantization | None = None) -> Input:
    """Return a constant."""
    array = np.asarray(value, dtype.carrier)
    return Input(array.shape, dtype, quant, array)


def ints(*values: int) -> Input:
    """Return a constant list of int32."""
    return constant(values, DType.I32)


def whole(*shape: int, low: float = -9, high: float = 9, dtype: DType = DType.I32) -> Input:
    """Return an integer input."""
    return Input(shape, dtype, low=low, high=high)


def bits(*shape: int) -> Input:
    """Return a bool input."""
    return Input(shape, DType.BOOL)


def stored(dtype: DType, scale: float, zero: int, *shape: int) -> Input:
    """Return a quantised input."""
    return Input(shape, dtype, Quantization((float(np.float32(scale)),), (zero,)))


def random(*shape: int, scale: float = 1.0) -> Input:
    """Return a float constant of random values."""
    generator = np.random.default_rng(zlib.crc32(repr(shape).encode()))
    return constant(generator.normal(size=shape) * scale)


@dataclass(frozen=True, slots=True)
class Output:
    """Describe an output."""

    dtype: DType = DType.F32
    quant: Quantization | None = None


FLOAT = Output()
INT32 = Output(DType.I32)
INT64 = Output(DType.I64)
BOOL = Output(DType.BOOL)

Options = tuple[str, Mapping[str, object]]


def case(
    label: str,
    inputs: Sequence[Input | None],
    outputs: Sequence[Output] = (FLOAT,),
    options: Options | None = None,
    variables: Sequence[int] = (),
) -> LiteCase:
    """Return a case; `options` is the table's name and its fields."""
    return with_shapes(unshaped_case(label, inputs, outputs, options, variables))


def unshaped_case(
    label: str,
    inputs: Sequence[Input | None],
    outputs: Sequence[Output],
    options: Options | None,
    variables: Sequence[int],
) -> LiteCase:
    """Return a case whose outputs have no shapes yet."""
    tensors = [None if item is None else _tensor(f"in{index}", item) for index, item in enumerate(inputs)]
    made = [LiteTensor(f"out{index}", item.dtype, (), item.quant) for index, item in enumerate(outputs)]
    kind, table = (0, None) if options is None else (_KINDS[options[0]], _table(*options))
    names = tuple(f"in{index}" for index in variables)
    operator = LiteOperator(
        _CODES[label.partition(".")[0]], tensors, made[0], kind, table, tuple(made[1:]), variables=names
    )
    generator = np.random.default_rng(zlib.crc32(label.encode()))
    fed = [item for index, item in enumerate(inputs) if item and item.value is None and index not in variables]
    feeds = tuple(tuple(item.draw(generator) for item in fed) for _ in range(_ROUNDS))
    return LiteCase(label, operator, feeds)


def with_shapes(item: LiteCase) -> LiteCase:
    """Return the case with the output shapes that LiteRT finds."""
    found = item.expected()[0]
    shaped = [replace(one, shape=value.shape) for one, value in zip(item.operator.outputs, found, strict=True)]
    return replace(item, operator=replace(item.operator, output=shaped[0], more_outputs=tuple(shaped[1:])))


def _tensor(name: str, item: Input) -> LiteTensor:
    return LiteTensor(name, item.dtype, item.shape, item.quant, item.value)


def _table(name: str, fields: Mapping[str, object]) -> Any:
    table = getattr(schema, f"{name}T")()
    for field, value in fields.items():
        if not hasattr(table, field):
            raise AttributeError(f"{name} has no field {field}")
        setattr(table, field, value)
    return table


Build = Callable[[], LiteCase]
