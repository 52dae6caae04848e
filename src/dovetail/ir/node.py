"""Nodes: one operator applied to named tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.types import TensorType

DOVETAIL_DOMAIN = "dovetail"
"""Domain of the operators that ONNX lacks: Requantize."""


def is_fact(attribute: str) -> bool:
    """Tell whether an attribute is a fact of the model's own framework, such as `tflite.scales`, unknown to ONNX."""
    return "." in attribute


def without_facts(attributes: Mapping[str, object]) -> dict[str, object]:
    """Return the attributes that ONNX knows."""
    return {name: value for name, value in attributes.items() if not is_fact(name)}


class Body:
    """What a Graph consists of; one can be the value of an attribute: the body of a control-flow operator."""

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, AnyArray]
    captures: tuple[str, ...]
    """The tensors that a body reads from the graph around it."""
    origins: Mapping[str, str]
    """Tensor -> its name in the source file, where a pass has renamed it."""


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """Apply operator `op` to tensors; an omitted optional input or output is the empty name.

    Attribute values are int, float, str, tuples of these, numpy arrays and Graphs (bodies of control flow).
    `origin` names the nodes of the source file that this node stands for; it survives every pass.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object] = field(default_factory=dict)
    domain: str = ""
    origin: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))
        if not self.origin:
            object.__setattr__(self, "origin", (self.name,))

    @property
    def label(self) -> str:
        """Return the form that messages use: node 'name' (Op)."""
        return f"node '{self.name}' ({self.op})"

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise TypeError(f"{self.label}: attribute {name} is not an integer")
        return value

    def number(self, name: str, default: float) -> float:
        """Return a float attribute."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float):
            raise TypeError(f"{self.label}: attribute {name} is not a number")
        return float(value)

    def text(self, name: str, default: str) -> str:
        """Return a string attribute."""
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise TypeError(f"{self.label}: attribute {name} is not a string")
        return value

    def integers(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return an attribute that is a list of integers."""
        value = self.attributes.get(name, default)
        if not isinstance(value, tuple) or not all(isinstance(item, int) for item in value):
            raise TypeError(f"{self.label}: attribute {name} is not a list of integers")
        return value

    def bodies(self) -> tuple[Body, ...]:
        """Return the graphs among the attributes (control flow)."""
        if not self.attributes:
            return ()
        return tuple([value for value in self.attributes.values() if isinstance(value, Body)])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        mine = (self.name, self.op, self.inputs, self.outputs, self.domain, self.origin)
        theirs = (other.name, other.op, other.inputs, other.outputs, other.domain, other.origin)
        return mine == theirs and _same_attributes(self.attributes, other.attributes)

    def __hash__(self) -> int:
        return hash((self.name, self.op, self.inputs, self.outputs))


def _same_attributes(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return one.keys() == other.keys() and all(_same_value(one[key], other[key]) for key in one)


def _same_value(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if type(one) is not type(other):
        return False
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other)
    return bool(one == other)
