"""What a quantised graph asks of a node: how its tensors are stored, as the file states it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dovetail.ir.dtypes import DType
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.ir.roles import Role, input_roles
from dovetail.ir.types import TensorType

_BINARY = 0.5
"""The mantissa of every power of two."""
_FIXED_POINT = frozenset({DType.I8, DType.I16})
"""Types whose scales some targets want to be powers of two."""
_FLOATS = {DType.F16: Precision.FP16, DType.BF16: Precision.BF16}


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """The scheme of one stored tensor, without its scales."""

    dtype: DType
    quantized: bool = False
    per_channel: bool = False
    symmetric: bool = False
    """Every zero point is the middle of the integers: 0, or 128 of unsigned bytes."""
    power_of_two: bool = False
    """Every scale is a power of two, and every zero point 0."""
    zero_points: tuple[int, int] = (0, 0)
    """The least and the largest."""

    @classmethod
    def of(cls, kind: TensorType) -> StoredFormat:
        """Return the scheme of a tensor of some type."""
        quant = kind.quant
        if quant is None:
            return cls(kind.dtype)
        lowest, highest = kind.dtype.integer_range
        least, largest = min(quant.zero_point), max(quant.zero_point)
        middle = (lowest + highest + 1) // 2
        binary = least == largest == 0 and all(math.frexp(scale)[0] == _BINARY for scale in quant.scale)
        return cls(kind.dtype, True, quant.per_channel, least == largest == middle, binary, (least, largest))

    @property
    def text(self) -> str:
        """Return it in a few words, such as `i8 symmetric per channel`."""
        return _text((self,))


@dataclass(frozen=True, slots=True)
class NodeFormats:
    """How the data, the weight and the bias of one node are stored; schemes that occur twice are listed once."""

    reads: tuple[StoredFormat, ...]
    makes: tuple[StoredFormat, ...]
    weight: StoredFormat | None = None
    bias: StoredFormat | None = None

    @property
    def text(self) -> str:
        """Return it in one line."""
        data = ", ".join(_text(items) for items in _by_type((*self.reads, *self.makes)))
        weight = "" if self.weight is None else f"; weight {self.weight.text}"
        bias = "" if self.bias is None or self.bias.quantized else f"; bias {self.bias.text}"
        return f"{data}{weight}{bias}"

    @property
    def quantized(self) -> tuple[StoredFormat, ...]:
        """Return the schemes of the data that are quantised."""
        return tuple(item for item in (*self.reads, *self.makes) if item.quantized)

    @property
    def per_channel(self) -> bool:
        """Tell whether the weight has a scale for each channel."""
        return self.weight is not None and self.weight.per_channel

    @property
    def nearest(self) -> Precision:
        """Return the precision whose formats are these, or come nearest: rules and prices go by it."""
        stored = self.quantized
        if not stored:
            dtypes = [item.dtype for item in (*self.makes, *self.reads)]
            return next((_FLOATS[dtype] for dtype in dtypes if dtype in _FLOATS), Precision.FP32)
        binary = all(item.power_of_two for item in (*stored, *((self.weight,) if self.weight else ())))
        if max(item.dtype.size_bytes for item in stored) > 1:
            narrow = self.weight is not None and self.weight.quantized and self.weight.dtype.size_bytes == 1
            return Precision.W8A16 if narrow else Precision.I16
        if self.per_channel:
            return Precision.I8PC
        if stored[0].dtype is DType.U8:
            return Precision.U8
        return Precision.I8DFP if binary else Precision.I8


def formats_of(graph: Graph, node: Node) -> NodeFormats:
    """Return how the tensors of a node of a graph are stored; integers that are no reals count as they are."""
    by_role: dict[Role, list[TensorType]] = {}
    for name, role in zip(node.inputs, input_roles(graph, node), strict=True):
        if name:
            by_role.setdefault(role, []).append(graph.types[name])
    weight, bias = (_first(by_role.get(role, ())) for role in (Role.WEIGHT, Role.BIAS))
    makes = _schemes(graph.types[name] for name in node.outputs if name)
    return NodeFormats(_schemes(by_role.get(Role.DATA, ())), makes, weight, bias)


def _by_type(items: Iterable[StoredFormat]) -> Iterable[list[StoredFormat]]:
    grouped: dict[DType, list[StoredFormat]] = {}
    for item in items:
        grouped.setdefault(item.dtype, []).append(item)
    return grouped.values()


def _text(items: Sequence[StoredFormat]) -> str:
    """Return the loosest scheme of tensors of one type."""
    name = items[0].dtype.value
    if not all(item.quantized for item in items):
        return name
    binary = all(item.power_of_two for item in items) and items[0].dtype in _FIXED_POINT
    scheme = "2^n" if binary else "symmetric" if all(item.symmetric for item in items) else "asymmetric"
    return f"{name} {scheme}{' per channel' if any(item.per_channel for item in items) else ''}"


def _schemes(kinds: Iterable[TensorType]) -> tuple[StoredFormat, ...]:
    return tuple(dict.fromkeys(StoredFormat.of(kind) for kind in kinds))


def _first(kinds: Iterable[TensorType]) -> StoredFormat | None:
    return next((StoredFormat.of(kind) for kind in kinds), None)
