"""A small network with placements of every kind, for all formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.plan import Override, Placement, Plan, parse_placement

GOLDEN = Path(__file__).parent / "golden"


def make_graph() -> Graph:
    """Return a detector's head in small: conv, relu, conv, sigmoid, mul, concat, reshape."""
    real = DType.F32
    types = {
        "images": TensorType(real, (1, 3, 8, 8)),
        "w0": TensorType(real, (4, 3, 3, 3)),
        "w1": TensorType(real, (4, 4, 1, 1)),
        "two": TensorType(real, (1,)),
        "shape": TensorType(DType.I64, (3,)),
    } | {name: TensorType(real, (1, 4, 8, 8)) for name in ("stem_out", "relu_out", "head/conv:0", "scores", "boxes")}
    types["cat"] = TensorType(real, (1, 8, 8, 8))
    types["output"] = TensorType(real, (1, 8, 64))
    rng = np.random.default_rng(0)
    constants: dict[str, AnyArray] = {
        "w0": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "w1": rng.standard_normal((4, 4, 1, 1)).astype(np.float32),
        "two": np.array([2.0], dtype=np.float32),
        "shape": np.array([1, 8, 64], dtype=np.int64),
    }
    nodes = (
        Node("stem", "Conv", ("images", "w0"), ("stem_out",), {"pads": (1, 1, 1, 1)}, origin=("stem", "stem_bn")),
        Node("act", "Relu", ("stem_out",), ("relu_out",)),
        Node("head/conv", "Conv", ("relu_out", "w1"), ("head/conv:0",)),
        Node("sig", "Sigmoid", ("head/conv:0",), ("scores",)),
        Node("scale", "Mul", ("head/conv:0", "two"), ("boxes",)),
        Node("join", "Concat", ("boxes", "scores"), ("cat",), {"axis": 1}),
        Node("flat", "Reshape", ("cat", "shape"), ("output",)),
    )
    return Graph("head", nodes, ("images",), ("output",), types, constants)


def make_plan(graph: Graph, default: str, **places: str) -> Plan:
    """Return a plan; keyword names are node names, '_' stands for '/'."""
    overrides = {name.replace("_", "/"): Override(parse_placement(place), "a test") for name, place in places.items()}
    return Plan(graph.digest, parse_placement(default), overrides)


def placements(graph: Graph, plan: Plan) -> dict[str, Placement]:
    """Return the placement of every node."""
    return {node.name: plan.placement(node.name) for node in graph.nodes}


@pytest.fixture
def graph() -> Graph:
    return make_graph()
