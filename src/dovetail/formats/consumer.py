"""What the program that reads an exported file makes of it, node by node, beside the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

from dovetail.formats.format import Written
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.plan.plan import Plan


class Obeyed(Enum):
    """What becomes of what a plan says of a node."""

    HONOURED = "honoured"
    CHANGED = "changed"
    """Stored in another format, or on another device."""
    DROPPED = "dropped"
    """Not quantised at all."""


@dataclass(frozen=True, slots=True)
class ReadNode:
    """What a plan asks of a node and what the consumer gives, as texts."""

    node: str
    op: str
    asked: str
    given: str
    obeyed: Obeyed


@dataclass(frozen=True, slots=True)
class ConsumerReading:
    """What a consumer made of a file."""

    consumer: str
    """Its name and version."""
    nodes: tuple[ReadNode, ...]
    noise_db: float | None = None
    """Signal over noise of its outputs against the float graph, of the worst output; None without samples."""

    @property
    def disobeyed(self) -> tuple[ReadNode, ...]:
        """Return the nodes that are not as the plan says."""
        return tuple(node for node in self.nodes if node.obeyed is not Obeyed.HONOURED)


@dataclass(frozen=True, slots=True)
class ConsumerRequest:
    """A written file and what its consumer needs: the model as an ONNX file, and samples to calibrate and score on."""

    graph: Graph
    plan: Plan
    written: Written
    model: bytes | None = None
    """The user's file, where it is ONNX: what the consumer would be given."""
    samples: Sequence[Mapping[str, AnyArray]] = ()


class Consumer(Protocol):
    """Run the program that a format is for."""

    def read(self, request: ConsumerRequest) -> ConsumerReading:
        """Return what it made of the file; raise FormatError where it refuses it."""


_CONSUMERS = {
    "onnx-grid": ("onnxruntime", "dovetail.formats.onnxruntime.consumers", "GRID"),
    "onnx-qdq": ("onnxruntime", "dovetail.formats.onnxruntime.consumers", "QDQ"),
    "onnxruntime": ("onnxruntime", "dovetail.formats.onnxruntime.consumers", "QUANTISER"),
    "openvino": ("openvino", "dovetail.formats.openvino.consumer", "HETERO"),
}


@cache
def find_consumer(name: str) -> Consumer | None:
    """Return the consumer of a format; None where none is known or its package is not installed."""
    package, module, attribute = _CONSUMERS.get(name, ("", "", ""))
    if not package or find_spec(package) is None:
        return None
    consumer: Consumer = getattr(import_module(module), attribute)
    return consumer
