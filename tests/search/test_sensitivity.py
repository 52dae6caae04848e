"""What each unit does alone: measured where it is known or cheap, and else the prior's word for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dovetail.errors import DovetailError
from dovetail.plan import Plan
from dovetail.search import Journal
from dovetail.search.context import SearchContext
from dovetail.search.fanout import Measure, Query
from dovetail.search.ledger import Ledger
from dovetail.search.noise import MOST_NOISE
from dovetail.search.policy import SensitivityPolicy
from dovetail.search.prior import UnitPrior
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.sensitivity import measured_order, samples_measured
from dovetail.testing.networks import Network

from .stages import Setting, open_stages, weighed
from .test_culprits import LOW, chain

PRIOR = [UnitPrior(f"n{index}", 5.0 - index, "drawn") for index in range(5)]
HARM = {"n0": 0.1, "n1": 0.0, "n2": 0.4, "n3": 0.0, "n4": 0.2}
MEASURED = ["n2", "n4", "n0", "n1", "n3"]


def _open(searched: int) -> tuple[SearchContext, Ledger]:
    return open_stages(Setting(chain(5), weighed(HARM), low=LOW, priced=False, prior=PRIOR, searched=searched))


def test_the_order_is_by_the_noise_and_then_by_the_prior() -> None:
    context, ledger = _open(30)
    assert measured_order(context, ledger) == MEASURED
    assert ledger.sensitivities is not None
    # One output of ones and errors of 0.4: noise 0.16 beside a signal of 1, in every column.
    assert ledger.sensitivities["n2"] == pytest.approx(2 * 0.16 / 1.16)


def test_a_unit_that_cannot_be_measured_counts_as_nothing_but_noise() -> None:
    def loss(plan: Plan, indices: Sequence[int]) -> float:
        if plan.placement("n3") == LOW:
            raise DovetailError("no kernel.")
        return 0.1

    context, ledger = open_stages(Setting(chain(5), loss, low=LOW, priced=False, prior=PRIOR))
    assert measured_order(context, ledger) == ["n3", "n0", "n1", "n2", "n4"]
    assert ledger.sensitivities is not None
    assert ledger.sensitivities["n3"] == MOST_NOISE


@pytest.mark.parametrize(
    ("values", "least", "most", "samples"), [(64, 1, 8, 2), (65, 1, 8, 3), (64, 3, 8, 3), (640, 1, 8, 8)]
)
def test_so_many_samples_are_measured_that_enough_values_are_compared(
    values: int, least: int, most: int, samples: int
) -> None:
    """The output has 32 values."""
    policy = SensitivityPolicy(values=values, least_samples=least, most_samples=most)
    assert samples_measured(chain(3), policy) == samples


def test_an_output_of_one_value_takes_as_many_samples_as_values() -> None:
    net = Network()
    graph = net.graph(net.op("ReduceSum", net.input("x", 1, 4), shape=(1,)))
    assert samples_measured(graph, SensitivityPolicy(values=3, least_samples=1)) == 3


@pytest.mark.parametrize("width", [1, 2])
def test_workers_are_told_of_all_that_is_measured_for_certain(width: int) -> None:
    announced: list[list[Query]] = []

    class Wide(RecordedEvaluator):
        @property
        def width(self) -> int:
            return width

        def expect(self, queries: Sequence[Query]) -> None:
            announced.append(list(queries))

    context, ledger = _open(30)
    context = replace(context, fast=Wide(context.fast.evaluator, Journal(None, "c")))
    assert measured_order(context, ledger) == MEASURED
    assert len(announced) == width - 1
    for queries in announced:
        assert [query.measure for query in queries] == [Measure.NOISE] * 5
        low = [unit for query in queries for unit in HARM if query.plan.placement(unit) == LOW]
        assert low == list(HARM)
