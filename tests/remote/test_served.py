"""Models of other servers: named ones of ours, and of a server made with tritonclient's stubs that knows no more."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from served import inputs_for, served, small_bundle
from tritonclient.grpc import service_pb2, service_pb2_grpc
from typer.testing import CliRunner

import dovetail
from dovetail.cli.main import app
from dovetail.errors import DeviceError, RemoteError
from dovetail.remote import NamedModel, RemoteRuntime


class Doubler(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Gives twice its input as numbers, as MLServer does, or raw, as Triton does."""

    raw = False
    declares = True
    datatype = "FP32"
    output = "y"

    def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        return service_pb2.ModelReadyResponse(ready=request.name == "doubler")

    def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        found = service_pb2.ModelMetadataResponse(name=request.name, platform="by hand")
        if self.declares:
            found.inputs.add(name="x", datatype="FP32", shape=[-1, 3])
            found.outputs.add(name="y", datatype=self.datatype, shape=[-1, 3])
        return found

    def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        (tensor,) = request.inputs
        doubled = 2 * np.frombuffer(request.raw_input_contents[0], np.float32)
        found = service_pb2.ModelInferResponse(model_name=request.model_name)
        made = found.outputs.add(name=self.output, datatype=self.datatype, shape=tensor.shape)
        if self.raw:
            found.raw_output_contents.append(doubled.tobytes())
        else:
            made.contents.fp32_contents.extend(doubled.tolist())
        return found


Start = Callable[[Doubler], str]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return what serves a doubler and gives its URL."""
    server = grpc.server(ThreadPoolExecutor(2))

    def call(doubler: Doubler) -> str:
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(doubler, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        return f"grpc://127.0.0.1:{port}"

    yield call
    server.stop(None)


X = np.array([[1.0, -2.0, 0.5]], np.float32)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("declares", [False, True])
def test_another_server_is_asked_as_ours_is(start: Start, raw: bool, declares: bool) -> None:
    doubler = Doubler()
    doubler.raw, doubler.declares = raw, declares
    with RemoteRuntime(start(doubler)) as board:
        model = board.served("doubler")
        assert (model.platform, list(model.inputs)) == ("by hand", ["x"] if declares else [])
        found = model.run({"x": X})
        assert found["y"].dtype == np.float32
        assert np.array_equal(found["y"], 2 * X)
        with pytest.raises(RemoteError, match="does not know this call"):
            board.devices()


def test_what_does_not_fit_is_refused(start: Start) -> None:
    doubler = Doubler()
    with RemoteRuntime(start(doubler)) as board:
        with pytest.raises(RemoteError, match="model 'halver' is not ready"):
            board.served("halver")
        model = board.served("doubler")
        with pytest.raises(DeviceError, match=r"input 'z' is unknown") as told:
            model.run({"z": X})
        assert told.value.hint == "The model reads: x."
        with pytest.raises(DeviceError, match="'x' is float64; float32 is expected"):
            model.run({"x": X.astype(np.float64)})
        doubler.output = "other"
        with pytest.raises(RemoteError, match="the answer has no 'y'"):
            model.run({"x": X})
        doubler.datatype = "BYTES"
        with pytest.raises(RemoteError, match="is BYTES"):
            model.run({"x": X})
        with pytest.raises(RemoteError, match="is BYTES"):
            board.served("doubler")
        doubler.declares = False
        with pytest.raises(DeviceError, match="complex64, which has no name"):
            board.served("doubler").run({"x": X.astype(np.complex64)})


def test_a_model_of_our_server_is_one_of_a_name_too(tmp_path: Path) -> None:
    bundle = small_bundle()
    dovetail.save_bundle(bundle, tmp_path / "models" / "small")
    arrays = inputs_for(bundle, rows=3)
    with served(tmp_path / "models") as server, RemoteRuntime(server.url) as board:
        model: NamedModel = board.served("small")
        assert {name: kind.dtype for name, kind in model.inputs.items()} == {
            name: kind.dtype for name, kind in bundle.inputs.items()
        }
        found = model.run(arrays)
    with dovetail.open_session(bundle) as session:
        assert found["y"].tobytes() == session.run(arrays).outputs["y"].tobytes()


@pytest.mark.parametrize(("factor", "code"), [(2.0, 0), (3.0, 1)])
def test_compare_judges_what_a_server_gives(start: Start, tmp_path: Path, factor: float, code: int) -> None:
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in "xy"]
    constant = helper.make_tensor("two", TensorProto.FLOAT, [], [factor])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "two"], ["y"])], "g", kinds[:1], kinds[1:], [constant])
    path, data = tmp_path / "model.onnx", tmp_path / "data.npz"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    np.savez(data, x=np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32))
    words = ["compare", str(path), "doubler", "--on", start(Doubler())]
    done = CliRunner().invoke(app, [*words, "--data", str(data), "--json"])
    assert done.exit_code == code, done.output
    document = json.loads(done.stdout)
    assert document["verdict"] == ("pass" if code == 0 else "fail")
    assert len(document["rows"]) == 1
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    assert "needs samples" in refused.output
    inside = CliRunner().invoke(app, [*words, "--data", str(data), "--layers"])
    assert inside.exit_code == 2
    assert "only its outputs are seen" in inside.output
