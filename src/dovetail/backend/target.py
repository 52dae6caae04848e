"""Targets: offline knowledge of a kind of processor, as typed data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from dovetail.backend.arithmetic import Arithmetic
from dovetail.backend.fitted import FittedPrices
from dovetail.ir.graph import Graph
from dovetail.ir.node import DOVETAIL_DOMAIN, Node
from dovetail.ir.precision import Precision


class Engine(Enum):
    """The part of a processor that runs an operator."""

    CPU = "CPU"
    NN = "NN"
    """Multiply-accumulate array."""
    TP = "TP"
    """Tensor processor: data movement, pooling, table look-ups."""
    SH = "SH"
    """Programmable shaders: flexible and slow."""
    SP = "SP"
    """Stream processor of the newest parts."""


@dataclass(frozen=True, slots=True)
class TargetVerdict:
    """Whether and where a target runs a node at a precision."""

    node: str
    op: str
    target: str
    precision: Precision
    engine: Engine | None
    """What runs the node; None where the target refuses it."""
    reason: str = ""
    """Why it is refused."""

    @property
    def supported(self) -> bool:
        """Tell whether the target runs the node."""
        return self.engine is not None


class Target(Protocol):
    """What is known of a kind of processor without having one."""

    @property
    def name(self) -> str:
        """Return the name that plans use, such as `vsi:v853`."""

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """Return the precisions that some operator supports, cheapest first."""

    @property
    def arithmetic(self) -> Arithmetic:
        """Return how the target rounds."""

    @property
    def mark(self) -> str:
        """Return a text that changes with the hardware and the driver that it is compiled for; empty where none do."""

    def verdict(self, graph: Graph, node: Node, precision: Precision) -> TargetVerdict:
        """Return whether the target runs the node at the precision."""


class Constraint(Protocol):
    """Refuse nodes that an operator rule would otherwise allow."""

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """Return why the node is refused, or None when it is allowed."""


@dataclass(frozen=True, slots=True)
class OperatorRule:
    """Where operators run at some precisions, and under which constraints."""

    ops: frozenset[str]
    precisions: frozenset[Precision]
    engine: Engine
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class HardwareFacts:
    """The figures of a part: multiply-accumulates a cycle at 8 bits, clock, memory sizes.

    `clock_hz` is that of the vendor's performance model; `source` says where the name and the figures come from.
    """

    nn_cores: int
    macs_per_cycle: int
    clock_hz: int
    ddr_bytes_per_cycle: float
    sram_bytes: int
    sdk_name: str
    source: str
    pid: int = 0
    tp_cores: int = 0
    shader_cores: int = 0
    axi_sram_bytes: int = 0
    prices: FittedPrices | None = None
    """What its operators take, where that was fitted to the vendor's performance model."""


@dataclass(frozen=True, slots=True)
class TargetProfile:
    """A target described by rules; the first rule that names operator and precision and has no objection decides."""

    name: str
    title: str
    precisions: tuple[Precision, ...]
    rules: tuple[OperatorRule, ...]
    arithmetic: Arithmetic
    always: tuple[Constraint, ...] = ()
    hardware: HardwareFacts | None = None
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Reasons for operators that are known to be refused at every precision."""
    precision_refusals: Mapping[Precision, str] = field(default_factory=dict)
    """Reasons for precisions that the target lacks."""
    engines: Mapping[tuple[str, Precision], Engine] = field(default_factory=dict)
    """Engines that were measured; they replace that of the rule that decides."""
    measured_refusals: Mapping[tuple[str, Precision], str] = field(default_factory=dict)
    """Why the vendor's compiler takes an operator at a precision in no form that was tried."""
    mark: str = ""

    def verdict(self, graph: Graph, node: Node, precision: Precision) -> TargetVerdict:
        """Say whether the target runs the node at the precision."""
        engine, reason = self._engine(graph, node, precision)
        return TargetVerdict(node.name, node.op, self.name, precision, engine, reason)

    def _engine(self, graph: Graph, node: Node, precision: Precision) -> tuple[Engine | None, str]:
        rules, reason = self._rules(node, precision)
        if not rules:
            return None, reason
        for constraint in self.always:
            objection = constraint.refusal(graph, node)
            if objection is not None:
                return None, objection
        objections: list[str] = []
        for rule in rules:
            objection_of_rule = next(
                (text for item in rule.constraints if (text := item.refusal(graph, node)) is not None), None
            )
            if objection_of_rule is None:
                # Where rules differ by attributes, one measurement an operator cannot tell them apart.
                decided = len({item.engine for item in rules}) > 1
                return (rule.engine if decided else self.engines.get((node.op, precision), rule.engine)), ""
            objections.append(objection_of_rule)
        return None, objections[0]

    def _rules(self, node: Node, precision: Precision) -> tuple[tuple[OperatorRule, ...], str]:
        if precision not in self.precisions:
            known = ", ".join(item.value for item in self.precisions)
            lacking = f"the target has no precision {precision.value} (it has {known})"
            return (), self.precision_refusals.get(precision, lacking)
        if node.domain not in ("", DOVETAIL_DOMAIN):
            return (), f"the target has no operator {node.domain}::{node.op}"
        if node.op in self.refusals:
            return (), self.refusals[node.op]
        named = tuple(rule for rule in self.rules if node.op in rule.ops)
        if not named:
            return (), f"the target has no operator {node.op}"
        if (node.op, precision) in self.measured_refusals:
            return (), self.measured_refusals[node.op, precision]
        able = tuple(rule for rule in named if precision in rule.precisions)
        if not able:
            names = sorted({item.value for rule in named for item in rule.precisions})
            return (), f"{node.op} runs only at {', '.join(names)}"
        return able, ""
