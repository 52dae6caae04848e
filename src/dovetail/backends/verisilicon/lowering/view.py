"""What the lowering of one node sees and may do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.generation import CONVERTING
from dovetail.backends.verisilicon.lowering.folding import fold
from dovetail.backends.verisilicon.lowering.refusals import LoweringRefusal
from dovetail.backends.verisilicon.lowering.twins import find_twins
from dovetail.backends.verisilicon.part import Part
from dovetail.backends.verisilicon.program import Code, ProgramOperator, ProgramTensor, Quant, StoredForm, TensorRole
from dovetail.backends.verisilicon.translate import to_vendor, vendor_axis, vendor_form, vendor_shape
from dovetail.errors import CompileError
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType, quantize_array

MAX_RANK = 6
_MOST_STEPS = 127
"""By how much steps are made coarser at once; odd, as whole steps over a power of two are ties, which shaders break."""
_TINIEST = 1e-7
_OF_NOTHING = 1.0
"""The step that quantising gives to what is always 0."""
MAX_ELEMENTS = 1 << 28
NO_TENSOR = -1


class ProgramDraft:
    """Collect the tensors and operators of a program."""

    def __init__(self, graph: Graph, part: Part) -> None:
        self.graph = graph
        self.part = part
        self.tensors: list[ProgramTensor] = []
        self.operators: list[ProgramOperator] = []
        self.fixed_point = _is_fixed_point(graph)
        self.twins = find_twins(graph)
        """Tensors that an earlier node makes too, and that node's tensor."""
        self._ids: dict[str, int] = {}

    def tensor(self, name: str, where: str) -> int:
        """Return the id of a tensor of the graph, made on first use."""
        name = self.twins.get(name, name)
        if name not in self._ids:
            role = TensorRole.INNER
            if name in self.graph.inputs or name in self.graph.outputs:
                role = TensorRole.EDGE
            value = self.graph.constants.get(name)
            kind = self.graph.types[name]
            if value is not None:
                self._ids[name] = self.constant(value, kind, where)
            else:
                self._ids[name] = self.new(kind, where, role)
        return self._ids[name]

    def inner_tensors(self) -> tuple[tuple[str, int], ...]:
        """Return the named tensors that are computed inside the graph."""
        named = [*self._ids.items(), *((name, self._ids[twin]) for name, twin in self.twins.items())]
        return tuple((name, tensor) for name, tensor in named if self.tensors[tensor].role is TensorRole.INNER)

    def new(
        self, kind: TensorType, where: str, role: TensorRole = TensorRole.INNER, *, fixed_point: bool | None = None
    ) -> int:
        """Return the id of a new tensor; raise CompileError when the part cannot hold it."""
        shape = static_shape(kind, where)
        try:
            form = vendor_form(kind, fixed_point=self.fixed_point if fixed_point is None else fixed_point)
        except ValueError as error:
            raise LoweringRefusal(where, self.part.target, str(error)) from error
        self.tensors.append(ProgramTensor(form, vendor_shape(shape), role))
        return len(self.tensors) - 1

    def constant(self, value: AnyArray, kind: TensorType, where: str, *, fixed_point: bool | None = None) -> int:
        """Return the id of a new constant."""
        made = self.new(kind, where, fixed_point=fixed_point)
        form = self.tensors[made].form
        try:
            data = to_vendor(value, form.code)
        except ValueError as error:
            raise LoweringRefusal(where, self.part.target, f"a constant cannot be stored: {error}") from error
        self.tensors[made] = replace(self.tensors[made], role=TensorRole.CONSTANT, data=data)
        return made


