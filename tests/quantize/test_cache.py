"""What is kept is bounded, and what was asked for longest ago goes first."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dovetail.data import Sample
from dovetail.ir.precision import Precision
from dovetail.plan import Override, Placement, Plan, parse_placement
from dovetail.quantize import Quantizer, calibrate
from dovetail.quantize.cache import BoundedCache
from dovetail.quantize.weights import WeightStore
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples

LOW, WIDE = parse_placement("vsi:v853@i8pc"), parse_placement("vsi:v853@i16")
BF16 = Placement("vsi:v853", Precision.BF16)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 40)), max_size=60))
def test_a_cache_keeps_what_was_asked_for_last_within_its_bytes(entries: list[tuple[int, int]]) -> None:
    cache = BoundedCache[int](100)
    recent: list[tuple[int, int]] = []
    for key, size in entries:
        known = dict(recent)
        assert cache.get(key) == known.get(key)
        recent = [*(item for item in recent if item[0] != key), (key, known.get(key, size))]
        if key not in known:
            assert cache.put(key, size, size) == size
        while sum(item for _, item in recent) > 100:
            recent.pop(0)
        assert len(cache) == len(recent)
        assert cache.size_bytes == sum(item for _, item in recent)


def test_what_alone_is_too_large_is_kept_until_the_next() -> None:
    cache = BoundedCache[str](10)
    cache.put("large", "large", 1000)
    assert cache.get("large") == "large"
    cache.put("small", "small", 1)
    assert cache.get("large") is None
    assert cache.get("small") == "small"


def _network() -> tuple[Network, list[str]]:
    net = Network()
    last = net.input("x", 1, 4, 6, 6)
    names: list[str] = []
    for _ in range(4):
        last = net.conv(last, 4, 3)
        names.append(last)
    return net, names


def test_constants_that_were_let_go_come_back_as_they_were() -> None:
    net, names = _network()
    graph = net.graph(names[-1])
    rng = np.random.default_rng(0)
    samples = HeldSamples([Sample("s", {"x": rng.normal(size=(1, 4, 6, 6)).astype(np.float32)})])
    ranges = calibrate(graph, samples).ranges
    roomy, tight = Quantizer(graph, ranges), Quantizer(graph, ranges)
    tight._weights = WeightStore(graph, most_bytes=1)
    plans = [
        Plan(graph.digest, LOW, {node.name: Override(WIDE, "") for node in graph.nodes[start:stop]})
        for start in range(4)
        for stop in range(start, 5)
    ]
    for plan in (*plans, *reversed(plans)):
        kept, made = roomy.quantize(plan).graph, tight.quantize(plan).graph
        for mine, other in zip(kept.nodes, made.nodes, strict=True):
            assert (mine.name, mine.op) == (other.name, other.op)
            for name, same in zip(mine.inputs, other.inputs, strict=True):
                assert kept.types[name] == made.types[same]
                if name in kept.constants:
                    np.testing.assert_array_equal(kept.constants[name], made.constants[same])
    assert len(tight._weights._kept) == 1
    assert len(roomy._weights._kept) > len(graph.constants)


def test_one_weight_with_two_quantisations_has_two_names_whatever_is_still_kept() -> None:
    """Its scales depend on what the bias needs, and so on the scale of the input."""
    net, names = _network()
    graph = net.graph(names[-1])
    node = graph.nodes[0]
    store = WeightStore(graph, most_bytes=1)
    from dovetail.ir.roles import weight_layout

    layout = weight_layout(graph, node)
    assert layout is not None
    first = [store.weight(node, layout, Precision.I8PC, scale) for scale in (1e-9, 1e-3)]
    again = [store.weight(node, layout, Precision.I8PC, scale) for scale in (1e-9, 1e-3)]
    assert first[0].kind.quant != first[1].kind.quant
    assert first[0].name != first[1].name
    assert [item.kind for item in first] == [item.kind for item in again]
    assert len({item.name for item in (*first, *again) if item.kind == first[0].kind}) == 1
