"""Rooflines beside the vendor's performance model: kilocycles and milliseconds read off its own output.

A ratio is our figure over the vendor's, as it was when the rates were stated: a rate that changes shows here, and how
far the roofline is from the vendor's model is no secret. What each term of a figure is stands in test_rates.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.backend.registry import find_target
from dovetail.backend.target import TargetProfile
from dovetail.cost.roofline import NpuRoofline
from dovetail.cost.sizes import Sizer
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.plan import find_units, parse_placement


class Chain:
    """Build a chain of convolutions."""

    def __init__(self, channels: int, size: int) -> None:
        self.shape: tuple[int, ...] = (1, channels, size, size)
        self.types = {"x": TensorType(DType.F32, self.shape)}
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Node] = []

    def conv(self, channels: int, kernel: int, *, stride: int = 1, depthwise: bool = False) -> Chain:
        """Add a convolution with ReLU that keeps the size, or divides it by the stride."""
        name = f"c{len(self.nodes)}"
        source = self.nodes[-1].outputs[0] if self.nodes else "x"
        inside = 1 if depthwise else self.shape[1]
        self.constants[f"{name}.w"] = np.zeros((channels, inside, kernel, kernel), np.float32)
        self.types[f"{name}.w"] = TensorType(DType.F32, (channels, inside, kernel, kernel))
        self.shape = (1, channels, self.shape[2] // stride, self.shape[3] // stride)
        side = (kernel - stride + 1) // 2
        attributes = {
            "pads": (side, side, kernel - stride - side, kernel - stride - side),
            "strides": (stride, stride),
            "group": channels if depthwise else 1,
        }
        self.nodes.append(Node(name, "Conv", (source, f"{name}.w"), (f"{name}.y",), attributes))
        self.nodes.append(Node(f"{name}.relu", "Relu", (f"{name}.y",), (f"{name}.r",)))
        self.types[f"{name}.y"] = self.types[f"{name}.r"] = TensorType(DType.F32, self.shape)
        return self

    def graph(self) -> Graph:
        """Return the graph."""
        return Graph("chain", tuple(self.nodes), ("x",), (self.nodes[-1].outputs[0],), self.types, self.constants)


def _compute_ns(graph: Graph, place: str) -> float:
    placement = parse_placement(place)
    target = find_target(placement.target)
    assert isinstance(target, TargetProfile)
    assert target.hardware is not None
    roofline = NpuRoofline(target, target.hardware, Sizer(graph))
    steps = [[graph.node(name) for name in unit.nodes] for unit in find_units(graph).items]
    figures = [roofline.latency(graph, nodes, target.name, placement.precision) for nodes in steps]
    return sum(figure.latency_ns for figure in figures if figure is not None)


def _mobilenet() -> Graph:
    chain = Chain(3, 224).conv(32, 3, stride=2)
    widths = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for width, stride in widths:
        chain.conv(chain.shape[1], 3, stride=stride, depthwise=True).conv(width, 1)
    return chain.graph()


@pytest.mark.parametrize(
    ("target", "vendor_ms", "ratio"),
    [("vsi:a311d", 6.24, 0.564), ("vsi:imx8mp", 4.14, 0.867), ("vsi:v853", 4.22, 1.078)],
)
def test_mobilenet_beside_the_vendors_model(target: str, vendor_ms: float, ratio: float) -> None:
    assert _compute_ns(_mobilenet(), f"{target}@u8") / 1e6 / vendor_ms == pytest.approx(ratio, rel=0.002)


@pytest.mark.parametrize(
    ("target", "precision", "wide", "narrow"),
    [
        ("vsi:v853", "u8", (113, 0.888), (76, 0.880)),
        ("vsi:a311d", "u8", (65, 0.908), (55, 0.794)),
        ("vsi:imx8mp", "u8", (75, 0.787), (75, 0.582)),
        ("vsi:v853", "i16", (469, 0.856), (154, 1.738)),
        ("vsi:a311d", "i16", (178, 0.846), (135, 0.743)),
        ("vsi:imx8mp", "i16", (268, 0.749), (124, 1.079)),
    ],
)
def test_one_convolution_beside_the_vendors_model(
    target: str, precision: str, wide: tuple[float, float], narrow: tuple[float, float]
) -> None:
    for graph, (kcycles, ratio) in (
        (Chain(64, 28).conv(128, 3).graph(), wide),
        (Chain(256, 14).conv(256, 1).graph(), narrow),
    ):
        assert _compute_ns(graph, f"{target}@{precision}") / 1e3 / kcycles == pytest.approx(ratio, rel=0.002)
