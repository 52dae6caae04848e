"""The protocol's best known client, which knows nothing of us, against our server: both of its forms."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from served import Served, inputs_for, served, small_bundle
from tritonclient.utils import InferenceServerException

import dovetail
from dovetail.bundle import bundle_to_files
from dovetail.ir import AnyArray
from dovetail.oip.datatypes import DATATYPES

FORMS = {"http": tritonclient.http, "grpc": tritonclient.grpc}


@pytest.fixture(params=sorted(FORMS))
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(form: str, server: Served) -> Iterator[Any]:
    with client_of(form, server) as found:
        yield found


def client_of(form: str, server: Served, **options: Any) -> Any:
    return FORMS[form].InferenceServerClient(server.rest if form == "http" else server.grpc, **options)


def asked(form: str, bundle: dovetail.Bundle, arrays: dict[str, AnyArray], **how: Any) -> list[Any]:
    room: ModuleType = FORMS[form]
    found = []
    for name, array in arrays.items():
        found.append(room.InferInput(name, array.shape, DATATYPES[bundle.inputs[name].dtype]))
        found[-1].set_data_from_numpy(array, **how)
    return found


def expected(bundle: dovetail.Bundle, arrays: dict[str, AnyArray]) -> dict[str, AnyArray]:
    with dovetail.open_session(bundle) as session:
        return dict(session.run(arrays).outputs)


def uploads(bundle: dovetail.Bundle) -> dict[str, bytes]:
    return {f"file:1/{name}": content for name, content in bundle_to_files(bundle).items()}


def load(form: str, client: Any, name: str, files: dict[str, bytes] | None = None) -> None:
    if files is None:
        client.load_model(name)
    else:
        client.load_model(name, config="{}", files=files)


def test_health_and_metadata(form: str, client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("small")
    assert not client.is_model_ready("none")
    json = {} if form == "http" else {"as_json": True}
    assert client.get_server_metadata(**json)["name"] == "dovetail"
    told = client.get_model_metadata("small", **json)
    assert (told["name"], told["versions"]) == ("small", ["1"])
    tensor = told["inputs"][0]
    assert (tensor["name"], tensor["datatype"], [int(dim) for dim in tensor["shape"]]) == ("x", "FP32", [-1, 8])
    config = client.get_model_config("small", **json)
    config = config.get("config", config)
    assert config["input"][0]["data_type"] == "TYPE_FP32"
    assert config["parameters"]["type:y"]["string_value"] == 'f32["N", 4]'


@pytest.mark.parametrize("rows", [1, 3])
def test_infer_gives_the_bytes_of_a_local_run(form: str, client: Any, bundle: dovetail.Bundle, rows: int) -> None:
    arrays = inputs_for(bundle, rows)
    answer = client.infer("small", asked(form, bundle, arrays), request_id="seven")
    assert answer.as_numpy("y").tobytes() == expected(bundle, arrays)["y"].tobytes()
    told = answer.get_response()
    assert (told["id"] if form == "http" else told.id) == "seven"


def test_infer_in_json_gives_the_same_numbers(server: Served, bundle: dovetail.Bundle) -> None:
    arrays = inputs_for(bundle, 2)
    outputs = [tritonclient.http.InferRequestedOutput("y", binary_data=False)]
    with client_of("http", server) as client:
        answer = client.infer("small", asked("http", bundle, arrays, binary_data=False), outputs=outputs)
    assert np.array_equal(answer.as_numpy("y"), expected(bundle, arrays)["y"])


def test_infer_in_numbers_of_grpc_gives_the_same(server: Served, bundle: dovetail.Bundle) -> None:
    import grpc
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    arrays = inputs_for(bundle, 2)
    request = service_pb2.ModelInferRequest(model_name="small")
    tensor = request.inputs.add(name="x", datatype="FP32", shape=[2, 8])
    tensor.contents.fp32_contents.extend(arrays["x"].ravel().tolist())
    with grpc.insecure_channel(server.grpc) as channel:
        answer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
    assert answer.raw_output_contents[0] == expected(bundle, arrays)["y"].tobytes()


def test_an_inner_tensor_can_be_asked_for(form: str, client: Any, bundle: dovetail.Bundle) -> None:
    arrays = inputs_for(bundle)
    with dovetail.open_session(bundle) as session:
        inner = session.run(arrays, ["h"]).taps["h"]
    answer = client.infer("small", asked(form, bundle, arrays), outputs=[FORMS[form].InferRequestedOutput("h")])
    assert np.array_equal(answer.as_numpy("h"), inner)
    assert answer.as_numpy("y") is None


def test_statistics_count_requests_and_split_their_time(form: str, client: Any, bundle: dovetail.Bundle) -> None:
    def told() -> Any:
        json = {} if form == "http" else {"as_json": True}
        found = client.get_inference_statistics("small", **json)["model_stats"][0]
        parts = found["inference_stats"]
        counts = {name: int(parts[name].get("count", 0)) for name in parts}
        times = {name: int(parts[name].get("ns", 0)) for name in parts}
        return counts, times

    (before, spent), arrays = told(), inputs_for(bundle)
    for _ in range(5):
        client.infer("small", asked(form, bundle, arrays))
    with pytest.raises(InferenceServerException):
        client.infer("small", asked(form, bundle, {"x": np.zeros((1, 7), np.float32)}))
    after, total = told()
    names = ("queue", "compute_input", "compute_infer", "compute_output")
    assert {name: after[name] - before.get(name, 0) for name in names} == dict.fromkeys(names, 5)
    assert after["success"] - before.get("success", 0) == 5
    assert after["fail"] - before.get("fail", 0) == 1
    assert total["compute_infer"] > spent["compute_infer"]
    assert sum(total[name] for name in names) == total["success"]


def test_models_are_loaded_unloaded_and_uploaded(form: str, tmp_path: Path, bundle: dovetail.Bundle) -> None:
    dovetail.save_bundle(bundle, tmp_path / "small")
    other, arrays = small_bundle(seed=2), inputs_for(bundle)
    with served(tmp_path) as server, client_of(form, server) as client:
        client.unload_model("small")
        assert not client.is_model_ready("small")
        with pytest.raises(InferenceServerException, match="not loaded"):
            client.infer("small", asked(form, bundle, arrays))
        load(form, client, "small")
        assert client.is_model_ready("small")
        load(form, client, "other", uploads(other))
        assert np.array_equal(
            client.infer("other", asked(form, bundle, arrays)).as_numpy("y"), expected(other, arrays)["y"]
        )
        # An upload takes the place of the old model, also on disk.
        load(form, client, "small", uploads(other))
        assert np.array_equal(
            client.infer("small", asked(form, bundle, arrays)).as_numpy("y"), expected(other, arrays)["y"]
        )
        json = {} if form == "http" else {"as_json": True}
        index = client.get_model_repository_index(**json)
        rows = index if form == "http" else index["models"]
        assert [(row["name"], row["state"]) for row in rows] == [("other", "READY"), ("small", "READY")]
    assert dovetail.load_bundle(tmp_path / "small") == other
    assert dovetail.load_bundle(tmp_path / "other") == other


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, bundle: dovetail.Bundle) -> Iterator[tuple[Path, Served]]:
    """A folder two levels below another one, and its server."""
    around = tmp_path_factory.mktemp("around")
    dovetail.save_bundle(bundle, around / "in" / "models" / "small")
    with served(around / "in" / "models") as server:
        yield around, server


def spoiled(spoil: str, around: Path) -> dict[str, bytes]:
    files = uploads(small_bundle(seed=2))
    blob = files["file:1/partition-0.blob"]
    kinds: dict[str, dict[str, bytes]] = {
        "checksum": {**files, "file:1/partition-0.blob": blob[:-1] + bytes([blob[-1] ^ 1])},
        "missing": {name: files[name] for name in files if not name.endswith(".blob")},
        "extra": {**files, "file:1/partition-7.blob": b"more"},
        "path": {**files, "file:1/../../escaped": b"slipped"},
        "absolute": {**files, f"file:1/{around}/escaped": b"slipped"},
        "version": {**files, "file:../manifest.json": b"slipped"},
        "empty": {"file:1/manifest.json": b"{}"},
    }
    return kinds[spoil]


@pytest.mark.parametrize("spoil", ["checksum", "missing", "extra", "path", "absolute", "version", "empty"])
def test_a_bad_upload_leaves_the_old_model_and_the_folder(
    form: str, spoil: str, guarded: tuple[Path, Served], bundle: dovetail.Bundle
) -> None:
    """The old model serves on, and nothing is written: neither in the folder nor beside it."""
    around, server = guarded
    arrays = inputs_for(bundle)

    def tree() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(around.rglob("*")) if path.is_file()}

    before = tree()
    with client_of(form, server) as client:
        for name in ("small", "new"):
            with pytest.raises(InferenceServerException):
                load(form, client, name, spoiled(spoil, around))
        answer = client.infer("small", asked(form, bundle, arrays))
        assert np.array_equal(answer.as_numpy("y"), expected(bundle, arrays)["y"])
        assert not client.is_model_ready("new")
    assert tree() == before


@pytest.mark.parametrize("name", ["../out", "a/b", ".hidden", "x" * 200, "upload-mine", "a b"])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path, server: Served, bundle: dovetail.Bundle) -> None:
    with client_of("grpc", server) as client, pytest.raises(InferenceServerException):
        load("grpc", client, name, uploads(bundle))


def test_many_clients_get_the_answers_to_their_own_questions(server: Served, bundle: dovetail.Bundle) -> None:
    """16 clients at a time, of both forms, each with inputs of its own."""
    wrong: list[object] = []

    def ask(number: int) -> None:
        form = ("http", "grpc")[number % 2]
        try:
            with client_of(form, server) as client:
                for turn in range(20):
                    arrays = inputs_for(bundle, 1 + number % 3, seed=100 * number + turn)
                    answer = client.infer("small", asked(form, bundle, arrays)).as_numpy("y")
                    if not np.array_equal(answer, session.run(arrays).outputs["y"]):
                        wrong.append((number, turn))
        except Exception as error:
            wrong.append(error)

    with dovetail.open_session(bundle) as session:
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_base64_that_is_none_is_refused(server: Served) -> None:
    import json
    import urllib.error
    import urllib.request

    body = json.dumps({"parameters": {"file:1/manifest.json": "%%%" + base64.b64encode(b"x").decode()}}).encode()
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"http://{server.rest}/v2/repository/models/new/load", body)
    assert caught.value.code == 400
    assert "base64" in caught.value.read().decode()
    caught.value.close()
