"""Damaged, hostile and unsupported files: always one LoadError of one line, quickly, and never a crash."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
import work
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

from dovetail.errors import DovetailError, LoadError
from dovetail.importers import LoadOptions, load_model, load_onnx


@contextmanager
def refused(match: str | None = None, most_calls: int = 100_000) -> Iterator[None]:
    """Expect a LoadError of one line that matches, after little work."""
    with work.little(most_calls), pytest.raises(LoadError, match=match) as caught:
        yield
    assert "\n" not in str(caught.value)


def _text(body: str, opset: int = 13) -> ModelProto:
    model: ModelProto = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {body}')
    return model


def _plain() -> ModelProto:
    return _text(
        """g (float[N,2] x) => (float[N,3] y) <float[2,3] w = {1,2,3,4,5,6}> {
             a = MatMul(x, w)
             y = Relu(a)
           }"""
    )


def test_the_plain_model_loads() -> None:
    assert [node.op for node in load_onnx(_plain()).nodes] == ["MatMul", "Relu"]


@pytest.fixture(scope="module")
def seeds(digits: Path) -> list[bytes]:
    """Return models of different make: a real one, control flow, functions, Q/DQ pairs."""
    branches = _text(
        """g (float[2,3] x, bool c) => (float[2,3] y) {
             y = If (c) <then_branch = t () => (float[2,3] p) { p = Relu(x) },
                         else_branch = e () => (float[2,3] q) { q = Softmax <axis = 0> (x) }>
           }""",
        11,
    )
    functions = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "own": 1]>
           g (float[N,4] x) => (float[N,4] y) { y = own.swish(x) }
           <domain: "own", opset_import: ["": 17]> swish (a) => (b) { s = Sigmoid(a) b = Mul(a, s) }"""
    )
    pairs = _text(
        """g (float[1,4] x) => (float[1,4] y) <float s = {0.5}, int8 z = {3}> {
             q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  r = Relu(d)
             p = QuantizeLinear(r, s, z)  y = DequantizeLinear(p, s, z)
           }"""
    )
    models = [branches, functions, pairs]
    return [(digits / "digits.onnx").read_bytes(), *(model.SerializeToString() for model in models)]


