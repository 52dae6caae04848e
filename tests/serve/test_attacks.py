"""Peers that mean harm, or do it: each is refused, memory stays bounded, and the server serves on.

`DOVETAIL_FUZZ=10000` sends so many random requests of each kind, `-rP` shows the memory at the end.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import trustme
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import TOKEN, Served, inputs_for, served

import dovetail
from dovetail.errors import RemoteError
from dovetail.oip.messages import calls
from dovetail.remote import BoardAccess, RemoteRuntime
from dovetail.serve import ServeOptions, ServerTls

ENOUGH_S = 60.0
"""For what never ends."""
MB = 1 << 20


def ask(
    server: Served, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, method: str = ""
) -> tuple[int, bytes]:
    host, _, port = server.rest.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=ENOUGH_S)
    try:
        # What is refused by its head may be answered before its body is through.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method or ("GET" if body is None else "POST"), path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def serves_on(server: Served, bundle: dovetail.Bundle, access: BoardAccess | None = None) -> None:
    """Check that the server gives right answers, to a client that is allowed to ask."""
    arrays = inputs_for(bundle)
    with (
        dovetail.open_session(bundle) as session,
        RemoteRuntime(access or BoardAccess(server.url)) as board,
        board.load(bundle) as model,
    ):
        assert np.array_equal(model.run(arrays).outputs["y"], session.run(arrays).outputs["y"])


def token_file(folder: Path, text: str = TOKEN) -> Path:
    path = folder / "token"
    path.touch(mode=0o600)
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, bundle: dovetail.Bundle) -> Iterator[Served]:
    """A server that wants a token."""
    folder = tmp_path_factory.mktemp("locked")
    dovetail.save_bundle(bundle, folder / "models" / "small")
    with served(folder / "models", ["--token-file", token_file(folder), "--max-request", 1]) as server:
        yield server


HEADERS = [
    None,
    "",
    "Bearer",
    "Bearer ",
    f"Bearer {TOKEN[:-1]}",
    f"Bearer {TOKEN}x",
    f"Basic {TOKEN}",
    TOKEN,
    "Bearer \xff",
]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize(
    "path", ["/v2", "/v2/models/small", "/v2/models/small/infer", "/metrics", "/v2/repository/index"]
)
def test_rest_without_the_token_is_refused(path: str, header: str | None, locked: Served) -> None:
    body = b"{}" if path.endswith(("infer", "index")) else None
    status, text = ask(locked, path, body, {} if header is None else {"Authorization": header})
    assert status == 401
    assert TOKEN not in text.decode()


@pytest.mark.parametrize("token", [None, TOKEN[:-1], TOKEN + "x"])
def test_grpc_without_the_token_is_refused(token: str | None, locked: Served) -> None:
    for name, call in calls().items():
        with grpc.insecure_channel(locked.grpc) as channel:
            metadata = () if token is None else (("authorization", f"Bearer {token}"),)
            send = channel.unary_unary(call.path)
            if name in ("ServerLive", "ServerReady"):
                send(b"", metadata=metadata, timeout=ENOUGH_S)
                continue
            with pytest.raises(grpc.RpcError) as caught:
                send(b"", metadata=metadata, timeout=ENOUGH_S)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED, name


def never(stop: threading.Event) -> Iterator[bytes]:
    """Wait with a message until the call is over."""
    stop.wait(ENOUGH_S)
    yield from ()


def test_a_peer_without_the_token_is_not_read(locked: Served, bundle: dovetail.Bundle) -> None:
    """It ends before any of a message is taken, and does not wait for one."""
    with grpc.insecure_channel(locked.grpc) as channel:
        send = channel.stream_unary(calls()["RepositoryModelLoad"].path)
        stop = threading.Event()
        with pytest.raises(grpc.RpcError) as caught:
            send(never(stop), timeout=ENOUGH_S)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        stop.set()
    serves_on(locked, bundle, BoardAccess(locked.url, TOKEN))


def test_the_right_token_is_served(locked: Served, bundle: dovetail.Bundle) -> None:
    assert ask(locked, "/v2", headers={"Authorization": f"Bearer {TOKEN}"})[0] == 200
    serves_on(locked, bundle, BoardAccess(locked.url, TOKEN))


def test_a_message_above_the_limit_is_refused(locked: Served, bundle: dovetail.Bundle) -> None:
    metadata = (("authorization", f"Bearer {TOKEN}"),)
    with grpc.insecure_channel(locked.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(calls()["ModelInfer"].path)(bytes(2 * MB), metadata=metadata, timeout=ENOUGH_S)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    allowed = {"Authorization": f"Bearer {TOKEN}"}
    assert ask(locked, "/v2/models/small/infer", bytes(2 * MB), allowed)[0] == 413
    serves_on(locked, bundle, BoardAccess(locked.url, TOKEN))


def certificate(folder: Path, ca: trustme.CA, name: str, days: int) -> tuple[Path, Path]:
    now = datetime.now(UTC)
    made = ca.issue_cert("127.0.0.1", not_before=now - timedelta(days=400), not_after=now + timedelta(days=days))
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    made.cert_chain_pems[0].write_to_path(cert)
    made.private_key_pem.write_to_path(key)
    return cert, key


def test_certificates_that_are_over_or_another_s_are_refused(tmp_path: Path, bundle: dovetail.Bundle) -> None:
    """Mutual TLS: the server refuses clients, and our client refuses servers."""
    ca, stranger = trustme.CA(), trustme.CA()
    authority, other = tmp_path / "ca.pem", tmp_path / "other.pem"
    ca.cert_pem.write_to_path(authority)
    stranger.cert_pem.write_to_path(other)
    cert, key = certificate(tmp_path, ca, "server", 2)
    right, right_key = certificate(tmp_path, ca, "client", 2)
    dovetail.save_bundle(bundle, tmp_path / "models" / "small")
    options = ["--tls-cert", cert, "--tls-key", key, "--client-ca", authority]
    with served(tmp_path / "models", options) as server:
        url = f"grpcs://{server.grpc}"
        for name, signer, days in (("expired", ca, -2), ("foreign", stranger, 2)):
            bad, bad_key = certificate(tmp_path, signer, name, days)
            with pytest.raises(RemoteError), RemoteRuntime(BoardAccess(url, None, authority, bad, bad_key)) as board:
                board.devices()
            with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
                rest_over_tls(server, authority, bad, bad_key)
        with pytest.raises(RemoteError), RemoteRuntime(BoardAccess(url, None, authority)) as board:
            board.devices()
        with pytest.raises(RemoteError), RemoteRuntime(BoardAccess(url, None, other, right, right_key)) as board:
            board.devices()
        assert rest_over_tls(server, authority, right, right_key) == 200
        serves_on(server, bundle, BoardAccess(url, None, authority, right, right_key))


def test_our_client_refuses_a_server_whose_certificate_is_over(tmp_path: Path, bundle: dovetail.Bundle) -> None:
    ca, authority = trustme.CA(), tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(authority)
    cert, key = certificate(tmp_path, ca, "server", -2)
    (tmp_path / "models").mkdir()
    options = ["--tls-cert", cert, "--tls-key", key]
    with served(tmp_path / "models", options) as server:
        access = BoardAccess(f"grpcs://{server.grpc}", TOKEN, authority)
        with pytest.raises(RemoteError), RemoteRuntime(access) as board:
            board.devices()


def rest_over_tls(server: Served, authority: Path, cert: Path, key: Path) -> int:
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(cert, key)
    host, _, port = server.rest.rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port), timeout=ENOUGH_S, context=context)
    try:
        connection.request("GET", "/v2")
        return connection.getresponse().status
    finally:
        connection.close()


def raw(server: Served, data: bytes) -> bytes:
    """Send bytes and read until the server closes."""
    host, _, port = server.rest.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=ENOUGH_S) as connection:
        connection.sendall(data)
        pieces = []
        try:
            while piece := connection.recv(65536):
                pieces.append(piece)
        except ConnectionResetError:
            pass
        return b"".join(pieces)


TEN_GB = 10 << 30


def tensor_of(size: int, **more: object) -> bytes:
    tensor = {"name": "x", "datatype": "FP32", "shape": [size // 4 // 8, 8], **more}
    return json.dumps({"inputs": [tensor]}).encode()


def test_ten_gigabytes_that_are_only_stated_are_refused(server: Served, bundle: dovetail.Bundle) -> None:
    """As a body, as a tensor behind JSON, as a shape with few numbers, and as a shape in gRPC: nothing is allocated."""
    before = server.peak_bytes()
    head = f"POST /v2/models/small/infer HTTP/1.1\r\nHost: {server.rest}\r\nContent-Length: {TEN_GB}\r\n\r\n".encode()
    assert raw(server, head).startswith(b"HTTP/1.1 413 ")
    document = tensor_of(TEN_GB, parameters={"binary_data_size": TEN_GB})
    length = {"Inference-Header-Content-Length": str(len(document))}
    assert ask(server, "/v2/models/small/infer", document + bytes(32), length)[0] == 400
    assert ask(server, "/v2/models/small/infer", tensor_of(TEN_GB, data=[1.0]))[0] == 400
    infer = calls()["ModelInfer"]
    request = infer.request(model_name="small", raw_input_contents=[bytes(32)])
    request.inputs.add(name="x", datatype="FP32", shape=[TEN_GB // 32, 8])
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(infer.path)(request.SerializeToString(), timeout=ENOUGH_S)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert server.peak_bytes() - before < 256 * MB
    serves_on(server, bundle)


def test_a_frame_of_grpc_that_states_four_gigabytes_is_refused(server: Served, bundle: dovetail.Bundle) -> None:
    """By hand: the preface of HTTP/2, a call, and the five bytes before a message."""
    before = server.peak_bytes()
    host, _, port = server.grpc.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=ENOUGH_S) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": calls()["ModelInfer"].path,
            ":authority": server.grpc,
            "te": "trailers",
            "content-type": "application/grpc",
        }
        block = b"".join(b"\x00" + text(name) + text(value) for name, value in fields.items())
        connection.sendall(frame(1, 4, 1, block) + frame(0, 0, 1, b"\x00" + struct.pack(">I", (4 << 30) - 1)))
        seen = b""
        # RESOURCE_EXHAUSTED is 8; words of trailers may be packed, so the frame that ends the stream is enough.
        while not ended(seen):
            piece = connection.recv(65536)
            assert piece, "closed without a word"
            seen += piece
    assert server.peak_bytes() - before < 256 * MB
    serves_on(server, bundle)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def text(word: str) -> bytes:
    return bytes([len(word)]) + word.encode()


def ended(data: bytes) -> bool:
    """Tell whether frames hold the end of stream 1: HEADERS with END_STREAM, or RST_STREAM."""
    while len(data) >= 9:
        size, kind, flags = int.from_bytes(data[:3], "big"), data[3], data[4]
        if int.from_bytes(data[5:9], "big") == 1 and ((kind == 1 and flags & 1) or kind == 3):
            return True
        data = data[9 + size :]
    return False


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory, bundle: dovetail.Bundle) -> Iterator[Served]:
    """A server that waits a second for heads and bodies."""
    folder = tmp_path_factory.mktemp("impatient")
    dovetail.save_bundle(bundle, folder / "small")
    with served(folder, impatient=["head_s=1.0", "body_s=1.0"]) as server:
        yield server


SLOW = {
    "silent": b"",
    "head": b"POST /v2/models/small/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nX-",
    "body": b"POST /v2/models/small/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{",
    "chunk": b"POST /v2/models/small/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    "second": b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /v2/hea",
}


@pytest.mark.parametrize("how", sorted(SLOW))
def test_a_slow_peer_is_closed(how: str, impatient: Served, bundle: dovetail.Bundle) -> None:
    answer = raw(impatient, SLOW[how])
    if how in ("body", "chunk"):
        assert answer.startswith(b"HTTP/1.1 408 ")
    serves_on(impatient, bundle)


def test_a_slow_peer_in_grpc_is_answered(impatient: Served, bundle: dovetail.Bundle) -> None:
    with grpc.insecure_channel(impatient.grpc) as channel:
        send = channel.stream_unary(calls()["ModelInfer"].path)
        stop = threading.Event()
        with pytest.raises(grpc.RpcError) as caught:
            send(never(stop), timeout=ENOUGH_S)
        stop.set()
    assert "took too long" in str(caught.value.details())
    serves_on(impatient, bundle)


def test_pages_of_the_web_may_not_ask(server: Served) -> None:
    """A page in a browser on this machine: by its origin, or by a name that it made lead to this machine."""
    assert ask(server, "/v2")[0] == 200
    assert ask(server, "/v2", headers={"Origin": "https://example.org"})[0] == 403
    assert ask(server, "/v2", headers={"Host": "example.org"})[0] == 403
    assert ask(server, "/v2/repository/models/small/unload", b"", {"Origin": "null"})[0] == 403
    assert ask(server, "/v2/models/small/ready")[0] == 200


def test_packed_bodies_are_refused(server: Served) -> None:
    import gzip

    body = gzip.compress(bytes(100 * MB))
    assert ask(server, "/v2/models/small/infer", body, {"Content-Encoding": "gzip"})[0] == 400


def test_deep_json_is_refused(server: Served, bundle: dovetail.Bundle) -> None:
    assert ask(server, "/v2/models/small/infer", b'{"inputs":' + b"[" * 200_000)[0] == 400
    nested = b"[" * 900 + b"]" * 900
    tensor = b'{"name": "x", "datatype": "FP32", "shape": [1, 8], "data": ' + nested + b"}"
    assert ask(server, "/v2/models/small/infer", b'{"inputs": [' + tensor + b"]}")[0] == 400
    serves_on(server, bundle)


def test_a_server_that_stays_as_it_is_refuses_changes(tmp_path: Path, bundle: dovetail.Bundle) -> None:
    dovetail.save_bundle(bundle, tmp_path / "small")
    with served(tmp_path, ["--read-only"]) as server:
        assert ask(server, "/v2/repository/models/small/unload", b"")[0] == 403
        assert ask(server, "/v2/repository/models/small/load", b"")[0] == 403
        with pytest.raises(RemoteError, match="stay as they are"), RemoteRuntime(server.url) as board:
            board.load(bundle)
        assert ask(server, "/v2/models/small/ready")[0] == 200


def test_other_machines_are_let_in_only_with_tls_and_a_secret(tmp_path: Path) -> None:
    ca = trustme.CA()
    cert, key = certificate(tmp_path, ca, "server", 2)
    tls = ServerTls(cert, key)
    for host in ("0.0.0.0", "::", "192.168.1.20", "example.org"):
        for token, shown in ((None, None), (TOKEN, None), (None, tls)):
            with pytest.raises(RemoteError, match="other machines"):
                ServeOptions(tmp_path, host, token=token, tls=shown)
        ServeOptions(tmp_path, host, token=TOKEN, tls=tls)
        ServeOptions(tmp_path, host, tls=ServerTls(cert, key, cert))
        ServeOptions(tmp_path, host, insecure=True)
    ServeOptions(tmp_path, "127.0.0.1")
    with pytest.raises(RemoteError, match="no certificate"):
        ServeOptions(tmp_path, tls=ServerTls(key, cert))


FUZZ = settings(
    max_examples=int(os.environ.get("DOVETAIL_FUZZ", "150")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
TENSORS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["x", "y"]) | VALUES,
        "datatype": st.sampled_from(["FP32", "BYTES", "INT8"]) | VALUES,
        "shape": st.lists(st.integers(-2, 9), max_size=3) | VALUES,
        "data": st.lists(st.floats() | st.integers(), max_size=9) | VALUES,
        "parameters": st.fixed_dictionaries({"binary_data_size": st.integers(-1, 40) | VALUES}) | VALUES,
    },
)
HEADS = st.none() | st.integers(-1, 300) | st.text("0123456789 -x", max_size=8)
BODIES = st.binary(max_size=200) | st.fixed_dictionaries(
    {},
    optional={
        "inputs": st.lists(TENSORS, max_size=3) | VALUES,
        "outputs": st.lists(TENSORS, max_size=2) | VALUES,
        "parameters": VALUES,
        "id": VALUES,
    },
).map(lambda document: json.dumps(document).encode())


@FUZZ
@given(
    body=BODIES,
    tail=st.binary(max_size=40),
    head=st.none() | st.integers(-1, 300) | st.text("0123456789 -x", max_size=8),
)
def test_random_requests_of_rest_are_refused(body: bytes, tail: bytes, head: object, server: Served) -> None:
    headers = {} if head is None else {"Inference-Header-Content-Length": str(head)}
    status, answer = ask(server, "/v2/models/small/infer", body + tail, headers)
    assert status in (200, 400, 413), answer
    json.loads(answer[:2000]) if status != 200 else None


@FUZZ
@given(path=st.text(max_size=20), method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]), body=st.binary(max_size=50))
def test_random_paths_are_refused(path: str, method: str, body: bytes, server: Served) -> None:
    from urllib.parse import quote

    for prefix in ("/", "/v2/models/", "/v2/repository/models/"):
        status, answer = ask(server, prefix + quote(path, safe="/"), body, method=method)
        assert status in (200, 400, 403, 404, 405, 307), answer


@FUZZ
@given(data=st.binary(max_size=300))
def test_random_bytes_over_tcp_are_refused(data: bytes, impatient: Served) -> None:
    host, _, port = impatient.rest.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=ENOUGH_S) as connection:
        connection.sendall(data)


MUTATIONS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6)


@FUZZ
@given(name=st.sampled_from(sorted(calls())), data=st.binary(max_size=200), changes=MUTATIONS)
def test_random_messages_of_grpc_are_refused(
    name: str, data: bytes, changes: list[tuple[int, int]], server: Served, bundle: dovetail.Bundle
) -> None:
    """Random bytes, and a right request with some bytes changed."""
    infer = calls()["ModelInfer"]
    request = infer.request(model_name="small", raw_input_contents=[bytes(32)])
    request.inputs.add(name="x", datatype="FP32", shape=[1, 8])
    changed = bytearray(request.SerializeToString())
    for place, value in changes:
        changed[place % len(changed)] = value
    with grpc.insecure_channel(server.grpc) as channel:
        for path, message in ((calls()[name].path, data), (infer.path, bytes(changed))):
            code = code_of(channel, path, message)
            assert code in ALLOWED, (path, message, code)


ALLOWED = (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)


def code_of(channel: grpc.Channel, path: str, message: bytes) -> grpc.StatusCode:
    try:
        channel.unary_unary(path)(message, timeout=ENOUGH_S)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def test_after_all_that_it_serves_on_in_bounded_memory(
    server: Served, impatient: Served, locked: Served, bundle: dovetail.Bundle
) -> None:
    for one, access in ((server, None), (impatient, None), (locked, BoardAccess(locked.url, TOKEN))):
        serves_on(one, bundle, access)
        peak = one.peak_bytes()
        sys.stdout.write(f"{one.rest}: {peak / MB:.0f} MB at most\n")
        assert peak < 1024 * MB
        assert not [line for line in one.said if "unexpected" in line or "Traceback" in line], one.said
