"""Prices that were fitted: where they come from, and where the plain roofline stands in."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from dovetail.backend.costs import Quality
from dovetail.backend.fitted import FittedForm, FittedPrices
from dovetail.backend.registry import find_target
from dovetail.backend.target import TargetProfile
from dovetail.cost import CostModel, make_cost_model
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.plan import find_units, parse_placement
from dovetail.testing.networks import Network


def _graph() -> Graph:
    """Return a pointwise convolution with its clamp, and one of 3x3."""
    net = Network()
    return net.graph(net.conv(net.op("Relu", net.conv(net.input("x", 1, 4, 8, 8), 4)), 4, 3))


def _part(*forms: tuple[str, Precision, float]) -> TargetProfile:
    """Return the V853 at 1 GHz, where some kinds of work take a fixed number of cycles."""
    profile = find_target("vsi:v853")
    assert isinstance(profile, TargetProfile)
    assert profile.hardware is not None
    made = {(kind, at): FittedForm({"fixed": fixed}, 20, 0.1, 0.3) for kind, at, fixed in forms}
    return replace(profile, hardware=replace(profile.hardware, prices=FittedPrices("9.9", made)))


def _model(*forms: tuple[str, Precision, float]) -> CostModel:
    graph = _graph()
    return make_cost_model(graph, find_units(graph), [_part(*forms)])


def test_fitted_units_say_so_and_others_are_plain() -> None:
    model = _model(("pointwise", Precision.U8, 700.0))
    first, second = (model.unit_figure(unit, parse_placement("vsi:v853@u8")) for unit in model.units.items)
    assert (first.latency_ns, first.quality) == (700.0, Quality.FITTED)
    assert first.source == "roofline fitted to VeriSilicon's performance model (9.9) on generated operators"
    assert second.quality is Quality.ROOFLINE


def test_fixed_point_bytes_cost_what_signed_bytes_do() -> None:
    model = _model(("pointwise", Precision.I8, 300.0))
    figure = model.unit_figure(model.units.items[0], parse_placement("vsi:v853@i8dfp"))
    assert (figure.latency_ns, figure.quality) == (300.0, Quality.FITTED)


def test_what_joins_its_neighbour_is_free() -> None:
    graph = _graph()
    profile = _part()
    assert profile.hardware is not None
    forms = {("pointwise", Precision.U8): FittedForm({}, 40, 0.0, 0.0)}
    free = replace(profile, hardware=replace(profile.hardware, prices=FittedPrices("9.9", forms)))
    model = make_cost_model(graph, find_units(graph), [free])
    figure = model.unit_figure(model.units.items[0], parse_placement("vsi:v853@u8"))
    assert (figure.latency_ns, figure.quality) == (0.0, Quality.FITTED)


def test_small_work_goes_by_its_own_form_else_by_that_of_large_work() -> None:
    net = Network()
    x = net.input("x", 1, 16)
    graph = net.graph(net.op("Tanh", net.op("Add", x, x)))
    forms = [(kind, Precision.U8, fixed) for kind, fixed in (("small Add", 4000.0), ("Add", 20.0), ("Tanh", 7.0))]
    model = make_cost_model(graph, find_units(graph), [_part(*forms)])
    place = parse_placement("vsi:v853@u8")
    assert [model.unit_figure(unit, place).latency_ns for unit in model.units.items] == [4000.0, 7.0]


@pytest.mark.parametrize(
    ("known", "latency_ns"),
    [
        (("Mul",), 1.0),
        (("Mul", "constant Mul"), 2.0),
        (("Mul", "constant Mul", "small Mul"), 3.0),
        (("Mul", "constant Mul", "small Mul", "small constant Mul"), 4.0),
    ],
)
def test_work_with_a_constant_goes_by_the_form_that_is_nearest(known: tuple[str, ...], latency_ns: float) -> None:
    net = Network()
    graph = net.graph(net.op("Mul", net.input("x", 1, 16), net.uniform(16)))
    model = make_cost_model(
        graph, find_units(graph), [_part(*((k, Precision.U8, i + 1.0) for i, k in enumerate(known)))]
    )
    figure = model.unit_figure(model.units.items[0], parse_placement("vsi:v853@u8"))
    assert (figure.latency_ns, figure.quality) == (latency_ns, Quality.FITTED)


def test_a_conversion_goes_by_how_wide_it_writes() -> None:
    model = _model(("Requantize", Precision.U8, 900.0))
    (tensor,) = model.graph.node(model.units.items[0].nodes[-1]).outputs
    places = [parse_placement(f"vsi:v853@{precision}") for precision in ("i16", "u8", "i8pc", "fp16", "u8")]
    found = [model.boundary(tensor, *pair) for pair in pairwise((places[2], *places))]
    # What a form is missing for, and what makes floats or comes from them, goes by the roofline.
    fitted = [item and item.figure.quality is Quality.FITTED for item in found]
    assert fitted == [False, True, True, False, False]
    assert [item.figure.latency_ns for item in found[1:3] if item] == [900.0, 900.0]


def test_what_a_part_lends_of_conversions_grows_with_the_cores_that_go_over_them() -> None:
    graph, elements, latencies = _graph(), 100_000, []
    for name in ("vsi:stm32mp2", "vsi:a311d", "vsi:rk1808"):
        profile = find_target(name)
        assert isinstance(profile, TargetProfile)
        assert profile.hardware is not None
        assert profile.hardware.prices is not None
        assert profile.hardware.prices.other == ("" if name == "vsi:a311d" else "vsi:a311d")
        model = make_cost_model(graph, find_units(graph), [profile])
        figure = model.fitted[name].conversion(elements, Precision.I16)
        assert figure is not None
        latencies.append(figure.latency_ns * profile.hardware.clock_hz / 1e9 / elements)
    # 1, 4 and 6 cores; the vendor's model says 1.0, 3.6 and 5.1 cycles an element.
    assert latencies == pytest.approx([1.0, 3.6, 5.1], rel=0.15)


@pytest.mark.parametrize("target", ["vsi:v853", "vsi:a311d", "vsi:imx8mp", "vsi:rv1126"])
def test_four_parts_have_prices_of_products_in_bytes_and_words(target: str) -> None:
    profile = find_target(target)
    assert isinstance(profile, TargetProfile)
    assert profile.hardware is not None
    assert profile.hardware.prices is not None
    forms = profile.hardware.prices.forms
    for kind in ("pointwise", "window", "depthwise", "dense"):
        for precision in (Precision.U8, Precision.I16):
            assert forms[kind, precision].operators >= 12
            assert 0 < forms[kind, precision].median_error < forms[kind, precision].upper_error


def test_raising_the_bits_of_a_large_product_is_no_trifle() -> None:
    net = Network()
    graph = net.graph(net.conv(net.conv(net.input("x", 1, 64, 28, 28), 128, 3), 128))
    for target in ("vsi:a311d", "vsi:imx8mp"):
        model = make_cost_model(graph, find_units(graph), [find_target(target)])
        byte, word = (
            model.unit_figure(model.units.items[0], parse_placement(f"{target}@{precision}")).latency_ns
            for precision in ("u8", "i16")
        )
        # By the vendor's model: 178 over 65 thousand cycles on the A311D, 268 over 75 on the i.MX 8M Plus.
        assert 2.0 < word / byte < 6.0
