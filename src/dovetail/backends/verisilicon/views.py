"""Operators of a program seen with their tensors: what routes and the emulator read."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dovetail.backends.verisilicon.gates import Rewrites, find_rewrites
from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.program import Program, ProgramOperator, ProgramTensor, Quant, StoredForm, TensorRole
from dovetail.backends.verisilicon.translate import from_vendor, real_form
from dovetail.backends.verisilicon.visits import visit_order
from dovetail.ir import AnyArray, DType, Quantization, TensorType

_SHORT = (DType.U8, DType.I8, DType.I16)
_MULTIPLIER_BITS = 16
FINEST_FOR_TABLES = 2.0**-15
"""The smallest scale in fixed point that the tensor processor has tables for."""


class ProgramView:
    """A program with its tensors' types in our terms: slowest dimension first, axes counted from there."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.kinds = tuple(_kind_of(tensor) for tensor in program.tensors)

    @cached_property
    def operators(self) -> Sequence[OperatorView]:
        """Return the views of all operators, in order."""
        return [OperatorView(self, operator) for operator in self.program.operators]

    @cached_property
    def edges(self) -> frozenset[int]:
        """Return the tensors that go in or come out."""
        return frozenset(tensor for _, tensor in (*self.program.inputs, *self.program.outputs))

    @cached_property
    def makers(self) -> Mapping[int, int]:
        """Map every tensor that is computed to its operator."""
        operators = self.program.operators
        return {tensor: index for index, operator in enumerate(operators) for tensor in operator.outputs}

    @cached_property
    def visits(self) -> Mapping[int, int]:
        """Map every operator to its place in the order in which the vendor's compiler comes to them."""
        return {index: place for place, index in enumerate(visit_order(self.program))}

    @cached_property
    def rewrites(self) -> Rewrites:
        """Return which operators the vendor's compiler makes tables and multiples of."""
        return find_rewrites(self.program)

    def reader_count(self, tensor: int) -> int:
        """Return how many operators read a tensor."""
        return len(self.readers.get(tensor, ()))

    @cached_property
    def readers(self) -> Mapping[int, Sequence[ProgramOperator]]:
        """Map every tensor to the operators that read it, in order; what none reads has none."""
        found: defaultdict[int, list[ProgramOperator]] = defaultdict(list)
        for operator in self.program.operators:
            for tensor in set(operator.inputs):
                found[tensor].append(operator)
        return found

    def value(self, tensor: int) -> AnyArray | None:
        """Return a constant, or None for a tensor that is computed."""
        held = self.program.tensors[tensor]
        if held.data is None:
            return None
        kind = self.kinds[tensor]
        return from_vendor(held.data, held.form.code, kind, kind.static_shape or ())


def _kind_of(tensor: ProgramTensor) -> TensorType:
    quant = real_form(tensor.form)
    if quant is not None and quant.axis is not None:
        quant = Quantization(quant.scale, quant.zero_point, len(tensor.shape) - 1 - quant.axis)
    return TensorType(DType(tensor.form.code.name.lower()), tuple(reversed(tensor.shape)), quant)


@dataclass(frozen=True, slots=True)
class OperatorView:
    """One operator with the types around it."""

    whole: ProgramView
    operator: ProgramOperator

    @property
    def generation(self) -> Generation:
        """Return the engines of the part."""
        return self.whole.program.generation

    @property
    def ints(self) -> tuple[int, ...]:
        """Return the whole parameters."""
        return self.operator.ints

    @property
    def floats(self) -> tuple[float, ...]:
        """Return the real parameters."""
        return self.operator.floats

    def has(self, index: int) -> bool:
        """Tell whether an optional input is given."""
        return index < len(self.operator.inputs) and self.operator.inputs[index] >= 0

    def kind(self, index: int = 0) -> TensorType:
        """Return the type of an input."""
        return self.whole.kinds[self.operator.inputs[index]]

    def made(self, index: int = 0) -> TensorType:
        """Return the type of an output."""
        return self.whole.kinds[self.operator.outputs[index]]

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an input, slowest dimension first."""
        return self.kind(index).static_shape or ()

    def made_shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an output, slowest dimension first."""
        return self.made(index).static_shape or ()

    def is_constant(self, index: int) -> bool:
        """Tell whether an input is a constant."""
        return self.has(index) and self.whole.program.tensors[self.operator.inputs[index]].data is not None

    def is_of_channels(self, index: int) -> bool:
        """Tell whether an input is a constant with a number for each of several channels."""
        shape, made = self.shape(index), self.made_shape()
        several = len(shape) == len(made) and len(made) > 1 and shape[1] == made[1] > 1
        return self.is_constant(index) and several and math.prod(shape) == shape[1]

    def constant(self, index: int) -> AnyArray | None:
        """Return the value of a constant input, or None where it is computed or left out."""
        return self.whole.value(self.operator.inputs[index]) if self.has(index) else None

    def form(self, index: int = 0) -> StoredForm:
        """Return how an input is stored."""
        return self.whole.program.tensors[self.operator.inputs[index]].form

    @property
    def kept(self) -> frozenset[int]:
        """Return its tensors that lie in memory as they are stored: edges, constants and what lowering keeps so."""
        tensors = self.whole.program.tensors
        used = {tensor for tensor in (*self.operator.inputs, *self.operator.outputs) if tensor >= 0}
        return frozenset(tensor for tensor in used if tensors[tensor].role is not TensorRole.INNER)

    @property
    def is_stored(self) -> bool:
        """Tell whether the first input and the output hold integers of up to 16 bits with one scale each."""
        return is_stored(self.kind(0)) and is_stored(self.made())

    @property
    def in_fixed_point(self) -> bool:
        """Tell whether the output is in dynamic fixed point: none is then turned into an unsigned one."""
        return self.whole.program.tensors[self.operator.outputs[0]].form.quant is Quant.FIXED_POINT


def is_stored(kind: TensorType) -> bool:
    """Tell whether a tensor holds integers of up to 16 bits with one scale."""
    return kind.quant is not None and not kind.quant.per_channel and kind.dtype in _SHORT


def exceeds_tables(item: OperatorView) -> bool:
    """Tell whether a stored input has more bits behind the point than tables were made for."""
    fixed = item.made().dtype is DType.I16 or item.in_fixed_point
    return fixed and scale_of(item.kind()) < FINEST_FOR_TABLES


def quant_of(kind: TensorType) -> Quantization:
    """Return the quantisation of a tensor that has one."""
    assert kind.quant is not None
    return kind.quant


def scale_of(kind: TensorType) -> float:
    """Return the one scale of a tensor."""
    return quant_of(kind).scale[0]


def zero_of(kind: TensorType) -> int:
    """Return the one zero point of a tensor."""
    return quant_of(kind).zero_point[0]


def multiplier_of(scale: float, made: float) -> tuple[int, int]:
    """Return the ratio of two scales as shaders have it: an integer of 16 bits, cut off, and its bits of fraction."""
    mantissa, exponent = np.frexp(float(np.float32(scale) / np.float32(made)))
    return int(mantissa * (1 << _MULTIPLIER_BITS)), _MULTIPLIER_BITS - int(exponent)


def all_codes(kind: TensorType) -> AnyArray:
    """Return every stored value of an 8- or 16-bit type, in the order of its bit patterns."""
    unsigned = np.arange(1 << (8 * kind.dtype.size_bytes), dtype=f"u{kind.dtype.size_bytes}")
    return unsigned.view(kind.dtype.carrier)
