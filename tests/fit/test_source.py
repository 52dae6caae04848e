"""A request is printed as source, and the source evaluates to an equal request; logs give it back too."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dovetail
from dovetail.data import Anchor, Channels, Interpolation, Layout, Preprocess, PreprocessStep, SplitOptions, StepKind
from dovetail.errors import SearchError
from dovetail.fit import CalibrationRequest, FitRequest, PriceRequest, WorkerRequest, source_of
from dovetail.fit.record import record_of, request_from
from dovetail.importers import Conversion, LoadOptions
from dovetail.quantize import CalibrationMethod, CalibrationOptions, ObserverOptions
from dovetail.search import VendorCheck

TEXTS = st.text(max_size=12)
NAMES = st.text(string.ascii_letters + "_ %'\"\\", min_size=1, max_size=8)
POSITIVE = st.floats(1e-6, 1e6)
COUNTS = st.integers(0, 9)


def maybe(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Return the strategy, or None."""
    return st.one_of(st.none(), strategy)


STEPS = st.builds(
    PreprocessStep,
    st.sampled_from([StepKind.RESIZE, StepKind.LETTERBOX]),
    st.integers(1, 99),
    st.integers(1, 99),
    st.integers(0, 255),
    st.sampled_from(Anchor),
    maybe(st.sampled_from(Interpolation)),
)
PREPROCESS = st.builds(
    Preprocess,
    steps=st.lists(STEPS, max_size=3).map(tuple),
    channels=st.sampled_from(Channels),
    layout=maybe(st.sampled_from(Layout)),
    mean=st.tuples(st.floats(-255, 255)),
    scale=st.tuples(POSITIVE),
)
LOADING = st.builds(
    LoadOptions,
    shapes=st.dictionaries(NAMES, st.lists(st.integers(1, 999), max_size=4).map(tuple), max_size=2),
    exact_hybrid=st.booleans(),
    conversion=st.builds(Conversion, inputs=st.lists(TEXTS, max_size=2).map(tuple), submodule=TEXTS, limit_s=POSITIVE),
)
CALIBRATION = st.builds(
    CalibrationOptions,
    st.sampled_from(CalibrationMethod),
    st.builds(ObserverOptions, percentile=st.floats(50, 99.999)),
)
WORKERS = st.one_of(
    st.builds(WorkerRequest, processes=st.integers(1, 9), timeout_s=maybe(POSITIVE), retries=COUNTS),
    st.builds(WorkerRequest, dask=TEXTS, resources=st.dictionaries(NAMES, POSITIVE, max_size=3)),
)


def requests(places: st.SearchStrategy[str | Path]) -> st.SearchStrategy[FitRequest]:
    """Return requests with files of this kind."""
    return st.builds(
        FitRequest,
        model=places,
        data=places,
        target=TEXTS,
        load=LOADING,
        labels=maybe(places),
        preprocess=maybe(st.one_of(places, PREPROCESS)),
        metric=maybe(TEXTS),
        max_drop=TEXTS,
        min_score=maybe(st.floats(allow_nan=False)),
        policy=st.sampled_from(["likely", "sure"]),
        low=maybe(TEXTS),
        ladder=st.lists(TEXTS, max_size=3).map(tuple),
        recipe=maybe(places),
        split=st.builds(SplitOptions, st.floats(0.01, 0.99), st.integers(0, 2**32 - 1)),
        calibration=st.builds(CalibrationRequest, maybe(places), maybe(st.integers(1, 999)), CALIBRATION),
        price=st.builds(PriceRequest, st.lists(places, max_size=2).map(tuple), maybe(TEXTS)),
        workers=st.one_of(st.just(WorkerRequest()), WORKERS),
        vendor=maybe(st.builds(VendorCheck, TEXTS, COUNTS)),
        search_s=maybe(POSITIVE),
        confirm=COUNTS,
        folder=maybe(places),
    )


def evaluated(value: object) -> object:
    """Return what the source of a value evaluates to, with nothing known but its imports."""
    source = source_of(value)
    names: dict[str, object] = {}
    exec("\n".join(source.imports), names)
    return eval(source.text, names)


@given(requests(st.one_of(TEXTS, TEXTS.map(Path))))
def test_the_source_of_a_request_gives_the_request(request: FitRequest) -> None:
    assert evaluated(request) == request


@given(requests(TEXTS))
def test_the_record_of_a_request_gives_the_request(request: FitRequest) -> None:
    assert request_from(json.loads(json.dumps(record_of(request))), "log") == request


def test_paths_are_texts_in_a_record() -> None:
    assert record_of(FitRequest(Path("m.onnx"), "d.npz")) == {"model": "m.onnx", "data": "d.npz"}


def test_what_is_left_to_the_defaults_is_not_said() -> None:
    source = source_of(FitRequest("m.onnx", "d.npz"))
    assert source.text == "dovetail.FitRequest(model='m.onnx', data='d.npz')"
    assert source.imports == ("import dovetail",)


class Colour(Enum):
    """An enum that the library does not know."""

    DARK_RED = 1


@dataclass(frozen=True)
class Thing:
    """A dataclass that the library does not know."""

    of: tuple[object, ...] = ()
    by_name: Mapping[str, object] = field(default_factory=dict)
    silent: object = field(default=print, compare=False)


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS, TEXTS.map(Path))
        | st.sampled_from(Colour),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4).map(tuple),
            st.lists(inner, max_size=4),
            st.dictionaries(TEXTS, inner, max_size=3),
            st.builds(Thing, st.lists(inner, max_size=3).map(tuple), st.dictionaries(TEXTS, inner, max_size=3)),
        ),
        max_leaves=25,
    )
)
def test_any_dataclass_of_plain_values_has_a_source(value: object) -> None:
    assert evaluated(value) == value


def test_lines_are_short_where_they_can_be() -> None:
    names = tuple(f"precision_{number}" for number in range(40))
    source = source_of(FitRequest("m.onnx", "d.npz", ladder=names))
    assert max(map(len, source.text.splitlines())) <= 100
    assert evaluated(FitRequest("m.onnx", "d.npz", ladder=names)) == FitRequest("m.onnx", "d.npz", ladder=names)


def test_what_is_not_plain_is_refused() -> None:
    with pytest.raises(TypeError, match="builtin_function_or_method"):
        source_of(Thing((print,)))


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {"model": "m.onnx"},
        {"model": "m", "data": "d", "holdout": 0.4},
        {"model": "m", "data": 3},
        {"model": "m", "data": "d", "min_score": 10**350},
        {"model": "m", "data": "d", "confirm": True},
        {"model": "m", "data": "d", "confirm": -1},
        {"model": "m", "data": "d", "ladder": "i16"},
        {"model": "m", "data": "d", "split": {"holdout": 2.0}},
        {"model": "m", "data": "d", "calibration": {"options": {"method": "nothing"}}},
        {"model": "m", "data": "d", "_": None},
    ],
)
def test_records_that_are_no_request_are_refused(record: object) -> None:
    with pytest.raises(SearchError, match=r"log\.jsonl: "):
        request_from(record, "log.jsonl")


def test_the_facade_has_the_request() -> None:
    assert dovetail.FitRequest is FitRequest
