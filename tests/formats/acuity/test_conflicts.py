"""Borders at which Acuity finds no place for a conversion: told, and not written; judged by Acuity itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import needs
import numpy as np
import pytest

from dovetail.environments import ConversionJob, State, find_environment, run_job, state_of
from dovetail.errors import InexpressiblePlan
from dovetail.exporters import to_onnx
from dovetail.formats import ReadRequest, WriteRequest, find_format
from dovetail.formats.acuity import read_network, read_table
from dovetail.formats.consumer import ConsumerRequest, find_consumer, noise_inputs
from dovetail.formats.demands import demands_of, find_word_format
from dovetail.importers import load_model
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.plan import Override, Plan, parse_placement
from dovetail.plan.plan import plan_from_json
from dovetail.testing.networks import Network

FORMAT = find_format("acuity-quantize")
BASE, WIDE = parse_placement("vsi:v853@i8pc"), parse_placement("vsi:v853@i16")
WORD = "dynamic_fixed_point-i16"
LAYERS: tuple[tuple[str, str, list[str]], ...] = (
    ("attach_y/out0_0", "output", ["s_1"]),
    ("s_1", "sigmoid", ["g_2"]),
    ("g_2", "gather", ["c_4", "k_3"]),
    ("k_3", "variable", []),
    ("c_4", "convolution", ["r2_5"]),
    ("r2_5", "reshape", ["t_6"]),
    ("t_6", "permute", ["r_7"]),
    ("r_7", "reshape", ["r_7_acuity_mark_perm_10"]),
    ("r_7_acuity_mark_perm_10", "permute", ["d_8"]),
    ("d_8", "convolution", ["d_8_acuity_mark_perm_11"]),
    ("d_8_acuity_mark_perm_11", "permute", ["x_9"]),
    ("x_9", "input", []),
)


FOCUS: tuple[tuple[str, str, list[str]], ...] = (
    ("attach_y/out0_0", "output", ["j_1"]),
    ("j_1", "concat", ["a2_2", "b2_3"]),
    ("a2_2", "stridedslice", ["a1_4"]),
    ("b2_3", "stridedslice", ["b1_5"]),
    ("a1_4", "stridedslice", ["x_7_acuity_mark_perm_8"]),
    ("b1_5", "stridedslice", ["x_7_acuity_mark_perm_8"]),
    ("x_7_acuity_mark_perm_8", "permute", ["x_7"]),
    ("x_7", "input", []),
)
"""What YOLOX starts with."""


def network_file(layers: Sequence[tuple[str, str, list[str]]] = LAYERS) -> bytes:
    """Return a network as pegasus writes it."""
    entries = {
        lid: {"name": lid, "op": op, "inputs": [f"@{source}:out0" for source in sources], "outputs": ["out0"]}
        for lid, op, sources in layers
    }
    return json.dumps({"MetaData": {"Name": "n"}, "Layers": entries}).encode()


def shuffled() -> Graph:
    """Return a network that shuffles channels, by reshapes around a transposition and by a gather."""
    net = Network(7)
    tensor = net.conv(net.input("x", 1, 4, 8, 8), 8, 3)
    for turn in range(2):
        left, right = net.split(tensor)
        right = net.op("Relu", net.conv(right, 4, 3))
        tensor = net.op("Concat", left, right, shape=(1, 8, 8, 8), axis=1)
        if turn:
            tensor = net.op("Gather", tensor, net.constant([3, 1, 0, 2, 7, 6, 4, 5]), shape=(1, 8, 8, 8), axis=1)
        else:
            apart = net.op("Reshape", tensor, net.constant([1, 2, 4, 8, 8]), shape=(1, 2, 4, 8, 8))
            turned = net.op("Transpose", apart, shape=(1, 4, 2, 8, 8), perm=(0, 2, 1, 3, 4))
            tensor = net.op("Reshape", turned, net.constant([1, 8, 8, 8]), shape=(1, 8, 8, 8))
    return normalize(net.graph(net.op("Sigmoid", tensor)))


def focused() -> Graph:
    """Return the start of a detector: pixels dealt out by slices, gates of SiLU, pools and sizes that only choose."""
    net = Network(9)
    image = net.input("x", 1, 3, 16, 16)

    def slices(tensor: str, axis: int) -> Iterator[str]:
        for first in (0, 1):
            words = [net.constant([value]) for value in (first, 1 << 20, axis, 2)]
            shape = list(net.shape(tensor))
            shape[axis] //= 2
            yield net.op("Slice", tensor, *words, shape=tuple(shape))

    def gated(tensor: str) -> str:
        return net.op("Mul", tensor, net.op("Sigmoid", tensor))

    parts = [part for rows in slices(image, 2) for part in slices(rows, 3)]
    tensor = gated(net.conv(net.op("Concat", *parts, shape=(1, 12, 8, 8), axis=1), 8, 3))
    pools = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
    wide = [net.op("MaxPool", net.op("MaxPool", tensor, **pools), **pools), tensor]
    tensor = gated(net.conv(net.op("Concat", *wide, shape=(1, 16, 8, 8), axis=1), 8))
    least = net.op("MaxPool", tensor, shape=(1, 8, 4, 4), kernel_shape=(2, 2), strides=(2, 2))
    sizes = net.constant(np.array([1, 1, 2, 2], np.float32))
    modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    grown = net.op("Resize", least, "", sizes, shape=(1, 8, 8, 8), **modes)
    return normalize(net.graph(net.op("Add", gated(net.conv(grown, 8)), tensor)))


def two_sided() -> Graph:
    """Return a network with two inputs and two outputs: each input has a list of files of its own."""
    net = Network(4)
    left = net.op("Sigmoid", net.conv(net.input("image", 1, 3, 8, 8), 4, 3))
    right = net.conv(net.op("Relu", net.conv(net.input("depth", 1, 2, 8, 8), 4)), 4)
    return normalize(net.graph(net.op("Add", left, right), net.op("Tanh", left)))


def unsized() -> Graph:
    """Return a network whose samples come in any number: Acuity is fed one at a time."""
    net = Network(3)
    weight = net.constant(np.random.default_rng(3).normal(size=(4, 3, 1, 1)).astype(np.float32))
    made = net.op("Conv", net.input("x", "N", 3, 8, 8), weight, shape=("N", 4, 8, 8), kernel_shape=(1, 1))
    return normalize(net.graph(net.op("Sigmoid", net.op("Relu", made, shape=("N", 4, 8, 8)), shape=("N", 4, 8, 8))))


def _lint(words: list[str]) -> list[str]:
    block = "".join(f"  {lid}: {WORD}\n" for lid in words)
    content = f"version: 2\nquantize_parameters: {{}}\ncustomized_quantize_layers:\n{block}"
    graph = shuffled()
    return [item.code for item in FORMAT.lint(content.encode(), ReadRequest(graph, BASE, listing=network_file()))]


@pytest.mark.parametrize("words", [["t_6"], ["r_7"], ["r2_5", "t_6"], ["d_8_acuity_mark_perm_11", "d_8"], ["x_9"]])
def test_a_border_between_layers_that_only_move_is_told(words: list[str]) -> None:
    assert "CONFLICT" in _lint(words)


@pytest.mark.parametrize(
    "words",
    [
        ["d_8"],
        ["c_4"],
        ["s_1", "g_2"],
        ["r2_5", "t_6", "r_7", "r_7_acuity_mark_perm_10"],
        ["x_9", "d_8_acuity_mark_perm_11"],
    ],
)
def test_other_borders_are_none(words: list[str]) -> None:
    assert _lint(words) == []


def test_what_is_closed_has_no_conflict_and_gives_indices_no_word() -> None:
    network = read_network(network_file(), "test")
    assert set(network.close({"g_2": WORD})) == {"g_2"}
    for lid in network.layers:
        if network.layers[lid].op not in ("input", "variable"):
            assert list(network.conflicts(network.close({lid: WORD}))) == [], lid
    assert set(network.close({"r_7": WORD})) == {"r_7", "t_6", "r2_5", "r_7_acuity_mark_perm_10"}


def test_slices_behind_an_input_have_one_word() -> None:
    network = read_network(network_file(FOCUS), "test")
    row = {lid for lid, op, _ in FOCUS if op not in ("output", "concat")}
    whole = dict.fromkeys(row, WORD)
    for lid in row:
        assert list(network.conflicts(network.close({lid: WORD}))) == [], lid
    assert network.close(whole) == whole
    assert list(network.conflicts(whole)) == []
    assert list(network.conflicts({"a1_4": WORD, "a2_2": WORD})) == [("x_7_acuity_mark_perm_8", "a1_4")]
    assert list(network.conflicts({"j_1": WORD})) == []


@pytest.mark.parametrize(
    ("op", "kind", "told"),
    [
        ("slice", "", True),
        ("depth2space", "", True),
        ("tile", "", True),
        ("pooling", "MAX", True),
        ("pooling", "AVG", False),
        ("image_resize", "nearest", True),
        ("image_resize", "bilinear", False),
        ("split", "", False),
        ("concat", "", False),
        ("relu", "", False),
    ],
)
def test_what_chooses_values_keeps_how_they_are_stored(op: str, kind: str, told: bool) -> None:
    layers = [("y_1", op, ["r_2"]), ("r_2", "slice", ["c_3"]), ("c_3", "convolution", ["x_4"]), ("x_4", "input", [])]
    content = json.loads(network_file(layers))
    content["Layers"]["y_1"]["parameters"] = {"type": kind}
    network = read_network(json.dumps(content).encode(), "test")
    assert list(network.conflicts({"y_1": WORD})) == ([("r_2", "y_1")] if told else [])


def classifier() -> Graph:
    """Return a chain with a softmax in its middle and one at its end, whose result is turned."""
    net = Network(5)
    tensor = net.conv(net.input("x", 1, 4, 8, 8), 8, 3)
    flat = net.op("Reshape", tensor, net.constant([1, 8, 64]), shape=(1, 8, 64))
    flat = net.op("Mul", flat, net.op("Softmax", flat, axis=-1))
    return normalize(net.graph(net.op("Transpose", net.op("Softmax", flat, axis=-1), shape=(1, 64, 8), perm=(0, 2, 1))))


def _network_of(graph: Graph) -> bytes:
    """Return a network that names layers like the tensors they make."""
    ops = {"Conv": "convolution", "Reshape": "reshape", "Mul": "multiply", "Softmax": "softmax", "Transpose": "permute"}
    layers = [(f"attach_{graph.outputs[0]}/out0_0", "output", [f"{graph.outputs[0]}_1"])]
    for node in reversed(graph.nodes):
        sources = [f"{name}_1" for name in node.inputs if name not in graph.constants]
        layers.append((f"{node.outputs[0]}_1", ops[node.op], sources))
    return network_file([*layers, (f"{graph.inputs[0]}_1", "input", [])])


def test_a_softmax_at_the_end_has_no_word_but_float() -> None:
    graph = classifier()
    listing = _network_of(graph)
    middle, last = (node.name for node in graph.nodes if node.op == "Softmax")
    turn = graph.nodes[-1].name
    with pytest.raises(InexpressiblePlan) as caught:
        FORMAT.write(WriteRequest(Plan(graph.digest, BASE), graph, listing))
    nearest = plan_from_json(caught.value.nearest)
    assert {name: str(nearest.placement(name)) for name in (middle, last, turn)} == {
        middle: str(BASE),
        last: "vsi:v853@fp32",
        turn: "vsi:v853@fp32",
    }
    request = WriteRequest(Plan(graph.digest, BASE), graph, listing)
    demands = demands_of(find_word_format("acuity-quantize"), request, BASE, (WIDE,))
    assert demands.rungs == (WIDE, parse_placement("vsi:v853@fp32"))
    assert demands.lacks[last] == {BASE, WIDE}


TURNED: tuple[tuple[str, str, list[str]], ...] = (
    ("attach_y/out0_0", "output", ["attach_y/out0_0_acuity_mark_perm_4"]),
    ("y_1", "tanh", ["c_2"]),
    ("c_2", "convolution", ["x_3"]),
    ("x_3", "input", []),
    ("attach_y/out0_0_acuity_mark_perm_4", "permute", ["y_1"]),
)
"""The permutes that Acuity adds come last in the file, those before an output too."""


def test_a_tanh_before_a_permute_that_acuity_added_has_no_word_but_float() -> None:
    network = read_network(network_file(TURNED), "test")
    assert set(network.floats) == {"y_1", "attach_y/out0_0_acuity_mark_perm_4"}
    words = network.close({"y_1": WORD})
    assert words == dict.fromkeys(["attach_y/out0_0", "y_1", "attach_y/out0_0_acuity_mark_perm_4"], WORD)


def test_layers_in_a_circle_are_read() -> None:
    layers = [("a_1", "relu", ["b_2"]), ("b_2", "relu", ["a_1"])]
    assert read_network(network_file(layers), "test").floats == ()


def _acuity() -> None:
    state = state_of(find_environment("acuity")).state
    if state is not State.READY:
        needs.without("acuity", f"the environment is {state.value}: dovetail env install acuity")


def _import(model: Path, folder: Path) -> bytes:
    """Return the network as Acuity itself imports it."""
    request = {"path": str(model), "label": "test"}
    job = ConversionJob("acuity_network", request, folder, 600.0)
    answer = run_job(state_of(find_environment("acuity")), job, lambda _step, _share: None)
    return (folder / str(answer["network"])).read_bytes()


@pytest.mark.env
@pytest.mark.slow
@pytest.mark.parametrize("make", [shuffled, classifier, focused, two_sided, unsized])
def test_hybrid_tables_are_obeyed_in_every_layer(make: Callable[[], Graph], tmp_path: Path) -> None:
    """Random plans of networks with branches, gathers and softmaxes, through Acuity's hybrid flow."""
    _acuity()
    source = tmp_path / "model.onnx"
    model = to_onnx(make())
    model.ir_version = 8
    source.write_bytes(model.SerializeToString())
    graph = normalize(load_model(source))
    listing = _import(source, tmp_path)
    consumer = find_consumer("acuity-quantize")
    assert consumer is not None
    for seed in range(3):
        rng = np.random.default_rng(seed)
        away = {node.name: Override(WIDE, "a test") for node in graph.nodes if rng.random() < 0.4}
        plan = Plan(graph.digest, BASE, away)
        try:
            written = FORMAT.write(WriteRequest(plan, graph, listing))
        except InexpressiblePlan as error:
            plan = plan_from_json(error.nearest)
            written = FORMAT.write(WriteRequest(plan, graph, listing))
        assert read_table(written.content, "test").words
        request = ConsumerRequest(
            graph, plan, written, source.read_bytes(), run=noise_inputs(graph, 1), listing=listing
        )
        reading = consumer.read(request)
        assert reading.notes == (), seed
        assert [(item.node, item.asked, item.given) for item in reading.disobeyed] == [], seed
        assert reading.outputs[0].keys() == set(graph.outputs)
