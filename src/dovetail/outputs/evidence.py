"""How evidence adds up to a confidence.

Evidence is counted in decibans, as I. J. Good did ("Probability and the weighing of evidence", 1950): ten times the
logarithm of how many times likelier a finding is under a hypothesis than without it. Independent findings add, and
odds are `10 ** (sum / 10)`. Findings are graded in four steps and no finer: what a step is worth is a matter of how
rare a coincidence is, not of any model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dovetail.outputs.layouts import Layout
from dovetail.outputs.view import HeadView, Kind, OutputRole

DECISIVE = 20.0
"""A hundred to one: a coincidence of numbers that hardly happens, such as a sum over all grids of a picture."""
STRONG = 10.0
"""Ten to one: what this kind nearly always has and others seldom."""
FAIR = 6.0
"""Four to one: what is usual for the kind and not unusual elsewhere."""
SLIGHT = 3.0
"""Two to one: a habit."""

UNKNOWN_ODDS = 10 ** (2 * FAIR / 10)
"""The odds of no hypothesis at all: two fair findings, or a strong one, are as likely as not a coincidence.

One decisive finding, or two strong ones, do not make sure: findings of one design hang together, and a third has to
agree.
"""


@dataclass(slots=True)
class Case:
    """The findings for and against one hypothesis."""

    findings: list[tuple[float, str]] = field(default_factory=list)

    def add(self, weight: float, text: str) -> None:
        """Count a finding; a negative weight speaks against the hypothesis."""
        self.findings.append((weight, text))

    def when(self, condition: bool, weight: float, text: str) -> None:
        """Count a finding if it is there."""
        if condition:
            self.add(weight, text)

    @property
    def weight(self) -> float:
        """Return the sum in decibans."""
        return sum(weight for weight, _ in self.findings)

    def reasons(self) -> tuple[str, ...]:
        """Return the findings in words, the strongest first."""
        ordered = sorted(self.findings, key=lambda finding: -abs(finding[0]))
        return tuple(f"{'against: ' if weight < 0 else ''}{text}" for weight, text in ordered)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One reading of some outputs, and what speaks for it."""

    kind: Kind
    family: str
    roles: Mapping[str, OutputRole]
    layout: Layout | None
    weight: float
    """Decibans."""
    reasons: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, case: Case, kind: Kind, family: str, roles: Mapping[str, OutputRole], layout: Layout | None = None
    ) -> Hypothesis:
        """Return the hypothesis with the weight of its findings."""
        return cls(kind, family, roles, layout, case.weight, case.reasons())


_EXPLAINED = 0.5
"""Confidence from which an output counts as explained."""


def _confidence(best: Hypothesis, hypotheses: Sequence[Hypothesis], unknown: float) -> float:
    """Return the share of a hypothesis in the odds of all kinds that want one of its outputs, none included."""
    rivals: dict[Kind, float] = {}
    for other in hypotheses:
        if other.kind is not best.kind and not set(other.roles).isdisjoint(best.roles):
            rivals[other.kind] = max(rivals.get(other.kind, -1000.0), other.weight)
    odds = 10 ** (best.weight / 10)
    return odds / (odds + unknown + sum(10 ** (weight / 10) for weight in rivals.values()))


def choose(hypotheses: Sequence[Hypothesis], outputs: Sequence[str]) -> tuple[HeadView, ...]:
    """Return heads that share no output: the weightiest hypothesis first, then what is left.

    The confidence of a head is its share of the odds of all kinds that want one of its outputs, no kind at all
    included. An output that no hypothesis wants is of an unknown kind. Outputs that nothing explains cast doubt on what
    is said of the others: each counts once more for no kind at all.
    """
    free = set(outputs)
    chosen: list[Hypothesis] = []
    for best in sorted(hypotheses, key=lambda item: -item.weight):
        if free.issuperset(best.roles):
            chosen.append(best)
            free -= set(best.roles)
    unsure = sum(len(item.roles) for item in chosen if _confidence(item, hypotheses, UNKNOWN_ODDS) < _EXPLAINED)
    doubt = UNKNOWN_ODDS * (1 + unsure + len(free))
    heads = [
        HeadView(item.kind, item.family, item.roles, item.layout, _confidence(item, hypotheses, doubt), item.reasons)
        for item in chosen
    ]
    heads += [HeadView(Kind.UNKNOWN, "", {name: OutputRole.UNKNOWN}, None, 0.0) for name in outputs if name in free]
    return tuple(sorted(heads, key=lambda head: min(list(outputs).index(name) for name in head.roles)))
