"""Shared memory of one host: tritonclient's own calls for it over both forms, and peers that mean harm with it."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import needs
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from served import Served, inputs_for, served
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory as shm

import dovetail
from dovetail.ir import AnyArray
from dovetail.oip.failures import RequestRefused
from dovetail.serve.budget import ByteBudget
from dovetail.serve.regions import SharedRegions

FORMS: dict[str, ModuleType] = {"http": tritonclient.http, "grpc": tritonclient.grpc}
FOLDER = Path("/dev/shm")
MB = 1 << 20

Made = Callable[..., str]


@pytest.fixture(params=sorted(FORMS))
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(form: str, server: Served) -> Iterator[Any]:
    with client_of(form, server) as found:
        yield found
        found.unregister_system_shared_memory()


def client_of(form: str, server: Served) -> Any:
    return FORMS[form].InferenceServerClient(server.rest if form == "http" else server.grpc)


@pytest.fixture
def made() -> Iterator[Made]:
    """Make shared memory objects under new keys."""
    paths: list[Path] = []

    def make(size: int, content: bytes = b"") -> str:
        path = FOLDER / f"dovetail-{secrets.token_hex(8)}"
        paths.append(path)
        path.write_bytes(content.ljust(size, b"\0"))
        path.chmod(0o600)
        return path.name

    yield make
    for path in paths:
        path.unlink(missing_ok=True)


def expected(bundle: dovetail.Bundle, arrays: dict[str, AnyArray]) -> AnyArray:
    with dovetail.open_session(bundle) as session:
        return session.run(arrays).outputs["y"]


def placed(form: str, region: str, rows: int, offset: int = 0, out: int = 0) -> tuple[list[Any], list[Any]]:
    """Return an input that lies in a region, and an output that shall."""
    room = FORMS[form]
    x = room.InferInput("x", [rows, 8], "FP32")
    x.set_shared_memory(region, rows * 32, offset)
    y = room.InferRequestedOutput("y")
    y.set_shared_memory(region, rows * 16, out)
    return [x], [y]


@pytest.mark.parametrize("rows", [1, 3])
def test_inputs_and_outputs_go_through_regions(form: str, client: Any, bundle: dovetail.Bundle, rows: int) -> None:
    """Everything by tritonclient: it makes the regions, names them, and reads what it finds in them."""
    arrays = inputs_for(bundle, rows)
    key = f"/dovetail-{secrets.token_hex(8)}"
    region = shm.create_shared_memory_region("both", key, 4096)
    try:
        shm.set_shared_memory_region(region, [arrays["x"]], offset=64)
        client.register_system_shared_memory("both", key, 4096)
        inputs, outputs = placed(form, "both", rows, 64, 1024)
        answer = client.infer("small", inputs, outputs=outputs)
        found = shm.get_contents_as_numpy(region, np.float32, [rows, 4], 1024).copy()
        told = answer.get_output("y")
    finally:
        shm.destroy_shared_memory_region(region)
    assert found.tobytes() == expected(bundle, arrays).tobytes()
    if form == "http":
        assert "data" not in told
        told = told["shape"], {key: str(value) for key, value in told["parameters"].items()}
    else:
        told = (
            list(told.shape),
            {key: str(item.int64_param or item.string_param) for key, item in told.parameters.items()},
        )
    assert told == (
        [rows, 4],
        {
            "shared_memory_region": "both",
            "shared_memory_offset": "1024",
            "shared_memory_byte_size": str(rows * 16),
        },
    )


def test_only_some_tensors_may_lie_in_a_region(form: str, client: Any, bundle: dovetail.Bundle, made: Made) -> None:
    """The input comes from a region, the output in the answer; and the other way round."""
    arrays, room = inputs_for(bundle, 2), FORMS[form]
    key = made(4096, arrays["x"].tobytes())
    client.register_system_shared_memory("some", key, 2048, 0)
    inputs, outputs = placed(form, "some", 2, 0, 512)
    right = expected(bundle, arrays)
    assert client.infer("small", inputs).as_numpy("y").tobytes() == right.tobytes()
    plain = room.InferInput("x", [2, 8], "FP32")
    plain.set_data_from_numpy(arrays["x"])
    client.infer("small", [plain], outputs=outputs)
    assert (FOLDER / key).read_bytes()[512 : 512 + right.nbytes] == right.tobytes()


def test_a_region_may_be_a_part_of_an_object(form: str, client: Any, bundle: dovetail.Bundle, made: Made) -> None:
    arrays = inputs_for(bundle)
    key = made(4096, b"\xff" * 256 + arrays["x"].tobytes())
    client.register_system_shared_memory("part", key, 128, offset=256)
    inputs, outputs = placed(form, "part", 1, 0, 64)
    client.infer("small", inputs, outputs=outputs)
    content = (FOLDER / key).read_bytes()
    assert content[320:336] == expected(bundle, arrays).tobytes()
    assert content[:256] == b"\xff" * 256


def test_regions_are_told_and_forgotten(form: str, client: Any, made: Made) -> None:
    def told(name: str = "") -> dict[str, tuple[str, int, int]]:
        if form == "http":
            rows = client.get_system_shared_memory_status(name)
        else:
            rows = list(client.get_system_shared_memory_status(name).regions.values())
            rows = [{key: getattr(row, key) for key in ("name", "key", "offset", "byte_size")} for row in rows]
        return {row["name"]: (row["key"], row["offset"], row["byte_size"]) for row in rows}

    first, second = made(100), made(200)
    client.register_system_shared_memory("first", first, 90, offset=10)
    client.register_system_shared_memory("second", second, 200)
    both = {"first": (first, 10, 90), "second": (second, 0, 200)}
    assert told() == both
    assert told("second") == {"second": both["second"]}
    with pytest.raises(InferenceServerException, match="registered already"):
        client.register_system_shared_memory("first", first, 90)
    client.unregister_system_shared_memory("first")
    assert told() == {"second": both["second"]}
    with pytest.raises(InferenceServerException, match="not registered"):
        told("first")
    client.register_system_shared_memory("first", first, 100)
    client.unregister_system_shared_memory()
    assert told() == {}


def test_keys_that_lead_elsewhere_are_refused(form: str, client: Any, made: Made, tmp_path: Path) -> None:
    """Paths, links, folders, pipes: only objects of shared memory are opened."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret" * 100)
    link = FOLDER / f"dovetail-link-{secrets.token_hex(8)}"
    link.symlink_to(outside)
    folder = FOLDER / f"dovetail-folder-{secrets.token_hex(8)}"
    folder.mkdir()
    pipe = FOLDER / f"dovetail-pipe-{secrets.token_hex(8)}"
    os.mkfifo(pipe)
    keys = ["", "/", "..", "/..", "../etc/passwd", f"..{outside}", str(outside), "a/b", ".hidden", "a\0b", "x" * 500]
    try:
        for key in (*keys, link.name, folder.name, pipe.name, f"none-{secrets.token_hex(8)}"):
            with pytest.raises(InferenceServerException):
                client.register_system_shared_memory("bad", key, 8)
    finally:
        link.unlink()
        folder.rmdir()
        pipe.unlink()
    status = client.get_system_shared_memory_status()
    assert (status if form == "http" else dict(status.regions)) in ([], {})