def static_shape(kind: TensorType, where: str) -> tuple[int, ...]:
    """Return a shape that the vendor can hold; raise CompileError when there is none."""
    shape = kind.static_shape
    if shape is None:
        raise CompileError(f"{where}: a tensor has no static shape.", hint="Import the model with static shapes.")
    if len(shape) > MAX_RANK:
        raise CompileError(f"{where}: a tensor has {len(shape)} dimensions > {MAX_RANK}.", hint="Place it on cpu.")
    if 0 in shape:
        raise CompileError(f"{where}: a tensor has no elements.", hint="Place it on cpu.")
    if math.prod(shape) > MAX_ELEMENTS:
        raise CompileError(f"{where}: a tensor has more than {MAX_ELEMENTS} elements.", hint="Place it on cpu.")
    return shape


def _is_fixed_point(graph: Graph) -> bool:
    """Tell whether every 8-bit tensor is in dynamic fixed point: the vendor's array then needs no conversion.

    Steps of 1 alone say nothing: any format has them for what is always 0.
    """
    bytes_ = [kind for kind in graph.types.values() if kind.quant is not None and kind.dtype in (DType.I8, DType.U8)]
    if not bytes_:
        return any(kind.dtype is DType.I16 and kind.quant is not None for kind in graph.types.values())
    if all(kind.quant is not None and kind.quant.scale == (_OF_NOTHING,) for kind in bytes_):
        return False
    return all(
        kind.dtype is DType.I8 and vendor_form(kind, fixed_point=True).quant is Quant.FIXED_POINT for kind in bytes_
    )


