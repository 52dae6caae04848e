"""The target that describes a part to everybody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dovetail.backend.target import Target, TargetProfile, TargetVerdict
from dovetail.backends.verisilicon.failures import known_refusal
from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.lowering.trial import lowering_refusal
from dovetail.backends.verisilicon.part import Part
from dovetail.errors import CompileError
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.sdk.parts import part_pid

_Refusal = Callable[[Graph, Node, Precision, Part], str | None]


@dataclass(frozen=True, slots=True)
class VsiProfile(TargetProfile):
    """A VeriSilicon target: rules, and the generation of its engines."""

    generation: Generation = field(kw_only=True)
    part: Part = field(init=False, repr=False, compare=False)
    """What lowering must know of it."""

    def __post_init__(self) -> None:
        name = "" if self.hardware is None else self.hardware.sdk_name
        object.__setattr__(self, "part", Part(self.name, name, part_pid(name), self.generation))

    def verdict(self, graph: Graph, node: Node, precision: Precision) -> TargetVerdict:
        """Say whether the target runs the node at the precision: what the rules allow and lowering takes.

        Where an SDK is installed here, what its compiler is known to crash or hang on is refused too.
        """
        return self._judged(self.capability(graph, node, precision), known_refusal, graph, node)

    def capability(self, graph: Graph, node: Node, precision: Precision) -> TargetVerdict:
        """Say whether the part runs the node at the precision, whatever compilers were seen to do with it."""
        verdict = TargetProfile.verdict(self, graph, node, precision)
        return self._judged(verdict, lowering_refusal, graph, node)

    def _judged(self, verdict: TargetVerdict, refusal: _Refusal, graph: Graph, node: Node) -> TargetVerdict:
        reason = refusal(graph, node, verdict.precision, self.part) if verdict.supported else None
        return verdict if reason is None else replace(verdict, engine=None, reason=reason)


def profile_of(target: Target) -> VsiProfile:
    """Return a target as a VeriSilicon one; raise CompileError when it is not."""
    if not isinstance(target, VsiProfile):
        raise CompileError(f"{target.name}: not a part of VeriSilicon's.", hint="Choose one that begins with vsi:.")
    return target


def part_of(target: Target) -> Part:
    """Return the part of a target; raise CompileError when it is not VeriSilicon's."""
    return profile_of(target).part
