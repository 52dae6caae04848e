"""dovetail advise: which board is enough."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import draws
import needs
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import dovetail
from dovetail.fit import recorded
from dovetail.fit.recorded import RecordedRuns
from dovetail.fit.simulating import modelled_ns
from dovetail.ir import AnyArray
from dovetail.passes.rewrites import REWRITES

from .conftest import Said, Tiny

Run = Callable[..., Said]
_UNASKED = ("--simulate-seconds", "0")
"""The vendor's simulator is asked in tests of its own."""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model of pictures of any size, with a folded pad, a batch normalisation and an operator no NPU takes."""
    rng = np.random.default_rng(7)
    weights = {
        "w": rng.normal(size=(8, 3, 3, 3)),
        "scale": rng.uniform(0.5, 2.0, 8),
        "shift": rng.normal(size=8),
        "mean": rng.normal(size=8),
        "variance": rng.uniform(0.5, 2.0, 8),
    }
    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    constants.append(numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "pads"))
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["padded"], "pad"),
        helper.make_node("Conv", ["padded", "w"], ["made"], "conv"),
        helper.make_node("BatchNormalization", ["made", "scale", "shift", "mean", "variance"], ["even"], "norm"),
        helper.make_node("Det", ["even"], ["y"], "det"),
    ]
    graph = helper.make_graph(
        nodes,
        "pictures",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, "h", "w_"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        constants,
    )
    path = tmp_path_factory.mktemp("pictures") / "pictures.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_a_board_takes_what_cost_says_of_everything_on_it(tiny: Tiny, run: Run) -> None:
    said = run("advise", tiny.model, "--json")
    assert (said.code, said.err) == (0, "")
    boards = json.loads(said.out)["boards"]
    assert {"vsi:v853", "vsi:a311d", "vsi:imx8mp"} <= {row["target"] for row in boards}
    latencies = [row["latency_ns"] for row in boards]
    assert latencies == sorted(latencies)
    for row in boards[:2]:
        place = f"{row['target']}@{row['precision']}"
        cost = json.loads(run("cost", tiny.model, "--place", place, "--json").out)
        assert row["latency_ns"] == pytest.approx(cost["latency_ns"])


