"""The doctor names what is missing and what to do."""

from __future__ import annotations

import pytest

from dovetail.errors import DovetailError
from dovetail.sdk import Health, build, examine


def test_a_machine_without_anything_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda _name: None)
    checks = {check.name: check for check in examine()}
    assert checks["VeriSilicon SDK"].health is Health.MISSING
    assert "dovetail sdk install verisilicon" in checks["VeriSilicon SDK"].advice
    assert checks["C++ compiler"].health is Health.MISSING
    assert "g++" in checks["C++ compiler"].advice
    assert checks["shim sources"].health is Health.GOOD


def test_every_check_that_is_not_good_gives_a_reason() -> None:
    for check in examine(lambda: "seen"):
        assert check.found
        assert "\n" not in check.found + check.advice


def test_a_missing_sdk_runs_no_test() -> None:
    def never() -> str:
        raise DovetailError("ran")

    assert "self-test" not in {check.name for check in examine(never)}
