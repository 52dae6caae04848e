"""Rewrites on networks of random shapes, judged by ONNX Runtime; a new seed each run, which a failure prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import draws
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, shape_inference

from dovetail.backend.registry import find_target
from dovetail.exporters.onnx import to_onnx
from dovetail.importers import load_model
from dovetail.ir import AnyArray, Graph
from dovetail.ir.precision import Precision
from dovetail.passes import normalize
from dovetail.passes.rewrites import REWRITES, Rewrite

BY_NAME: Mapping[str, Rewrite] = {item.name: item for item in REWRITES}
COUNT = 25
"""Cases that are drawn, and more until a third of so many have matched."""
CLOSE = 2e-5
"""Sums are added in another order: largest difference as a share of the output's largest value, in float32."""

Case = tuple[list[onnx.NodeProto], tuple[int, ...], dict[str, AnyArray]]


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Return a generator of a seed that no run had before; DOVETAIL_SEED repeats one."""
    return np.random.default_rng(draws.seed_of(request.node.name))


def _model(case: Case, batch: int | str = 1) -> onnx.ModelProto:
    nodes, shape, constants = case
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, *shape[1:]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    onnx.checker.check_model(inferred, full_check=True)
    return inferred


def _weights(rng: np.random.Generator, *shape: int) -> AnyArray:
    return rng.normal(size=shape).astype(np.float32)


def _int(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


def _conv(rng: np.random.Generator, kernel: Sequence[int], strides: Sequence[int], dilate: bool = True) -> Case:
    """Return a convolution of random groups, padding and size, whose output has at least one element."""
    groups = _int(rng, 1, 3) if rng.random() < 0.5 else 1
    per_group, out = _int(rng, 1, 3), _int(rng, 1, 3) * groups
    dilations = [_int(rng, 1, 3) if dilate else 1 for _ in kernel]
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    pads = [_int(rng, 0, span) for span in spans] + [_int(rng, 0, span) for span in spans]
    count = len(kernel)
    sizes = [max(span - pads[axis] - pads[count + axis], 0) + _int(rng, 1, 12) for axis, span in enumerate(spans)]
    inputs = ["x", "w"] + (["b"] if rng.random() < 0.5 else [])
    node = helper.make_node(
        "Conv", inputs, ["y"], "conv", pads=pads, strides=list(strides), dilations=dilations, group=groups
    )
    constants = {"w": _weights(rng, out, per_group, *kernel), "b": _weights(rng, out)}
    return [node], (1, per_group * groups, *sizes), {name: constants[name] for name in inputs[1:]}


def _large_kernel(rng: np.random.Generator) -> Case:
    kernel = [_int(rng, 1, 40), _int(rng, 16, 70)]
    rng.shuffle(kernel)
    return _conv(rng, kernel, [1, 1])


def _large_strided_kernel(rng: np.random.Generator) -> Case:
    kernel = [_int(rng, 1, 40), _int(rng, 16, 70)]
    rng.shuffle(kernel)
    return _conv(rng, kernel, [_int(rng, 1, 3), _int(rng, 1, 3)])


def _long_steps(rng: np.random.Generator) -> Case:
    """Return a long kernel of a long stride over one or two axes."""
    count = _int(rng, 1, 2)
    kernel = [_int(rng, 16, 70), _int(rng, 1, 40)][:count]
    strides = [_int(rng, 2, 70), _int(rng, 1, 20)][:count]
    return _conv(rng, kernel, strides, dilate=rng.random() < 0.2)


def _short_kernel(rng: np.random.Generator) -> Case:
    kernel = [_int(rng, 1, 3), _int(rng, 1, 3)]
    return _conv(rng, kernel, [kernel[0] + _int(rng, 1, 3), _int(rng, 1, 5)], dilate=False)


def _one_axis(rng: np.random.Generator) -> Case:
    return _conv(rng, [_int(rng, 1, 9)], [_int(rng, 1, 3)])


def _product(rng: np.random.Generator) -> Case:
    rows, depth, width, stack = (_int(rng, 1, 12) for _ in range(4))
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    kind = _int(rng, 0, 3)
    if kind == 0:
        return [node], (1, rows, depth), {"w": _weights(rng, depth, width)}
    if kind == 1:
        return [node], (1, stack, rows, depth), {"w": _weights(rng, depth, width)}
    if kind == 2:
        return [node], (1, stack, rows, depth), {"w": _weights(rng, stack, depth, width)}
    return [node], (1, stack, rows, depth), {"w": _weights(rng, 1, stack, depth, width)}


def _many_axes(rng: np.random.Generator) -> Case:
    count = _int(rng, 7, 9)
    inner = [_int(rng, 1, 3) for _ in range(count)]
    order = [int(axis) for axis in rng.permutation(count)]
    total = int(np.prod(inner))
    first = max(one for one in (1, 2, 3) if total % one == 0)
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["t"], "open"),
        helper.make_node("Transpose", ["t"], ["u"], "turn", perm=order),
        helper.make_node("Reshape", ["u", "r"], ["y"], "close"),
    ]
    return nodes, (1, first, total // first), {"s": np.array(inner, np.int64), "r": np.array([1, total], np.int64)}


def _around(rng: np.random.Generator) -> Case:
    rank = _int(rng, 3, 4)
    sizes = (1, *(_int(rng, 1, 6) for _ in range(rank - 1)))
    names = ["Relu", "Sigmoid", "Tanh", "Abs", "Neg", "LeakyRelu"]
    nodes = [helper.make_node("Transpose", ["x"], ["t0"], "first", perm=[int(axis) for axis in rng.permutation(rank)])]
    count = _int(rng, 1, 3)
    for index in range(count):
        op = names[_int(rng, 0, len(names) - 1)]
        nodes.append(helper.make_node(op, [f"t{index}"], [f"t{index + 1}"], f"value{index}"))
    perm = [int(axis) for axis in rng.permutation(rank)]
    return [*nodes, helper.make_node("Transpose", [f"t{count}"], ["y"], "last", perm=perm)], sizes, {}


def _division(rng: np.random.Generator) -> Case:
    shape = (1, *(_int(rng, 1, 6) for _ in range(3)))
    # Beside anything from tiny to huge: what no float32 holds the reciprocal of is no match.
    divisor = (rng.choice([-1, 1], shape[1:]) * 10 ** rng.uniform(-8, 8, shape[1:])).astype(np.float32)
    return [helper.make_node("Div", ["x", "c"], ["y"], "divide")], shape, {"c": divisor}


def _softmax(rng: np.random.Generator) -> Case:
    rank = _int(rng, 2, 5)
    shape = (1, *(_int(rng, 2, 6) for _ in range(rank - 1)))
    axis = _int(rng, 1, rank - 1) - (rank if rng.random() < 0.5 else 0)
    op = "Softmax" if rng.random() < 0.7 else "LogSoftmax"
    return [helper.make_node(op, ["x"], ["y"], "soft", axis=axis)], shape, {}


def _whole_picture(rng: np.random.Generator) -> Case:
    op = "GlobalAveragePool" if rng.random() < 0.6 else "GlobalMaxPool"
    return [helper.make_node(op, ["x"], ["y"], "pool")], (1, _int(rng, 1, 4), _int(rng, 10, 40), _int(rng, 10, 40)), {}


def _larger(rng: np.random.Generator) -> Case:
    """Return a Resize by factors that are whole, or nearly always, on any grid."""
    sizes = [_int(rng, 1, 6), _int(rng, 1, 6)]
    factors = [_int(rng, 1, 4), _int(rng, 1, 4)]
    mode = ("nearest", "linear")[_int(rng, 0, 1)]
    grids = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
    attributes = {"mode": mode, "coordinate_transformation_mode": grids[_int(rng, 0, 3)]}
    corners = attributes["coordinate_transformation_mode"] == "align_corners"
    if mode == "nearest":
        attributes["nearest_mode"] = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")[_int(rng, 0, 3)]
    pairs = zip(sizes, factors, strict=True)
    made = [(size - 1) * by + 1 if corners else size * by + (rng.random() < 0.1) for size, by in pairs]
    shape = (1, _int(rng, 1, 4), *sizes)
    told = np.array([*shape[:2], *made], np.int64)
    return [helper.make_node("Resize", ["x", "", "", "told"], ["y"], "larger", **attributes)], shape, {"told": told}


_STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}


def _recurrent(rng: np.random.Generator) -> Case:
    """Return a recurrent operator of any kind, with what it takes and gives left out at random."""
    op = ("RNN", "GRU", "LSTM")[_int(rng, 0, 2)]
    direction = ("forward", "reverse", "bidirectional")[_int(rng, 0, 2)]
    count, gates = 2 if direction == "bidirectional" else 1, _GATES[op]
    steps, batch, width, hidden = _int(rng, 1, 5), _int(rng, 1, 3), _int(rng, 1, 6), _int(rng, 1, 6)
    some = lambda: rng.random() < 0.5  # noqa: E731
    constants: dict[str, AnyArray] = {
        "w": _weights(rng, count, gates * hidden, width),
        "r": _weights(rng, count, gates * hidden, hidden),
        "b": _weights(rng, count, 2 * gates * hidden),
        "lengths": np.full(batch, steps, np.int32),
        "h0": _weights(rng, count, batch, hidden) * _int(rng, 0, 1),
        "c0": _weights(rng, count, batch, hidden),
        "p": _weights(rng, count, 3 * hidden),
        "flat": np.array([-1], np.int64),
        "sizes": np.array([steps, batch, width], np.int64),
    }
    inputs = ["steps", "w", "r", *(name if some() else "" for name in ("b", "lengths", "h0"))]
    attributes: dict[str, Any] = {"direction": direction, "hidden_size": hidden}
    if op == "LSTM":
        inputs += ["c0" if some() else "", "p" if some() else ""]
        attributes["input_forget"] = _int(rng, 0, 1)
    if op == "GRU":
        attributes["linear_before_reset"] = _int(rng, 0, 1)
    if some():
        attributes["clip"] = float(rng.uniform(0.3, 3))
    if some():
        names = ["Relu", "Tanh", "Sigmoid", "Softsign"]
        attributes["activations"] = [names[_int(rng, 0, 3)] for _ in range(count * _FUNCTIONS[op])]
    made = [name if some() else "" for name in ("all", "last", "memory")[: 1 + _STATES[op]]]
    made = made if any(made) else ["", "last"]
    nodes = [
        helper.make_node("Reshape", ["x", "sizes"], ["steps"], "open"),
        helper.make_node(op, inputs, made, "cell", **attributes),
    ]
    rows = [name for name in made if name]
    nodes += [helper.make_node("Reshape", [name, "flat"], [f"{name}/flat"], f"flat {name}") for name in rows]
    nodes.append(helper.make_node("Concat", [f"{name}/flat" for name in rows], ["y"], "join", axis=0))
    read = {name for node in nodes for name in node.input}
    return nodes, (1, steps, batch, width), {name: value for name, value in constants.items() if name in read}


MAKERS: Mapping[str, Callable[[np.random.Generator], Case]] = {
    "unroll-recurrent": _recurrent,
    "fold-strides": _long_steps,
    "resize-as-deconv": _larger,
    "split-large-kernels": _large_kernel,
    "stack-large-kernels": _large_strided_kernel,
    "fill-short-kernels": _short_kernel,
    "conv1d-as-conv2d": _one_axis,
    "matmul-as-conv": _product,
    "fewer-axes": _many_axes,
    "transpose-later": _around,
    "div-as-mul": _division,
    "softmax-over-last": _softmax,
    "pool-in-two-steps": _whole_picture,
}


def _graph(case: Case, tmp: str, batch: int | str = 1) -> Graph:
    onnx.save(_model(case, batch), tmp)
    return load_model(tmp)


def _run(model: onnx.ModelProto, data: AnyArray) -> AnyArray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": data})[0])


def _check(graph: Graph, after: Graph, shape: tuple[int, ...], rng: np.random.Generator, limit: float) -> None:
    written = to_onnx(after)
    onnx.checker.check_model(written, full_check=True)
    for info in shape_inference.infer_shapes(written, strict_mode=True, data_prop=True).graph.value_info:
        sizes = tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)
        if info.name in after.types and all(sizes):
            assert after.types[info.name].shape == sizes, info.name
    data = rng.normal(size=shape).astype(np.float32)
    expected, found = _run(to_onnx(graph), data), _run(written, data)
    assert found.shape == expected.shape
    allowed = limit * np.abs(expected).max(initial=0)
    if limit:
        # A mean near zero is as exact as what it is a mean of.
        allowed += 4 * np.finfo(np.float32).eps * np.abs(data).max(initial=0)
    assert np.abs(expected - found).max(initial=0) <= allowed, (expected, found)


def test_every_rewrite_has_a_generator() -> None:
    assert set(MAKERS) == set(BY_NAME)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_float_stays(name: str, rng: np.random.Generator, tmp_path_factory: pytest.TempPathFactory) -> None:
    rewrite = BY_NAME[name]
    file = str(tmp_path_factory.mktemp("case") / "x.onnx")
    drawn = matched = 0
    while (drawn := drawn + 1) <= COUNT or (matched < COUNT // 3 and drawn < 20 * COUNT):
        case = MAKERS[name](rng)
        graph = _graph(case, file)
        after = rewrite(graph)
        if not rewrite.match(graph):
            assert after is graph
            continue
        matched += 1
        assert after != graph
        assert after.inputs == graph.inputs
        assert after.outputs == graph.outputs
        assert not rewrite.match(after), "it is done once"
        origins = {origin for node in after.nodes for origin in node.origin}
        assert origins <= {origin for node in graph.nodes for origin in node.origin}
        _check(graph, after, case[1], rng, 0 if rewrite.moves_only else CLOSE)
        _check(graph, normalize(after), case[1], rng, CLOSE)
    assert matched >= COUNT // 3


@pytest.mark.parametrize(
    "name",
    [
        "fold-strides",
        "split-large-kernels",
        "stack-large-kernels",
        "matmul-as-conv",
        "conv1d-as-conv2d",
        "pool-in-two-steps",
    ],
)
def test_a_batch_of_any_size_stays_one(
    name: str, rng: np.random.Generator, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = str(tmp_path_factory.mktemp("case") / "x.onnx")
    drawn = matched = 0
    while (drawn := drawn + 1) <= COUNT or (matched < COUNT // 3 and drawn < 20 * COUNT):
        case = MAKERS[name](rng)
        graph = _graph(case, file, "N")
        after = BY_NAME[name](graph)
        matched += after is not graph
        assert after.types["x"].shape == graph.types["x"].shape
        _check(graph, after, (3, *case[1][1:]), rng, CLOSE)
    assert matched >= COUNT // 3


@pytest.mark.parametrize(
    ("name", "precision"), [("split-large-kernels", "i8pc"), ("stack-large-kernels", "i8pc"), ("fewer-axes", "i8pc")]
)
def test_what_was_refused_is_taken(
    name: str, precision: str, rng: np.random.Generator, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = find_target("vsi:v853")
    file = str(tmp_path_factory.mktemp("case") / "x.onnx")
    for _ in range(COUNT):
        graph = _graph(MAKERS[name](rng), file)
        rewrite = BY_NAME[name]
        for name_of in rewrite.match(graph):
            node = graph.node(name_of)
            # Kernels are cut for the part that takes the shortest, which is not this one.
            beyond = node.op != "Conv" or max(graph.constants[node.inputs[1]].shape[2:]) > 15
            assert not (beyond and target.verdict(graph, node, Precision(precision)).supported)
        after = rewrite(graph)
        for node in after.nodes if after is not graph else ():
            verdict = target.verdict(after, node, Precision(precision))
            # Steps between elements and between places at once are garbage in some.
            both = all(max(node.integers(name, (1,))) > 1 for name in ("strides", "dilations"))
            assert verdict.supported or both, (node, verdict.reason)


def test_what_stands_elsewhere_is_left_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    """An inner tensor that is read twice, or is an output, keeps its maker."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], "first", perm=[0, 2, 1]),
        helper.make_node("Relu", ["t"], ["r"], "value"),
        helper.make_node("Transpose", ["r"], ["u"], "last", perm=[0, 2, 1]),
        helper.make_node("Transpose", ["t"], ["v"], "second", perm=[0, 2, 1]),
        helper.make_node("Add", ["u", "v"], ["y"], "sum"),
    ]
    graph = _graph((nodes, (1, 3, 4), {}), str(tmp_path_factory.mktemp("case") / "x.onnx"))
    assert BY_NAME["transpose-later"].match(graph) == ()