def test_enough_is_an_exit_code(tiny: Tiny, run: Run) -> None:
    boards = json.loads(run("advise", tiny.model, "--json").out)["boards"]
    middle = boards[len(boards) // 2]["latency_ns"] / 1e6
    said = run("advise", tiny.model, "--most-ms", middle, "--json")
    assert said.code == 0
    rows = json.loads(said.out)["boards"]
    assert {row["target"] for row in rows if row["enough"]} == {
        row["target"] for row in boards if row["latency_ns"] <= middle * 1e6
    }
    assert run("advise", tiny.model, "--most-ms", boards[0]["latency_ns"] / 2e6).code == 1


def test_what_no_npu_takes_leaves_with_the_reason_that_explain_gives(pictures: Path, run: Run) -> None:
    shape = ("--shape", "x=1,3,16,16")
    (row,) = json.loads(run("advise", pictures, *shape, "--target", "vsi:v853", "--json").out)["boards"]
    assert row["away"] == ["det"]
    explained = json.loads(run("explain", pictures, *shape, "--target", "vsi:v853", "--json").out)
    assert row["reasons"][0] in json.dumps(explained)


def test_sizes_are_asked_one_by_one(pictures: Path, run: Run) -> None:
    shape = ("--shape", "x=1,3,16,16")
    said = run("advise", pictures, *shape, "--target", "vsi:v853", "--sizes", "16,32,64", "--json")
    rows = json.loads(said.out)["sizes"]
    assert [row["size"] for row in rows] == [16, 32, 64]
    known = [row["board"]["memory_bytes"] for row in rows]
    assert known == sorted(known)
    for row in rows:
        fixed = ("--shape", f"x=1,3,{row['size']},{row['size']}")
        (alone,) = json.loads(run("advise", pictures, *fixed, "--target", "vsi:v853", "--json").out)["boards"]
        assert alone == row["board"]


def test_the_normal_form_comes_with_proof(pictures: Path, run: Run) -> None:
    said = run("advise", pictures, "--shape", "x=1,3,16,16", "--target", "vsi:v853", "--rewrites", *_UNASKED, "--json")
    rows = {row["name"]: row for row in json.loads(said.out)["normal_form"]}
    assert len(rows) >= 3
    assert rows["all"]["nodes_after"] == 2
    assert all(row["nodes_before"] == 4 for row in rows.values())
    assert all(row["float_error"] < 1e-5 for row in rows.values())
    assert rows["all"]["after"]["latency_ns"] < rows["all"]["before"]["latency_ns"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model that begins with a long kernel, goes through seven axes and divides."""
    rng = np.random.default_rng(11)
    constants: dict[str, np.ndarray] = {
        "w": rng.normal(size=(16, 1, 1, 256)).astype(np.float32) / 16,
        "seven": np.array([1, 16, 4, 5, 10, 20, 1], np.int64),
        "four": np.array([1, 16, 40, 100], np.int64),
        "third": np.array([3.0], np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["t"], "long", pads=[0, 127, 0, 128], strides=[1, 4]),
        helper.make_node("Relu", ["t"], ["u"], "clamp"),
        helper.make_node("Reshape", ["u", "seven"], ["v"], "open"),
        helper.make_node("Transpose", ["v"], ["r"], "turn", perm=[0, 1, 4, 2, 5, 3, 6]),
        helper.make_node("Reshape", ["r", "four"], ["s"], "close"),
        helper.make_node("Div", ["s", "third"], ["y"], "divide"),
    ]
    graph = helper.make_graph(
        nodes,
        "sound",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 1, 16000])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 40, 100])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    path = tmp_path_factory.mktemp("sound") / "sound.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_rewrites_let_refused_nodes_stay_and_the_written_model_says_so(sound: Path, run: Run, tmp_path: Path) -> None:
    written = tmp_path / "new.onnx"
    said = run("advise", sound, "--target", "vsi:v853", "--write-model", written, *_UNASKED, "--json")
    assert (said.code, said.err) == (0, "")
    document = json.loads(said.out)
    rows = {row["name"]: row for row in document["rewrites"]}
    for name in ("stack-large-kernels", "fewer-axes", "together"):
        row = rows[name]
        assert row["refused_before"] > row["refused_after"] == 0
        assert len(row["after"]["away"]) < len(row["before"]["away"])
        assert row["float_error"] < 1e-5
        assert row["outcome"] == "taken"
    assert {"stack-large-kernels", "fewer-axes"} <= set(document["taken"])
    alone = [row["after"]["latency_ns"] for row in document["rewrites"] if row["name"] != "together"]
    assert alone == sorted(alone)
    assert rows["together"]["after"]["latency_ns"] < alone[0]
    # What is written takes what was said, and gives what the source gives.
    (board,) = json.loads(run("advise", written, "--target", "vsi:v853", "--json").out)["boards"]
    assert board["away"] == []
    assert board["latency_ns"] == pytest.approx(rows["together"]["after"]["latency_ns"])
    x = np.random.default_rng(draws.seed_of(__name__)).normal(size=(1, 1, 1, 16000)).astype(np.float32)
    one, other = (
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        for path in (sound, written)
    )
    np.testing.assert_allclose(other, one, rtol=0, atol=1e-5 * float(np.abs(one).max()))


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a detector of speech: a kernel of 256 that goes on by 128, and an LSTM that keeps a state."""
    rng = np.random.default_rng(5)
    shapes = {"basis": (64, 1, 256), "w": (1, 256, 64), "r": (1, 256, 64), "b": (1, 512), "last": (1, 64)}
    constants = {name: rng.normal(size=shape).astype(np.float32) / 8 for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "basis"], ["waves"], "waves", strides=[128]),
        helper.make_node("Abs", ["waves"], ["sizes"], "sizes"),
        helper.make_node("Transpose", ["sizes"], ["steps"], "steps", perm=[2, 0, 1]),
        helper.make_node("LSTM", ["steps", "w", "r", "b", "", "h", "c"], ["", "h1", "c1"], "lstm", hidden_size=64),
        helper.make_node("Squeeze", ["h1", "zero"], ["row"], "row"),
        helper.make_node("Gemm", ["row", "last"], ["y"], "head", transB=1),
    ]
    inputs = {"x": [1, 1, 640], "h": [1, 1, 64], "c": [1, 1, 64]}
    outputs = {"y": [1, 1], "h1": [1, 1, 64], "c1": [1, 1, 64]}
    given, made = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in side.items()]
        for side in (inputs, outputs)
    )
    stored = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    stored.append(numpy_helper.from_array(np.array([0], np.int64), "zero"))
    graph = helper.make_graph(nodes, "speech", given, made, stored)
    path = tmp_path_factory.mktemp("speech") / "speech.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_speech_with_a_state_stays_on_the_npu(speech: Path, run: Run, tmp_path: Path) -> None:
    written = tmp_path / "new.onnx"
    said = run("advise", speech, "--target", "vsi:imx8mp", "--write-model", written, *_UNASKED, "--json")
    document = json.loads(said.out)
    rows = {row["name"]: row for row in document["rewrites"]}
    assert set(document["taken"]) == {"unroll-recurrent", "fold-strides"}
    assert set(rows["together"]["before"]["away"]) == {"waves", "lstm"}
    assert rows["together"]["after"]["away"] == []
    assert rows["together"]["after"]["partitions"] < rows["together"]["before"]["partitions"]
    _same_in_float(speech, written)