class NodeView:
    """One node being lowered: its types, its constants, and the draft to add to."""

    def __init__(self, draft: ProgramDraft, node: Node) -> None:
        self.draft = draft
        self.node = node
        self.graph = draft.graph

    def refuse(self, reason: str, *, always: bool = False) -> LoweringRefusal:
        """Return the error for a node that cannot be lowered."""
        return LoweringRefusal(self.node.label, self.draft.part.target, reason, always=always)

    def need(self, holds: bool, reason: str, *, always: bool = False) -> None:
        """Refuse the node unless a condition holds; `always`: other attributes and shapes would change nothing."""
        if not holds:
            raise self.refuse(reason, always=always)

    def has(self, index: int) -> bool:
        """Tell whether an optional input is given."""
        return index < len(self.node.inputs) and bool(self.node.inputs[index])

    def kind(self, index: int) -> TensorType:
        """Return the type of an input; refuse the node when it is missing."""
        self.need(self.has(index), f"input {index} is missing")
        return self.graph.types[self.node.inputs[index]]

    def made(self, index: int = 0) -> TensorType:
        """Return the type of an output."""
        return self.graph.types[self.node.outputs[index]]

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of an input."""
        return static_shape(self.kind(index), self.node.label)

    def made_shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an output."""
        return static_shape(self.made(index), self.node.label)

    def expect(self, shape: Sequence[int], index: int = 0) -> None:
        """Refuse the node when an output has another shape than the operator gives."""
        found = self.made_shape(index)
        self.need(found == tuple(shape), f"its output has shape {list(found)} where {list(shape)} follows")

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis in the vendor's counting; refuse the node when it lies outside."""
        try:
            return vendor_axis(axis, rank)
        except ValueError as error:
            raise self.refuse(str(error)) from error

    def constant(self, index: int) -> AnyArray:
        """Return the value of a constant input; refuse the node when it is computed."""
        self.kind(index)
        value = self.graph.constants.get(self.node.inputs[index])
        if value is None:
            raise self.refuse(f"input {index} is not a constant")
        return value

    def integers(self, index: int) -> tuple[int, ...]:
        """Return a constant input as integers."""
        return tuple(int(value) for value in self.constant(index).reshape(-1))

    def whole(self, index: int) -> int:
        """Return a constant input of one element as an integer."""
        found = self.integers(index)
        self.need(len(found) == 1, f"input {index} has {len(found)} elements, not one")
        return found[0]

    def input(self, index: int) -> int:
        """Return the id of an input."""
        self.kind(index)
        return self.draft.tensor(self.node.inputs[index], self.node.label)

    def output(self, index: int = 0) -> int:
        """Return the id of an output."""
        return self.draft.tensor(self.node.outputs[index], self.node.label)

    def new(self, kind: TensorType) -> int:
        """Return the id of a new inner tensor."""
        return self.draft.new(kind, self.node.label)

    def hold(self, value: AnyArray, kind: TensorType, *, fixed_point: bool | None = None) -> int:
        """Return the id of a new constant."""
        return self.draft.constant(value, kind, self.node.label, fixed_point=fixed_point)

    def hold_float(self, value: AnyArray) -> int:
        """Return the id of a new float32 constant."""
        data = np.ascontiguousarray(value, dtype=np.float32)
        return self.hold(data, TensorType(DType.F32, tuple(data.shape)))

    def emit(
        self,
        kind: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        ints: Sequence[int] = (),
        floats: Sequence[float] = (),
    ) -> None:
        """Add an operator, seen with fewer axes where the vendor's takes no more."""
        made = ProgramOperator(kind, tuple(inputs), tuple(outputs), tuple(ints), tuple(floats), self.node.name)
        shapes = [self.draft.tensors[one].shape for one in (*inputs, outputs[0]) if one != NO_TENSOR]
        try:
            seen = fold(kind, made.ints, shapes[:-1], shapes[-1])
        except ValueError as error:
            raise self.refuse(str(error)) from error
        if seen is None:
            self.draft.operators.append(made)
            return
        operands = tuple(self._seen(one, shape) for one, shape in zip(inputs, seen.shapes, strict=True))
        held = self._like(outputs[0], seen.result)
        self.draft.operators.append(replace(made, inputs=operands, outputs=(held,), ints=seen.ints))
        self.emit("reshape", (held,), outputs, shapes[-1])

    def _like(self, tensor: int, shape: tuple[int, ...]) -> int:
        """Return a new inner tensor that is stored as another; `shape` has the fastest axis first."""
        self.draft.tensors.append(ProgramTensor(self.form(tensor), shape, TensorRole.INNER))
        return len(self.draft.tensors) - 1

    def alike(self, tensor: int) -> int:
        """Return the id of a new inner tensor of the form and the shape of another."""
        return self._like(tensor, self.draft.tensors[tensor].shape)

    def _seen(self, tensor: int, shape: tuple[int, ...]) -> int:
        """Return a tensor seen with another shape, the fastest axis first; constants are only renamed."""
        held = self.draft.tensors[tensor]
        if held.shape == shape:
            return tensor
        if held.role is TensorRole.CONSTANT:
            self.draft.tensors.append(replace(held, shape=shape))
            return len(self.draft.tensors) - 1
        made = self._like(tensor, shape)
        self.emit("reshape", (tensor,), (made,), shape)
        return made

    def reshaped(self, tensor: int, shape: Sequence[int]) -> int:
        """Return a tensor seen with another shape; constants are only renamed."""
        return self._seen(tensor, vendor_shape(tuple(shape)))

    def stored_as(self, index: int, wanted: TensorType) -> int:
        """Return an input stored as another tensor is: constants are converted here, the rest by the part."""
        kind = self.kind(index)
        if same_storage(kind, wanted):
            return self.input(index)
        value, shape = self.graph.constants.get(self.node.inputs[index]), self.shape(index)
        target = TensorType(wanted.dtype, shape, wanted.quant)
        if value is not None and wanted.quant is not None:
            real = value if kind.quant is None else _reals(value, kind.quant)
            return self.hold(quantize_array(real.astype(np.float64), wanted.dtype, wanted.quant), target)
        made = self.new(target)
        self.convert(index, made, target)
        return made

    def convert(self, index: int, out: int, wanted: TensorType) -> None:
        """Emit what stores an input as another tensor: in several steps where a shader would lose much finer ones."""
        kind, held = self.kind(index), self.input(index)
        shaded = math.prod(self.shape(index)) == 1 or (
            wanted.dtype is DType.I8 and self.draft.part.generation in CONVERTING
        )
        if shaded and not self.draft.fixed_point:
            single = math.prod(self.shape(index)) == 1
            steps = _finer(kind, wanted) if kind.dtype is wanted.dtype else _coarser(kind, wanted) if single else []
            for step in steps:
                stored = TensorType(step.dtype, kind.shape, step.quant)
                made = self.draft.new(stored, self.node.label, TensorRole.EDGE)
                self.emit("data_convert", (held,), (made,))
                held = made
        self.emit("data_convert", (held,), (out,))

    def coarse(self, index: int) -> int:
        """Return an input, stored as the output is where the vendor's kernels would lose its much finer steps."""
        kind, made = self.kind(index), self.made()
        lost = bool(_finer(kind, made)) or is_tiny(kind, made)
        return self.stored_as(index, made) if not self.draft.fixed_point and lost else self.input(index)

    def form(self, tensor: int) -> StoredForm:
        """Return how a tensor is stored."""
        return self.draft.tensors[tensor].form

    def code(self, tensor: int) -> Code:
        """Return the element type of a tensor."""
        return self.form(tensor).code


