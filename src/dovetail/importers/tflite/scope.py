"""A subgraph while it becomes a Graph: every tensor of the file in the forms that something needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dovetail.errors import LoadError
from dovetail.importers.tflite.layout import TensorForm, axis_in, moves_nothing, order_to, permuted
from dovetail.importers.tflite.model import LiteGraph, LiteModel
from dovetail.importers.tflite.states import NEXT, Variable, Variables
from dovetail.importers.tflite.values import read_value
from dovetail.ir import AnyArray, DType, Node, Quantization, TensorType
from dovetail.passes.draft import Draft

CONTROL_DEPTH = 16
"""Bodies inside bodies deeper than this are refused."""


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """What holds for the whole file; `budget_bytes` is what converted constants may add up to.

    `variables` are what the model keeps between calls; `is_open` says that its shapes are not those of the data.
    """

    model: LiteModel
    exact_hybrid: bool
    budget_bytes: list[int] = field(default_factory=list)
    variables: Variables = field(default_factory=Variables)
    is_open: bool = False

    def spend(self, size_bytes: int, place: str) -> None:
        """Count bytes of constants; raise LoadError when tensors share a buffer too often."""
        self.budget_bytes[0] -= size_bytes
        if self.budget_bytes[0] < 0:
            raise LoadError(
                f"{self.model.where}: {place}: constants take more memory than the file has bytes for.",
                source_node=place,
            )


@dataclass(frozen=True, slots=True)
class Spectrum:
    """A tensor of complex numbers: the transform of rows of reals."""

    source: str
    """The rows `[..., t]`."""
    length: int
    """Of the transform: longer rows are cut, shorter ones end in zeros."""
    shape: tuple[int, ...]
    """Of the complex tensor, in the file's order."""


