"""Programs: a graph as the vendor's compiler is given it, with everything that was decided on the way, as plain data.

The shim, the CMake projects and the emulator read the same program. Shapes and axes are in the vendor's order (fastest
dimension first). Codes are those of `dovetail_vsi.h`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum

from dovetail.backend.target import Engine
from dovetail.backends.verisilicon.generation import Generation


class Code(IntEnum):
    """Element types of the shim."""

    F32 = 1
    F16 = 2
    BF16 = 3
    I8 = 4
    U8 = 5
    I16 = 6
    U16 = 7
    I32 = 8
    U32 = 9
    I64 = 10
    BOOL = 11

    @property
    def size_bytes(self) -> int:
        """Return the bytes of one element."""
        return _SIZES[self]


_SIZES = {
    Code.F32: 4,
    Code.F16: 2,
    Code.BF16: 2,
    Code.I8: 1,
    Code.U8: 1,
    Code.I16: 2,
    Code.U16: 2,
    Code.I32: 4,
    Code.U32: 4,
    Code.I64: 8,
    Code.BOOL: 1,
}


class Quant(IntEnum):
    """Kinds of quantisation of the shim."""

    NONE = 0
    AFFINE = 1
    FIXED_POINT = 2
    CHANNEL_SYMMETRIC = 3
    CHANNEL_AFFINE = 4


class TensorRole(IntEnum):
    """What a tensor is to the graph."""

    INNER = 0
    EDGE = 1
    CONSTANT = 2


class Route(Enum):
    """Which part of the silicon computes an operator, and so in which arithmetic."""

    ARRAY = "array"
    """The multiply-accumulate array; a sum or an average there is a convolution with byte weights."""
    ADDER = "adder"
    """The adder behind the array, in short floats: sums only."""
    PROCESSOR = "processor"
    """The tensor processor: copies and table look-ups in floats of 21 bits."""
    SHADER = "shader"
    """The programmable shaders, in float32."""
    STREAM = "stream"
    """The stream processor of the newest parts."""

    @property
    def engine(self) -> Engine:
        """Return the engine that the vendor's records name."""
        return _ENGINES[self]


_ENGINES = {
    Route.ARRAY: Engine.NN,
    Route.ADDER: Engine.NN,
    Route.PROCESSOR: Engine.TP,
    Route.SHADER: Engine.SH,
    Route.STREAM: Engine.SP,
}


@dataclass(frozen=True, slots=True)
class StoredForm:
    """How a tensor is stored: element type and quantisation."""

    code: Code
    quant: Quant = Quant.NONE
    scale: float = 0.0
    zero_point: int = 0
    fl: int = 0
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int = 0


@dataclass(frozen=True, slots=True)
class ProgramTensor:
    """One tensor: form, shape fastest first, and the bytes of a constant."""

    form: StoredForm
    shape: tuple[int, ...]
    role: TensorRole
    data: bytes | None = None

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all elements."""
        return self.form.code.size_bytes * math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class ProgramOperator:
    """One operator of the shim, and how the vendor's compiler and silicon treat it."""

    kind: str
    """The shim's name of the operator."""
    inputs: tuple[int, ...]
    """Tensors by number; -1 leaves an optional one out."""
    outputs: tuple[int, ...]
    ints: tuple[int, ...] = ()
    """Whole parameters, as the shim's row of the operator lays them out."""
    floats: tuple[float, ...] = ()
    """Real parameters, as the shim's row of the operator lays them out."""
    node: str = ""
    """The node of the graph that it stands for."""
    route: Route = Route.SHADER
    """What computes it."""
    joins: tuple[int, ...] = ()
    """Operators that are computed with this one, the convolution first: their results are never stored."""

    @property
    def groups(self) -> int:
        """Return the number of groups of a convolution, which its row has as the third from the end."""
        return self.ints[-3]


@dataclass(frozen=True, slots=True)
class Program:
    """A whole graph for one part."""

    target: str
    """Dovetail's name of the part."""
    sdk_name: str
    """The simulator's name of the part."""
    pid: int
    """The part's product id."""
    generation: Generation
    """The engines of the part."""
    tensors: tuple[ProgramTensor, ...]
    operators: tuple[ProgramOperator, ...]
    """In the order of execution."""
    inputs: tuple[tuple[str, int], ...]
    """Names and numbers of the tensors that go in."""
    outputs: tuple[tuple[str, int], ...]
    """Names and numbers of the tensors that come out."""
    batched: bool = False
    """The program is for one sample of a batch of any size."""
    inner: tuple[tuple[str, int], ...] = ()
    """Tensors of the graph that are neither inputs nor outputs, by name: what can be tapped."""
    binary: bytes | None = field(default=None, repr=False)
    """The network in binary form; the program then has no operators, and its tensors are the edges only."""


def tapped(program: Program, names: tuple[str, ...]) -> Program:
    """Return a program that gives copies of some inner tensors too; raise KeyError for one that it does not know.

    A tensor that came out itself would be joined with what reads it, and then nothing fills it.
    """
    known, tensors = dict(program.inner), list(program.tensors)
    operators, outputs = list(program.operators), list(program.outputs)
    for name in names:
        outputs.append((name, len(tensors)))
        operators.append(ProgramOperator("data_convert", (known[name],), (len(tensors),)))
        tensors.append(replace(tensors[known[name]], role=TensorRole.EDGE))
    return replace(program, tensors=tuple(tensors), operators=tuple(operators), outputs=tuple(outputs), inner=())


def own_copies(program: Program) -> dict[int, int]:
    """Map operators that only copy a tensor to an output of its own to that tensor."""
    ends, tensors = {tensor for _, tensor in program.outputs}, program.tensors
    return {
        index: item.inputs[0]
        for index, item in enumerate(program.operators)
        if item.kind == "data_convert"
        and item.outputs[0] in ends
        and tensors[item.inputs[0]].form == tensors[item.outputs[0]].form
        and tensors[item.inputs[0]].data is None
    }


def labelled(program: Program, labels: Mapping[str, str]) -> Program:
    """Return the program with other names for some inputs and outputs."""
    sides = [
        tuple((labels.get(name, name), tensor) for name, tensor in side) for side in (program.inputs, program.outputs)
    ]
    return replace(program, inputs=sides[0], outputs=sides[1])


def with_binary(program: Program, binary: bytes) -> Program:
    """Return the same inputs and outputs around the network in binary form."""
    edges = (*program.inputs, *program.outputs)
    tensors = tuple(program.tensors[tensor] for _, tensor in edges)
    count = len(program.inputs)
    return replace(
        program,
        tensors=tensors,
        operators=(),
        inputs=tuple((name, index) for index, (name, _) in enumerate(program.inputs)),
        outputs=tuple((name, count + index) for index, (name, _) in enumerate(program.outputs)),
        inner=(),
        binary=binary,
    )
