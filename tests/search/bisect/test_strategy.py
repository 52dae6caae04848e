"""The strategy against planted culprits: right every time, and within its bound where a prior helps."""

from __future__ import annotations

from collections.abc import Callable

import draws
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.search.bisect import BisectResult, Outcome, bisect_lines
from dovetail.search.bisect.strategy import bound
from dovetail.search.trial import Status

Passes = Callable[[frozenset[str]], bool]


def avoids(culprits: frozenset[str]) -> Passes:
    """Return an oracle that fails as soon as a culprit is low."""
    return lambda low: not low & culprits


def drive(
    order: list[str],
    weights: list[float],
    passes: Passes,
    *,
    crash_every: int = 0,
    certify: bool = False,
    beside: bool = False,
) -> tuple[BisectResult, list[frozenset[str]], int]:
    """Return the finding, the low sets that passed, and the number of runs."""
    steps = bisect_lines(order, weights, certify=certify, beside=beside)
    low = next(steps)
    passed: list[frozenset[str]] = []
    runs = 0
    while True:
        runs += 1
        crashed = crash_every and runs % crash_every == 0
        good = not crashed and passes(low)
        if good:
            passed.append(low)
        try:
            low = steps.send(Status.CANNOT_TEST if crashed else Status.PASS if good else Status.FAIL)
        except StopIteration as end:
            return end.value, passed, runs


_NAMES = st.integers(1, 40).map(lambda count: [f"l{index}" for index in range(count)])


@settings(max_examples=300, deadline=None)
@given(_NAMES, st.data())
def test_planted_culprits_are_found_whatever_the_prior_says(names: list[str], data: st.DataObject) -> None:
    culprits = frozenset(data.draw(st.sets(st.sampled_from(names), max_size=6)))
    order = data.draw(st.permutations(names))
    weights = [data.draw(st.floats(0.01, 10)) for _ in names]
    crash = data.draw(st.sampled_from((0, 3, 5)))
    beside = data.draw(st.booleans())
    finding, passed, runs = drive(
        list(order), weights, lambda low: not low & culprits, crash_every=crash, beside=beside
    )
    if not culprits:
        assert finding.outcome is Outcome.NOTHING_TO_DO
        return
    assert finding.outcome is Outcome.FOUND
    assert frozenset(finding.culprits) | frozenset(finding.unresolved) >= culprits
    assert runs == finding.runs
    assert frozenset(names) - {*finding.culprits, *finding.unresolved} in passed
    if not finding.unresolved:
        assert frozenset(finding.culprits) == culprits


@settings(max_examples=300, deadline=None)
@given(_NAMES, st.data())
def test_lines_that_harm_only_together_are_met(names: list[str], data: st.DataObject) -> None:
    harms = data.draw(st.lists(st.sets(st.sampled_from(names), min_size=1, max_size=3), min_size=1, max_size=4))
    finding, passed, _ = drive(names, [1.0] * len(names), lambda low: not any(harm <= low for harm in harms))
    assert finding.outcome is Outcome.FOUND
    raised = frozenset(finding.culprits)
    assert frozenset(names) - raised in passed
    assert all(raised & harm for harm in harms)
    # Minimal: every raised line is the last of some harm that is otherwise low.
    assert all(any(harm & raised == {line} for harm in harms) for line in raised)


@settings(max_examples=200, deadline=None)
@given(_NAMES, st.randoms(use_true_random=False), st.booleans())
def test_the_answer_was_tested_and_passed_however_the_oracle_behaves(
    names: list[str], random: object, certify: bool
) -> None:
    verdicts: dict[frozenset[str], bool] = {frozenset(names): False, frozenset(): True}

    def passes(low: frozenset[str]) -> bool:
        return verdicts.setdefault(low, random.random() < 0.5)  # type: ignore[attr-defined]

    finding, passed, _ = drive(names, [1.0] * len(names), passes, certify=certify)
    assert frozenset(names) - {*finding.culprits, *finding.unresolved} in passed