def test_what_the_vendor_s_compiler_was_seen_to_fail_on_is_not_recommended(
    speech: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = RecordedRuns("unroll-recurrent", "LSTM with a state", "vsi:v853", "i8pc", 0, 0, 0, 4)
    monkeypatch.setattr(recorded, "all_recorded", lambda: (seen,))
    written = tmp_path / "new.onnx"
    call = ("advise", speech, "--target", "vsi:v853", "--write-model", written, *_UNASKED)
    document = json.loads(run(*call, "--json").out)
    rows = {row["name"]: row for row in document["rewrites"]}
    unrolled = rows["unroll-recurrent"]
    # It would save, is proved in float, and the vendor's compiler writes no binary of it.
    assert unrolled["outcome"] == "does not run"
    assert unrolled["after"]["latency_ns"] < unrolled["before"]["latency_ns"]
    assert "LSTM with a state" in unrolled["simulated"]["recorded"]
    assert "did not run" in unrolled["simulated"]["recorded"]
    assert "unroll-recurrent" not in document["taken"]
    assert "LSTM" in {node.op_type for node in onnx.load(written).graph.node}
    _same_in_float(speech, written)
    said = run("advise", speech, "--target", "vsi:v853", "--rewrites", *_UNASKED)
    text = " ".join(said.out.split())
    assert "On the vendor's simulator" in text
    assert "did not run" in text


@pytest.mark.slow
@pytest.mark.sdk
def test_the_simulator_is_asked_before_anything_is_recommended(speech: Path, run: Run, tmp_path: Path) -> None:
    needs.verisilicon()
    call = ("advise", speech, "--target", "vsi:v853,vsi:imx8mp", "--write-model", tmp_path / "new.onnx", "--json")
    document = json.loads(run(*call, "--simulate-seconds", "300").out)
    rows = {row["name"]: row for row in document["rewrites"]}
    assert document["taken"] == ["unroll-recurrent", "fold-strides"]
    # What is recommended was run, on every board that was named.
    assert [row["target"] for row in document["simulated"]] == ["vsi:v853", "vsi:imx8mp"]
    assert all(row["outcome"] in ("runs", "runs, nearly") for row in document["simulated"])
    assert all(row["elements"] > 0 for row in document["simulated"])
    for name in document["taken"]:
        asked = rows[name]["simulated"]
        assert asked["outcome"] in ("runs", "runs, nearly")
        assert 0 < asked["after_ns"] < asked["before_ns"]


@pytest.mark.slow
@pytest.mark.sdk
def test_what_our_prices_leave_alone_saves_nothing_by_the_vendor_s_model(
    models: Path, run: Run, tmp_path: Path
) -> None:
    """28 steps of an LSTM are hundreds of tiny operators, which are far from free."""
    needs.verisilicon()
    model, written = models / "mnist_lstm" / "trained_lstm.tflite", tmp_path / "new.onnx"
    call = ("advise", model, "--target", "vsi:v853", "--write-model", written, "--simulate-seconds", "300", "--json")
    document = json.loads(run(*call).out)
    (row,) = document["rewrites"]
    assert (row["name"], row["outcome"]) == ("unroll-recurrent", "saves nothing")
    assert row["after"]["latency_ns"] > row["before"]["latency_ns"]
    assert (row["simulated"], document["taken"], written.exists()) == (None, [], False)
    before = dovetail.normalize(dovetail.load_model(model))
    (unroll,) = (rewrite for rewrite in REWRITES if rewrite.name == row["name"])
    vendor = [modelled_ns(graph, "vsi:v853", None) for graph in (before, dovetail.normalize(unroll(before)))]
    assert 0 < vendor[0] < vendor[1]


def _same_in_float(speech: Path, written: Path) -> None:
    rng = np.random.default_rng(draws.seed_of(__name__))
    feeds = {name: rng.normal(size=shape).astype(np.float32) for name, shape in (("x", (1, 1, 640)), *_STATES)}
    one, other = (
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(["y", "h1", "c1"], feeds)
        for path in (speech, written)
    )
    (last,) = (numpy_helper.to_array(item) for item in onnx.load(speech).graph.initializer if item.name == "last")
    # The head's sum may be near zero: what its terms were off by adds up, however small their sum is.
    sizes = [np.abs(last).sum(), 1.0, 1.0] * np.array([np.abs(one[at]).max() for at in (1, 1, 2)])
    for before, after, size in zip(one, other, sizes, strict=True):
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-5 * float(size))


