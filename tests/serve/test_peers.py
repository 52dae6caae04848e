"""What one peer may ask for: another machine, which is another address of this one, is served all the while."""

from __future__ import annotations

import http.client
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
import trustme
from served import TOKEN, Served, inputs_for, served

import dovetail
from dovetail.oip.failures import RequestRefused
from dovetail.oip.messages import calls
from dovetail.remote import BoardAccess, RemoteRuntime
from dovetail.serve import ServeLimits
from dovetail.serve.budget import ByteBudget
from dovetail.serve.peers import Peers, TokenBucket, peer_of_address

ENOUGH_S = 60.0
OTHER = "127.0.0.2"
"""The address of another peer: all of 127.0.0.0/8 leads here."""
INFER = "/v2/models/small/infer"


def status(
    server: Served, path: str, body: bytes | None = None, source: str = "127.0.0.1", token: str = TOKEN
) -> tuple[int, str]:
    """Return the status of a request from an address, and when to send it again."""
    host, _, port = server.rest.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=ENOUGH_S, source_address=(source, 0))
    try:
        connection.request("GET" if body is None else "POST", path, body, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers.get("retry-after", "")
    finally:
        connection.close()


def opened(server: Served, stack: ExitStack, data: bytes, source: str = "127.0.0.1") -> socket.socket:
    """Return a connection on which bytes were sent, kept open."""
    host, _, port = server.rest.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=ENOUGH_S, source_address=(source, 0))
    stack.enter_context(connection)
    connection.sendall(data)
    return connection


def until(true: Callable[[], bool]) -> None:
    """Wait until the server has noticed; what never comes fails in the end."""
    waiting = threading.Event()
    for _ in range(int(ENOUGH_S / 0.02)):
        if true():
            return
        waiting.wait(0.02)
    raise AssertionError("it never came")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, bundle: dovetail.Bundle) -> Path:
    found = tmp_path_factory.mktemp("peers")
    dovetail.save_bundle(bundle, found / "small")
    return found


