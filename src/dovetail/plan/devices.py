"""Devices in order of priority, as a person writes them on one line, and affinities of single nodes.

    vsi:a311d@i8pc, openvino:CPU(threads=2; inference=bf16; PERF_COUNT=YES), cpu

A node goes to the first device that takes it. In parentheses stand the options of that device: `threads`, `inference`
and `profiling` are ours, names in capitals are the vendor's own and are handed on as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dovetail.backend.protocols import CompileOptions, InferencePrecision
from dovetail.backend.target import Target, TargetProfile
from dovetail.errors import PlanError
from dovetail.ir.precision import Precision
from dovetail.plan.limits import Limits
from dovetail.plan.placement import Placement, parse_placement
from dovetail.plan.recipe import Recipe, Rule

_ITEM = re.compile(r"([^()@]+)(?:@([^()@]*))?(?:\((.*)\))?", re.DOTALL)
_OURS = ("threads", "inference", "profiling")
_EXAMPLE = 'For example "vsi:a311d@i8pc,openvino:CPU(threads=2),cpu".'
_BOOLEANS = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """A target, a precision where one is asked for, and the options to compile for it."""

    target: str
    precision: Precision | None = None
    options: CompileOptions = field(default_factory=CompileOptions)

    def placement(self, targets: Mapping[str, Target]) -> Placement:
        """Return the placement; without a precision an NPU gets its usual 8 bits, any other device float32."""
        if self.precision is not None:
            return Placement(self.target, self.precision)
        target = targets[self.target]
        usual = Precision.I8PC if isinstance(target, TargetProfile) and target.hardware is not None else Precision.FP32
        return Placement(self.target, usual if usual in target.precisions else target.precisions[0])


def parse_devices(text: str, base: CompileOptions | None = None) -> tuple[DeviceChoice, ...]:
    """Return the devices of a priority string; raise PlanError naming the item that is wrong."""
    choices = tuple(_choice(item, base or CompileOptions()) for item in _split(text))
    if not choices:
        raise PlanError("the list of devices is empty.", hint=_EXAMPLE)
    for choice in choices:
        if any(other.target == choice.target and other.options != choice.options for other in choices):
            raise PlanError(f"device '{choice.target}' has two sets of options.", hint="Write them once.")
    return choices


def _split(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    items, depth, start = [], 0, 0
    for index, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            break
        if sign == "," and depth == 0:
            items.append(text[start:index])
            start = index + 1
    if depth != 0:
        raise PlanError(f"devices '{text}': a parenthesis is missing.", hint=_EXAMPLE)
    return [item.strip() for item in (*items, text[start:]) if item.strip()]


def _choice(item: str, base: CompileOptions) -> DeviceChoice:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise PlanError(f"device '{item}': TARGET, TARGET@PRECISION or TARGET(NAME=VALUE) is expected.", hint=_EXAMPLE)
    target, precision, options = match.groups()
    placed = None if precision is None else parse_placement(f"{target.strip()}@{precision.strip()}")
    pairs = [pair.strip() for pair in (options or "").split(";") if pair.strip()]
    for pair in pairs:
        base = _option(item, pair, base)
    return DeviceChoice(target.strip(), None if placed is None else placed.precision, base)


def _option(item: str, pair: str, base: CompileOptions) -> CompileOptions:
    name, sign, value = (part.strip() for part in pair.partition("="))
    if not sign or not name:
        raise PlanError(f"device '{item}': '{pair}' is not NAME=VALUE.", hint=_EXAMPLE)
    if name.isupper():
        return replace(base, properties=(*base.properties, (name, value)))
    if name == "threads" and value.isdigit():
        return replace(base, threads=int(value))
    if name == "profiling" and value in _BOOLEANS:
        return replace(base, profiling=_BOOLEANS[value])
    kinds = {kind.value: kind for kind in InferencePrecision}
    if name == "inference" and value in kinds:
        return replace(base, inference=kinds[value])
    if name not in _OURS and any(sign.isupper() or sign in "_." for sign in name):
        return replace(base, properties=(*base.properties, (name, value)))
    raise PlanError(
        f"device '{item}': '{pair}' is no option.",
        hint=f"threads=N, profiling=yes, inference={'|'.join(kinds)}, or a property of the vendor's as PERF_COUNT=YES.",
    )


def parse_affinity(text: str, find: Callable[[str], Placement]) -> Rule:
    """Return the rule of `GLOB=TARGET` or `op:OPERATOR=TARGET`; `find` completes a target to a placement."""
    pattern, sign, target = text.rpartition("=")
    if not sign or not pattern.strip() or not target.strip():
        raise PlanError(
            f"affinity '{text}': GLOB=TARGET or op:OPERATOR=TARGET is expected.",
            hint="For example 'head/*=cpu' or op:Softmax=cpu@fp32.",
        )
    place = find(target.strip())
    pattern = pattern.strip()
    if pattern.startswith("op:"):
        return Rule(place, op=pattern.removeprefix("op:"), reason=f"affinity {text}")
    return Rule(place, node=pattern, reason=f"affinity {text}")


def recipe_of(choices: Sequence[DeviceChoice], affinities: Sequence[str], targets: Mapping[str, Target]) -> Recipe:
    """Return the recipe of a priority list: by hand where an affinity says so, by capability for all others.

    Raises PlanError for an affinity to a target that is not in the list and has no precision.
    """
    first, *others = (choice.placement(targets) for choice in choices)
    return with_affinities(Recipe(first, tuple(others), (), Limits()), affinities)


def with_affinities(recipe: Recipe, affinities: Sequence[str]) -> Recipe:
    """Return a recipe in which some nodes are placed by hand; a bare target is one that the recipe knows.

    Raises PlanError for an affinity to a target that it does not know and that has no precision.
    """
    order = (recipe.default, *recipe.fallback, *(rule.placement for rule in recipe.rules))
    places = {place.target: place for place in reversed(order)}

    def find(text: str) -> Placement:
        if text in places:
            return places[text]
        if "@" in text:
            return parse_placement(text)
        raise PlanError(f"affinity to '{text}': it is not among the devices.", hint=f"Known: {', '.join(places)}.")

    rules = tuple(parse_affinity(text, find) for text in affinities)
    # What an affinity's device refuses goes through the whole list, its first device too.
    fallback = (*recipe.fallback, recipe.default) if rules else recipe.fallback
    return replace(recipe, fallback=fallback, rules=(*recipe.rules, *rules))
