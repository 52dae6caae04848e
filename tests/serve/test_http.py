"""HTTP by hand, with the parser of most machines and with the one of machines that have no other."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import Served, served

import dovetail

ENOUGH_S = 60.0
MB = 1 << 20
ABSENT = ("httptools", "uvloop")
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LAST = b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module", params=["httptools", "h11"])
def spoken(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, bundle: dovetail.Bundle
) -> Iterator[Served]:
    """A server that waits two seconds for heads and bodies."""
    folder = tmp_path_factory.mktemp(request.param)
    dovetail.save_bundle(bundle, folder / "models" / "small")
    before: list[object] = []
    if request.param == "h11":
        for name in ABSENT:
            (folder / f"{name}.py").write_text("raise ImportError\n")
        paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        before = ["env", f"PYTHONPATH={os.pathsep.join(paths)}"]
    with served(folder / "models", impatient=["head_s=2.0", "body_s=2.0"], before=before) as server:
        loaded = Path(f"/proc/{server.process.pid}/maps").read_text()
        assert all((name in loaded) == (request.param == "httptools") for name in ABSENT)
        yield server


def talk(server: Served, *pieces: bytes) -> bytes:
    """Send pieces and read meanwhile, until the server closes."""
    host, _, port = server.rest.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=ENOUGH_S) as connection:
        sender = threading.Thread(target=_send, args=(connection, pieces))
        sender.start()
        heard = []
        with contextlib.suppress(ConnectionResetError):
            while more := connection.recv(65536):
                heard.append(more)
        sender.join()
    return b"".join(heard)


def _send(connection: socket.socket, pieces: Sequence[bytes]) -> None:
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        for piece in pieces:
            connection.sendall(piece)


def statuses(answer: bytes) -> list[int]:
    """Return the status of every answer."""
    return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]


def test_answers_come_in_the_order_of_requests_that_do_not_wait(spoken: Served) -> None:
    missing = b"GET /v2/models/none HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    assert statuses(talk(spoken, LIVE + missing + LIVE, missing + LAST)) == [200, 404, 200, 404, 200]


def test_many_requests_in_line_take_bounded_memory(spoken: Served) -> None:
    before = spoken.peak_bytes()
    talk(spoken, b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n" * 40_000)
    assert spoken.peak_bytes() - before < 32 * MB
    assert statuses(talk(spoken, LAST)) == [200]


LONG = {
    "header": (b"GET /v2 HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"x" * 65536),
    "headers": (b"GET /v2 HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X: y\r\n" * 9000),
    "address": (b"GET /v2?", b"x" * 65536),
    "name": (b"GET /v2 HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X" * 65536),
}


@pytest.mark.parametrize("what", LONG)
def test_a_head_without_an_end_is_refused_in_bounded_memory(what: str, spoken: Served) -> None:
    start, more = LONG[what]
    before = spoken.peak_bytes()
    answer = talk(spoken, start, *[more] * 1000)
    assert set(statuses(answer)) <= {400, 431}
    assert spoken.peak_bytes() - before < 32 * MB
    assert statuses(talk(spoken, LAST)) == [200]


INFER = b"POST /v2/models/small/infer HTTP/1.1\r\nHost: 127.0.0.1\r\n"
INDEX = b"POST /v2/repository/index HTTP/1.1\r\nHost: 127.0.0.1\r\n"
CHUNKED = INFER + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_what_stands_behind_a_body_is_no_header(spoken: Served) -> None:
    """A packed body would be refused for being packed: it is refused for what it says."""
    body = b"2\r\n{}\r\n0\r\n"
    plain = talk(spoken, CHUNKED + body + b"\r\n")
    behind = talk(spoken, CHUNKED + body + b"Content-Encoding: gzip\r\nOrigin: http://a.example\r\n\r\n")
    assert statuses(plain) == [400]
    assert behind.partition(b"\r\n\r\n")[2] == plain.partition(b"\r\n\r\n")[2]


def test_headers_behind_a_body_without_an_end_take_bounded_memory(spoken: Served) -> None:
    before = spoken.peak_bytes()
    talk(spoken, CHUNKED + b"2\r\n{}\r\n0\r\n", *[b"X: y\r\n" * 9000] * 300)
    assert spoken.peak_bytes() - before < 32 * MB
    assert statuses(talk(spoken, LAST)) == [200]


@pytest.mark.parametrize("word", [b"h2c", b"websocket"])
def test_who_offers_another_protocol_is_answered_in_this_one(word: bytes, spoken: Served) -> None:
    """Some clients offer HTTP/2 in their first request; its body and what follows are read."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: " + word + b"\r\nHTTP2-Settings: AA\r\n"
    body = b'{"inputs": []}'
    get = b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n" + offer + b"\r\n"
    post = INFER + offer + b"Content-Length: %d\r\n\r\n" % len(body) + body
    assert statuses(talk(spoken, get, LAST)) == [200, 200]
    assert statuses(talk(spoken, get + LAST)) == [200, 200]
    answer = talk(spoken, post + LAST)
    assert statuses(answer) == [400, 200]
    # It was read: it misses what the model needs.
    assert b"'x'" in answer


