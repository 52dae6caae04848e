"""Random operators and graphs on the vendor's simulator, and every case that once differed, made small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import draws
import pytest

from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.parts.part import profile_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.campaign import WildCell, WildKind
from dovetail.testing.wild.case import read_case
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome

from .conftest import target_named

pytestmark = pytest.mark.sdk

CASES = Path(__file__).parent / "cases"
OPEN = frozenset((CASES / "open.txt").read_text().split())
"""Cases that are still wrong."""
_TARGETS = ("vsi:v853", "vsi:a311d")
_OPERATORS, _GRAPHS = 10, 2

Judges = Callable[[str], SimulatorJudge]


@pytest.fixture(scope="module")
def judges(vendor: VsiBackend) -> Iterator[Judges]:
    known: dict[str, SimulatorJudge] = {}

    def judge(target: str) -> SimulatorJudge:
        if target not in known:
            known[target] = SimulatorJudge(profile_of(target_named(target)), Settings(vendor.folder))
        return known[target]

    yield judge
    for held in known.values():
        held.close()


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.npz")))
def test_what_once_differed_is_equal_or_refused(name: str, judges: Judges, request: pytest.FixtureRequest) -> None:
    if name in OPEN:
        # Not strict: a mended case leaves the list by hand, and garbage need not be the same on every processor.
        request.applymarker(pytest.mark.xfail(strict=False, reason="known: see docs/reference/vendor_wild.md"))
    case, facts = read_case(CASES / f"{name}.npz")
    found = judges(facts["target"]).judge(case, Precision(facts["precision"]))
    assert not found.is_wrong, f"{found.outcome.value}: {found.steps} {found.reason}"


def test_new_cases_are_lowered_and_run(judges: Judges) -> None:
    """A new seed each time: nothing that a verdict accepts is refused later, and what differs is rare."""
    seed = draws.seed_here()
    print(f"seed {seed}")  # noqa: T201
    target = _TARGETS[seed % len(_TARGETS)]
    numbers = ((WildKind.OPERATOR, _OPERATORS), (WildKind.GRAPH, _GRAPHS))
    cells = [WildCell(kind, target, seed, index) for kind, count in numbers for index in range(count)]
    found = [judges(target).judge(case, precision) for precision, case in (cell.draw() for cell in cells)]
    late = [finding for finding in found if finding.outcome is WildOutcome.LATE]
    assert not late, f"seed {seed}: {late}"
    wrong = [cell.name for cell, finding in zip(cells, found, strict=True) if finding.is_wrong]
    # Nineteen of twenty operators and two of three graphs were equal: six of twelve has a chance of one in 100,000.
    assert len(wrong) < 6, f"vendor_wild.py --shrink makes them small: {wrong}"
