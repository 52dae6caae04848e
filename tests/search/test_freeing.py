"""How many gates are freed: as many as are worth it, and no more are tried than that takes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dovetail.search.freeing import FreeingTerms, choose_gates
from dovetail.search.variants import PricedFigures, VariantFigures

_GROUPS = tuple((f"t{number}",) for number in range(16))
_TERMS = FreeingTerms(least_score=0.9, errors=1.0)


def _figures(score: float, latency_ns: float) -> PricedFigures:
    return PricedFigures(VariantFigures(score, np.full(8, score), noise=0.0), latency_ns)


def _chosen(scores: Mapping[int, float], step_ns: float = 1.0) -> tuple[int, list[int]]:
    """Return how many gates are freed where so many score so, and how many were tried; others gain nothing."""
    tried: list[int] = []

    def measure(tensors: tuple[str, ...]) -> PricedFigures:
        tried.append(len(tensors))
        return _figures(scores.get(len(tensors), 0.1), 100.0 + step_ns * len(tensors))

    return len(choose_gates(_GROUPS, _figures(0.1, 100.0), measure, _TERMS)), tried


def test_no_more_are_tried_once_more_are_not_worth_it() -> None:
    assert _chosen({1: 0.8, 2: 0.8, 4: 0.8}) == (1, [1, 2])
    assert _chosen({1: 0.5, 2: 0.8, 4: 0.8}) == (2, [1, 2, 4])


def test_more_are_tried_as_long_as_none_is_worth_it() -> None:
    assert _chosen({4: 0.8}) == (4, [1, 2, 4, 8])
    assert _chosen({}) == (0, [1, 2, 4, 8, 16])


def test_what_takes_longer_than_it_heals_is_not_freed() -> None:
    assert _chosen({1: 0.2, 2: 0.3}, step_ns=100.0) == (0, [1, 2, 4, 8, 16])
