"""Tables of measured latencies: JSON files that a board, a simulator or a person wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dovetail.backend.costs import Figure, Quality
from dovetail.errors import CostError
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision

_MAX_BYTES = 64 << 20
_KIND = "dovetail-costs"
_MOST = sys.float_info.max
_SCHEMA = 1
_FIELDS = ("schema", "kind", "target", "source", "quality", "entries")


@dataclass(frozen=True, slots=True)
class CostEntry:
    """Price one node at one precision; what was fused into it needs no entry."""

    node: str
    precision: Precision
    latency_ns: float


@dataclass(frozen=True)
class CostTable:
    """Latencies of one target; nodes go by their names in the graph or in the source file."""

    target: str
    source: str
    quality: Quality
    entries: tuple[CostEntry, ...]
    overhead_ns: float | None = None
    """What a partition takes besides its nodes; None where nobody measured it."""
    bytes_per_s: float | None = None
    """How fast inputs and outputs of partitions are handed over; None where nobody measured it."""

    @cached_property
    def _by_key(self) -> Mapping[tuple[str, Precision], float]:
        return {(entry.node, entry.precision): entry.latency_ns for entry in self.entries}

    def latency(self, graph: Graph, nodes: Sequence[Node], target: str, precision: Precision) -> Figure | None:
        """Return the sum over the nodes; None when the first of them, which does the work, has no entry."""
        if target != self.target:
            return None
        latencies = [self._of(node, precision) for node in nodes]
        if not latencies or latencies[0] is None:
            return None
        return Figure(sum(item for item in latencies if item is not None), self.quality, self.source)

    def _of(self, node: Node, precision: Precision) -> float | None:
        known = self._by_key
        own = known.get((node.name, precision))
        if own is not None:
            return own
        parts = [known[name, precision] for name in node.origin if (name, precision) in known]
        return sum(parts) if parts else None

    def to_json(self) -> str:
        """Return the table as JSON text."""
        document: dict[str, object] = {
            "schema": _SCHEMA,
            "kind": _KIND,
            "target": self.target,
            "source": self.source,
            "quality": self.quality.value,
            "entries": [
                {"node": item.node, "precision": item.precision.value, "latency_ns": item.latency_ns}
                for item in self.entries
            ],
        }
        besides = {"overhead_ns": self.overhead_ns, "bytes_per_s": self.bytes_per_s}
        document |= {key: value for key, value in besides.items() if value is not None}
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def load_cost_table(path: Path) -> CostTable:
    """Return the table in a file; raise CostError naming what is wrong in it."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise CostError(f"{path}: larger than {_MAX_BYTES} bytes; this is no cost table.")
        return _read(json.loads(path.read_text(encoding="utf-8")), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise CostError(f"{path}: cannot be read: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise CostError(f"{path}: not JSON: {error}.") from error


def _read(document: object, where: str) -> CostTable:
    if not isinstance(document, dict) or document.get("kind") != _KIND or document.get("schema") != _SCHEMA:
        raise CostError(
            f"{where}: not a cost table of schema {_SCHEMA}.", hint=f'It starts {{"schema": 1, "kind": "{_KIND}", ...'
        )
    missing = [name for name in _FIELDS if name not in document]
    if missing:
        raise CostError(f"{where}: it has no '{missing[0]}'.", hint=f"A table has {', '.join(_FIELDS)}.")
    known = [item.value for item in Quality]
    if document["quality"] not in known:
        raise CostError(f"{where}: quality '{document['quality']}' is unknown.", hint=f"Known: {', '.join(known)}.")
    if not isinstance(document["entries"], list):
        raise CostError(f"{where}: 'entries' is a list.")
    entries = tuple(_entry(item, f"{where}: entry {index}") for index, item in enumerate(document["entries"], 1))
    besides = [_besides(document, key, where) for key in ("overhead_ns", "bytes_per_s")]
    return CostTable(str(document["target"]), str(document["source"]), Quality(document["quality"]), entries, *besides)


def _besides(document: Mapping[str, object], key: str, where: str) -> float | None:
    value = document.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        raise CostError(f"{where}: '{key}' is no figure: {str(value)[:40]}.")
    return float(value)


def _entry(item: object, where: str) -> CostEntry:
    if not isinstance(item, dict):
        raise CostError(f"{where}: a table with node, precision and latency_ns is expected.")
    node, name, latency = item.get("node"), item.get("precision"), item.get("latency_ns")
    if not isinstance(node, str) or name not in [kind.value for kind in Precision]:
        raise CostError(f"{where}: it needs a node and a known precision, not {node!r} and {name!r}.")
    if isinstance(latency, bool) or not isinstance(latency, int | float) or not 0 <= latency <= _MOST:
        raise CostError(f"{where}: latency_ns of '{node}' is no duration: {repr(latency)[:40]}.")
    return CostEntry(node, Precision(name), float(latency))