def _reals(value: AnyArray, quant: Quantization) -> AnyArray:
    centred: AnyArray = value.astype(np.int64) - quant.zero_point_array(value.ndim)
    return np.asarray(centred.astype(np.float64) * quant.scale_array(value.ndim))


def _finer(kind: TensorType, wanted: TensorType) -> list[TensorType]:
    """Return the forms in which bytes are stored on the way to much larger steps.

    The vendor's conversions of affine bytes to steps of more than about 200 are garbage in a shader, which has those of
    single ones, and of signed ones in older parts; newer ones garble those of signed bytes inside a graph. Its extremes
    of two tensors are garbage from 512 on, whatever their size.
    """
    if kind.quant is None or wanted.quant is None or DType.I16 in (kind.dtype, wanted.dtype):
        return []
    found: list[TensorType] = []
    scale = wanted.quant.scale[0]
    while scale > kind.quant.scale[0] * _MOST_STEPS:
        scale /= _MOST_STEPS
        found.insert(0, replace(wanted, quant=Quantization((scale,), kind.quant.zero_point)))
    return found


def _coarser(kind: TensorType, wanted: TensorType) -> list[TensorType]:
    """Return the form in which a single number of 16 bits is stored on the way to much larger steps of bytes.

    A shader adds the zero point at the scale of its products, in 32 bits: garbage where a step is more than 256 of the
    number's and the zero point too large for that. Measured on V853, A311D and T527, to bytes alone.
    """
    if kind.quant is None or wanted.quant is None or kind.dtype is not DType.I16 or wanted.dtype is DType.I16:
        return []
    ratio = wanted.quant.scale[0] / kind.quant.scale[0]
    if ratio <= _MOST_STEPS:
        return []
    step = math.ldexp(kind.quant.scale[0], math.ceil(math.log2(ratio / _MOST_STEPS)))
    return [replace(kind, quant=Quantization((step,), (0,)))]


def is_tiny(kind: TensorType, wanted: TensorType) -> bool:
    """Tell whether bytes have steps so small that the vendor's own kernels do not requantise them.

    Measured with the largest of two tensors and of a plane, on V853, A311D and A733: right with steps of 1e-7, and
    taken over as they are with 1e-9. Conversions, movements and the tensor processor's functions are right with both.
    """
    if kind.quant is None or wanted.quant is None or DType.I16 in (kind.dtype, wanted.dtype):
        return False
    return kind.quant != wanted.quant and min(kind.quant.scale[0], wanted.quant.scale[0]) < _TINIEST


def same_storage(one: TensorType, other: TensorType) -> bool:
    """Tell whether two tensors store the same integers or floats for the same reals."""
    return one.dtype is other.dtype and one.quant == other.quant


__all__ = [
    "MAX_RANK",
    "NO_TENSOR",
    "NodeView",
    "ProgramDraft",
    "is_tiny",
    "same_storage",
    "static_shape",
]
