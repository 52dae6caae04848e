"""Outputs that are kept: what is computed, and what is not computed again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import AnyArray
from dovetail.plan import Plan
from dovetail.quantize import calibrate
from dovetail.search.outputs import KeptOutputs
from dovetail.search.pipeline import Pipeline

from .test_evaluator import LOW, _tanh


class _Model:
    """Gives `rows` rows for a sample, and notes what it was asked for."""

    def __init__(self, rows: int = 1) -> None:
        self.asked: list[list[int]] = []
        self._rows = rows

    def __call__(self, indices: Sequence[int]) -> dict[str, AnyArray]:
        self.asked.append(list(indices))
        return {"y": np.repeat(np.asarray(indices, np.float32), self._rows)[:, None]}


def test_only_what_is_missing_is_computed_and_comes_in_the_order_asked_for() -> None:
    kept, model = KeptOutputs(1 << 10), _Model()
    assert kept.rows("a", [3, 1], model)["y"][:, 0].tolist() == [3, 1]
    assert kept.rows("a", [1, 2, 3, 1], model)["y"][:, 0].tolist() == [1, 2, 3, 1]
    assert kept.rows("b", [1], model)["y"][:, 0].tolist() == [1]
    assert model.asked == [[3, 1], [2], [1]]


def test_nothing_is_kept_by_sample_where_samples_have_several_rows() -> None:
    kept, model = KeptOutputs(1 << 10), _Model(rows=2)
    for _ in range(2):
        assert kept.rows("a", [3, 1], model)["y"][:, 0].tolist() == [3, 3, 1, 1]
    assert model.asked == [[3, 1], [3, 1]]
    assert kept.size_bytes == 0


def test_what_is_kept_keeps_within_its_bytes() -> None:
    kept, model = KeptOutputs(8), _Model()
    for index in (1, 2, 3, 3, 1):
        assert kept.rows("a", [index], model)["y"][:, 0].tolist() == [index]
    assert model.asked == [[1], [2], [3], [1]]
    assert kept.size_bytes == 8


def test_whole_outputs_are_those_of_just_these_samples() -> None:
    kept, model = KeptOutputs(1 << 10), _Model(rows=2)
    for indices in ((1, 2), (2, 1), (1, 2)):
        assert kept.whole("a", indices, model)["y"].tolist() == model(indices)["y"].tolist()
    assert model.asked == [[1, 2], [1, 2], [2, 1], [2, 1], [1, 2]]


def test_an_exact_plan_is_run_once_on_the_same_samples() -> None:
    graph, held, data = _tanh()
    ranges, plan = calibrate(graph, held).ranges, Plan(graph.digest, LOW)
    first, other = Pipeline(data, ranges), Pipeline(data, ranges)
    assert first.outputs(plan, (0, 1)) is other.outputs(plan, (0, 1))
    assert first.outputs(plan, (0, 1)) is not other.outputs(plan, (1, 0))
