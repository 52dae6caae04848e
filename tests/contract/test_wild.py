"""A backend that misbehaves in every way fails its contract test by test, and takes nothing with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dovetail.backend import registry
from dovetail.backend.containment import WorkerLimits
from dovetail.errors import CompileError, DeviceError
from dovetail.testing.contract import RUN_CASES, BackendContract

# Limits are short only for what never ends.
LIMITS = {"hangs": WorkerLimits(compile_s=1.0), "run-hangs": WorkerLimits(run_s=1.0)}
WAYS = {
    "refuses": (CompileError, "internal compiler error 42"),
    "raises": (CompileError, "ZeroDivisionError: a defect"),
    "crashes": (CompileError, r"it crashed while compiling \(SIGSEGV\); it said: .*address 0"),
    "exits": (CompileError, r"it crashed while compiling \(exit code 3\)"),
    "hangs": (CompileError, "it did not end compiling within 1 s"),
    "babbles": (CompileError, "too much to say"),
    "run-raises": (DeviceError, "ZeroDivisionError: a defect"),
    "run-crashes": (DeviceError, r"it crashed while running \(SIGSEGV\)"),
    "run-hangs": (DeviceError, "it did not end running within 1 s"),
    "run-nan": (AssertionError, "NaN or infinity in '.*' from finite inputs"),
    "run-shape": (AssertionError, "has shape .*, not "),
    "run-type": (AssertionError, "is float64, not float32"),
    "run-nothing": (AssertionError, r"it gives \[\], not "),
}


@pytest.fixture(scope="module", autouse=True)
def _installed(install: Callable[[str], None]) -> None:
    install("wildback")


class _Only:
    """One target of a backend."""

    def __init__(self, way: str) -> None:
        self._backend = registry.backend("wildback")
        self.name, self.version, self.compile = self._backend.name, self._backend.version, self._backend.compile
        self.devices, self.abilities = self._backend.devices, self._backend.abilities
        self._way = way

    def targets(self) -> list[object]:
        return [target for target in self._backend.targets() if target.name == f"wild:{self._way}"]


@pytest.mark.parametrize("way", WAYS)
def test_the_contract_fails_cleanly(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Sigmoid" in RUN_CASES
    monkeypatch.setattr("dovetail.testing.contract.RUN_CASES", ("Sigmoid",))
    contract = BackendContract()
    contract.backend = _Only(way)  # type: ignore[assignment]
    contract.limits = LIMITS.get(way, WorkerLimits())
    trials = list(contract.trials(("Sigmoid",)))
    assert trials
    kind, says = WAYS[way]
    monkeypatch.setattr(contract, "trials", lambda *args: iter(trials[:1]))
    with pytest.raises(kind, match=says) as caught:
        contract.test_outputs_are_as_declared()
    if kind is not AssertionError:
        assert "\n" not in str(caught.value)