@pytest.mark.parametrize("crash_every", [0, 5])
@pytest.mark.parametrize("culprit_count", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("line_count", [16, 54, 300])
def test_with_a_prior_from_simulation_the_runs_are_within_the_bound(
    line_count: int, culprit_count: int, crash_every: int
) -> None:
    rng = np.random.default_rng(line_count + culprit_count)
    names = [f"l{index}" for index in range(line_count)]
    for _ in range(50):
        culprits = frozenset(rng.choice(names, culprit_count, replace=False).tolist())
        score = {name: 2.0 ** (4 * (name in culprits) + rng.normal(0, 0.5)) for name in names}
        order = sorted(names, key=lambda name: score[name])
        weights = [score[name] for name in order]
        finding, _, runs = drive(order, weights, avoids(culprits), crash_every=crash_every)
        assert frozenset(finding.culprits) == culprits
        assert runs <= bound(line_count, culprit_count)


def test_without_a_prior_few_culprits_are_within_the_bound() -> None:
    # Four or more cannot be: telling C(300, 5) sets apart takes 35 answers, and the bound is 31.
    rng = np.random.default_rng(1)
    for line_count in (16, 54, 100):
        names = [f"l{index}" for index in range(line_count)]
        for _ in range(100):
            culprits = frozenset(rng.choice(names, 1, replace=False).tolist())
            finding, _, runs = drive(names, [1.0] * line_count, avoids(culprits))
            assert frozenset(finding.culprits) == culprits
            assert runs <= bound(line_count, 1)


@pytest.mark.parametrize("beside", [True, False])
def test_a_wrong_suspicion_costs_little(beside: bool) -> None:
    """Three culprits anywhere among 236 lines, whatever the weights say, which lie a thousandfold apart."""
    rng = np.random.default_rng(draws.seed_of(__name__))
    names = [f"l{index}" for index in range(236)]
    most = 0
    for _ in range(60):
        weights = np.exp(rng.uniform(-7, 0, 236)) if not beside else np.ones(236)
        culprits = frozenset(rng.choice(names, 3, replace=False).tolist())
        finding, _, runs = drive(names, sorted(weights.tolist()), avoids(culprits), beside=beside)
        assert frozenset(finding.culprits) == culprits
        most = max(most, runs)
    assert most <= 33


def test_culprits_side_by_side_in_the_order_of_the_file_take_fewer_runs() -> None:
    rng = np.random.default_rng(2)
    names = [f"l{index}" for index in range(60)]
    spent = {False: 0, True: 0}
    for _ in range(200):
        starts = rng.choice(29, 2, replace=False) * 2
        culprits = frozenset(names[start + step] for start in starts for step in (0, 1))
        for beside in spent:
            finding, _, runs = drive(names, [1.0] * 60, avoids(culprits), beside=beside)
            assert frozenset(finding.culprits) == culprits
            spent[beside] += runs
    assert spent[True] < 0.9 * spent[False]
    assert spent[True] / 200 <= bound(60, 4)


@pytest.mark.parametrize("scale", [2.0**-12, 2.0**12])
def test_only_the_ratios_of_weights_count(scale: float) -> None:
    """Every other line is light, and culprits are beside each other but for those."""
    names = [f"l{index}" for index in range(60)]
    weights = [0.1 if index % 2 else 1.0 for index in range(60)]
    passes = avoids(frozenset({"l20", "l22", "l24", "l51"}))
    scaled = [weight * scale for weight in weights]
    assert drive(names, scaled, passes, beside=True) == drive(names, weights, passes, beside=True)


def test_an_oracle_that_always_fails_is_found_out_soon() -> None:
    names = [f"l{index}" for index in range(100)]
    finding, _, runs = drive(names, [1.0] * 100, lambda low: False)
    assert finding.outcome is Outcome.UNREACHABLE
    assert runs == 5


def test_a_crash_on_every_fifth_run_costs_a_fifth_of_the_runs() -> None:
    rng = np.random.default_rng(3)
    names = [f"l{index}" for index in range(60)]
    for _ in range(100):
        culprits = frozenset(rng.choice(names, 3, replace=False).tolist())
        runs = [drive(names, [1.0] * 60, avoids(culprits), crash_every=n)[2] for n in (0, 5)]
        assert runs[1] - runs[1] // 5 == runs[0]


def test_a_candidate_that_always_crashes_is_gone_round() -> None:
    names = [f"l{index}" for index in range(40)]
    culprits = frozenset(("l7", "l30"))
    sizes: list[int] = []

    def passes(low: frozenset[str]) -> bool:
        return not low & culprits

    steps = bisect_lines(names, [1.0] * 40)
    low = next(steps)
    while True:
        sizes.append(len(low))
        status = Status.CANNOT_TEST if len(low) % 3 == 1 else Status.PASS if passes(low) else Status.FAIL
        try:
            low = steps.send(status)
        except StopIteration as end:
            finding = end.value
            break
    assert {*finding.culprits, *finding.unresolved} >= culprits
    assert len(finding.unresolved) <= 4
    assert len(sizes) < 40


def test_what_can_never_be_tested_ends() -> None:
    finding, _, runs = drive(["a", "b"], [1.0, 1.0], lambda low: True, crash_every=1)
    assert finding.outcome is Outcome.UNTESTABLE
    assert runs < 10


def test_certify_puts_back_what_was_needed_only_for_a_while() -> None:
    # c passes alone beside the others, but not while b is low: b is the one culprit.
    def passes(low: frozenset[str]) -> bool:
        return "b" not in low and not ({"a", "d"} & low and "c" in low and "e" not in low)

    finding, passed, _ = drive(list("acdeb"), [1.0] * 5, passes, certify=True)
    assert frozenset("acdeb") - frozenset(finding.culprits) in passed
    assert "b" in finding.culprits