_STATES = (("h", (1, 1, 64)), ("c", (1, 1, 64)))


def test_a_scale_per_channel_is_priced_as_stored_and_as_float(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    constants: dict[str, AnyArray] = {
        "s": np.array(0.02, np.float32),
        "z": np.array(0, np.int8),
        "w": rng.integers(-127, 128, (32, 16, 3, 3), dtype=np.int8),
        "ws": rng.uniform(0.001, 0.01, 32).astype(np.float32),
        "wz": np.zeros(32, np.int8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"], "q"),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"], "dq"),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], "dw", axis=0),
        helper.make_node("Conv", ["xd", "wd"], ["t"], "conv", pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["t", "s", "z"], ["tq"], "tq"),
        helper.make_node("DequantizeLinear", ["tq", "s", "z"], ["y"], "ty"),
    ]
    graph = helper.make_graph(
        nodes,
        "stored",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 40, 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 32, 40, 40])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "stored.onnx"
    )
    said = run("advise", tmp_path / "stored.onnx", "--target", "vsi:imx8mp,vsi:v853", "--json")
    (row,) = json.loads(said.out)["stored"]
    assert (row["taken"]["target"], row["taken"]["precision"], row["stored"]["precision"]) == (
        "vsi:imx8mp",
        "u8",
        "i8pc",
    )
    assert row["stored"]["latency_ns"] > 2 * row["taken"]["latency_ns"]
    assert "Stored with a scale per channel" in run("advise", tmp_path / "stored.onnx", "--target", "vsi:imx8mp").out
    assert "Stored with" not in run("advise", tmp_path / "stored.onnx", "--target", "vsi:v853").out


def test_where_nothing_saves_nothing_is_written(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    said = run(
        "advise", tiny.model, "--target", "vsi:v853", "--write-model", tmp_path / "new.onnx", *_UNASKED, "--json"
    )
    assert said.code == 0
    document = json.loads(said.out)
    assert (document["taken"], document["model_written"]) == ([], None)
    assert not (tmp_path / "new.onnx").exists()


def test_a_file_of_others_is_not_replaced(sound: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.onnx").write_text("mine")
    said = run("advise", sound, "--target", "vsi:v853", "--write-model", tmp_path / "mine.onnx")
    assert said.code == 2
    assert (tmp_path / "mine.onnx").read_text() == "mine"


def test_the_table_of_rewrites_fits_a_terminal(sound: Path, run: Run) -> None:
    said = run("advise", sound, "--target", "vsi:v853", "--rewrites", *_UNASKED)
    assert "stack-large-kernels" in said.out
    assert max(len(line) for line in said.out.splitlines()) <= 100


def test_bad_input_is_one_line(tiny: Tiny, pictures: Path, run: Run) -> None:
    calls: list[tuple[object, ...]] = [
        ("advise", tiny.folder / "none.onnx"),
        ("advise", tiny.model, "--target", "vsi:v852"),
        ("advise", tiny.model, "--most-ms", "0"),
        ("advise", tiny.model, "--rewrites", "--simulate-seconds", "-1"),
        ("advise", tiny.model, "--rewrites", "--simulate-seconds", "nan"),
        ("advise", tiny.model, "--sizes", "224"),  # It has no picture.
        ("advise", pictures, "--shape", "x=1,3,16,16", "--sizes", "big"),
        ("advise", pictures, "--shape", "x=1,3,16,16", "--sizes", "0"),
    ]
    for call in calls:
        said = run(*call)
        assert (said.code, said.out) == (2, ""), call
        assert len(said.err.splitlines()) == 1
