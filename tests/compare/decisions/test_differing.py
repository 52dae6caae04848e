"""Losses of a candidate, sample by sample, over runs that come one after another."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.compare.decisions import Decision, Decisions, decision_losses
from dovetail.compare.decisions.vectors import EmbeddingAngle
from dovetail.errors import DataError

METRIC = Decisions(tuple(Decision(name, "embedding", (name,), EmbeddingAngle(name)) for name in ("a", "b")))


def turned(degrees):
    """Return vectors of length 1 that are turned by so much."""
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def some(outputs, rows):
    return {name: values[rows] for name, values in outputs.items()}


def test_samples_that_lose_most_come_first_and_those_that_lose_nothing_are_left_out():
    golden = {"a": turned([0, 0, 0, 0]), "b": turned([0, 0, 0, 0])}
    measured = {"a": turned([0, 30, 0, 0]), "b": turned([0, 0, 0, 60])}
    found = decision_losses(METRIC, [(golden, measured)])
    np.testing.assert_allclose(found.by_sample, [0, 0.25, 0, 0.75], atol=1e-12)
    assert found.most(9) == [3, 1]
    assert found.most(1) == [3]
    assert [round(item.loss, 4) for item in found.figures] == [0.0625, 0.1875]


def test_runs_of_any_size_give_the_same():
    rng = np.random.default_rng(0)
    golden, measured = ({name: rng.normal(size=(10, 4)) for name in ("a", "b")} for _ in range(2))
    whole = decision_losses(METRIC, [(golden, measured)])
    cuts = [slice(0, 3), slice(3, 4), slice(4, 10)]
    parts = decision_losses(METRIC, ((some(golden, cut), some(measured, cut)) for cut in cuts))
    np.testing.assert_allclose(parts.by_sample, whole.by_sample)
    assert [item.score for item in parts.figures] == pytest.approx([item.score for item in whole.figures])
    with pytest.raises(DataError, match="no sample to compare on"):
        decision_losses(METRIC, [])