@pytest.fixture(scope="module")
def rated(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that takes a request every twenty seconds, ten kilobytes a second, and a token."""
    token = tmp_path_factory.mktemp("token") / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    with served(folder, ["--token-file", token, "--peer-rate", 0.05, "--peer-bytes", 0.01]) as server:
        yield server


def test_a_peer_that_asks_too_often_is_refused_and_others_are_served(rated: Served) -> None:
    """The rate is of all its requests: health, those without a model, REST and gRPC together."""
    paths = ["/v2/health/live", "/v2", "/v2/models/none", "/metrics"]
    found = [status(rated, path) for path in paths * 5]
    refused = [retry for code, retry in found if code == 429]
    assert len(refused) >= 15
    assert all(1 <= int(retry) <= 20 for retry in refused)
    for name in ("ServerLive", "ServerMetadata", "ModelInfer"):
        with grpc.insecure_channel(rated.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(calls()[name].path)(b"", timeout=ENOUGH_S)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert 0 < int(dict(caught.value.trailing_metadata())["dovetail-retry-ms"]) <= 20001
    assert status(rated, "/v2", source=OTHER)[0] == 200


def test_our_client_asks_again_when_it_may(folder: Path, bundle: dovetail.Bundle) -> None:
    """Twenty requests a second, one after the other: none fails."""
    with served(folder, ["--peer-rate", 20]) as server, RemoteRuntime(server.url) as board:
        model = board.load(bundle)
        for seed in range(40):
            model.run(inputs_for(bundle, seed=seed))
        with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError):
            ask_often(channel)


def ask_often(channel: grpc.Channel) -> None:
    for _ in range(2000):
        channel.unary_unary(calls()["ServerLive"].path)(b"", timeout=ENOUGH_S)


def test_wrong_tokens_count(rated: Served) -> None:
    """Whoever guesses has no more tries than the rate."""
    found = [status(rated, "/v2", source="127.0.0.3", token="wrong")[0] for _ in range(10)]
    assert found[0] == 401
    assert found.count(429) >= 8


def test_a_peer_that_sends_too_much_waits(rated: Served) -> None:
    """A large request is taken; what it owes has to be paid before the next one."""
    assert status(rated, INFER, bytes(1 << 20), "127.0.0.4")[0] == 400
    code, retry = status(rated, "/v2", source="127.0.0.4")
    assert code == 429
    assert int(retry) > 60
    assert status(rated, "/v2", source="127.0.0.5")[0] == 200


UNFINISHED = b"POST /v2/models/small/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n"


@pytest.fixture(scope="module")
def narrow(folder: Path) -> Iterator[Served]:
    """A server that gives a peer eight requests, and a megabyte for what they hold."""
    with served(folder, ["--peer-requests", 8, "--peer-held", 1]) as server:
        yield server


def test_a_peer_that_opens_many_connections_leaves_room(narrow: Served) -> None:
    """Eight wait for the rest of a head; the next ones are closed, and another peer is served."""
    with ExitStack() as stack:
        for _ in range(8):
            opened(narrow, stack, b"GET /v2 HTTP/1.1\r\nHost: 127")
        for _ in range(20):
            assert not answer_on(opened(narrow, stack, b"")), "it should have been closed"
        assert status(narrow, "/v2", source=OTHER)[0] == 200
    until(lambda: served_again(narrow))


def answer_on(connection: socket.socket) -> bytes:
    """Return the first bytes of an answer; none where the connection was closed."""
    try:
        connection.sendall(b"GET /v2 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        return connection.recv(100)
    except OSError:
        return b""


def served_again(server: Served) -> bool:
    try:
        return status(server, "/v2")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_a_peer_with_many_calls_of_grpc_leaves_room(narrow: Served) -> None:
    """Calls that send no message; REST counts with them."""
    stop = threading.Event()

    def never() -> Iterator[bytes]:
        stop.wait(ENOUGH_S)
        yield from ()

    with grpc.insecure_channel(narrow.grpc) as channel:
        waiting = [channel.stream_unary(calls()["ModelInfer"].path).future(never()) for _ in range(8)]
        until(lambda: status(narrow, "/v2")[0] == 429)
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(calls()["ServerLive"].path)(b"", timeout=ENOUGH_S)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert status(narrow, "/v2", source=OTHER)[0] == 200
        stop.set()
        for call in waiting:
            assert call.exception() is not None
    until(lambda: served_again(narrow))


def test_bytes_are_held_from_the_first_piece_on(narrow: Served) -> None:
    """Bodies that are not whole yet count: the second of them is too much for this peer, not for another."""
    with ExitStack() as stack:
        unfinished = [opened(narrow, stack, UNFINISHED + bytes(900_000))]

        def is_full() -> bool:
            if select.select(unfinished[-1:], [], [], 0)[0]:
                # It came while this test's own request was held, and was refused.
                unfinished.append(opened(narrow, stack, UNFINISHED + bytes(900_000)))
            return status(narrow, INFER, bytes(900_000))[0] == 429

        until(is_full)
        assert status(narrow, INFER, bytes(900_000), source=OTHER)[0] == 400
    until(lambda: status(narrow, INFER, bytes(900_000))[0] == 400)


def test_a_certificate_is_a_peer(folder: Path, tmp_path: Path) -> None:
    """Two clients of one address are two peers, and one client is the same peer over REST and gRPC."""
    ca, authority = trustme.CA(), tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(authority)
    pairs = []
    for name in ("127.0.0.1", "first.example", "second.example", "third.example"):
        made = ca.issue_cert(name)
        cert, key = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        made.cert_chain_pems[0].write_to_path(cert)
        made.private_key_pem.write_to_path(key)
        pairs.append((cert, key))
    (cert, key), first, second, third = pairs
    options = ["--tls-cert", cert, "--tls-key", key, "--client-ca", authority, "--peer-rate", 0.05]
    with served(folder, options) as server:

        def ask(pair: tuple[Path, Path]) -> int:
            import ssl

            context = ssl.create_default_context(cafile=str(authority))
            context.load_cert_chain(*pair)
            host, _, port = server.rest.rpartition(":")
            connection = http.client.HTTPSConnection(host, int(port), timeout=ENOUGH_S, context=context)
            try:
                connection.request("GET", "/v2")
                return connection.getresponse().status
            finally:
                connection.close()

        assert ask(first) == 200
        assert ask(first) == 429
        assert ask(second) == 200
        credentials = grpc.ssl_channel_credentials(authority.read_bytes(), first[1].read_bytes(), first[0].read_bytes())
        with grpc.secure_channel(server.grpc, credentials) as channel, pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(calls()["ServerLive"].path)(b"", timeout=ENOUGH_S)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        with RemoteRuntime(BoardAccess(f"grpcs://{server.grpc}", None, authority, *third)) as board:
            assert board.devices()


class Clock:
    """A clock that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_peers_are_bounded_in_number_and_forgotten() -> None:
    """Ten thousand addresses: those that ask for nothing are forgotten, never one whose requests are under way."""
    clock = Clock()
    peers = Peers(ByteBudget(1 << 20), ServeLimits(peer_requests=1), clock)
    with peers.admitted("first"):
        for number in range(4095):
            with peers.admitted(f"peer {number}"):
                pass
        with pytest.raises(RequestRefused, match="too many peers"), peers.admitted("one more"):
            pass
        clock.now += 61
        with peers.admitted("one more"):
            assert len(peers) == 2
        with pytest.raises(RequestRefused, match="under way"), peers.admitted("first"):
            pass
    with peers.admitted("first"):
        pass


def test_what_a_request_held_is_given_back_whatever_happens() -> None:
    budget = ByteBudget(100)
    peers = Peers(budget, ServeLimits(peer_held_bytes=80))
    with peers.admitted("a") as guest:
        guest.hold(50)
        with pytest.raises(RequestRefused, match="as one peer's may"):
            guest.hold(31)
    assert budget.held == 0
    with peers.admitted("a") as first, peers.admitted("b") as second:
        first.hold(80)
        with pytest.raises(RequestRefused, match="as it can"):
            second.hold(21)
        second.hold(20)
        assert budget.held == 100
    assert budget.held == 0


def test_a_bucket_fills_up_to_one_second() -> None:
    bucket = TokenBucket(10.0, 0.0)
    for _ in range(10):
        assert bucket.wait_s(0.0) == 0
        bucket.take(1)
    assert bucket.wait_s(0.0) == pytest.approx(0.1)
    assert bucket.wait_s(0.2) == 0
    bucket.take(21)
    assert bucket.wait_s(0.2) == pytest.approx(2.0)
    assert bucket.wait_s(100.0) == 0
    bucket.take(10)
    assert bucket.wait_s(100.0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("no address", "no address"),
    ],
)
def test_a_network_of_version_6_is_one_peer(host: str, name: str) -> None:
    assert peer_of_address(host) == name


def test_limits_that_are_none_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dovetail.cli.main import main

    for option, value, what in (
        ("--peer-rate", "-1", "Option: --peer-rate."),
        ("--peer-bytes", "nan", "Invalid value for '--peer-bytes': a finite number is expected"),
        ("--peer-requests", "0", "Option: --peer-requests."),
    ):
        assert main(["serve", str(tmp_path), option, value]) == 2
        assert what in capsys.readouterr().err
