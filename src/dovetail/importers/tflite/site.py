"""One operator of the file and the graph around it: what its converter works with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.errors import LoadError
from dovetail.importers.tflite.layout import TensorForm, moves_nothing, order_to, permuted
from dovetail.importers.tflite.model import LiteOperator, LiteTensor
from dovetail.importers.tflite.scope import Scope, moved_axis
from dovetail.importers.tflite.values import real_value
from dovetail.ir import AnyArray, DType, TensorType
from dovetail.ir.codes import ONNX_CODES

Attributes = Mapping[str, object]

_CLAMPS: dict[int, tuple[float, float]] = {2: (-1.0, 1.0), 3: (0.0, 6.0)}
_RELU, _TANH = 1, 4


@dataclass(frozen=True, slots=True)
class Site:
    """What a converter has of its operator: the tensors, and how to add nodes. Forms are explained in `layout`."""

    scope: Scope
    operator: LiteOperator
    index: int

    @property
    def label(self) -> str:
        """Return the form that messages use."""
        name = f" '{self.output().name}'" if self.operator.outputs else ""
        return f"operator {self.index}{name} ({self.operator.kind})"

    def fail(self, why: str, hint: str | None = None) -> LoadError:
        """Return the error that refuses this operator."""
        return LoadError(f"{self.scope.where}: {self.label}: {why}.", source_node=self.label, hint=hint)

    @property
    def stem(self) -> str:
        """Return the stem of the names of nodes and tensors between: the first output's name."""
        return self.scope.prefix + self.output().name

    @property
    def count(self) -> int:
        """Return the number of inputs, omitted ones counted."""
        return len(self.operator.inputs)

    def has(self, index: int) -> bool:
        """Tell whether an input is given."""
        return index < self.count and self.operator.inputs[index] >= 0

    def tensor(self, index: int) -> LiteTensor:
        """Return an input; raise LoadError when it is missing."""
        if not self.has(index):
            raise self.fail(f"has no input {index}")
        return self.scope.lite.tensors[self.operator.inputs[index]]

    def output(self, index: int = 0) -> LiteTensor:
        """Return an output; raise LoadError when it is missing."""
        if index >= len(self.operator.outputs):
            raise LoadError(f"{self.scope.where}: operator {self.index} ({self.operator.kind}) has no output {index}.")
        return self.scope.lite.tensors[self.operator.outputs[index]]

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of an input in the file's order."""
        return self.tensor(index).shape

    def rank(self, index: int) -> int:
        """Return the rank of an input."""
        return self.tensor(index).rank

    def value(self, index: int) -> AnyArray | None:
        """Return a constant input as stored, or None when it is computed."""
        self.tensor(index)
        return self.scope.value(self.operator.inputs[index])

    def ints(self, index: int) -> tuple[int, ...] | None:
        """Return a constant input as integers, or None when it is computed."""
        value = self.value(index)
        if value is None or value.dtype.kind not in "iu":
            return None
        return tuple(int(item) for item in value.reshape(-1))

    def known_ints(self, index: int, what: str) -> tuple[int, ...]:
        """Return a constant input as integers; raise LoadError when it is computed."""
        values = self.ints(index)
        if values is None:
            raise self.fail(f"its {what} are computed at run time")
        return values

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front; raise LoadError when it is out of range."""
        if not -rank <= axis < max(rank, 1):
            raise self.fail(f"axis {axis} is outside rank {rank}")
        return axis + rank if axis < 0 else axis

    def form(self, *inputs: int) -> TensorForm:
        """Return channels first when one of these computed inputs only exists so."""
        for index in inputs:
            known = self.scope.forms(self.operator.inputs[index]) if self.has(index) else {}
            if known and TensorForm.LAST not in known:
                return TensorForm.FIRST
        return TensorForm.LAST

    def read(self, index: int, form: TensorForm = TensorForm.LAST) -> str:
        """Return the name of an input in a form."""
        self.tensor(index)
        return self.scope.read(self.operator.inputs[index], form, self.label)

    def read_real(self, index: int, form: TensorForm = TensorForm.LAST) -> str:
        """Return an input as float: quantised ones are dequantised, constants at once."""
        tensor = self.tensor(index)
        if not tensor.is_quantized:
            return self.read(index, form)
        value = self.value(index)
        if value is not None:
            real = real_value(value, tensor.quant)
            turned = real if form is TensorForm.LAST else real.transpose(order_to(form, tensor.rank))
            return self.scope.real(f"{tensor.name}/real", turned)
        name = self.read(index, form)
        return self.emit("DequantizeLinear", (name,), self.float_like(name), stem=f"{tensor.name}/real")

    def read_flat(self, index: int) -> str:
        """Return an input whose elements lie in the file's order, in whichever form that is true."""
        tensor = self.tensor(index)
        known = self.scope.forms(self.operator.inputs[index])
        first = known.get(TensorForm.FIRST)
        if first is not None and TensorForm.LAST not in known:
            shape = permuted(tensor.shape, order_to(TensorForm.FIRST, tensor.rank))
            if moves_nothing(shape, order_to(TensorForm.LAST, tensor.rank)):
                return first
        return self.read(index)

    def read_spread(self, index: int, form: TensorForm, rank: int) -> str:
        """Return an input to be broadcast to a rank; a constant of lower rank gets leading ones."""
        tensor = self.tensor(index)
        value = self.value(index) if tensor.rank != rank and form is TensorForm.FIRST else None
        if value is None or value.size == 1:
            return self.read(index, form if tensor.rank == rank else TensorForm.LAST)
        raised = value.reshape((1,) * (rank - tensor.rank) + value.shape)
        kind = self.scope.tensor_type(self.operator.inputs[index], TensorForm.LAST)
        if kind.quant is not None and kind.quant.axis is not None:
            quant = replace(kind.quant, axis=kind.quant.axis + rank - tensor.rank)
            kind = TensorType(kind.dtype, raised.shape, moved_axis(quant, rank))
        turned = raised.transpose(order_to(form, rank))
        return self.scope.store(f"{self.scope.prefix}{tensor.name}", turned, kind, tensor.name)

    def read_int64(self, index: int) -> str:
        """Return an integer input as int64, which ONNX wants for shapes, axes and indices."""
        tensor = self.tensor(index)
        value = self.value(index)
        if value is not None:
            wide = value.astype(np.int64)
            return self.scope.store(f"{tensor.name}/i64", wide, TensorType(DType.I64, wide.shape))
        name = self.read(index)
        if tensor.dtype is DType.I64:
            return name
        kind = TensorType(DType.I64, self.scope.types[name].shape)
        return self.emit("Cast", (name,), kind, {"to": ONNX_CODES[DType.I64]}, stem=f"{tensor.name}/i64")

    def float_like(self, name: str) -> TensorType:
        """Return the float32 type of a tensor's shape."""
        return TensorType(DType.F32, self.scope.types[name].shape)

    def emit(
        self, op: str, inputs: Sequence[str], kind: TensorType, attributes: Attributes | None = None, stem: str = ""
    ) -> str:
        """Add a node with a result in between, and return its name."""
        name = self.scope.fresh(stem or f"{self.stem}/{op.lower()}")
        self.scope.types[name] = kind
        self.scope.add(op, inputs, (name,), name, attributes)
        return name

    def number(self, values: Sequence[int] | int, what: str) -> str:
        """Store integers for a node of this operator."""
        return self.scope.number(f"{self.stem}/{what}", values)

    def real(self, values: Sequence[float] | float | AnyArray, what: str) -> str:
        """Store float32 numbers for a node of this operator."""
        return self.scope.real(f"{self.stem}/{what}", values)

    def result_type(self, index: int = 0, form: TensorForm = TensorForm.LAST, *, real: bool = False) -> TensorType:
        """Return the type of an output in a form; `real` gives float32 for a quantised one."""
        kind = self.scope.tensor_type(self.operator.outputs[index], form)
        return TensorType(DType.F32, kind.shape) if real and kind.quant is not None else kind

    def finish(
        self, op: str, inputs: Sequence[str], attributes: Attributes | None = None, form: TensorForm = TensorForm.LAST
    ) -> None:
        """Add the node that makes output 0 in a form, and its fused activation."""
        activation = self._activation()
        if activation is None:
            self.conclude(0, op, inputs, attributes, form)
            return
        name = self.emit(op, inputs, self.result_type(0, form), attributes, stem=f"{self.stem}/linear")
        self.conclude(0, activation[0], (name, *activation[1]), None, form)

    def finish_real(
        self, op: str, inputs: Sequence[str], attributes: Attributes | None = None, form: TensorForm = TensorForm.LAST
    ) -> None:
        """Add the node that makes output 0 from floats; a quantised output is quantised at the end."""
        kind = self.result_type(0, form)
        if kind.quant is None:
            self.finish(op, inputs, attributes, form)
            return
        real = TensorType(DType.F32, kind.shape)
        name = self.activated(self.emit(op, inputs, real, attributes, stem=f"{self.stem}/real"))
        self.conclude(0, "QuantizeLinear", (name,), None, form)

    def activated(self, name: str) -> str:
        """Return a tensor after the fused activation, of the same type."""
        activation = self._activation()
        if activation is None:
            return name
        return self.emit(activation[0], (name, *activation[1]), self.scope.types[name])

    def conclude(
        self,
        output: int,
        op: str,
        inputs: Sequence[str],
        attributes: Attributes | None = None,
        form: TensorForm = TensorForm.LAST,
    ) -> None:
        """Add the node that makes an output in a form, without a fused activation."""
        name = self.scope.declare(self.operator.outputs[output], form)
        self.scope.add(op, inputs, (name,), self.scope.prefix + self.output(output).name, attributes)

    def _activation(self) -> tuple[str, tuple[str, ...]] | None:
        table = self.operator.options
        code = table.integer("FusedActivationFunction") if hasattr(table.table, "FusedActivationFunction") else 0
        if code == 0:
            return None
        if code == _RELU:
            return "Relu", ()
        if code in _CLAMPS:
            low, high = _CLAMPS[code]
            return "Clip", (self.real(low, "min"), self.real(high, "max"))
        if code == _TANH and not self.output().is_quantized:
            return "Tanh", ()
        raise self.fail(f"its fused activation {code} has no counterpart")
