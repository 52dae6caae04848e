"""Variables that a model keeps between calls: inputs of the graph that come out again as outputs.

TFLite's streaming models keep them in resources: CALL_ONCE runs a subgraph that gives them their first values,
VAR_HANDLE names one, READ_VARIABLE and ASSIGN_VARIABLE read and write it. A Graph keeps nothing between calls: what a
call finds is an input named as the variable, and what it leaves is an output, `NAME/next`, that the next call is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dovetail.importers.tflite.model import LiteGraph, LiteModel, LiteOperator
from dovetail.importers.tflite.values import read_value
from dovetail.ir import AnyArray

NEXT = "/next"
"""What the name of a variable ends with where the value is meant that a call leaves."""


@dataclass(slots=True)
class Variable:
    """A variable while the model is converted."""

    name: str
    """Of the resource, in the file."""
    first: AnyArray | None = None
    """What it begins with, in the file's order of dimensions; None where no constant says."""
    current: str = ""
    """The tensor that holds its value now; empty before it is read or assigned."""
    source: str = ""
    """The input that it comes in by; empty where nothing reads what the last call left."""


@dataclass(slots=True)
class Variables:
    """The variables of a file by name, and those that its first subgraph assigns; others are constants."""

    written: frozenset[str] = frozenset()
    known: dict[str, Variable] = field(default_factory=dict)

    def named(self, name: str) -> Variable:
        """Return a variable, made where it is new."""
        return self.known.setdefault(name, Variable(name))

    @property
    def carried(self) -> tuple[Variable, ...]:
        """Return those that come in and go out, in the order of their first values."""
        return tuple(item for item in self.known.values() if item.source)


def variables_of(model: LiteModel) -> Variables:
    """Return what is known of a file's variables before its operators are converted: the first values too."""
    main = model.graphs[0]
    found = Variables(frozenset(name for name, _ in _assigned(main)))
    for operator in main.operators:
        # Options of another kind are refused where the operator is converted.
        stated = hasattr(operator.options.table, "InitSubgraphIndex")
        index = operator.options.integer("InitSubgraphIndex") if stated and operator.kind == "CALL_ONCE" else 0
        if not 0 < index < len(model.graphs):
            continue
        graph = model.graphs[index]
        made = {tensor for item in graph.operators for tensor in item.outputs}
        for name, tensor in _assigned(graph):
            if tensor not in made:
                found.named(name).first = read_value(graph.tensors[tensor], model.where)
    return found


def variable_name(operator: LiteOperator) -> str:
    """Return the name of the resource that a VAR_HANDLE stands for."""
    parts = (operator.options.text("Container"), operator.options.text("SharedName"))
    return "/".join(part for part in parts if part) or "variable"


def _assigned(lite: LiteGraph) -> Iterator[tuple[str, int]]:
    """Give the name of the variable of every assignment, and the tensor that it becomes."""
    handles = {
        item.outputs[0]: variable_name(item) for item in lite.operators if item.kind == "VAR_HANDLE" and item.outputs
    }
    for item in lite.operators:
        if item.kind == "ASSIGN_VARIABLE" and len(item.inputs) == 2 and item.inputs[0] in handles:
            yield handles[item.inputs[0]], item.inputs[1]
