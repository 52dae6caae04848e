"""The topologies that OpenVINO's heterogeneous plug-in is tested on, with the number of parts that it makes.

Each case: never more partitions than that, and running them in order gives what the whole graph gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from dovetail.backends.reference import run_graph
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.partition import PartitionedGraph, partition
from dovetail.plan import Override, Placement, Plan
from dovetail.plan.quantized import QuantizedGraph
from dovetail.testing.networks import Network

SHAPE = (1, 2, 4, 4)


@dataclass(frozen=True)
class Topology:
    """A graph, the device of every node (`A` where the name begins so) and the most partitions allowed."""

    graph: Graph
    most: int
    moved: tuple[tuple[str, str], ...] = ()


class Chart(Network):
    """Write `chart.a("Relu", x)`: a node on device A; its name begins with the device."""

    def __init__(self) -> None:
        super().__init__()
        self.x = self.input("x", *SHAPE)

    def a(self, op: str, *inputs: str, **attributes: object) -> str:
        return self._on("A", op, inputs, attributes)

    def b(self, op: str, *inputs: str, **attributes: object) -> str:
        return self._on("B", op, inputs, attributes)

    def k(self) -> str:
        return self.uniform(*SHAPE)

    def _on(self, device: str, op: str, inputs: tuple[str, ...], attributes: dict[str, object]) -> str:
        return self.named(f"{device}{len(self.nodes)}", op, *inputs, shape=None, **attributes)


def chain() -> Topology:
    c = Chart()
    return Topology(c.graph(c.a("Abs", c.b("Sigmoid", c.a("Relu", c.x)))), 3)


def alternating() -> Topology:
    c = Chart()
    return Topology(c.graph(c.b("Abs", c.a("Relu", c.b("Sigmoid", c.a("Relu", c.x))))), 4)


def one_device() -> Topology:
    c = Chart()
    return Topology(c.graph(c.a("Abs", c.a("Sigmoid", c.a("Relu", c.x)))), 1)


def own_devices() -> Topology:
    c = Chart()
    graph = c.graph(c.a("Abs", c.a("Sigmoid", c.a("Relu", c.x))))
    return Topology(graph, 3, (("A0", "X"), ("A1", "Y"), ("A2", "Z")))


def diamond_with_skip() -> Topology:
    c = Chart()
    a1 = c.a("Relu", c.x)
    a2 = c.a("Sigmoid", a1)
    return Topology(c.graph(c.a("Add", a1, c.b("Abs", a2))), 3)


def nested_skip() -> Topology:
    c = Chart()
    a1 = c.a("Relu", c.x)
    a2 = c.a("Abs", c.b("Sigmoid", a1))
    return Topology(c.graph(c.a("Add", c.b("Tanh", a2), a1)), 5)


def two_chains() -> Topology:
    c = Chart()
    return Topology(c.graph(c.a("Relu", c.x), c.a("Sigmoid", c.input("y", *SHAPE))), 1)


def fan_out() -> Topology:
    c = Chart()
    a = c.a("Relu", c.x)
    return Topology(c.graph(c.a("Abs", a), c.a("Sigmoid", a)), 1)


def shared_constant() -> Topology:
    c = Chart()
    k = c.k()
    return Topology(c.graph(c.a("Add", c.b("Mul", c.a("Add", c.x, k), k), k)), 3)


def constant_bridge() -> Topology:
    c = Chart()
    k = c.k()
    a = c.a("Relu", c.x)
    x = c.a("Add", a, k)
    b = c.b("Abs", a)
    return Topology(c.graph(x, c.a("Mul", b, k)), 3)


def constant_bridge_twin() -> Topology:
    c = Chart()
    k = c.k()
    a = c.a("Relu", c.x)
    x = c.a("Add", a, k)
    b = c.b("Abs", a)
    return Topology(c.graph(x, b, c.a("Mul", a, k)), 2)


def constant_starts_cycle() -> Topology:
    c = Chart()
    k = c.k()
    x = c.a("Abs", k)
    b = c.b("Add", k, c.x)
    return Topology(c.graph(c.a("Mul", x, b)), 4)


def two_constants() -> Topology:
    c = Chart()
    k, other = c.k(), c.k()
    a = c.a("Add", c.x, k)
    b = c.b("Abs", c.b("Add", a, other))
    return Topology(c.graph(c.a("Mul", b, k)), 3)


def input_read_again() -> Topology:
    c = Chart()
    q = c.input("q", *SHAPE)
    a = c.a("Add", c.x, q)
    return Topology(c.graph(c.a("Add", c.b("Abs", a), q)), 3)


def input_and_constant_read_again() -> Topology:
    c = Chart()
    q, k = c.input("q", *SHAPE), c.k()
    a = c.a("Add", c.a("Add", c.x, q), k)
    b = c.b("Abs", a)
    return Topology(c.graph(c.a("Mul", c.a("Add", b, q), k)), 4)


def split_ports() -> Topology:
    c = Chart()
    sizes = c.constant([1, 1])
    half = TensorType(DType.F32, (1, 1, 4, 4))
    c.types["p"], c.types["q"] = half, half
    c.nodes.append(Node("Asplit", "Split", (c.x, sizes), ("p", "q"), {"axis": 1}))
    left, right = c.a("Relu", "p"), c.b("Sigmoid", "q")
    c.types["joined"] = c.types["x"]
    c.nodes.append(Node("Ajoin", "Concat", (left, right), ("joined",), {"axis": 1}))
    return Topology(c.graph("joined"), 3)


def tensor_to_everyone() -> Topology:
    c = Chart()
    a = c.a("Relu", c.x)
    return Topology(c.graph(a, c.a("Abs", a), c.b("Sigmoid", a)), 2)


def two_ports_one_tensor() -> Topology:
    c = Chart()
    a = c.a("Relu", c.x)
    return Topology(c.graph(c.b("Mul", a, a)), 2)


def input_is_output() -> Topology:
    c = Chart()
    q = c.input("q", *SHAPE)
    return Topology(c.graph(q, c.b("Abs", c.a("Relu", c.x))), 2)


def unused_input() -> Topology:
    c = Chart()
    c.input("unused", 3)
    return Topology(c.graph(c.b("Abs", c.a("Relu", c.x))), 3)


def two_branches() -> Topology:
    c = Chart()
    root = c.a("Relu", c.x)
    return Topology(c.graph(c.a("Add", c.a("Abs", root), c.b("Sigmoid", root))), 3)


def convexity_trap() -> Topology:
    c = Chart()
    a1, b1 = c.a("Relu", c.x), c.b("Sigmoid", c.x)
    return Topology(c.graph(c.a("Add", a1, b1), c.b("Mul", b1, a1)), 3)


def dynamic_batch() -> Topology:
    net = Network()
    x = net.input("x", "n", 2, 4, 4)
    made = net.named("A0", "Relu", x)
    made = net.named("B1", "Sigmoid", made)
    return Topology(net.graph(net.named("A2", "Abs", made)), 3)


def shape_path() -> Topology:
    c = Chart()
    c.types["s"] = TensorType(DType.I64, (4,))
    c.nodes.append(Node("Ashape", "Shape", (c.x,), ("s",)))
    return Topology(c.graph(c.b("Reshape", c.b("Abs", c.x), "s")), 2)


def branches() -> Topology:
    """Return an If on A whose bodies capture what B made."""
    c = Chart()
    b = c.b("Sigmoid", c.a("Relu", c.x))
    c.inputs.append("flag")
    c.types["flag"] = TensorType(DType.BOOL, ())
    bodies = {key: _body(op, b, c.types[b]) for key, op in (("then_branch", "Abs"), ("else_branch", "Neg"))}
    c.types["y"] = c.types[b]
    c.nodes.append(Node("Aif", "If", ("flag",), ("y",), bodies))
    return Topology(c.graph("y"), 3)


def constant_subgraph() -> Topology:
    c = Chart()
    k = c.a("Abs", c.k())
    return Topology(c.graph(c.a("Add", c.x, k), c.b("Mul", c.x, k)), 2)


def _body(op: str, captured: str, kind: TensorType) -> Graph:
    node = Node(op, op, (captured,), ("r",))
    return Graph(op, (node,), (), ("r",), {captured: kind, "r": kind}, captures=(captured,))


TOPOLOGIES: tuple[Callable[[], Topology], ...] = (
    chain,
    alternating,
    one_device,
    own_devices,
    diamond_with_skip,
    nested_skip,
    two_chains,
    fan_out,
    shared_constant,
    constant_bridge,
    constant_bridge_twin,
    constant_starts_cycle,
    two_constants,
    input_read_again,
    input_and_constant_read_again,
    split_ports,
    tensor_to_everyone,
    two_ports_one_tensor,
    input_is_output,
    unused_input,
    two_branches,
    convexity_trap,
    dynamic_batch,
    shape_path,
    branches,
    constant_subgraph,
)


def placed(graph: Graph, targets: Mapping[str, str]) -> QuantizedGraph:
    """Return a float graph with every node on a target."""
    places = {name: Placement(target, Precision.FP32) for name, target in targets.items()}
    plan = Plan(graph.digest, Placement("A", Precision.FP32), {name: Override(p, "") for name, p in places.items()})
    return QuantizedGraph(graph, plan, places)


def _cut(case: Topology) -> PartitionedGraph:
    moved = dict(case.moved)
    return partition(placed(case.graph, {node.name: moved.get(node.name, node.name[0]) for node in case.graph.nodes}))


def _feeds(graph: Graph, batch: int = 1) -> dict[str, AnyArray]:
    rng = np.random.default_rng(1)
    feeds: dict[str, AnyArray] = {}
    for name in graph.inputs:
        shape = [dim if isinstance(dim, int) else batch for dim in graph.types[name].shape or ()]
        value = rng.normal(size=shape)
        feeds[name] = np.asarray(value > 0 if graph.types[name].dtype is DType.BOOL else value.astype(np.float32))
    return feeds


def _run_parts(cut: PartitionedGraph, feeds: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    values = dict(feeds)
    for part in cut.partitions:
        found = run_graph(part.graph, {name: values[name] for name in part.graph.inputs})
        values.update({name: found[name] for name in part.graph.outputs})
    return values


@pytest.mark.parametrize("make", TOPOLOGIES, ids=lambda make: make.__name__)
def test_few_partitions_that_compute_the_same(make: Callable[[], Topology]) -> None:
    case = make()
    cut = _cut(case)
    assert len(cut.partitions) <= case.most
    for batch in (1, 5, 2):
        feeds = _feeds(case.graph, batch)
        whole, parts = run_graph(case.graph, feeds), _run_parts(cut, feeds)
        for name in case.graph.outputs:
            np.testing.assert_array_equal(parts[name], whole[name])


def _borders(case: Topology) -> dict[str, tuple[int, tuple[int, ...]]]:
    return {item.name: (item.producer, item.consumers) for item in _cut(case).borders}


def test_a_constant_is_copied_and_never_sent() -> None:
    cut = _cut(shared_constant())
    assert [list(part.graph.constants) for part in cut.partitions] == [["k0"]] * 3
    assert not any("k0" in part.graph.inputs for part in cut.partitions)


def test_only_constants_that_are_read_are_copied() -> None:
    cut = _cut(two_constants())
    assert [sorted(part.graph.constants) for part in cut.partitions] == [["k0"], ["k1"], ["k0"]]


def test_a_constant_ties_nothing_together() -> None:
    assert len(_cut(constant_bridge()).partitions) == 3
    assert len(_cut(constant_bridge_twin()).partitions) == 2


def test_a_model_input_is_handed_to_every_reader() -> None:
    cut = _cut(input_read_again())
    assert [part.graph.inputs for part in cut.partitions] == [("x", "q"), ("tA0",), ("tB1", "q")]
    assert _borders(input_read_again()) == {"tA0": (0, (1,)), "tB1": (1, (2,))}


def test_a_tensor_with_many_readers_crosses_once() -> None:
    assert _borders(tensor_to_everyone()) == {"tA0": (0, (1,))}
    assert _borders(two_ports_one_tensor()) == {"tA0": (0, (1,))}
    part = _cut(two_ports_one_tensor()).partitions[1]
    assert part.graph.inputs == ("tA0",)


def test_ports_of_a_split_cross_alone() -> None:
    assert _borders(split_ports()) == {"q": (0, (1,)), "tA1": (0, (2,)), "tB2": (1, (2,))}


def test_what_a_body_captures_crosses_the_border() -> None:
    cut = _cut(branches())
    assert cut.partitions[-1].graph.inputs == ("flag", "tB1")
    assert [len(part.graph.nodes) for part in cut.partitions] == [1, 1, 1]


def test_sizes_of_border_tensors() -> None:
    (border, *_) = _cut(chain()).borders
    assert border.size_bytes == 1 * 2 * 4 * 4 * 4
    (border, *_) = _cut(dynamic_batch()).borders
    assert border.size_bytes == 2 * 4 * 4 * 4
