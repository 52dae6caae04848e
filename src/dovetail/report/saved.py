"""Open what commands wrote: a plan, a bundle or the folder of a search, with what is recorded beside the plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dovetail.bundle import Bundle, import_bundle, load_bundle
from dovetail.errors import DovetailError, PlanError
from dovetail.files import read_file
from dovetail.plan import Plan, load_plan
from dovetail.quantize import Ranges, load_ranges
from dovetail.seal import parse_json, unsealed

_MOST_BYTES = 64 << 20
_RESULT, _RANGES, _PLAN, _BUNDLE, _MANIFEST = "result.json", "ranges.json", "plan.json", "bundle", "manifest.json"
_HINT = "Give a plan (.json), a bundle, or the folder of a search."


@dataclass(frozen=True, slots=True)
class RecordedScore:
    """A score that a search recorded for its plan on some samples, in the metric's own direction."""

    split: str
    samples: int
    float_score: float | None
    score: float | None
    exact: bool
    """It was found in exact arithmetic."""


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """What the result of a search says of its plan."""

    metric: str
    higher_is_better: bool
    scores: tuple[RecordedScore, ...]
    latency_ns: float | None
    unit_of: Mapping[str, str]
    """The unit of every raised node."""
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan on disk, and what lies beside it that belongs to it."""

    path: Path
    plan: Plan
    bundle: Bundle | None = None
    ranges: Ranges | None = None
    record: PlanRecord | None = None


def open_saved(path: Path) -> SavedPlan:
    """Return the plan that a path stands for: a plan's file, a bundle (folder or file), or the folder of a search.

    What lies beside it counts where it is of the same plan. Raises DovetailError when nothing can be read.
    """
    if not path.exists():
        raise PlanError(f"{path}: no such file or folder.", hint=_HINT)
    bundle = None
    if path.is_dir() and (path / _MANIFEST).is_file():
        bundle, beside = load_bundle(path), path.parent
    elif path.is_dir():
        if not (path / _PLAN).is_file():
            raise PlanError(f"{path}: neither a bundle nor the folder of a search: no {_PLAN}.", hint=_HINT)
        beside, path = path, path / _PLAN
    else:
        beside = path.parent
        if path.read_bytes()[:2] == b"PK":
            bundle = import_bundle(path)
    plan = load_plan(path) if bundle is None else bundle.plan
    return SavedPlan(
        path, plan, bundle or _bundle_beside(beside, plan), _ranges_beside(beside, plan), _record_beside(beside, plan)
    )


def _bundle_beside(folder: Path, plan: Plan) -> Bundle | None:
    if not (folder / _BUNDLE / _MANIFEST).is_file():
        return None
    bundle = load_bundle(folder / _BUNDLE)
    return bundle if bundle.plan.digest == plan.digest else None


def _ranges_beside(folder: Path, plan: Plan) -> Ranges | None:
    if not (folder / _RANGES).is_file():
        return None
    ranges = load_ranges(folder / _RANGES)
    return ranges if ranges.graph_digest == plan.graph_digest else None


def _record_beside(folder: Path, plan: Plan) -> PlanRecord | None:
    path = folder / _RESULT
    if not path.is_file():
        return None
    document = read_document(path, "dovetail-report")
    try:
        digest = document["plan"]["digest"]  # type: ignore[index]
        return read_record(document) if digest == plan.digest else None
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise DovetailError(
            f"{path}: malformed: {repr(error)[:120]}.", hint="Run 'dovetail tune' again, or remove it."
        ) from error


def read_document(path: Path, kind: str) -> Mapping[str, object]:
    """Return the JSON document of a kind in a file; raise DovetailError when it is none."""
    try:
        document = parse_json(read_file(path, _MOST_BYTES))
    except (ValueError, RecursionError) as error:
        raise DovetailError(f"{path}: not JSON: {str(error)[:120]}.", hint="Run 'dovetail tune' again.") from error
    if not isinstance(document, dict) or document.get("kind") != kind or document.get("schema") != 1:
        raise DovetailError(f"{path}: not a {kind} of schema 1.", hint="Run 'dovetail tune' again.")
    try:
        return unsealed(document)
    except ValueError as error:
        raise DovetailError(f"{path}: {error}.", hint="Run 'dovetail tune' again.") from error


def read_record(document: Mapping[str, object]) -> PlanRecord:
    """Return what a report's document says of its plan; raise KeyError, TypeError or ValueError where it is damaged."""
    scores, proof = document["scores"], document.get("proof")
    raised = [*_list(document["culprits"]), *_list(document.get("companions", []))]
    latency = None if proof is None else _number(_mapping(proof)["latency_ns"])
    return PlanRecord(
        metric=str(document["metric"]),
        higher_is_better=bool(document["higher_is_better"]),
        scores=tuple(_score(_mapping(item)) for item in _list(scores)),
        latency_ns=latency,
        unit_of={str(node): str(_mapping(item)["unit"]) for item in raised for node in _list(_mapping(item)["nodes"])},
        verdict=str(document["verdict"]),
    )


def _score(item: Mapping[str, object]) -> RecordedScore:
    samples, exact = item["samples"], item.get("tuned_exact")
    if not isinstance(samples, int):
        raise TypeError("'samples' is a count")
    score = item["tuned"] if exact is None else exact
    return RecordedScore(
        str(item["name"]), samples, _number(item["float_score"]), _number(score), exact=exact is not None
    )


def _number(value: object) -> float | None:
    """Return a number of JSON; None stands for one that JSON lacks."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"a number is expected, not {str(value)[:40]!r}")
    return float(value)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"a list is expected, not {str(value)[:40]!r}")
    return value


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"a table is expected, not {str(value)[:40]!r}")
    return value