class Scope:
    """Build one subgraph; `prefix` keeps the names of bodies apart from those around them."""

    def __init__(self, settings: ImportSettings, lite: LiteGraph, prefix: str = "", depth: int = 0) -> None:
        self.settings = settings
        self.lite = lite
        self.prefix = prefix
        self.depth = depth
        self.nodes: list[Node] = []
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, AnyArray] = {}
        self.origins: dict[str, str] = {}
        self.handles: dict[int, str] = {}
        self.spectra: dict[int, Spectrum] = {}
        self._forms: dict[int, dict[TensorForm, str]] = {}
        self._node_names: set[str] = set()
        # The names of the subgraph's own ends stay with the file's order of dimensions.
        self._ends = {*lite.inputs, *lite.outputs}

    @property
    def where(self) -> str:
        """Return the file."""
        return self.settings.model.where

    def tensor_type(self, index: int, form: TensorForm) -> TensorType:
        """Return the type of a tensor of the file in a form; raise LoadError when there is no such type."""
        tensor = self.lite.tensors[index]
        if tensor.dtype is None:
            raise LoadError(
                f"{self.where}: tensor '{tensor.name}' has element type {tensor.source_type.lower()}, "
                "which Dovetail does not represent.",
                source_node=tensor.name,
                hint="Export the model with float, integer or bool tensors.",
            )
        quant = tensor.quant if tensor.is_quantized else None
        if form is TensorForm.FIRST:
            shape = permuted(tensor.shape, order_to(form, tensor.rank))
            quant = moved_axis(quant, tensor.rank)
        else:
            shape = tensor.shape
        return TensorType(tensor.dtype, shape, quant)

    def forms(self, index: int) -> Mapping[TensorForm, str]:
        """Return the names that a computed tensor has so far."""
        return self._forms.get(index, {})

    def bind(self, index: int, name: str, form: TensorForm = TensorForm.LAST) -> None:
        """Say that a tensor of the file is this tensor of the graph."""
        self._forms.setdefault(index, {})[form] = name

    def declare(self, index: int, form: TensorForm) -> str:
        """Name a tensor of the file that is about to be computed in a form."""
        tensor = self.lite.tensors[index]
        plain = self.prefix + tensor.name
        taken = form is TensorForm.FIRST and index in self._ends
        name = self.fresh(f"{plain}/{form.value}" if taken else plain)
        self.types[name] = self.tensor_type(index, form)
        if name != tensor.name:
            self.origins[name] = tensor.name
        self.bind(index, name, form)
        return name

    def read(self, index: int, form: TensorForm, reader: str) -> str:
        """Return the name of a tensor in a form, turning it at this border when it lies in the other one."""
        known = self._forms.get(index, {})
        if form in known:
            return known[form]
        tensor = self.lite.tensors[index]
        if not known:
            value = self.value(index)
            if value is None:
                raise LoadError(
                    f"{self.where}: {reader} reads tensor '{tensor.name}' before anything makes it.",
                    source_node=reader,
                )
            turned = value if form is TensorForm.LAST else value.transpose(order_to(form, tensor.rank))
            name = self.store(self.prefix + tensor.name, turned, self.tensor_type(index, form), tensor.name)
            self.bind(index, name, form)
            return name
        return self._turn(index, form, next(iter(known.values())))

    def _turn(self, index: int, form: TensorForm, source: str) -> str:
        tensor = self.lite.tensors[index]
        plain = self.prefix + tensor.name
        is_output = form is TensorForm.LAST and index in self.lite.outputs
        name = self.fresh(plain if is_output else f"{plain}/{form.value}")
        self.types[name] = self.tensor_type(index, form)
        self.origins[name] = tensor.name
        order = order_to(form, tensor.rank)
        before = (
            tensor.shape
            if form is TensorForm.FIRST
            else permuted(tensor.shape, order_to(TensorForm.FIRST, tensor.rank))
        )
        if moves_nothing(before, order):
            sizes = self.number(f"{name}/shape", permuted(before, order))
            self.add("Reshape", (source, sizes), (name,), f"{name}/border")
        else:
            self.add("Transpose", (source,), (name,), f"{name}/border", {"perm": order})
        self.bind(index, name, form)
        return name

    def value(self, index: int) -> AnyArray | None:
        """Return the stored value of a constant of the file, or None when it is computed."""
        known = self._forms.get(index)
        if known is None:
            return read_value(self.lite.tensors[index], self.where)
        for form, name in known.items():
            found = self.constants.get(name)
            if found is not None:
                return found if form is TensorForm.LAST else found.transpose(order_to(TensorForm.LAST, found.ndim))
        return None

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        stem: str,
        attributes: Mapping[str, object] | None = None,
    ) -> None:
        """Add a node; its name is made of the stem."""
        name, number = stem, 1
        while name in self._node_names:
            name, number = f"{stem}.{number}", number + 1
        self._node_names.add(name)
        domain = "dovetail" if op == "Requantize" else ""
        self.nodes.append(Node(name, op, tuple(inputs), tuple(outputs), attributes or {}, domain))

    def store(self, stem: str, value: AnyArray, kind: TensorType, origin: str = "") -> str:
        """Store a constant under a free name."""
        name = self.fresh(stem)
        self.settings.spend(value.nbytes, f"constant '{name}'")
        self.constants[name] = np.ascontiguousarray(value).reshape(value.shape)
        self.types[name] = replace(kind, shape=tuple(value.shape))
        if origin and origin != name:
            self.origins[name] = origin
        return name

    def number(self, stem: str, values: Sequence[int] | int) -> str:
        """Store integers for an operator's shape, axes or indices."""
        array = np.asarray(values, np.int64)
        return self.store(stem, array, TensorType(DType.I64, array.shape))

    def real(self, stem: str, values: Sequence[float] | float | AnyArray) -> str:
        """Store float32 numbers."""
        array = np.asarray(values, np.float32)
        return self.store(stem, array, TensorType(DType.F32, array.shape))

    def absorb(self, inner: Scope) -> None:
        """Take over what was built for another subgraph under names of its own."""
        for node in inner.nodes:
            self.add(node.op, node.inputs, node.outputs, node.name, node.attributes)
        self.types |= inner.types
        self.constants |= inner.constants
        self.origins |= inner.origins

    def fresh(self, stem: str) -> str:
        """Return a free tensor name."""
        name, number = stem, 1
        while name in self.types:
            name, number = f"{stem}.{number}", number + 1
        return name

    def draft(self, name: str, captures: tuple[str, ...] | None = None) -> Draft:
        """Return what has been built, with the subgraph's ends in the file's order of dimensions.

        A branch reads its inputs from around it: they are its `captures`.
        """
        inputs = () if captures is not None else tuple(self.forms(index)[TensorForm.LAST] for index in self.lite.inputs)
        outputs: list[str] = []
        for index in self.lite.outputs:
            tensor = self.read(index, TensorForm.LAST, f"output '{self.lite.tensors[index].name}'")
            if tensor in outputs or tensor in inputs or tensor in self.constants or tensor in (captures or ()):
                copy = self.fresh(f"{tensor}/output")
                self.types[copy] = self.types[tensor]
                self.add("Identity", (tensor,), (copy,), copy)
                tensor = copy
            outputs.append(tensor)
        carried = () if self.depth else self.settings.variables.carried
        return Draft(
            name=name,
            nodes=self.nodes,
            inputs=(*inputs, *(item.source for item in carried)),
            outputs=(*outputs, *(self._left(item) for item in carried)),
            types=self.types,
            constants=self.constants,
            captures=captures or (),
            origins=self.origins,
        )

    def _left(self, variable: Variable) -> str:
        """Return the output by which a variable leaves; raise LoadError where it is not what came in."""
        before, after = self.types[variable.source], self.types[variable.current]
        if before != after:
            raise LoadError(
                f"{self.where}: variable '{variable.name}' comes in as {before} and is left as {after}.",
                source_node=variable.name,
                hint="Export the model with its states as inputs and outputs.",
            )
        name = self.fresh(variable.source + NEXT)
        self.types[name] = after
        self.add("Identity", (variable.current,), (name,), name)
        return name


def moved_axis(quant: Quantization | None, rank: int) -> Quantization | None:
    """Return a quantisation whose channel axis follows the dimensions to channels first."""
    if quant is None or quant.axis is None:
        return quant
    return replace(quant, axis=axis_in(TensorForm.FIRST, quant.axis, rank))
