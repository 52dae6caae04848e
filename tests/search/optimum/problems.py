"""Random placement problems that are small enough to try every assignment of."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from dovetail.search.optimum import Assignment, Demands, PricedWire, Problem
from dovetail.search.optimum.problem import OUTSIDE

LOW, WIDE, CPU = 0, 1, 2
"""Two precisions of an NPU, and the CPU, which is home."""


def assignments(problem: Problem) -> Iterator[Assignment]:
    """Yield every assignment."""
    return itertools.product(*(range(len(ladder)) for ladder in problem.choices))


def cheapest(problem: Problem, passes: object = None) -> float:
    """Return the least cost over every assignment that keeps the demands and passes."""
    found = (
        problem.cost(item)
        for item in assignments(problem)
        if problem.meets_demands(item) and (passes is None or passes(item))  # type: ignore[operator]
    )
    return min(found, default=float("inf"))


@st.composite
def problems(draw: st.DrawFn, *, places: int = 3, most: int = 6, switch: bool = True) -> Problem:
    """Draw a problem with branches, wires with several readers, and units that lack some places."""
    size = draw(st.integers(1, most))
    cost = st.integers(0, 60)
    used = (LOW, WIDE, CPU) if places == 3 else (LOW, CPU)
    choices = tuple(tuple(sorted(draw(st.sets(st.sampled_from(used), min_size=1)))) for _ in range(size))
    wires: list[PricedWire] = []
    for maker in range(-1, size):
        later = list(range(maker + 1, size))
        readers = draw(st.lists(st.sampled_from([*later, -1]), max_size=3, unique=True)) if later or maker >= 0 else []
        readers = [reader for reader in readers if reader != maker]
        pairs = [(one, other) for one in used for other in used if one != other]
        prices = {pair: float(draw(cost)) for pair in pairs}
        moved = {pair: draw(st.integers(1, 9)) for pair in pairs if CPU in pair}
        if readers:
            wires.append(PricedWire(maker, tuple(readers), prices, moved))
    return Problem(
        choices=choices,
        cost_ns=tuple(tuple(float(draw(cost)) for _ in ladder) for ladder in choices),
        wires=tuple(wires),
        target_of=(0, 0, 1),
        home=CPU,
        switch_ns=float(draw(st.integers(0, 40))) if switch else 0.0,
        weight_bytes=tuple(tuple(draw(st.integers(1, 9)) for _ in ladder) for ladder in choices),
    )


@st.composite
def demands(draw: st.DrawFn, size: int) -> Demands:
    """Draw demands; some cannot be met."""
    maybe = st.none()
    pairs = st.lists(st.integers(0, size - 1), min_size=2, max_size=2, unique=True)
    pair: list[int] = draw(pairs) if size > 1 else []
    is_grouped: bool = bool(pair) and draw(st.booleans())
    return Demands(
        most_partitions=draw(maybe | st.integers(1, 5)),
        most_crossing_bytes=draw(maybe | st.integers(0, 25)),
        most_latency_ns=draw(maybe | st.integers(20, 400).map(float)),
        most_weight_bytes=draw(maybe | st.integers(5, 60)),
        groups=(tuple(pair),) if is_grouped else (),
    )


@st.composite
def chains(draw: st.DrawFn, *, most: int = 8, whole: float = 0.95) -> Problem:
    """Draw a problem of blocks one after another, mostly joined by single units, with all that spoils that at times.

    Units read from the last few and sometimes from the outside; some are read by nobody, some leave the graph.
    """
    size = draw(st.integers(2, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    readers: list[set[int]] = [set() for _ in range(size + 1)]
    joint = 0
    for unit in range(size):
        block = range(joint, unit)
        sources = {int(rng.choice(block)) for _ in range(1 + int(rng.random() < 0.5))} if unit else {OUTSIDE}
        if rng.random() < 0.4:
            # All that was made in this block is read here, so that what comes after may need nothing else.
            sources.update(item for item in block if not readers[item])
            joint = unit
        if rng.random() > whole:
            sources = {int(rng.integers(-1, unit))}
        for source in sources:
            readers[source].add(unit)
    readers[size - 1].add(OUTSIDE)
    if rng.random() > whole:
        readers[int(rng.integers(size))].add(OUTSIDE)
    used = (LOW, WIDE, CPU)
    pairs = [(one, other) for one in used for other in used if one != other]
    ladders = [used if rng.random() < 0.8 else tuple(item for item in used if rng.random() < 0.6) for _ in range(size)]
    choices = tuple(ladder or (CPU,) for ladder in ladders)
    return Problem(
        choices=choices,
        cost_ns=tuple(tuple(float(rng.integers(60)) for _ in ladder) for ladder in choices),
        wires=tuple(
            PricedWire(maker, tuple(sorted(readers[maker])), {pair: float(rng.integers(60)) for pair in pairs})
            for maker in range(-1, size)
            if readers[maker]
        ),
        target_of=(0, 0, 1),
        home=CPU,
        switch_ns=float(rng.choice([0, 0, 10, 40])),
        migrates=bool(rng.random() < 0.5),
    )
