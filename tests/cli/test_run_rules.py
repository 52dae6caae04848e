"""dovetail run MODEL --target: a quantised file by the rules of its own framework."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dovetail.compare import load_golden
from judges.tflite_cases import LiteCase
from judges.tflite_lstm_cases import lstm_cases

from .conftest import Said, Tiny

Run = Callable[..., Said]


@pytest.fixture
def case(tmp_path: Path) -> LiteCase:
    """Write a model of one sample a batch, and its data."""
    found = next(item for item in lstm_cases() if item.label.endswith(".one"))
    (tmp_path / "model.tflite").write_bytes(found.operator.to_bytes())
    np.savez(tmp_path / "data.npz", in0=np.concatenate([feed[0] for feed in found.feeds]))
    return found


def test_a_quantised_file_gives_its_framework_s_integers(case: LiteCase, run: Run, tmp_path: Path) -> None:
    call = ("run", tmp_path / "model.tflite", "--target", "reference:tflite", "--data", tmp_path / "data.npz")
    said = run(*call, "--save", tmp_path / "saved", "--json")
    assert said.code == 0, said.err
    assert [item["target"] for item in json.loads(said.out)["partitions"]] == ["reference:tflite"]
    saved = [tensors["out0"] for _, tensors in load_golden(tmp_path / "saved")]
    for found, want in zip(saved, case.expected(), strict=True):
        np.testing.assert_array_equal(found, want[0])


def test_a_bundle_has_its_targets(tiny: Tiny, run: Run) -> None:
    said = run("run", tiny.bundle, "--target", "reference", "--data", tiny.data)
    assert said.code != 0
    assert "a bundle has its targets" in said.err


def test_an_unknown_target_is_named(case: LiteCase, run: Run, tmp_path: Path) -> None:
    said = run("run", tmp_path / "model.tflite", "--target", "reference:none", "--data", tmp_path / "data.npz")
    assert said.code != 0
    assert "reference:none" in said.err
