"""ONNX Runtime's quantiser removes a clip that the range of its output replaces: no argument of ours may widen it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, quantize_static

from dovetail.exporters import to_onnx
from dovetail.formats import WriteRequest, find_format
from dovetail.formats.onnxruntime.arguments import quantizer_arguments
from dovetail.ir import AnyArray, Graph
from dovetail.plan import Override, Plan, parse_placement
from dovetail.testing.networks import Network
from dovetail.testing.running import run_graph

CHAIN = [f"n{number}" for number in range(9)]


class _Feeds(CalibrationDataReader):
    def __init__(self, feeds: list[dict[str, AnyArray]]) -> None:
        self._left: Iterator[dict[str, AnyArray]] = iter(feeds)

    def get_next(self) -> dict[str, AnyArray] | None:
        return next(self._left, None)


def _chain(seed: int, clip: str) -> Graph:
    """Return convolutions with clips between them: n1, n3, n5 and n7 are clips."""
    net = Network(seed)
    last = net.input("x", 1, 3, 8, 8)
    for _ in range(4):
        limits = (net.constant(np.float32(0)), net.constant(np.float32(0.5))) if clip == "Clip" else ()
        last = net.op(clip, net.conv(last, 8, 3), *limits)
    return net.graph(net.conv(last, 4))


def _decibels(graph: Graph, base: str, wide: list[str], folder: Path) -> float:
    """Return signal over noise of what ONNX Runtime's quantiser makes of our arguments."""
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(8)]
    away = {name: Override(parse_placement("vsi:v853@i16"), "a test") for name in wide}
    plan = Plan(graph.digest, parse_placement(f"vsi:v853@{base}"), away)
    content = find_format("onnxruntime").write(WriteRequest(plan, graph)).content
    source, target = folder / "float.onnx", folder / "quantised.onnx"
    onnx.save(to_onnx(graph), source)
    quantize_static(source, target, _Feeds(feeds), **quantizer_arguments(content))
    session = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
    power = noise = 0.0
    for item in feeds:
        (expected,), made = run_graph(graph, item), session.run(None, item)[0]
        power, noise = power + float((expected**2).sum()), noise + float(((expected - made) ** 2).sum())
    return float(10 * np.log10(power / noise))


@pytest.mark.parametrize("base", ["u8", "i8pc"])
@pytest.mark.parametrize("clip", ["Relu", "Clip"])
@pytest.mark.parametrize("wide", [CHAIN[6:], CHAIN[2:5], CHAIN[1:4], CHAIN], ids=["end", "middle", "clips", "all"])
def test_more_bits_are_never_worse_than_eight(wide: list[str], clip: str, base: str, tmp_path: Path) -> None:
    for seed in range(2):
        graph = _chain(seed, clip)
        assert _decibels(graph, base, wide, tmp_path) > _decibels(graph, base, [], tmp_path) - 1.0
