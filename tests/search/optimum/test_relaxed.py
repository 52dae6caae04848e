"""Set covers, whose relaxations are seldom whole, against trying everything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from dovetail.search.optimum import relaxed
from dovetail.search.optimum.relaxed import MixedProgramme, solve_mixed
from dovetail.search.policy import SolverPolicy


def _cover(rng: np.random.Generator, size: int) -> tuple[MixedProgramme, float]:
    """Return a random cover by pairs, and what the least one costs."""
    pairs = list(itertools.combinations(range(size), 2))
    chosen = [pairs[index] for index in rng.choice(len(pairs), len(pairs) // 2, replace=False)]
    matrix = np.zeros((len(chosen), size))
    for row, pair in enumerate(chosen):
        matrix[row, list(pair)] = 1.0
    cost = rng.integers(1, 5, size).astype(np.float64)
    tried = (np.array(item, np.float64) for item in itertools.product((0, 1), repeat=size))
    least = min(float(cost @ item) for item in tried if (matrix @ item >= 1).all())
    ones, above = np.ones(size), np.full(len(chosen), np.inf)
    model = MixedProgramme(cost, ones, np.ones(size, dtype=bool), csr_matrix(matrix), np.ones(len(chosen)), above)
    return model, least


@pytest.mark.parametrize("middle", [0, 1000])
def test_covers_are_least_whichever_way_they_are_found(middle: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[float] = []
    original = relaxed._below

    def counted(model: MixedProgramme, most: float) -> MixedProgramme:
        cuts.append(most)
        return original(model, most)

    monkeypatch.setattr(relaxed, "_below", counted)
    rng = np.random.default_rng(5)
    for _ in range(60):
        model, least = _cover(rng, 9)
        found = solve_mixed(model, 10.0, SolverPolicy(whole=0, direct=middle))
        assert found.x is not None
        assert found.proven
        assert model.cost @ found.x == pytest.approx(least)
        assert found.bound == pytest.approx(least)
    assert (len(cuts) > 20) == (middle == 0)


@pytest.mark.parametrize(("scale", "less"), [(1.0, 5e-6), (10.0, 5e-6), (100.0, 2e-5), (1e6, 0.2)])
def test_only_what_is_better_by_more_than_rounding_is_looked_for(
    scale: float, less: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three any two need one, and half of each is no solution: the least costs twice the scale."""
    cuts: list[float] = []
    original = relaxed._below

    def counted(model: MixedProgramme, most: float) -> MixedProgramme:
        cuts.append(most)
        return original(model, most)

    monkeypatch.setattr(relaxed, "_below", counted)
    matrix = csr_matrix(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]))
    ones, above = np.ones(3), np.full(3, np.inf)
    model = MixedProgramme(scale * ones, ones, np.ones(3, dtype=bool), matrix, ones, above)
    solved = solve_mixed(model, 10.0, SolverPolicy(whole=0, direct=0))
    assert solved.x is not None
    assert (solved.x.round().sum(), solved.proven) == (2.0, True)
    assert solved.bound == pytest.approx(2 * scale)
    assert [2 * scale - most for most in cuts] == [pytest.approx(less, rel=1e-3)]


def test_what_has_no_solution_is_said_to_have_none() -> None:
    one, two = np.ones(2), np.full(1, 3.0)
    model = MixedProgramme(one, one, np.ones(2, dtype=bool), csr_matrix(np.ones((1, 2))), two, two)
    found = solve_mixed(model, 10.0, SolverPolicy(whole=0, direct=0))
    assert (found.x, found.proven) == (None, True)
