"""Write a Comparison as JSON and read it back.

Numbers that JSON lacks are the strings `inf`, `-inf` and `nan`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from dovetail.compare.decisions.golden import DecisionScore
from dovetail.compare.record import CompareVerdict, Comparison, TaskRow, TensorRow
from dovetail.compare.slices import SliceScore
from dovetail.errors import DataError
from dovetail.seal import parse_json

SCHEMA = "dovetail.comparison/1"
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def to_json(comparison: Comparison) -> str:
    """Return the JSON text, keys in a fixed order."""
    document = {
        "schema": SCHEMA,
        "verdict": comparison.verdict.value,
        "reasons": list(comparison.reasons),
        "rows": [_row_out(row) for row in comparison.rows],
        "tasks": [
            {
                "name": task.name,
                "higher_is_better": task.higher_is_better,
                "golden": _number_out(task.golden),
                "measured": _number_out(task.measured),
                "parts": [_part_out(part) for part in task.parts],
            }
            for task in comparison.tasks
        ],
        "missing": list(comparison.missing),
        "extra": list(comparison.extra),
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)


def from_json(text: str) -> Comparison:
    """Read what `to_json` wrote.

    Raises DataError naming the wrong key.
    """
    try:
        document = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"comparison: not JSON ({error}).") from error
    top = _Object(document, "comparison")
    if top.text("schema") != SCHEMA:
        raise DataError(f"comparison: schema {top.text('schema')!r} is not {SCHEMA!r}.", hint="Compare again.")
    values = [member.value for member in CompareVerdict]
    if top.text("verdict") not in values:
        raise DataError(f"comparison: verdict {top.text('verdict')!r} is not one of {', '.join(values)}.")
    return Comparison(
        verdict=CompareVerdict(top.text("verdict")),
        reasons=top.texts("reasons"),
        rows=tuple(_row_in(_Object(item, f"rows[{i}]")) for i, item in enumerate(top.items("rows"))),
        tasks=tuple(_task_in(_Object(item, f"tasks[{i}]")) for i, item in enumerate(top.items("tasks"))),
        missing=top.texts("missing"),
        extra=top.texts("extra"),
    )


def _number_out(value: float) -> float | str:
    return value if math.isfinite(value) else str(float(value))


def _row_out(row: TensorRow) -> dict[str, object]:
    worst = row.worst
    return {
        "name": row.name,
        "origin": row.origin,
        "shape": list(row.shape),
        "cosine": _number_out(row.cosine),
        "sqnr_db": _number_out(row.sqnr_db),
        "worst": {
            "axis": worst.axis,
            "start": worst.start,
            "stop": worst.stop,
            "sqnr_db": _number_out(worst.sqnr_db),
            "name": worst.name,
        },
        "max_abs_error": _number_out(row.max_abs_error),
        "mean_abs_error": _number_out(row.mean_abs_error),
        "non_finite": row.non_finite,
        "lsb_histogram": None if row.lsb_histogram is None else [list(item) for item in row.lsb_histogram],
        "isolated_error": None if row.isolated_error is None else _number_out(row.isolated_error),
    }


def _row_in(row: _Object) -> TensorRow:
    worst = _Object(row.get("worst"), f"{row.where}.worst")
    histogram = row.get("lsb_histogram")
    pairs = None if histogram is None else [_integers(item, row.where) for item in row.items("lsb_histogram")]
    if pairs is not None and any(len(item) != 2 for item in pairs):
        raise DataError(f"comparison: {row.where}.lsb_histogram is not a list of pairs.")
    return TensorRow(
        name=row.text("name"),
        origin=row.text("origin"),
        shape=_integers(row.get("shape"), row.where),
        cosine=row.number("cosine"),
        sqnr_db=row.number("sqnr_db"),
        worst=SliceScore(
            None if worst.get("axis") is None else worst.integer("axis"),
            worst.integer("start"),
            worst.integer("stop"),
            worst.number("sqnr_db"),
            worst.text("name"),
        ),
        max_abs_error=row.number("max_abs_error"),
        mean_abs_error=row.number("mean_abs_error"),
        non_finite=row.integer("non_finite"),
        lsb_histogram=None if pairs is None else tuple((item[0], item[1]) for item in pairs),
        isolated_error=None if row.get("isolated_error") is None else row.number("isolated_error"),
    )


def _task_in(task: _Object) -> TaskRow:
    higher = task.get("higher_is_better")
    if not isinstance(higher, bool):
        raise DataError(f"comparison: {task.where}.higher_is_better is not true or false.")
    # A file of before there were parts has none.
    items = task.items("parts") if task.has("parts") else []
    parts = tuple(_part_in(_Object(item, f"{task.where}.parts[{i}]")) for i, item in enumerate(items))
    return TaskRow(task.text("name"), higher, task.number("golden"), task.number("measured"), parts)


def _part_out(part: DecisionScore) -> dict[str, object]:
    return {
        "name": part.name,
        "kind": part.kind,
        "outputs": list(part.outputs),
        "score": _number_out(part.score),
        "float_score": _number_out(part.float_score),
        "unit": part.unit,
    }


def _part_in(part: _Object) -> DecisionScore:
    return DecisionScore(
        part.text("name"),
        part.text("kind"),
        part.texts("outputs"),
        part.number("score"),
        part.number("float_score"),
        part.text("unit"),
    )


def _integers(value: object, where: str) -> tuple[int, ...]:
    items = value if isinstance(value, list) else [None]
    whole = [item for item in items if isinstance(item, int) and not isinstance(item, bool)]
    if len(whole) != len(items):
        raise DataError(f"comparison: {where}: {value!r} is not a list of integers.")
    return tuple(whole)


class _Object:
    """Read typed values of one JSON object, with errors that name the place."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, Mapping):
            raise DataError(f"comparison: {where} is not an object.")
        self._values = value
        self.where = where

    def has(self, key: str) -> bool:
        return key in self._values

    def get(self, key: str) -> object:
        if key not in self._values:
            raise DataError(f"comparison: {self.where} has no {key!r}.")
        value: object = self._values[key]
        return value

    def text(self, key: str) -> str:
        value = self.get(key)
        if not isinstance(value, str):
            raise DataError(f"comparison: {self.where}.{key} is not a text.")
        return value

    def integer(self, key: str) -> int:
        return _integers([self.get(key)], f"{self.where}.{key}")[0]

    def number(self, key: str) -> float:
        value = self.get(key)
        if isinstance(value, str) and value in _SPECIAL:
            return _SPECIAL[value]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DataError(f"comparison: {self.where}.{key} is not a number.")
        try:
            return float(value)
        except OverflowError as error:
            raise DataError(f"comparison: {self.where}.{key} is larger than any number.") from error

    def items(self, key: str) -> list[object]:
        value = self.get(key)
        if not isinstance(value, list):
            raise DataError(f"comparison: {self.where}.{key} is not a list.")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        values = [item for item in self.items(key) if isinstance(item, str)]
        if len(values) != len(self.items(key)):
            raise DataError(f"comparison: {self.where}.{key} is not a list of texts.")
        return tuple(values)
