"""A journal gives nothing away that another version of anything would compute otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dovetail.backend import registry
from dovetail.backend.arithmetic import Accumulator
from dovetail.backends.accumulation import measured_accumulator
from dovetail.backends.cpu.plugin import OnnxRuntimeBackend
from dovetail.backends.npusim.simulator import NpuSimulator
from dovetail.backends.reference import plugin
from dovetail.compare import callable_metric
from dovetail.data import split_samples
from dovetail.ir import AnyArray
from dovetail.plan import parse_placement
from dovetail.quantize import calibrate
from dovetail.search import Goal, TuneOptions, TuneRequest, tune
from dovetail.testing.planted import labelled_samples, planted_detector

Patch = pytest.MonkeyPatch


def _right(outputs: dict[str, AnyArray], labels: dict[str, AnyArray]) -> AnyArray:
    off = np.abs(outputs[next(iter(outputs))] - labels["truth"])
    return ((off[:, 2:].max(axis=(1, 2, 3)) < 0.04) & (off[:, :2].max(axis=(1, 2, 3)) < 12)).astype(float)


@pytest.fixture
def request_(tmp_path: Path) -> TuneRequest:
    """Return a search over three targets that has run with a journal."""
    graph = planted_detector(2)
    source = labelled_samples(graph, 24)
    made = TuneRequest(
        graph=graph,
        calibration=calibrate(graph, source),
        samples=source,
        splits=split_samples(source),
        metric=callable_metric(_right),  # type: ignore[arg-type]
        goal=Goal(0.1),
        low=parse_placement("vsi:v853@u8"),
        ladder=(parse_placement("vsi:v853@i16"), parse_placement("reference@fp32")),
        options=TuneOptions(journal=tmp_path / "journal.sqlite"),
    )
    assert tune(made).cost.fresh_samples > 0
    return made


@pytest.fixture(autouse=True)
def _found_anew() -> Iterator[None]:
    yield
    registry.find_target.cache_clear()


def _other_form(patch: Patch) -> None:
    other = next(form for form in Accumulator if form is not measured_accumulator())
    patch.setattr(plugin, "measured_accumulator", lambda: other)
    registry.find_target.cache_clear()


CHANGES: dict[str, Callable[[Patch], None]] = {
    "cpu": lambda patch: patch.setattr(OnnxRuntimeBackend, "version", "another"),
    "npusim": lambda patch: patch.setattr(NpuSimulator, "version", "another"),
    "reference": lambda patch: patch.setattr(plugin.ReferenceBackend, "version", "another"),
    "ONNX Runtime": lambda patch: patch.setattr("dovetail.backends.cpu.plugin.version", lambda _name: "another"),
    "the form of ONNX Runtime's rules": _other_form,
}


def test_what_is_on_record_is_not_evaluated_again(request_: TuneRequest) -> None:
    assert tune(request_).cost.fresh_samples == 0


@pytest.mark.parametrize("what", CHANGES)
def test_another_version_is_evaluated_anew(request_: TuneRequest, monkeypatch: Patch, what: str) -> None:
    CHANGES[what](monkeypatch)
    changed = tune(request_).cost
    assert changed.fresh_samples > 0
    assert changed.recalled_samples == 0


def test_a_target_that_is_not_in_the_space_changes_nothing(request_: TuneRequest, monkeypatch: Patch) -> None:
    near = replace(request_, ladder=request_.ladder[:1])
    tune(near)
    monkeypatch.setattr(plugin.ReferenceBackend, "version", "another")
    assert tune(near).cost.fresh_samples == 0
