"""The fitted prices of the parts: the file, and fresh operators that the vendor's model judges."""

from __future__ import annotations

import json

import needs
import numpy as np
import pytest

import dovetail
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.prices import FILE, fitted_prices, prices_from_json, prices_to_json
from dovetail.cost.features import cycles
from dovetail.errors import DovetailError
from prices.fitting import operators_of
from prices.networks import network
from prices.probes import ask

FRESH = (80, 81, 82, 140, 240, 340, 440, 540, 541)
"""Seeds that no price was fitted to, of every family of networks."""


def test_the_file_holds_what_it_is_made_of() -> None:
    prices = fitted_prices()
    document = json.loads(FILE.read_bytes())
    assert prices_from_json(prices_to_json(prices, document["sdk"], document["source"]), "again") == prices
    spans = [part.partition("-") for part in document["source"].replace(";", "").split() if part[0].isdigit()]
    assert not any(int(start) <= seed <= int(end or start) for start, _, end in spans for seed in FRESH)
    assert len(spans) == 8 + 25 + 6 + 4


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": 2}', '{"schema": 1, "sdk": "6"}', '{"schema": 1, "sdk": "6", "parts": {"a": 3}}']
)
def test_a_damaged_file_is_said_in_one_line(text: str) -> None:
    with pytest.raises(DovetailError, match=r"prices\.json: the table of prices is damaged"):
        prices_from_json(text.encode(), "prices.json")


def test_no_coefficient_is_negative() -> None:
    document = json.loads(FILE.read_bytes())
    form = {"operators": 20, "median_error": 0.1, "upper_error": 0.2, "cycles": {"fixed": -1.0}}
    document["parts"] = {"A": {"window": {"u8": form}}}
    with pytest.raises(DovetailError, match="a coefficient is negative"):
        prices_from_json(json.dumps(document).encode(), "prices.json")


@pytest.mark.sdk
@pytest.mark.slow
@pytest.mark.parametrize("place", ["vsi:v853@u8", "vsi:a311d@i16"])
def test_fresh_operators_are_priced_as_well_as_the_file_says(place: str) -> None:
    needs.verisilicon()
    profile = next(item for item in VSI_PROFILES if item.name == place.partition("@")[0])
    assert profile.hardware is not None
    assert profile.hardware.prices is not None
    forms = profile.hardware.prices.forms
    within = []
    for seed in FRESH:
        graph = dovetail.normalize(network(seed))
        probe = ask(graph.name, graph, place)
        assert not probe.error
        for item in operators_of(graph, probe):
            form = forms.get((item.kind, item.precision))
            if form is not None and form.coefficients and item.cycles:
                off = abs(cycles(form.coefficients, item.values) - item.cycles) / item.cycles
                within.append(off <= form.upper_error + 0.01)
    # Nine tenths by the file; so few networks spread around that.
    assert len(within) > 20
    assert np.mean(within) >= 0.7
