"""What the vendor's compiler computes as one stays together, and a part is compiled as it is inside the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.backend.pieces import CompiledPieces
from dovetail.backend.protocols import CompileOptions
from dovetail.backend.registry import backend, find_target
from dovetail.backends.verisilicon.pieces import pieces_of
from dovetail.compare import random_samples
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.partition.schedule import part_of_graph
from dovetail.testing.agreement import load_on


def of_bytes(nodes: list[Node], outputs: tuple[str, ...], dtype: DType = DType.U8) -> Graph:
    """Return a graph of bytes of one shape and scale; `w` and `v` are weights."""
    names = ["x", *(name for node in nodes for name in node.outputs)]
    zero = 128 if dtype is DType.U8 else 0
    types = dict.fromkeys(names, TensorType(dtype, (1, 4, 6, 6), Quantization((0.05,), (zero,))))
    types["w"] = types["v"] = TensorType(dtype, (4, 4, 1, 1), Quantization((0.02,), (zero,)))
    weight: AnyArray = np.arange(16).reshape(4, 4, 1, 1).astype(types["w"].dtype.carrier)
    return Graph("bytes", tuple(nodes), ("x",), outputs, types, {"w": weight, "v": weight[::-1]})


RESIDUAL = [
    Node("shortcut", "Conv", ("x", "v"), ("a",)),
    Node("first", "Conv", ("x", "w"), ("b",)),
    Node("relu", "Relu", ("b",), ("c",)),
    Node("second", "Conv", ("c", "w"), ("d",)),
    Node("sum", "Add", ("a", "d"), ("e",)),
    Node("last", "Sigmoid", ("e",), ("f",)),
]


def cut(graph: Graph, pieces: CompiledPieces, count: int) -> Graph:
    """Return the first pieces as a graph."""
    names = {name for piece in pieces.nodes[:count] for name in piece}
    return part_of_graph(graph, [node for node in graph.nodes if node.name in names])


def test_a_sum_goes_with_the_convolution_that_it_is_joined_with() -> None:
    graph = of_bytes(RESIDUAL, ("f",))
    pieces = pieces_of(graph, find_target("vsi:v853"))
    # The earlier convolution is joined, and so moves behind what does not need it.
    assert pieces.nodes == (("first", "relu"), ("second",), ("shortcut", "sum"), ("last",))
    for count in range(1, 5):
        part = cut(graph, pieces, count)
        assert pieces.keeps(part)
    assert cut(graph, pieces, 2).outputs == ("d",)


def test_equal_operators_are_pieces_too() -> None:
    twins = [replace(node, inputs=("x", "w")) if node.name == "shortcut" else node for node in RESIDUAL]
    graph = of_bytes(twins, ("f",))
    pieces = pieces_of(graph, find_target("vsi:v853"))
    assert sorted(name for names in pieces.nodes for name in names) == sorted(node.name for node in twins)
    for count in range(1, len(pieces.nodes) + 1):
        assert pieces.keeps(cut(graph, pieces, count))


def test_a_part_that_is_compiled_otherwise_is_not_kept() -> None:
    graph = of_bytes(RESIDUAL, ("f",))
    pieces = pieces_of(graph, find_target("vsi:v853"))
    assert not pieces.keeps(graph.evolve(outputs=("a", "f")))
    wide = Node("wide", "Conv", ("x", "w"), ("a",), {"dilations": (2, 2)})
    assert not pieces.keeps(of_bytes([wide], ("a",)))
    unknown = Node("shortcut", "NobodyKnows", ("x", "w"), ("a",))
    assert not pieces.keeps(of_bytes([unknown], ("a",)))


def test_a_view_of_an_input_that_is_read_too_is_asked_for_as_a_copy() -> None:
    nodes = [Node("view", "Reshape", ("x", "shape"), ("a",)), Node("conv", "Conv", ("a", "w"), ("b",))]
    plain = of_bytes([Node("conv", "Conv", ("x", "w"), ("a",))], ("a",))
    seen = dict.fromkeys(("a", "b"), replace(plain.types["a"], shape=(1, 4, 4, 9)))
    types = {**plain.types, **seen, "shape": TensorType(DType.I64, (4,))}
    constants = {**plain.constants, "shape": np.array([1, 4, 4, 9])}
    graph = Graph("view", tuple(nodes), ("x",), ("b",), types, constants)
    pieces = pieces_of(graph, find_target("vsi:v853"))
    assert pieces.nodes == (("view",), ("conv",))
    assert pieces.keeps(graph.evolve(outputs=("a", "b")))
    assert pieces.keeps(cut(graph, pieces, 1))


@pytest.mark.parametrize(("target", "kept"), [("vsi:v853", True), ("vsi:a311d", True)])
def test_what_a_joined_convolution_reads_of_signed_bytes_is_asked_for_as_a_copy(target: str, kept: bool) -> None:
    nodes = [
        Node("pre", "Conv", ("x", "w"), ("a",)),
        Node("first", "Conv", ("a", "w"), ("b",)),
        Node("second", "Conv", ("b", "w"), ("c",)),
        Node("sum", "Add", ("a", "c"), ("d",)),
        Node("last", "Conv", ("d", "w"), ("e",)),
    ]
    graph = of_bytes(nodes, ("e",), DType.I8)
    uneven = dict.fromkeys("abcde", replace(graph.types["a"], quant=Quantization((0.06,), (-11,))))
    graph = graph.evolve(types={**graph.types, **uneven})
    assert pieces_of(graph, find_target(target)).keeps(graph.evolve(outputs=("e", "b"))) is kept


@pytest.mark.parametrize(
    ("reader", "together"),
    [
        ("MaxPool", (("conv", "relu", "after"),)),
        ("AveragePool", (("conv", "relu"), ("after",))),
    ],
)
def test_a_maximum_over_windows_goes_with_the_convolution_before_it(
    reader: str, together: tuple[tuple[str, ...], ...]
) -> None:
    nodes = [
        Node("conv", "Conv", ("x", "w"), ("a",)),
        Node("relu", "Relu", ("a",), ("b",)),
        Node("after", reader, ("b",), ("c",), {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}),
    ]
    target = find_target("vsi:v853")
    assert pieces_of(of_bytes(nodes, ("c",)), target).nodes == together
    assert pieces_of(of_bytes(nodes, ("b", "c")), target).nodes == (("conv", "relu"), ("after",))


def test_a_gate_goes_with_its_product() -> None:
    nodes = [
        Node("conv", "Conv", ("x", "w"), ("a",)),
        Node("sigmoid", "Sigmoid", ("a",), ("b",)),
        Node("gate", "Mul", ("a", "b"), ("c",)),
    ]
    assert pieces_of(of_bytes(nodes, ("c",)), find_target("vsi:v853")).nodes == (("conv",), ("sigmoid", "gate"))


def test_tensors_are_computed_from_those_that_are_given() -> None:
    graph = of_bytes(RESIDUAL, ("f", "c"))
    executable = load_on(backend("npusim"), graph, find_target("vsi:v853"), CompileOptions())
    from_given = executable.abilities().from_given
    assert from_given is not None
    (sample,) = random_samples(graph, 1, 0)
    right = executable.run(sample, ["d", "e"])
    assert all(np.array_equal(found, right[name]) for name, found in from_given(sample, right).items())
    wrong = {**right, "d": right["d"] ^ 255}
    found = from_given(sample, wrong)
    assert {name for name in right if not np.array_equal(found[name], right[name])} == {"e"}
    # The sum is given as it was, so that what follows it is right.
    assert np.array_equal(found["f"], right["f"])
    executable.close()


def test_samples_of_a_batch_are_given_together() -> None:
    graph = of_bytes(RESIDUAL, ("f",))
    shapes = {
        name: replace(kind, shape=("N", 4, 6, 6)) for name, kind in graph.types.items() if name not in graph.constants
    }
    batched = graph.evolve(types={**graph.types, **shapes})
    executable = load_on(backend("npusim"), batched, find_target("vsi:v853"), CompileOptions())
    from_given = executable.abilities().from_given
    assert from_given is not None
    sample = {"x": np.concatenate([one["x"] for one in random_samples(graph, 3, 1)])}
    right = executable.run(sample, ["d", "e"])
    found = from_given(sample, right)
    assert all(np.array_equal(found[name], right[name]) for name in right)
    executable.close()
