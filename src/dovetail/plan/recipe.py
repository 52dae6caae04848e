"""Recipes: ordered rules that a person writes, as TOML.

    default = "vsi:v853@i8pc"
    fallback = ["vsi:v853@i16", "cpu@fp32"]

    [[rule]]
    node = "head/*"            # glob over node names and source names
    op = "Concat"
    place = "vsi:v853@i16"
    reason = "boxes and scores share one tensor"

Later rules win. A rule must match something. Limits on the whole plan are in `dovetail.plan.limits`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from dovetail.errors import PlanError
from dovetail.ir.node import Node
from dovetail.plan.limits import Limits, read_limits
from dovetail.plan.placement import Placement, parse_placement
from dovetail.seal import parse_toml

_RULE_KEYS = ("node", "op", "place", "reason")
_KEYS = ("default", "repair", "fallback", "rule", "limits", "group")
_MAX_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Rule:
    """Place the nodes that match: a glob over names and source names, and an operator."""

    placement: Placement
    node: str = "*"
    op: str | None = None
    reason: str = "rule"

    def matches(self, node: Node) -> bool:
        """Tell whether the rule is about this node."""
        if self.op is not None and node.op != self.op:
            return False
        return any(fnmatchcase(name, self.node) for name in (node.name, *node.origin))


@dataclass(frozen=True, slots=True)
class Recipe:
    """Where nodes go: a default, where to go when a node is refused, and exceptions."""

    default: Placement
    fallback: tuple[Placement, ...] = ()
    rules: tuple[Rule, ...] = ()
    limits: Limits = field(default_factory=Limits)
    repair: str = ""
    """Which repairs a search may make, in the words of its option; empty where that is not said."""


def load_recipe(path: Path) -> Recipe:
    """Return the recipe in a TOML file; raise PlanError naming what is wrong in it."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise PlanError(f"{path}: larger than {_MAX_BYTES} bytes; this is no recipe.")
        document = parse_toml(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise PlanError(f"{path}: cannot be read: not text, so no recipe.") from error
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error}.") from error
    except ValueError as error:
        raise PlanError(f"{path}: not TOML: {error}.") from error
    return read_recipe(document, str(path))


def read_recipe(document: dict[str, object], where: str = "recipe") -> Recipe:
    """Return the recipe in a parsed document; raise PlanError naming what is wrong in it."""
    _check_keys(document, _KEYS, where)
    if "default" not in document:
        raise PlanError(f"{where}: no 'default'.", hint='For example: default = "vsi:v853@i8pc".')
    fallback, rules = document.get("fallback", []), document.get("rule", [])
    if not isinstance(fallback, list) or not isinstance(rules, list):
        raise PlanError(f"{where}: 'fallback' and 'rule' are lists.")
    limits = document.get("limits", {})
    if not isinstance(limits, dict):
        raise PlanError(f"{where}: 'limits' is a table.", hint="Write [limits].")
    return Recipe(
        default=_placement(document["default"], f"{where}: 'default'"),
        fallback=tuple(_placement(item, f"{where}: 'fallback'") for item in fallback),
        rules=tuple(_read_rule(item, f"{where}: rule {index}") for index, item in enumerate(rules, 1)),
        limits=read_limits(limits, document.get("group", []), where),
        repair=_text(document.get("repair", ""), f"{where}: 'repair'"),
    )


def _read_rule(item: object, where: str) -> Rule:
    if not isinstance(item, dict):
        raise PlanError(f"{where}: a table is expected.")
    rule = cast("dict[str, object]", item)
    _check_keys(rule, _RULE_KEYS, where)
    if "place" not in rule or not ("node" in rule or "op" in rule):
        raise PlanError(f"{where}: it needs 'place' and at least one of 'node' and 'op'.")
    return Rule(
        placement=_placement(rule["place"], f"{where}: 'place'"),
        node=_text(rule.get("node", "*"), f"{where}: 'node'"),
        op=_text(rule["op"], f"{where}: 'op'") if "op" in rule else None,
        reason=_text(rule.get("reason", "rule of the recipe"), f"{where}: 'reason'"),
    )


def _placement(value: object, where: str) -> Placement:
    text = _text(value, where)
    try:
        return parse_placement(text)
    except PlanError as error:
        raise PlanError(f"{where}: {error.message}", hint=error.hint) from error


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise PlanError(f"{where}: a text is expected, not {str(value)[:40]!r}.")
    return value


def _check_keys(table: dict[str, object], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            raise PlanError(
                f"{where}: unknown key '{key}'.",
                hint=f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(known)}.",
            )
