"""A short soak: the server answers rightly throughout, and what it holds is read."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import draws
import pytest
import work

from dovetail.bundle import save_bundle
from fuzzing.network import small_network
from soak import Soaked, addresses, files_left, open_files, soak


@pytest.mark.slow
def test_a_server_is_asked_rightly_and_wrongly(tmp_path: Path) -> None:
    seed = draws.seed_of(__name__)
    sys.stdout.write(f"seed {seed}\n")
    found = soak(6.0, 4, seed, tmp_path)
    # So short a time says nothing of memory: it is looked at by `make soak`.
    assert not [problem for problem in found.problems if not problem.startswith("memory grew")], found
    assert found.answers["gRPC: answered"]
    assert found.answers["hung up"]
    assert found.answers["uploaded"]
    assert any(name.startswith("REST") for name in found.answers)
    assert found.files_before > 0
    assert len(found.memory_mb) == len(found.files) == len(found.threads)


def test_growth_is_of_the_last_third() -> None:
    assert Soaked(1.0, memory_mb=[50.0, 50.0, 100.0, 100.0, 110.0, 110.0]).growth == pytest.approx(0.1)


_WAITING = 200
_HEAD = b"POST /v2/models/small/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{"


def test_connections_that_waited_for_a_server_without_a_processor_all_close(tmp_path: Path) -> None:
    save_bundle(small_network().bundle, tmp_path / "small")
    command = [sys.executable, "-m", "dovetail.cli", "serve", str(tmp_path), "--port", "0", "--grpc-port", "0"]
    with (tmp_path / "said").open("w+") as said:
        server = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            rest, _ = addresses(tmp_path / "said", server)
            host, _, port = rest.removeprefix("http://").rpartition(":")
            before = open_files(server.pid)
            server.send_signal(signal.SIGSTOP)
            waiting = [socket.create_connection((host, int(port)), timeout=60) for _ in range(_WAITING)]
            for number, connection in enumerate(waiting):
                connection.sendall(_HEAD[: 1 + number % len(_HEAD)])
            server.send_signal(signal.SIGCONT)
            deadline = time.monotonic() + work.PATIENCE_S
            while open_files(server.pid) < before + _WAITING // 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            # So many wait at once: what a starved server shows is a backlog.
            assert open_files(server.pid) >= before + _WAITING // 2
            server.send_signal(signal.SIGSTOP)
            for connection in waiting:
                connection.close()
            server.send_signal(signal.SIGCONT)
            assert files_left(server.pid, before) <= before
        finally:
            server.send_signal(signal.SIGCONT)
            server.terminate()
            server.wait(work.PATIENCE_S)
