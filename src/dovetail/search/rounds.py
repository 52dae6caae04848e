"""The rounds of a search: ask the hold-out split, and search again with more in hand while it does not agree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dovetail.search.accept import Acceptance
from dovetail.search.cheapest import cheaper, cheapest, proven
from dovetail.search.hunt import Found, Guide, Hunt, Listener
from dovetail.search.margin import Widened, Widener
from dovetail.search.oracle import Bar
from dovetail.search.proof import Prover


@dataclass(frozen=True, slots=True)
class Seekers:
    """Find a passing plan, then the cheapest one; without prices the first is all there is."""

    hunt: Hunt
    prover: Prover | None
    limited: bool
    widener: Widener
    holds: Callable[[Found], bool]
    """Tells whether the hold-out split agrees with a plan, or with one that has a margin besides."""

    def find(self, bar: Bar, heard: Listener, climbs: bool) -> Found | None:
        """Return a plan that meets a bar; None when only the last rung could and `climbs` forbids it."""
        prover = self.prover
        if prover is None:
            return self.hunt.find(bar, climbs)
        # What cannot be within the limits is not for the hold-out split to judge.
        worth = (lambda found: True) if self.limited else self.holds
        found = self.hunt.find(bar, climbs, Guide(prover.price_ns, worth))
        if found is None:
            return found
        # To prove what the hold-out split refuses is wasted, and costs more than all the rest of the search.
        if not self.limited and not self.holds(found):
            return found
        heard.stage("cheapest")
        return cheapest(self.hunt, prover, found, bar) if self.limited else self._cheapest_held(prover, found, bar)

    def _cheapest_held(self, prover: Prover, found: Found, bar: Bar) -> Found:
        """Return the cheapest plan that the hold-out split agrees with in a few looks, given one that it does."""
        # Where much has to be raised, borders may cost more than what is left low saves.
        whole = self.hunt.whole()
        dear = prover.price_ns(whole.raised) < prover.price_ns(found.raised)
        if dear and self.hunt.judge(whole.raised, bar).passed and self.holds(whole):
            found = whole
        refused: list[str] = []
        instead = cheapest(self.hunt, prover, found, bar)
        while instead.plan.digest != found.plan.digest and not self.holds(instead):
            refused.append(instead.plan.digest)
            if len(refused) == _LOOKS:
                instead = proven(prover, found, instead)
                break
            instead = cheapest(self.hunt, prover.for_suspicion, found, bar, refused)
        return replace(instead, note=_REFUSED_SAYS) if refused else instead

    def widen(self, acceptance: Acceptance, found: Found) -> Widened:
        """Return the plan with a margin where it needs one and can have it."""
        return self.widener.widen(acceptance, found)

    def suspect(self, found: Found, share: float, top: bool) -> Found:
        """Raise a share of the units on suspicion, with `top` to the last rung; all of them where that is faster."""
        wider, whole = self.hunt.wider(found, share, top), self.hunt.whole(top)
        prover = self.prover
        dear = prover is not None and prover.price_ns(wider.raised) > prover.price_ns(whole.raised)
        return whole if dear else wider

    def prove(self, found: Found, bars: Sequence[Bar], refused: Collection[str]) -> tuple[Found, Found]:
        """Return a plan that was raised on suspicion with what is proven of cheaper ones, and the cheapest instead."""
        if self.prover is None or self.limited or found.certificate is not None or not found.raised:
            return found, found
        return cheaper(self.hunt, self.prover.for_suspicion, found, bars, refused)


_ON_SUSPICION = (0.0625, 0.125, 0.25, 0.5, 1.0)
"""Shares of the units that are raised without proof when the search split cannot show what the hold-out loses."""


_LOOKS = 4
"""Cheaper plans at most that the hold-out split is asked of, instead of one that it agrees with."""

_REFUSED_SAYS = "for the bound, what the hold-out split refused fails"
_ON_SUSPICION_SAYS = f"units are raised on suspicion: {_REFUSED_SAYS}"


Look = Callable[[Found], Acceptance]
"""Asks the hold-out split of a plan."""


def rounds(bars: Sequence[Bar], bare: Bar, ask: Look, seekers: Seekers, heard: Listener) -> Widened:
    """Search with some of the allowed drop in hand, and again with more while the hold-out does not agree.

    When the search split shows no more to raise, units are raised on suspicion. When nothing is accepted, the plan
    that lost least on the hold-out split is returned. `bare` is the goal with nothing in hand.
    """
    tried: dict[str, tuple[Acceptance, Found]] = {}
    goals = (bare, *bars)

    def look(found: Found) -> Acceptance:
        heard.stage("hold-out")
        acceptance = ask(found)
        tried[found.plan.digest] = acceptance, found
        return acceptance

    for found in _proposals(bars, bare, tried, seekers, heard):
        if found.plan.digest in tried:
            continue
        acceptance = look(found)
        if acceptance.accepted and found.certificate is None:
            return seekers.widen(*_cheaper_than(found, partial(seekers.prove, bars=goals), tried, look, heard))
        heard.stage("margin")
        widened = seekers.widen(acceptance, found)
        if widened.acceptance.accepted and found.certificate is None:
            widened = seekers.widen(acceptance, seekers.prove(found, bars=goals, refused=())[0])
        if widened.acceptance.accepted:
            return widened
        heard.stage(f"{acceptance.summary}: searching again with more in hand")
    acceptance, found = max(tried.values(), key=lambda pair: pair[0].trial.score - pair[0].trial.float_score)
    return Widened(acceptance, found, None)


def _cheaper_than(
    found: Found,
    prove: Callable[..., tuple[Found, Found]],
    tried: Mapping[str, tuple[Acceptance, Found]],
    look: Callable[[Found], Acceptance],
    heard: Listener,
) -> tuple[Acceptance, Found]:
    """Return the cheapest plan that the hold-out split accepts in a few looks, given one that it does."""
    acceptance, proven = tried[found.plan.digest]
    refused: list[str] = []
    for _ in range(_LOOKS):
        heard.stage("cheapest")
        proven, instead = prove(found, refused=refused)
        if instead.plan.digest == found.plan.digest:
            break
        if instead.plan.digest not in tried and (again := look(instead)).accepted:
            return again, instead
        refused.append(instead.plan.digest)
    if proven is not found:
        acceptance = replace(acceptance, summary=f"{acceptance.summary}; {_ON_SUSPICION_SAYS}")
    return acceptance, proven


def _proposals(
    bars: Sequence[Bar], bare: Bar, tried: Mapping[str, object], seekers: Seekers, heard: Listener
) -> Iterator[Found]:
    """Yield plans to try on the hold-out split: the last rung of the ladder comes last, unless the goal needs it.

    `bare` is the goal with nothing in hand.
    """
    last: Found | None = None
    steep: list[Bar] = []
    for bar in bars:
        spent = bool(tried) and seekers.hunt.exhausted
        # What was tried already is judged anew for nothing.
        found = seekers.hunt.known(bar) if spent else seekers.find(bar, heard, climbs=False)
        if found is None:
            steep += [] if spent else [bar]
        else:
            last = found
            yield found
    if last is None:
        last = seekers.find(bare, heard, climbs=False)
        if last is not None:
            yield last
    yield from _on_suspicion(seekers, last, bare, top=False)
    for bar in steep:
        if tried and seekers.hunt.exhausted:
            break
        found = seekers.find(bar, heard, climbs=True)
        if found is not None:
            last = found
            yield found
    yield from _on_suspicion(seekers, last, bare, top=True)


def _on_suspicion(seekers: Seekers, last: Found | None, bare: Bar, top: bool) -> Iterator[Found]:
    """Yield plans that raise more and more; what is not good enough for the search split is not for the hold-out."""
    if last is None or not last.within_limits or seekers.limited:
        return
    for share in _ON_SUSPICION:
        found = seekers.suspect(last, share, top)
        if seekers.hunt.judge(found.raised, bare).passed:
            yield found