def test_truncated_files(seeds: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    for data in seeds:
        for part in range(20):
            path.write_bytes(data[: len(data) * part // 20])
            with refused():
                load_model(path)


def test_random_bytes_changed(seeds: list[bytes]) -> None:
    rng = random.Random(7)
    loaded = 0
    said: list[str] = []
    for number in range(200):
        data = bytearray(seeds[number % len(seeds)])
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = rng.randrange(len(data))
            length = rng.choice([1, 1, 4])
            shift = rng.choice([0, 0, 0, 1])
            data[at : at + length] = rng.randbytes(length + shift)
        with work.little():
            try:
                load_onnx(bytes(data))
                loaded += 1
            except DovetailError as error:
                said.append(str(error))
    assert loaded > 10
    assert len(said) > 10
    assert not any("\n" in message for message in said)


def test_a_cycle_names_a_node_on_it() -> None:
    model = _plain()
    model.graph.node.extend(
        [helper.make_node("Add", ["q", "x"], ["p"], "first"), helper.make_node("Neg", ["p"], ["q"], "second")]
    )
    with refused("node '(first|second)'.*cycle"):
        load_onnx(model)


def test_nodes_out_of_order_are_sorted() -> None:
    model = _plain()
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    assert [node.op for node in load_onnx(model).nodes] == ["MatMul", "Relu"]


def _set_weight(tensor: TensorProto) -> ModelProto:
    model = _plain()
    tensor.name = "w"
    model.graph.initializer[0].CopyFrom(tensor)
    return model


@pytest.mark.parametrize(
    ("tensor", "match"),
    [
        (TensorProto(data_type=1, dims=[2**40, 2**20], raw_data=b"1234"), "'w' holds 4 bytes but"),
        (TensorProto(data_type=1, dims=[2**62, 4], float_data=[1.0]), "'w' holds 1 values but"),
        (TensorProto(data_type=1, dims=[-2, 3], raw_data=bytes(24)), "impossible shape"),
        (TensorProto(data_type=1, dims=[2, 3], raw_data=bytes(23)), "'w' holds 23 bytes"),
        (TensorProto(data_type=1, dims=[2, 3], int64_data=[1] * 6), "'w' holds 0 values"),
        (TensorProto(data_type=8, dims=[1], string_data=[b"a"]), "element type string"),
        (TensorProto(data_type=14, dims=[1], float_data=[1, 2]), "element type complex64"),
        (TensorProto(data_type=17, dims=[6], raw_data=bytes(6)), "element type float8e4m3fn"),
        (TensorProto(data_type=22, dims=[6], raw_data=bytes(3)), "element type int4"),
        (TensorProto(data_type=77, dims=[6], raw_data=bytes(6)), "element type 77"),
        (numpy_helper.from_array(np.array([[1, 2, np.nan]] * 2, np.float32)), "'w' holds NaN"),
        (numpy_helper.from_array(np.array([[1, 2, np.inf]] * 2, np.float32)), "'w' of node .* holds infinity"),
    ],
)
def test_impossible_constants(tensor: TensorProto, match: str) -> None:
    with refused(match):
        load_onnx(_set_weight(tensor))


def test_a_constant_of_another_type_than_its_operator_takes() -> None:
    model = _set_weight(numpy_helper.from_array(np.ones((2, 3), np.int64)))
    with refused("takes f32 and i64 \\('w'\\) where they must agree"):
        load_onnx(model)


def test_infinity_in_a_mask_is_legitimate() -> None:
    model = _text("g (float[2] x) => (float[2] y) <float[2] m = {0, 1}> { y = Add(x, m) }")
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([0, -np.inf], np.float32), "m"))
    assert [node.op for node in load_onnx(model).nodes] == ["Add"]


def _external(tmp_path: Path, **entries: str) -> Path:
    tensor = TensorProto(data_type=1, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    path.write_bytes(_set_weight(tensor).SerializeToString())
    return path


def test_external_data_beside_the_model_is_read(tmp_path: Path) -> None:
    path = _external(tmp_path, location="data/w.bin", offset="8")
    (path.parent / "data").mkdir()
    values = np.arange(8, dtype=np.float32)
    (path.parent / "data" / "w.bin").write_bytes(values.tobytes())
    np.testing.assert_array_equal(load_model(path).constants["w"], values[2:].reshape(2, 3))


def test_external_data_outside_the_folder_is_not_read(tmp_path: Path) -> None:
    outside = tmp_path / "secret.bin"
    outside.write_bytes(bytes(24))
    for location in ("../secret.bin", str(outside), "a/../../secret.bin", "", "link.bin", "linked/secret.bin", "."):
        path = _external(tmp_path, location=location)
        for link, target in (("link.bin", outside), ("linked", tmp_path)):
            if not (path.parent / link).exists():
                (path.parent / link).symlink_to(target)
        with refused("not inside the model's folder"):
            load_model(path)


@pytest.mark.parametrize(
    ("entries", "match"),
    [
        ({"location": "missing.bin"}, "missing"),
        ({"location": "w.bin", "offset": "1"}, "which has 24 bytes"),
        ({"location": "w.bin", "offset": "-4"}, "which has 24 bytes"),
        ({"location": "w.bin", "length": "20"}, "needs 24"),
        ({"location": "w.bin", "length": str(2**60)}, "needs 24"),
        ({"location": "w.bin", "offset": "x"}, "not a number"),
    ],
)
def test_external_data_that_does_not_fit(tmp_path: Path, entries: dict[str, str], match: str) -> None:
    path = _external(tmp_path, **entries)
    (path.parent / "w.bin").write_bytes(bytes(24))
    with refused(match):
        load_model(path)


def test_external_data_needs_a_file(tmp_path: Path) -> None:
    with refused("does not come from a file"):
        load_onnx(_external(tmp_path, location="w.bin").read_bytes())


def _renamed(model: ModelProto, change: Callable[[ModelProto], None]) -> ModelProto:
    change(model)
    return model


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: m.graph.node.append(helper.make_node("Neg", ["x"], ["a"])), "'a' is computed twice"),
        (lambda m: m.graph.initializer.append(m.graph.initializer[0]), "two constants are called 'w'"),
        (lambda m: m.graph.input.append(m.graph.input[0]), "'x' is defined twice"),
        (lambda m: m.graph.node.append(helper.make_node("Neg", ["x"], ["x"])), "'x' is computed twice"),
        (lambda m: m.graph.node.append(helper.make_node("Neg", ["ghost"], ["b"])), "'ghost', which nothing computes"),
        (lambda m: m.graph.output.append(helper.make_tensor_value_info("ghost", 1, [1])), "'ghost'.*by no node"),
        (lambda m: m.graph.node.append(helper.make_node("Frobnicate", ["x"], ["b"])), "Frobnicate"),
        (lambda m: m.graph.node.append(helper.make_node("Neg", ["x"], ["b"], domain="acme")), "acme"),
        (lambda m: m.graph.node.append(helper.make_node("", ["x"], ["b"])), "no operator"),
        (lambda m: m.graph.node.append(helper.make_node("Neg", ["x"], [])), "no output"),
        (lambda m: m.graph.node.append(helper.make_node("Neg", ["x", "x"], ["b"])), "Neg"),
        (lambda m: m.graph.node.append(helper.make_node("Neg", ["x"], ["b\n"])), "not printable"),
        (lambda m: setattr(m.opset_import[0], "version", 6), "opset 6; 7 to"),
        (lambda m: setattr(m.opset_import[0], "version", 99), "opset 99; 7 to"),
        (lambda m: m.ClearField("opset_import"), "no operator set"),
        (lambda m: m.ClearField("graph"), "no graph"),
        (lambda m: m.graph.input[0].type.Clear(), "without a type"),
        (lambda m: m.graph.input[0].type.sequence_type.elem_type.tensor_type.SetInParent(), "sequence"),
    ],
)
def test_broken_structure(change: Callable[[ModelProto], None], match: str) -> None:
    model = _renamed(_plain(), change)
    if any(node.domain == "acme" for node in model.graph.node):
        model.opset_import.append(helper.make_opsetid("acme", 1))
    with refused(match):
        load_onnx(model)


