"""Limits: what a person demands of a plan as a whole, beside the rules for single nodes.

[limits]
forbid = ["cpu"]           # targets that nothing may run on
partitions = 3             # at most
boundary_bytes = 65536     # at most, between targets, a sample
latency_ms = 12.5          # at most, as 'dovetail cost' prices it
memory_bytes = 4194304     # at most: weights, activations and copies

[[group]]                  # nodes that stay at one placement
node = "head/*"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dovetail.errors import PlanError
from dovetail.ir.node import Node

LIMIT_KEYS = ("forbid", "partitions", "boundary_bytes", "latency_ms", "memory_bytes")
GROUP_KEYS = ("node", "op")
_MOST = 2**63 - 1
"""The largest integer that TOML promises."""


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that go to one placement together: a glob over names and source names, and an operator."""

    node: str = "*"
    op: str | None = None

    def matches(self, node: Node) -> bool:
        """Tell whether a node belongs to the group."""
        if self.op is not None and node.op != self.op:
            return False
        return any(fnmatchcase(name, self.node) for name in (node.name, *node.origin))


@dataclass(frozen=True, slots=True)
class Limits:
    """Bound a plan; None does not bound."""

    forbid: tuple[str, ...] = ()
    partitions: int | None = None
    boundary_bytes: int | None = None
    latency_ns: float | None = None
    memory_bytes: int | None = None
    groups: tuple[Group, ...] = ()

    @property
    def are_any(self) -> bool:
        """Tell whether anything is limited."""
        return self != Limits()


def read_limits(table: Mapping[str, object], groups: object, where: str) -> Limits:
    """Return the limits in a parsed document; raise PlanError naming what is wrong in it."""
    _check_keys(table, LIMIT_KEYS, f"{where}: 'limits'")
    forbid = table.get("forbid", [])
    if not isinstance(forbid, list) or not all(isinstance(name, str) for name in forbid):
        raise PlanError(f"{where}: 'limits': 'forbid' is a list of targets.", hint='For example forbid = ["cpu"].')
    if not isinstance(groups, list):
        raise PlanError(f"{where}: 'group' is a list.", hint="Write [[group]].")
    latency_ms = _number(table, "latency_ms", where, lambda value: value > 0)
    counts = {name: _number(table, name, where, float.is_integer) for name in LIMIT_KEYS[1:] if name != "latency_ms"}
    whole = {name: None if value is None else int(value) for name, value in counts.items()}
    return Limits(
        forbid=tuple(forbid),
        partitions=whole["partitions"],
        boundary_bytes=whole["boundary_bytes"],
        latency_ns=None if latency_ms is None else latency_ms * 1e6,
        memory_bytes=whole["memory_bytes"],
        groups=tuple(_group(item, f"{where}: group {index}") for index, item in enumerate(groups, 1)),
    )


def _group(item: object, where: str) -> Group:
    if not isinstance(item, dict) or not item:
        raise PlanError(f"{where}: it needs 'node' or 'op'.")
    _check_keys(item, GROUP_KEYS, where)
    if not all(isinstance(value, str) for value in item.values()):
        raise PlanError(f"{where}: 'node' and 'op' are texts.")
    return Group(**item)


def _number(table: Mapping[str, object], name: str, where: str, good: Callable[[float], bool]) -> float | None:
    value = table.get(name)
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST and good(float(value)):
        return float(value)
    raise PlanError(f"{where}: 'limits': '{name}' cannot be {str(value)[:40]}.")


def _check_keys(table: Mapping[str, object], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise PlanError(f"{where}: unknown key '{key}'.", hint=f"Known: {', '.join(known)}.")
