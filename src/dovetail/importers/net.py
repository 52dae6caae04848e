"""A float network while an importer builds it: channels first, types left to ONNX's inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.errors import LoadError
from dovetail.importers.assemble import assemble
from dovetail.importers.options import LoadOptions
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.passes.draft import Draft


class Net:
    """Collect float32 nodes; `where` is the file that messages name."""

    def __init__(self, name: str, where: str) -> None:
        self.where = where
        self._name = name or "main"
        self._nodes: list[Node] = []
        self._types: dict[str, TensorType] = {}
        self._constants: dict[str, AnyArray] = {}
        self._inputs: list[str] = []
        self._names: set[str] = set()

    def input(self, name: str, shape: tuple[int, ...]) -> None:
        """Declare an input of the network."""
        if name in self._types:
            raise LoadError(f"{self.where}: there are two inputs called '{name}'.", source_node=name)
        self._types[name] = TensorType(DType.F32, shape)
        self._inputs.append(name)

    def add(
        self, op: str, inputs: Sequence[str], output: str, label: str, attributes: Mapping[str, object] | None = None
    ) -> str:
        """Add a node of one output and return the output's name; `label` names the node."""
        self._types[output] = TensorType(DType.F32, None)
        name, number = label, 1
        while name in self._names:
            name, number = f"{label}.{number}", number + 1
        self._names.add(name)
        self._nodes.append(Node(name, op, tuple(inputs), (output,), attributes or {}, origin=(label,)))
        return output

    def split(self, source: str, outputs: Sequence[str], label: str, sizes: Sequence[int], axis: int) -> None:
        """Add a Split."""
        for output in outputs:
            self._types[output] = TensorType(DType.F32, None)
        self._names.add(label)
        lengths = self.integers(f"{label}/sizes", sizes)
        self._nodes.append(Node(label, "Split", (source, lengths), tuple(outputs), {"axis": axis}))

    def real(self, name: str, values: AnyArray | float) -> str:
        """Store float32 numbers."""
        return self._store(name, np.asarray(values, np.float32), DType.F32)

    def integers(self, name: str, values: Sequence[int]) -> str:
        """Store int64 numbers."""
        return self._store(name, np.asarray(values, np.int64), DType.I64)

    def fresh(self, stem: str) -> str:
        """Return a free tensor name."""
        name, number = stem, 1
        while name in self._types:
            name, number = f"{stem}.{number}", number + 1
        return name

    def _store(self, stem: str, value: AnyArray, dtype: DType) -> str:
        name = self.fresh(stem)
        self._constants[name] = value
        self._types[name] = TensorType(dtype, tuple(value.shape))
        return name

    def graph(self, outputs: Sequence[str], options: LoadOptions) -> Graph:
        """Return the Graph; raise LoadError where ONNX's inference finds a contradiction."""
        for name in outputs:
            if name in self._inputs or name in self._constants:
                raise LoadError(f"{self.where}: output '{name}' is not computed by any layer.", source_node=name)
        draft = Draft(
            name=self._name,
            nodes=self._nodes,
            inputs=tuple(self._inputs),
            outputs=tuple(outputs),
            types=self._types,
            constants=self._constants,
        )
        graph = assemble(draft, self.where, options)
        for name, kind in graph.types.items():
            if kind.static_shape is None:
                node = graph.producers.get(name)
                label = f"tensor '{name}'" if node is None else node.label
                raise LoadError(f"{self.where}: {label}: its shape does not follow from its inputs.", source_node=label)
        return graph