def test_deeply_nested_bodies_are_refused() -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y0"])], "g0", [], [helper.make_tensor_value_info("y0", 1, [1])]
    )
    for depth in range(1, 30):
        node = helper.make_node("If", ["c"], [f"y{depth}"], then_branch=graph, else_branch=graph)
        if depth > 12:
            node = helper.make_node("If", ["c"], [f"y{depth}"], then_branch=graph)
        graph = helper.make_graph([node], f"g{depth}", [], [helper.make_tensor_value_info(f"y{depth}", 1, [1])])
        if depth == 12:
            break
    values = [helper.make_tensor_value_info("x", 1, [1]), helper.make_tensor_value_info("c", 9, [])]
    graph.input.extend(values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    # The file itself is a tree of 8,191 bodies; each is read once.
    with refused("nested more than 8 deep", 500 * 8191):
        load_onnx(model)


def test_a_split_that_lies_about_its_outputs_is_refused() -> None:
    # ONNX's shape inference writes past the end of its list of outputs.
    with refused("says that it has 1 outputs and has 3"):
        load_onnx(_text("g (float[6] x) => (float[2] a) { a, b, c = Split <num_outputs = 1> (x) }", 18))


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ('(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Max(w, "", x) }', "omits its input"),
        (
            "(float[2,2] x) => (float[2] y) <int64[2,1] i = {0, 1}> { y = GatherND <batch_dims = -2147483648> (x, i) }",
            "batch_dims",
        ),
        (
            "(float[2,2] x) => (float[2,2] y) <float[2] w = {1, 1}> "
            "{ y, m, s = LayerNormalization <axis = 2147483648> (x, w) }",
            "impossible axis",
        ),
    ],
)
def test_what_ends_the_process_in_native_code_is_refused(body: str, match: str) -> None:
    model = _text("g " + body.replace('""', '"none"'), 17)
    for node in model.graph.node:
        node.input[:] = ["" if name == "none" else name for name in node.input]
    with refused(match):
        load_onnx(model)


def test_a_list_of_impossible_length_does_not_hang() -> None:
    # ONNX's data propagation makes a symbol for each of the 2**62 elements.
    body = """g (float[2] x) => (float[N,1] y)
              <int64 a = {0}, int64 n = {4611686018427387904}, int64 b = {1}, int64[1] o = {1}> {
                r = Range(a, n, b)  u = Unsqueeze(r, o)  y = Cast <to = 1> (u) }"""
    with refused("dimension of 4611686018427387904"):
        load_onnx(_text(body, 17))


