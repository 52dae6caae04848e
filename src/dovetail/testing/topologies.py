"""The topologies that OpenVINO's heterogeneous plug-in is tested on, with the number of parts that it makes.

A device is `A` or `B`: a node's name begins with its device. Backends and partitioners are tested on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dovetail.ir import DType, Graph, Node, TensorType
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
        """Add a node on device A."""
        return self._on("A", op, inputs, attributes)

    def b(self, op: str, *inputs: str, **attributes: object) -> str:
        """Add a node on device B."""
        return self._on("B", op, inputs, attributes)

    def k(self) -> str:
        """Add a constant."""
        return self.uniform(*SHAPE)

    def _on(self, device: str, op: str, inputs: tuple[str, ...], attributes: dict[str, object]) -> str:
        return self.named(f"{device}{len(self.nodes)}", op, *inputs, shape=None, **attributes)


def chain() -> Topology:
    """Return A-B-A."""
    c = Chart()
    return Topology(c.graph(c.a("Abs", c.b("Sigmoid", c.a("Relu", c.x)))), 3)


def alternating() -> Topology:
    """Return A-B-A-B."""
    c = Chart()
    return Topology(c.graph(c.b("Abs", c.a("Relu", c.b("Sigmoid", c.a("Relu", c.x))))), 4)


def one_device() -> Topology:
    """Return a chain on one device."""
    c = Chart()
    return Topology(c.graph(c.a("Abs", c.a("Sigmoid", c.a("Relu", c.x)))), 1)


def own_devices() -> Topology:
    """Return a chain with a device for every operator."""
    c = Chart()
    graph = c.graph(c.a("Abs", c.a("Sigmoid", c.a("Relu", c.x))))
    return Topology(graph, 3, (("A0", "X"), ("A1", "Y"), ("A2", "Z")))


def diamond_with_skip() -> Topology:
    """Return a diamond whose ends would close a cycle if they were one part."""
    c = Chart()
    a1 = c.a("Relu", c.x)
    a2 = c.a("Sigmoid", a1)
    return Topology(c.graph(c.a("Add", a1, c.b("Abs", a2))), 3)


def nested_skip() -> Topology:
    """Return a skip over A-B-A-B-A."""
    c = Chart()
    a1 = c.a("Relu", c.x)
    a2 = c.a("Abs", c.b("Sigmoid", a1))
    return Topology(c.graph(c.a("Add", c.b("Tanh", a2), a1)), 5)


def two_chains() -> Topology:
    """Return two chains that nothing connects."""
    c = Chart()
    return Topology(c.graph(c.a("Relu", c.x), c.a("Sigmoid", c.input("y", *SHAPE))), 1)


def fan_out() -> Topology:
    """Return one tensor read by two outputs."""
    c = Chart()
    a = c.a("Relu", c.x)
    return Topology(c.graph(c.a("Abs", a), c.a("Sigmoid", a)), 1)


def shared_constant() -> Topology:
    """Return one constant read on A, B and A."""
    c = Chart()
    k = c.k()
    return Topology(c.graph(c.a("Add", c.b("Mul", c.a("Add", c.x, k), k), k)), 3)


def constant_bridge() -> Topology:
    """Return a constant that would tie two parts together around a third."""
    c = Chart()
    k = c.k()
    a = c.a("Relu", c.x)
    x = c.a("Add", a, k)
    b = c.b("Abs", a)
    return Topology(c.graph(x, c.a("Mul", b, k)), 3)


def constant_bridge_twin() -> Topology:
    """Return the like of the bridge that closes no cycle."""
    c = Chart()
    k = c.k()
    a = c.a("Relu", c.x)
    x = c.a("Add", a, k)
    b = c.b("Abs", a)
    return Topology(c.graph(x, b, c.a("Mul", a, k)), 2)


def constant_starts_cycle() -> Topology:
    """Return a constant that itself begins the cycle."""
    c = Chart()
    k = c.k()
    x = c.a("Abs", k)
    b = c.b("Add", k, c.x)
    return Topology(c.graph(c.a("Mul", x, b)), 4)


def two_constants() -> Topology:
    """Return two shared constants, one of them in the cycle."""
    c = Chart()
    k, other = c.k(), c.k()
    a = c.a("Add", c.x, k)
    b = c.b("Abs", c.b("Add", a, other))
    return Topology(c.graph(c.a("Mul", b, k)), 3)


def input_read_again() -> Topology:
    """Return a model input that is read again after the other device."""
    c = Chart()
    q = c.input("q", *SHAPE)
    a = c.a("Add", c.x, q)
    return Topology(c.graph(c.a("Add", c.b("Abs", a), q)), 3)


def input_and_constant_read_again() -> Topology:
    """Return both kinds of re-entry in one graph."""
    c = Chart()
    q, k = c.input("q", *SHAPE), c.k()
    a = c.a("Add", c.a("Add", c.x, q), k)
    b = c.b("Abs", a)
    return Topology(c.graph(c.a("Mul", c.a("Add", b, q), k)), 4)


def split_ports() -> Topology:
    """Return an operator whose outputs go to different devices."""
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
    """Return a tensor for A, for B and for the caller."""
    c = Chart()
    a = c.a("Relu", c.x)
    return Topology(c.graph(a, c.a("Abs", a), c.b("Sigmoid", a)), 2)


def two_ports_one_tensor() -> Topology:
    """Return one tensor on both ports of an operator of the other device."""
    c = Chart()
    a = c.a("Relu", c.x)
    return Topology(c.graph(c.b("Mul", a, a)), 2)


def input_is_output() -> Topology:
    """Return a model input that is an output too."""
    c = Chart()
    q = c.input("q", *SHAPE)
    return Topology(c.graph(q, c.b("Abs", c.a("Relu", c.x))), 2)


def unused_input() -> Topology:
    """Return a model input that nothing reads."""
    c = Chart()
    c.input("unused", 3)
    return Topology(c.graph(c.b("Abs", c.a("Relu", c.x))), 3)


def two_branches() -> Topology:
    """Return a branch on each device and a join."""
    c = Chart()
    root = c.a("Relu", c.x)
    return Topology(c.graph(c.a("Add", c.a("Abs", root), c.b("Sigmoid", root))), 3)


def convexity_trap() -> Topology:
    """Return two pairs that cannot both stay whole."""
    c = Chart()
    a1, b1 = c.a("Relu", c.x), c.b("Sigmoid", c.x)
    return Topology(c.graph(c.a("Add", a1, b1), c.b("Mul", b1, a1)), 3)


def dynamic_batch() -> Topology:
    """Return a batch of any size across two borders."""
    net = Network()
    x = net.input("x", "n", 2, 4, 4)
    made = net.named("A0", "Relu", x)
    made = net.named("B1", "Sigmoid", made)
    return Topology(net.graph(net.named("A2", "Abs", made)), 3)


def shape_path() -> Topology:
    """Return a shape that is computed on A and used on B."""
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
    """Return computed constants for both devices."""
    c = Chart()
    k = c.a("Abs", c.k())
    return Topology(c.graph(c.a("Add", c.x, k), c.b("Mul", c.x, k)), 2)


def result_of_another() -> Topology:
    """Return an output that the other device reads too: a result belongs to who makes it."""
    c = Chart()
    a = c.a("Relu", c.x)
    return Topology(c.graph(a, c.b("Abs", a)), 2)


def state() -> Topology:
    """Return a state that B reads and writes in every step of a loop: it has one home, between two neighbours on A."""
    c = Chart()
    begin = c.a("Relu", c.x)
    kind, count, flag = c.types["x"], TensorType(DType.I64, ()), TensorType(DType.BOOL, ())
    names = ("step", "going", "read")
    types = {"step": count, "going": flag, "read": kind, "halved": kind, "assigned": kind, "go_on": flag}
    half = np.array(0.5, np.float32)
    nodes = (
        Node("read_value", "Mul", ("read", "half"), ("halved",)),
        Node("assign", "Sigmoid", ("halved",), ("assigned",)),
        Node("go", "Identity", ("going",), ("go_on",)),
    )
    types["half"] = TensorType(DType.F32, ())
    body = Graph("body", nodes, names, ("go_on", "assigned"), types, {"half": half})
    c.types["final"] = kind
    trips, on = c.constant(np.array(3)), c.constant(np.array(True))
    c.nodes.append(Node("Bloop", "Loop", (trips, on, begin), ("final",), {"body": body}))
    return Topology(c.graph(c.a("Abs", "final")), 3)


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
    result_of_another,
    state,
)


def devices_of(case: Topology) -> dict[str, str]:
    """Return the device of every node."""
    moved = dict(case.moved)
    return {node.name: moved.get(node.name, node.name[0]) for node in case.graph.nodes}
