"""What a search promises of its plan: what it was asked, what the plan scores and takes, and integers that it gives.

It is written beside the plan, so that the plan can be checked later, elsewhere, or with another model or other data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dovetail.errors import DovetailError
from dovetail.plan import Plan
from dovetail.plan.plan import plan_from_json
from dovetail.report.saved import read_document
from dovetail.report.serial import json_text, plain_data
from dovetail.seal import sealed

_KIND, _SCHEMA = "dovetail-run", 1


@dataclass(frozen=True, slots=True)
class Promise:
    """What was promised of a plan. Scores are in the metric's own direction."""

    plan: Plan
    graph: str
    """Digest of the model as shipped."""
    target: str
    metric: str
    """Name, or `file.py:function`, as the request has it; what was chosen where it has none."""
    decisions: str | None
    """What the outputs were said to decide."""
    max_drop: str
    min_score: float | None
    data: str
    """Digest of all samples."""
    samples: int
    holdout: float
    """Share of the samples that the score is on; with the seed it says which."""
    seed: int
    higher_is_better: bool
    float_score: float | None
    score: float | None
    """In exact arithmetic on the hold-out; None where it was not found so."""
    latency_ns: float | None
    """As predicted without a vendor's performance model; None where nothing prices the plan."""
    host: str | None = None
    """The CPU that the prediction takes; None is the one on the target's chip."""
    integers: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 by tensor of the integers that the target gives for the first samples of the hold-out."""
    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The nodes of every unit."""

    @property
    def unit_of(self) -> Mapping[str, str]:
        """Map a node to its unit."""
        return {node: unit for unit, nodes in self.units.items() for node in nodes}

    def to_json(self) -> str:
        """Return the promise as JSON text."""
        plain = {name: plain_data(getattr(self, name)) for name in self.__slots__ if name != "plan"}
        document = {"schema": _SCHEMA, "kind": _KIND, "plan": json.loads(self.plan.to_json()), **plain}
        return json_text(sealed(json.loads(json_text(document))))


def load_promise(path: Path) -> Promise:
    """Return the promise in a file; raise DovetailError naming what is wrong with it."""
    document = dict(read_document(path, _KIND))
    try:
        plan = plan_from_json(json.dumps(document.pop("plan")), str(path))
        integers, units = _table(document["integers"]), _table(document["units"])
        return Promise(
            plan=plan,
            graph=_text(document["graph"]),
            target=_text(document["target"]),
            metric=_text(document["metric"]),
            decisions=_maybe_text(document["decisions"]),
            max_drop=_text(document["max_drop"]),
            min_score=_number(document["min_score"]),
            data=_text(document["data"]),
            float_score=_number(document["float_score"]),
            score=_number(document["score"]),
            latency_ns=_number(document["latency_ns"]),
            host=_maybe_text(document["host"]),
            samples=_whole(document["samples"]),
            seed=_whole(document["seed"]),
            holdout=_number(document["holdout"]) or 0.0,
            higher_is_better=document["higher_is_better"] is True,
            integers={name: _text(value) for name, value in integers.items()},
            units={name: tuple(map(_text, _list(nodes))) for name, nodes in units.items()},
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise DovetailError(
            f"{path}: malformed: {repr(error)[:120]}.", hint="Run 'dovetail tune' again, or copy the file again."
        ) from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text is expected, not {str(value)[:40]!r}")
    return value


def _maybe_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"a number is expected, not {str(value)[:40]!r}")
    return float(value)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"a count is expected, not {str(value)[:40]!r}")
    return value


def _table(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"a table is expected, not {str(value)[:40]!r}")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"a list is expected, not {str(value)[:40]!r}")
    return value