@pytest.mark.parametrize(("size", "offset"), [(0, 0), (101, 0), (1, 100), (1 << 60, 0), (100, 1 << 60)])
def test_regions_beyond_the_end_are_refused(form: str, client: Any, made: Made, size: int, offset: int) -> None:
    with pytest.raises(InferenceServerException, match="are not there"):
        client.register_system_shared_memory("bad", made(100), size, offset=offset)


def test_tensors_beyond_a_region_are_refused(form: str, client: Any, bundle: dovetail.Bundle, made: Made) -> None:
    key = made(4096)
    client.register_system_shared_memory("short", key, 64)
    before = (FOLDER / key).read_bytes()
    for offset, out in ((48, 0), (1 << 60, 0), (0, 56), (0, 1 << 60)):
        inputs, outputs = placed(form, "short", 1, offset, out)
        with pytest.raises(InferenceServerException, match="go beyond"):
            client.infer("small", inputs, outputs=outputs)
    x, y = placed(form, "short", 1)
    y[0].set_shared_memory("short", 15)
    with pytest.raises(InferenceServerException, match="has 16 bytes, its place 15"):
        client.infer("small", x, outputs=y)
    x[0].set_shared_memory("short", 31)
    with pytest.raises(InferenceServerException, match="has 31 bytes"):
        client.infer("small", x)
    x[0].set_shared_memory("nobody", 32)
    with pytest.raises(InferenceServerException, match="'nobody' is not registered"):
        client.infer("small", x)
    assert (FOLDER / key).read_bytes() == before