BAD = {
    "two lengths": INDEX + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length and chunks": INDEX + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a negative length": INDEX + b"Content-Length: -2\r\n\r\n{}",
    "a size of a chunk": CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "a broken header": b"GET /v2 HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin\r\n: http://a.example\r\n\r\n",
    "an address in bytes": b"GET /\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a zero": b"GET /v2 HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\x00b\r\n\r\n",
}


@pytest.mark.parametrize("what", BAD)
def test_what_can_be_read_in_two_ways_is_refused(what: str, spoken: Served) -> None:
    """A length and chunks may be taken for chunks too, as the standard allows, where the connection then ends."""
    answer = talk(spoken, BAD[what] + LIVE)
    assert statuses(answer) in ([], [400]) or (what == "a length and chunks" and statuses(answer) == [200, 200])
    assert statuses(talk(spoken, LAST)) == [200]


WORDS = st.sampled_from(
    [
        *(
            b"GET /v2 HTTP/1.1\r\n",
            INFER,
            b"Host: 127.0.0.1\r\n",
            b"Content-Length: ",
            b"4",
            b"0",
            b"{}",
            b"*",
            b"\r\n",
        ),
        *(b"Transfer-Encoding: chunked\r\n", b"Connection: Upgrade\r\n", b"Upgrade: h2c\r\n", b"\r\n\r\n"),
        *(b"Connection: close\r\n", b"CONNECT a:1 HTTP/1.1\r\n", b"Expect: 100-continue\r\n", b"PRI * HTTP/2.0\r\n"),
    ]
)


@settings(
    max_examples=int(os.environ.get("DOVETAIL_FUZZ", "150")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)
@given(pieces=st.lists(st.lists(WORDS | st.binary(max_size=9), max_size=12).map(b"".join), max_size=4))
def test_random_words_do_no_harm(pieces: list[bytes], spoken: Served) -> None:
    # The last of them is refused, or the rest of the one before.
    answer = talk(spoken, *pieces, b"\r\n\r\nno request\r\n\r\n")
    assert 500 not in statuses(answer)
    assert statuses(talk(spoken, LAST)) == [200]
    assert not [line for line in spoken.said[1:] if "Traceback" in line or "unexpected" in line]


def test_a_head_that_drips_is_given_up(spoken: Served) -> None:
    """Pieces that keep coming do not make the time longer."""
    host, _, port = spoken.rest.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=ENOUGH_S) as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\n")
        connection.settimeout(0.5)
        for _ in range(60):
            try:
                connection.sendall(b"x")
                assert connection.recv(65536) == b""
                return
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                return
    raise AssertionError("still open")
