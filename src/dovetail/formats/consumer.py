"""What the program that reads an exported file makes of it, node by node, beside the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from dovetail.errors import FormatError
from dovetail.formats.format import Written
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.plan.plan import Plan

FLOAT = "float"
PER_CHANNEL = " per channel"
"""Follows the type of weights with a scale for each channel."""


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


def judge_node(node: Node, precision: Precision, pairs: Sequence[tuple[str, str]]) -> ReadNode:
    """Return what became of a node, from pairs of texts: what the plan asks of something it touches, and what it is."""
    wrong = [(asked, given) for asked, given in pairs if asked != given]
    dropped = precision.is_quantized and all(given == FLOAT for _, given in pairs)
    obeyed = Obeyed.HONOURED if not wrong else Obeyed.DROPPED if dropped else Obeyed.CHANGED
    asked, given = (", ".join(dict.fromkeys(pair[side] for pair in wrong or pairs)) for side in (0, 1))
    return ReadNode(node.name, node.op, asked, given, obeyed)


def weight_text(precision: Precision, channels: int) -> str:
    """Return how the weights of a node are stored, in as many scales as they have channels or in one."""
    return precision.weight.dtype.value + (PER_CHANNEL if precision.weight.per_channel and channels > 1 else "")


@dataclass(frozen=True, slots=True)
class ConsumerReading:
    """What a consumer made of a file."""

    consumer: str
    """Its name and version."""
    nodes: tuple[ReadNode, ...]
    outputs: tuple[Mapping[str, AnyArray], ...] = ()
    """What it computes of the samples, in reals and under the graph's names."""
    computes_floats: bool = False
    """Whether it places nodes but computes all of them in float here."""
    notes: tuple[str, ...] = ()
    """What it complained of while it read the file."""

    @property
    def disobeyed(self) -> tuple[ReadNode, ...]:
        """Return the nodes that are not as the plan says."""
        return tuple(node for node in self.nodes if node.obeyed is not Obeyed.HONOURED)


class OtherVersionError(FormatError):
    """The file is for another version of its consumer than the one that is here, which knows it under other names."""


@dataclass(frozen=True, slots=True)
class ConsumerRequest:
    """A written file and what its consumer needs: the user's model, and samples to calibrate and to run on."""

    graph: Graph
    plan: Plan
    written: Written
    model: bytes | None = None
    """The user's file, where it is of the consumer's kind."""
    samples: Sequence[Mapping[str, AnyArray]] = ()
    """What it calibrates on; noise where there is nothing."""
    run: Sequence[Mapping[str, AnyArray]] = ()
    """What it is run on."""
    listing: bytes | None = None
    """The toolchain's own description of the network, where the format needs one."""


class Consumer(Protocol):
    """Run the program that a format is for."""

    @property
    def models(self) -> str:
        """Return how the files of models end that it reads."""

    @property
    def needs_model(self) -> bool:
        """Tell whether the user's model has to be such a file; else one is made."""

    def read(self, request: ConsumerRequest) -> ConsumerReading:
        """Return what it made of the file; raise FormatError where it refuses it, OtherVersionError where it may."""


def noise_inputs(graph: Graph, count: int = 4) -> list[dict[str, AnyArray]]:
    """Return inputs of noise: what is stored how does not depend on values."""
    rng = np.random.default_rng(0)
    feeds: list[dict[str, AnyArray]] = []
    for _ in range(count):
        item: dict[str, AnyArray] = {}
        for name in graph.inputs:
            kind = graph.types[name]
            shape = tuple(size if isinstance(size, int) else 1 for size in kind.shape or ())
            item[name] = rng.normal(size=shape).astype(kind.dtype.carrier)
        feeds.append(item)
    return feeds


_CONSUMERS = {
    "acuity-quantize": ("", "dovetail.formats.acuity.consumer", "ACUITY"),
    "ai-edge-quantizer": ("ai_edge_quantizer", "dovetail.formats.litert.quantizer", "EDGE"),
    "onnx-grid": ("onnxruntime", "dovetail.formats.onnxruntime.consumers", "GRID"),
    "onnx-qdq": ("onnxruntime", "dovetail.formats.onnxruntime.consumers", "QDQ"),
    "onnxruntime": ("onnxruntime", "dovetail.formats.onnxruntime.consumers", "QUANTISER"),
    "nncf": ("nncf", "dovetail.formats.openvino.nncf_consumer", "NNCF"),
    "openvino": ("openvino", "dovetail.formats.openvino.consumer", "HETERO"),
}


def find_consumer(name: str) -> Consumer | None:
    """Return the consumer of a format; None where none is known, or its package or environment is not installed."""
    package, module, attribute = _CONSUMERS.get(name, ("", "", ""))
    if not module or (package and find_spec(package) is None):
        return None
    found = import_module(module)
    consumer: Consumer = getattr(found, attribute)
    # One that runs in an environment of its own says whether that is made.
    return consumer if package or found.is_here() else None