def test_a_region_that_shrinks_ends_no_server(form: str, client: Any, bundle: dovetail.Bundle, made: Made) -> None:
    """Reading mapped memory that is gone would end the process."""
    arrays = inputs_for(bundle)
    key = made(8192, arrays["x"].tobytes())
    client.register_system_shared_memory("shrunk", key, 8192)
    inputs, outputs = placed(form, "shrunk", 1, 4096, 4200)
    os.truncate(FOLDER / key, 100)
    with pytest.raises(InferenceServerException, match="made smaller"):
        client.infer("small", inputs)
    # tritonclient keeps the offset of before where the next one is 0.
    inputs = placed(form, "shrunk", 1)[0]
    with pytest.raises(InferenceServerException, match="made smaller"):
        client.infer("small", inputs, outputs=outputs)
    assert client.infer("small", inputs).as_numpy("y").tobytes() == expected(bundle, arrays).tobytes()
    assert (FOLDER / key).stat().st_size == 100


def test_inputs_in_regions_count_against_the_limit(
    form: str, bundle: dovetail.Bundle, made: Made, tmp_path: Path
) -> None:
    dovetail.save_bundle(bundle, tmp_path / "small")
    key = made(2 * MB)
    with served(tmp_path, ["--max-request", 1]) as server, client_of(form, server) as client:
        client.register_system_shared_memory("large", key, 2 * MB)
        x = FORMS[form].InferInput("x", [MB // 16, 8], "FP32")
        x.set_shared_memory("large", 2 * MB)
        with pytest.raises(InferenceServerException, match="are taken"):
            client.infer("small", [x])


def test_regions_are_bounded_in_number(made: Made) -> None:
    regions, key = SharedRegions(ByteBudget(MB), MB, allowed=True), made(8)
    for number in range(256):
        regions.register(f"r{number}", key, 0, 8)
    with pytest.raises(RequestRefused, match="256 regions"):
        regions.register("one more", key, 0, 8)
    regions.unregister()


def test_files_of_regions_are_closed_when_they_are_forgotten(made: Made) -> None:
    def open_files() -> int:
        return sum(
            os.path.realpath(f"/proc/self/fd/{item}") == str(FOLDER / key) for item in os.listdir("/proc/self/fd")
        )

    regions, key = SharedRegions(ByteBudget(MB), MB, allowed=True), made(8)
    regions.register("one", key, 0, 8)
    with pytest.raises(RequestRefused):
        regions.register("two", key, 0, 9)
    assert open_files() == 1
    regions.unregister("one")
    assert open_files() == 0


def test_memory_of_other_users_is_refused(made: Made) -> None:
    """A server that may open more than its peers is not their way to it."""
    if os.geteuid() != 0:
        needs.without("root", "only root can give files away")
    regions, key = SharedRegions(ByteBudget(MB), MB, allowed=True), made(8)
    os.chown(FOLDER / key, 65534, 65534)
    for mode in (0o600, 0o640, 0o644):
        (FOLDER / key).chmod(mode)
        with pytest.raises(RequestRefused, match="not of the server's user"):
            regions.register("theirs", key, 0, 8)
    (FOLDER / key).chmod(0o666)
    regions.register("theirs", key, 0, 8)
    regions.unregister()


def test_other_machines_name_no_memory(form: str, bundle: dovetail.Bundle, made: Made, tmp_path: Path) -> None:
    """A server that others can reach has no regions, for nobody."""
    dovetail.save_bundle(bundle, tmp_path / "small")
    key = made(4096)
    with served(tmp_path, ["--host", "0.0.0.0", "--insecure"]) as server:
        address = (server.rest if form == "http" else server.grpc).replace("0.0.0.0", "127.0.0.1")
        with FORMS[form].InferenceServerClient(address) as client:
            inputs, outputs = placed(form, "some", 1)
            plain = FORMS[form].InferInput("x", [1, 8], "FP32")
            plain.set_data_from_numpy(inputs_for(bundle)["x"])
            for call in (
                lambda: client.register_system_shared_memory("some", key, 4096),
                lambda: client.unregister_system_shared_memory(),
                lambda: client.get_system_shared_memory_status(),
                lambda: client.infer("small", inputs),
                lambda: client.infer("small", [plain], outputs=outputs),
            ):
                with pytest.raises(InferenceServerException, match="other machines"):
                    call()
            assert client.infer("small", [plain]).as_numpy("y").shape == (1, 4)


def test_random_registrations_of_rest_are_refused(server: Served) -> None:
    for body in (
        b"",
        b"[]",
        b"{}",
        b'{"key": 7}',
        b'{"key": "x", "byte_size": "9"}',
        b'{"key": "x", "byte_size": true}',
    ):
        host, _, port = server.rest.rpartition(":")
        with socket.create_connection((host, int(port)), 60) as peer:
            head = f"POST /v2/systemsharedmemory/region/r/register HTTP/1.1\r\nHost: {server.rest}\r\n"
            peer.sendall(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
            assert peer.recv(1 << 16).startswith(b"HTTP/1.1 400 ")
