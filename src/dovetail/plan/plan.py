"""Plans: every node has exactly one placement."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dovetail.errors import PlanError
from dovetail.ir.graph import Graph
from dovetail.plan.placement import Placement, parse_placement
from dovetail.plan.repairs import RepairRecord, digest_text, repairs_from
from dovetail.seal import parse_json, sealed, unsealed

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Override:
    """Place a node elsewhere than the default, with the reason."""

    placement: Placement
    reason: str


@dataclass(frozen=True)
class Plan:
    """Place every node of one graph: a default plus overrides with reasons."""

    graph_digest: str
    default: Placement
    overrides: Mapping[str, Override] = field(default_factory=dict)
    repairs: tuple[RepairRecord, ...] = ()
    """What turns the graph as shipped into the one that the plan is for."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "overrides", MappingProxyType(dict(self.overrides)))

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from dovetail.ir.markup import facts_html, table_html

        facts = {"default": str(self.default), "graph": self.graph_digest[:12], "digest": self.digest[:12]}
        if self.repairs:
            facts["repairs"] = ", ".join(item.kind for item in self.repairs)
        rows = [(node, str(item.placement), item.reason) for node, item in self.overrides.items()]
        return facts_html("Plan", facts.items()) + table_html(("node", "placement", "reason"), rows)

    def placement(self, node: str) -> Placement:
        """Return the placement of a node."""
        override = self.overrides.get(node)
        return self.default if override is None else override.placement

    def reason(self, node: str) -> str:
        """Return why a node is where it is."""
        override = self.overrides.get(node)
        return "default" if override is None else override.reason

    @property
    def targets(self) -> tuple[str, ...]:
        """Return the targets that the plan names, the default's first."""
        names = [self.default.target, *(item.placement.target for item in self.overrides.values())]
        return tuple(dict.fromkeys(names))

    @cached_property
    def digest(self) -> str:
        """Return a SHA-256 over placements and repairs; reasons and overrides that change nothing do not count."""
        moved = {node: str(item.placement) for node, item in self.overrides.items() if item.placement != self.default}
        document: list[object] = [self.graph_digest, str(self.default), moved]
        if self.repairs:
            document.append(digest_text(self.repairs))
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def check(self, graph: Graph) -> None:
        """Raise PlanError when the plan was made for another graph or names nodes that it lacks."""
        if self.graph_digest != graph.digest:
            raise PlanError(
                f"the plan was made for graph {self.graph_digest[:12]}, not for '{graph.name}' ({graph.digest[:12]}).",
                hint="Make the plan again with 'dovetail plan'.",
            )
        names = {node.name for node in graph.nodes}
        for node in self.overrides:
            if node not in names:
                raise PlanError(f"the plan places node '{node}' which graph '{graph.name}' does not have.")

    def to_json(self) -> str:
        """Return the plan as JSON text."""
        document: dict[str, object] = {
            "schema": SCHEMA,
            "kind": "dovetail-plan",
            "graph": self.graph_digest,
            "default": str(self.default),
            "overrides": {
                node: {"place": str(item.placement), "reason": item.reason} for node, item in self.overrides.items()
            },
        }
        if self.repairs:
            document["repairs"] = [record.document() for record in self.repairs]
        return json.dumps(sealed(document), indent=1, ensure_ascii=False) + "\n"

    def save(self, path: Path) -> None:
        """Write the plan to a file."""
        path.write_text(self.to_json(), encoding="utf-8")


def plan_from_json(text: str, where: str = "plan") -> Plan:
    """Return the plan in a JSON text; raise PlanError naming the field that is wrong."""
    try:
        document = unsealed(_document(parse_json(text)))
        schema = document["schema"]
        if document["kind"] != "dovetail-plan" or schema is True or schema != SCHEMA:
            raise PlanError(f"not a Dovetail plan of schema {SCHEMA}.")
        overrides = {
            str(node): Override(parse_placement(_text(item["place"])), _text(item["reason"]))
            for node, item in document["overrides"].items()
        }
        default, repairs = parse_placement(_text(document["default"])), repairs_from(document.get("repairs", []))
        return Plan(_text(document["graph"]), default, overrides, repairs)
    except PlanError as error:
        raise PlanError(f"{where}: {error.message}", hint=error.hint) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PlanError(
            f"{where}: malformed: {repr(error)[:120]}.", hint="Make the plan again with 'dovetail plan'."
        ) from error


def _document(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("an object is expected")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text is expected, not {str(value)[:40]!r}")
    return value


def load_plan(path: Path) -> Plan:
    """Return the plan in a file; raise PlanError when it cannot be read."""
    try:
        return plan_from_json(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise PlanError(f"{path}: cannot be read: not text, so no plan.") from error
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error}.") from error