def test_functions_that_call_each_other_are_refused() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "own": 1]>
           g (float[1] x) => (float[1] y) { y = own.ping(x) }
           <domain: "own", opset_import: ["": 17, "own": 1]> ping (a) => (b) { b = own.pong(a) }
           <domain: "own", opset_import: ["": 17, "own": 1]> pong (a) => (b) { b = own.ping(a) }"""
    )
    with refused("calls itself|recursive"):
        load_onnx(model)


def test_a_constant_that_would_grow_is_not_folded() -> None:
    model = _text(
        """g (float[1] x) => (float[1] y) <int64[3] big = {100000, 1000, 10}, int64[1] z = {0}> {
             f = ConstantOfShape(big)  s = ReduceMax <keepdims = 0> (f)  y = Add(x, s)
           }""",
        17,
    )
    with work.little():
        graph = load_onnx(model)
    assert [node.op for node in graph.nodes] == ["ConstantOfShape", "ReduceMax", "Add"]


@pytest.mark.parametrize("pair", ["5, 0", "-9223372036854775808, -1"])
@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_an_integer_division_that_traps_is_refused(op: str, pair: str) -> None:
    # ONNX Runtime ends the process with a signal on the smallest integer divided by -1.
    first, second = pair.split(", ")
    model = _text(
        f"""g (int64 x) => (int64 y) <int64 a = {{{first}}}, int64 b = {{{second}}}> {{
              q = {op}(a, b)  y = Add(x, q)
            }}"""
    )
    with refused("divides integers by zero"):
        load_onnx(model)


def test_a_scale_computed_at_run_time_is_refused() -> None:
    model = _text(
        """g (float[2] x, float s) => (float[2] y) <int8 z = {0}> {
             q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z)
           }"""
    )
    with refused("scale 's' is computed at run time"):
        load_onnx(model)


@pytest.mark.parametrize(
    ("shapes", "match"),
    [
        ({"x": (4, 5)}, "cannot be"),
        ({"x": (4,)}, "cannot be"),
        ({"x": (0, 2)}, "cannot be"),
        ({"z": (1,)}, "the inputs are 'x'"),
    ],
)
def test_shapes_that_do_not_fit(shapes: dict[str, tuple[int, ...]], match: str) -> None:
    with refused(match):
        load_onnx(_plain(), LoadOptions(shapes=shapes))


@pytest.mark.parametrize("joined", ["Add(x, b)", "Concat <axis = 1> (x, b)"])
def test_a_pyramid_of_a_size_that_does_not_halve_says_so(joined: str) -> None:
    model = _text(
        f"""g (float[1,2,H,W] x) => (float[1,C,H,W] y) <float[4] twice = {{1, 1, 2, 2}}> {{
             a = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
             b = Resize <mode = "nearest"> (a, , twice)
             y = {joined}
           }}"""
    )
    load_onnx(model, LoadOptions(shapes={"x": (1, 2, 6, 8)}))
    with refused(r"with 'x' \[1, 2, 7, 8\] node .* \[1, 2, 7, 8\] and \[1, 2, 6, 8\], which do not fit"):
        load_onnx(model, LoadOptions(shapes={"x": (1, 2, 7, 8)}))


def test_files_that_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "text.onnx").write_text("hello, this is not a model")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "folder.onnx").mkdir()
    for name in ("empty.onnx", "text.onnx", "notes.txt", "folder.onnx", "missing.onnx"):
        with refused(name.replace(".", r"\.")):
            load_model(tmp_path / name)


def test_a_file_over_the_bound_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(_plain(), str(path))
    with refused("at most 10 are read"):
        load_model(path, LoadOptions(max_file_bytes=10))


def test_a_size_that_the_file_states_of_an_output_refuses_nothing() -> None:
    """It is of another size of the input, as exporters leave it, and nothing else tells the size."""
    model = _text(
        """g (float[1,H] x, int64[M] n) => (float[1,4] y, float[1,H] z) {
             y = Reshape(x, n)
             z = Add(x, y)
           }"""
    )
    assert load_onnx(model, LoadOptions(shapes={"x": (1, 8)})).outputs == ("y", "z")


def test_a_model_of_trees_is_called_by_its_name() -> None:
    model = ModelProto()
    model.CopyFrom(_plain())
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    with refused("none of ONNX's own operators, only those of 'ai.onnx.ml'"):
        load_onnx(model)
