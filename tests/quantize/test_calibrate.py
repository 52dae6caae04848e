"""Calibration: one pass in bounded memory, and clear words about bad data."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dovetail.backends.reference import run_graph
from dovetail.data import InputSpec, Sample, open_samples
from dovetail.errors import DataError
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.quantize import CalibrationMethod, CalibrationOptions, ObserverOptions, Range, calibrate, load_ranges
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples


def _net() -> Graph:
    net = Network()
    made = net.op("Relu", net.conv(net.input("x", 1, 2, 4, 4), 3))
    return net.graph(net.op("Sigmoid", made), made)


def _pair(first: int | str) -> Graph:
    net = Network()
    made = net.op("Exp", net.op("Relu", net.input("x", first, 2, 4, 4)))
    return net.graph(net.op("Sigmoid", made), made)


def _samples(count: int, seed: int = 0) -> list[Sample]:
    rng = np.random.default_rng(seed)
    return [Sample(f"s{index}", {"x": rng.normal(size=(1, 2, 4, 4)).astype(np.float32)}) for index in range(count)]


def test_ranges_are_the_extremes_of_every_tensor() -> None:
    graph, samples = _net(), _samples(7)
    found = calibrate(graph, HeldSamples(samples)).ranges
    runs = [run_graph(graph.evolve(outputs=("t0", "t1", "t2")), sample.inputs) for sample in samples]
    assert set(found.tensors) == {"x", "t0", "t1", "t2"}
    for name, limits in found.tensors.items():
        values = np.stack([sample.inputs["x"] for sample in samples] if name == "x" else [run[name] for run in runs])
        assert (limits.low, limits.high) == pytest.approx((values.min(), values.max()), abs=1e-6)
    assert (found.samples, found.method, found.graph_digest) == (7, "minmax", graph.digest)


def test_channel_powers_are_mean_squares() -> None:
    graph, samples = _net(), _samples(5)
    statistics = calibrate(graph, HeldSamples(samples)).statistics
    values = np.concatenate([sample.inputs["x"] for sample in samples]).astype(np.float64)
    powers = {item.axis: item.mean_square for item in statistics.tensors["x"]}
    assert set(powers) == {1, 3}
    np.testing.assert_allclose(powers[1], np.square(values).mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(powers[3], np.square(values).mean(axis=(0, 1, 2)))


def test_progress_is_told_after_every_sample() -> None:
    heard: list[int] = []
    calibrate(_net(), HeldSamples(_samples(4)), progress=heard.append)
    assert heard == [1, 2, 3, 4]


def test_samples_that_go_together_give_what_they_give_one_by_one() -> None:
    samples = _samples(40)
    alone, together = calibrate(_pair(1), HeldSamples(samples)), calibrate(_pair("N"), HeldSamples(samples))
    for name, limits in alone.ranges.tensors.items():
        other = together.ranges.of(name)
        assert (other.low, other.high) == pytest.approx((limits.low, limits.high), rel=1e-6)
    for name, powers in alone.statistics.tensors.items():
        for power, joint in zip(powers, together.statistics.tensors[name], strict=True):
            assert power.axis == joint.axis
            np.testing.assert_allclose(power.mean_square, joint.mean_square, rtol=1e-5)


def test_samples_go_together_once_the_first_has_told_their_size() -> None:
    heard: list[int] = []
    calibrate(_pair("N"), HeldSamples(_samples(40)), progress=heard.append)
    assert heard == [1, 17, 33, 40]
    net = Network()
    large = net.graph(net.op("Relu", net.input("x", "N", 1024, 1024)))  # 4 MiB a sample: eight are 32
    sample = Sample("s", {"x": np.zeros((1, 1024, 1024), np.float32)})
    heard.clear()
    calibrate(large, HeldSamples([sample] * 10), progress=heard.append)
    assert heard == [1, 9, 10]
    huge = net.graph(net.op("Relu", net.input("y", "N", 4096, 4096)))
    sample = Sample("s", {"x": sample.inputs["x"], "y": np.zeros((1, 4096, 4096), np.float32)})
    heard.clear()
    calibrate(huge, HeldSamples([sample] * 2), progress=heard.append)
    assert heard == [1, 2]


@pytest.mark.parametrize("method", [CalibrationMethod.KL, CalibrationMethod.MOVING_AVERAGE])
def test_only_extremes_are_taken_of_several_samples_at_once(method: CalibrationMethod) -> None:
    heard: list[int] = []
    calibrate(_pair("N"), HeldSamples(_samples(3)), CalibrationOptions(method), heard.append)
    assert heard == [1, 2, 3]


def test_bad_data_among_samples_that_go_together_is_named() -> None:
    samples = _samples(20)
    samples[13].inputs["x"][0, 1, 2, 3] = np.nan
    with pytest.raises(DataError, match="sample 's13'"):
        calibrate(_pair("N"), HeldSamples(samples))


def test_a_method_with_options() -> None:
    options = CalibrationOptions(CalibrationMethod.PERCENTILE, ObserverOptions(percentile=90.0))
    cut = calibrate(_net(), HeldSamples(_samples(20)), options).ranges
    full = calibrate(_net(), HeldSamples(_samples(20))).ranges
    assert cut.method == "percentile"
    assert full.of("x").low < cut.of("x").low < 0 < cut.of("x").high < full.of("x").high


def test_memory_does_not_grow_with_the_number_of_samples() -> None:
    net = Network()
    graph = net.graph(net.op("Relu", net.op("Abs", net.input("x", 1, 16, 64, 64))))

    def stream(count: int) -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for index in range(count):
            yield Sample(str(index), {"x": rng.normal(size=(1, 16, 64, 64)).astype(np.float32)})

    class Stream(HeldSamples):
        def __iter__(self) -> Iterator[Sample]:
            return stream(self.count or 0)

    def peak(count: int) -> int:
        source = Stream([])
        source.count = count
        tracemalloc.start()
        try:
            calibrate(graph, source, CalibrationOptions(CalibrationMethod.KL))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)
    one_sample_bytes = 16 * 64 * 64 * 4
    assert peak(40) < peak(4) + 2 * one_sample_bytes


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_values_are_reported_with_tensor_and_sample(bad: float) -> None:
    samples = _samples(3)
    samples[1].inputs["x"][0, 1, 2, 3] = bad
    with pytest.raises(DataError, match="tensor 'x', sample 's1': values are NaN or infinite"):
        calibrate(_net(), HeldSamples(samples))


def test_values_that_go_bad_inside_the_model_name_the_tensor_that_went_bad() -> None:
    net = Network()
    made = net.op("Log", net.op("Abs", net.op("Sub", net.input("x", 1, 2, 4, 4), net.constant(1.0))))
    graph = net.graph(net.op("Sigmoid", made))
    samples = _samples(2)
    samples[1].inputs["x"][:] = 1.0
    with pytest.raises(DataError, match="tensor 't2', sample 's1'"):
        calibrate(graph, HeldSamples(samples))


def test_an_empty_data_set() -> None:
    with pytest.raises(DataError, match="empty"):
        calibrate(_net(), HeldSamples([]))
    with pytest.raises(DataError, match="empty"):
        open_samples([], [InputSpec("x", np.dtype(np.float32), (1, 2, 4, 4))])


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"y": np.zeros((1, 2, 4, 4), np.float32)},
        {"x": np.zeros((1, 3, 4, 4), np.float32)},
        {"x": np.zeros((2, 4, 4), np.float32)},
        {"x": np.zeros((1, 2, 4, 4), np.float64)},
        {"x": np.zeros((1, 2, 4, 4), np.float32), "z": np.zeros(1)},
    ],
)
def test_samples_that_do_not_fit_the_model(inputs: dict[str, AnyArray]) -> None:
    with pytest.raises(DataError, match="'s0'") as caught:
        calibrate(_net(), HeldSamples([Sample("s0", inputs)]))
    assert "\n" not in str(caught.value)


def test_a_tensor_that_is_always_zero_and_one_that_is_empty() -> None:
    net = Network()
    x = net.input("x", 1, 2, 4, 4)
    zero = net.op("Sub", x, x)
    graph = net.graph(net.op("Sigmoid", zero))
    assert calibrate(graph, HeldSamples(_samples(2))).ranges.of("t0") == Range(0.0, 0.0)


def test_ranges_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "ranges.json"
    found = calibrate(_net(), HeldSamples(_samples(3))).ranges
    found.save(path)
    again = load_ranges(path)
    assert again == found
    assert again.digest == found.digest


def test_bodies_are_watched_from_outside_only() -> None:
    kind, flag = TensorType(DType.F32, (1, 2)), TensorType(DType.BOOL, ())
    body = Graph("b", (Node("i", "Abs", ("t",), ("r",)),), (), ("r",), {"t": kind, "r": kind}, captures=("t",))
    nodes = (
        Node("a", "Relu", ("x",), ("t",)),
        Node("c", "If", ("f",), ("y",), {"then_branch": body, "else_branch": body}),
    )
    graph = Graph("g", nodes, ("x", "f"), ("y",), {"x": kind, "f": flag, "t": kind, "y": kind})
    inputs = {"x": np.array([[1.0, -2.0]], np.float32), "f": np.array(True)}
    found = calibrate(graph, HeldSamples([Sample("s", inputs)])).ranges
    assert set(found.tensors) == {"x", "t", "y"}
