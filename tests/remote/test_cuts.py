"""Boards that die in mid-upload, and cables that are cut: the old model serves on, and no answer is wrong."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import draws
import needs
import numpy as np
import pytest
import work
from boards import small_network
from served import inputs_for, served, small_bundle

import dovetail
from dovetail.bundle import restore_bundles
from dovetail.errors import DeviceLost, RemoteError
from dovetail.exporters.onnx import to_onnx
from dovetail.remote import RemoteRuntime

DYING = """
import os, pathlib, signal

at, replace, write = os.environ["DIES"], os.replace, pathlib.Path.write_bytes

def die(moment):
    if at == moment:
        os.kill(os.getpid(), signal.SIGKILL)

def replacing(source, target, **more):
    moment = {"small": "put aside", "new": "put in place"}.get(pathlib.Path(source).name)
    die(f"before it is {moment}")
    replace(source, target, **more)
    die(f"after it is {moment}")

def writing(path, data):
    if path.name.endswith(".blob"):
        write(path, data[: len(data) // 2])
        die("half written")
    return write(path, data)

os.replace, pathlib.Path.write_bytes = replacing, writing
"""
"""Python's start in a server that is killed at a moment of an upload, named by DIES."""

MOMENTS = ["half written", "before it is put aside", "after it is put aside", "before it is put in place"]


def answers(url: str, bundle: dovetail.Bundle) -> bool:
    """Tell whether the model `small` of a server gives what a bundle gives here."""
    import tritonclient.grpc

    arrays = inputs_for(bundle, 3)
    tensor = tritonclient.grpc.InferInput("x", [3, 8], "FP32")
    tensor.set_data_from_numpy(arrays["x"])
    with tritonclient.grpc.InferenceServerClient(url.removeprefix("grpc://")) as client:
        found = client.infer("small", [tensor]).as_numpy("y")
    with dovetail.open_session(bundle) as session:
        return bool(found.tobytes() == session.run(arrays).outputs["y"].tobytes())


@pytest.mark.parametrize("moment", [*MOMENTS, "after it is put in place"])
def test_a_server_that_is_killed_in_an_upload_serves_a_whole_model_again(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old model until the new one is in its place, whatever the moment."""
    old, new, models, start = small_bundle(), small_bundle(seed=2), tmp_path / "models", tmp_path / "start"
    dovetail.save_bundle(old, models / "small")
    start.mkdir()
    (start / "sitecustomize.py").write_text(DYING)
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(start))
        patch.setenv("DIES", moment)
        with served(models) as server:
            with RemoteRuntime(server.url) as board, pytest.raises((RemoteError, DeviceLost)):
                board.install("small", new)
            assert server.process.wait(work.PATIENCE_S) == -9
    with served(models) as server:
        assert answers(server.url, new if moment == "after it is put in place" else old)
        with RemoteRuntime(server.url) as board:
            board.install("small", new)
        assert answers(server.url, new)


def test_a_server_that_is_killed_while_an_upload_comes_in_serves_the_old_model(tmp_path: Path) -> None:
    bundle = small_bundle()
    dovetail.save_bundle(bundle, tmp_path / "small")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with served(tmp_path) as server:
        host, _, port = server.rest.rpartition(":")
        with socket.create_connection((host, int(port)), 60) as peer:
            head = f"POST /v2/repository/models/small/load HTTP/1.1\r\nHost: {server.rest}\r\n"
            peer.sendall(
                f"{head}Content-Length: 1000000\r\n\r\n".encode()
                + b'{"parameters": {"file:1/manifest.json": "'
                + b"A" * 400_000
            )
            assert answers(server.url, bundle)
            server.process.kill()
            server.process.wait()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    with served(tmp_path) as server:
        assert answers(server.url, bundle)


def test_only_what_a_kill_left_aside_is_put_back(tmp_path: Path) -> None:
    old, new = small_bundle(), small_bundle(seed=2)
    dovetail.save_bundle(old, tmp_path / ".gone.abc" / "old")
    dovetail.save_bundle(new, tmp_path / ".gone.abc" / "new")
    dovetail.save_bundle(old, tmp_path / ".there.abc" / "old")
    dovetail.save_bundle(new, tmp_path / "there")
    (tmp_path / ".empty.abc" / "old").mkdir(parents=True)
    (tmp_path / ".link.abc").symlink_to(tmp_path / ".there.abc")
    assert restore_bundles(tmp_path) == ("gone",)
    assert dovetail.load_bundle(tmp_path / "gone") == old
    assert dovetail.load_bundle(tmp_path / "there") == new
    assert not (tmp_path / "link").exists()
    assert restore_bundles(tmp_path) == ()


@dataclass(frozen=True)
class Hosts:
    """Two hosts in network namespaces with a cable between them."""

    near: str
    far: str
    cable: str
    address: str
    """Of the far host."""

    def inside(self, host: str) -> list[str]:
        """Return the words of a command that runs another one on a host."""
        return ["ip", "netns", "exec", host]

    def plug(self, *, into: bool) -> None:
        """Put the cable in, or pull it out."""
        ip("-n", self.far, "link", "set", f"{self.cable}b", "up" if into else "down")


def ip(*words: str, command: str = "ip") -> None:
    subprocess.run([command, *words], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        needs.without("netns", "network namespaces take root and 'ip'")
    mark = secrets.token_hex(4)
    number = int(mark, 16) % 250
    found = Hosts(f"dvt-{mark}-a", f"dvt-{mark}-b", f"dv{mark}", f"10.213.{number}.2")
    try:
        for host in (found.near, found.far):
            ip("netns", "add", host)
            ip("-n", host, "link", "set", "lo", "up")
        ip(
            "link",
            "add",
            f"{found.cable}a",
            "netns",
            found.near,
            "type",
            "veth",
            "peer",
            f"{found.cable}b",
            "netns",
            found.far,
        )
        for host, end, own in ((found.near, "a", 1), (found.far, "b", 2)):
            ip("-n", host, "address", "add", f"10.213.{number}.{own}/24", "dev", f"{found.cable}{end}")
            ip("-n", host, "link", "set", f"{found.cable}{end}", "up")
    except subprocess.CalledProcessError as error:
        _remove(found)
        needs.without("netns", f"network namespaces cannot be made: {error.stderr.strip()}")
    try:
        yield found
    finally:
        _remove(found)


def _remove(found: Hosts) -> None:
    for host in (found.near, found.far):
        subprocess.run(["ip", "netns", "delete", host], check=False, capture_output=True)


CLIENT = """
import sys
import dovetail
from dovetail.errors import DovetailError
from dovetail.remote import RemoteRuntime
from served import inputs_for

bundle = dovetail.load_bundle(sys.argv[2])
with RemoteRuntime(sys.argv[1], run_s=float(sys.argv[3])) as board, board.load(bundle) as model:
    print("loaded", flush=True)
    for seed in range(400):
        try:
            print(seed, model.run(inputs_for(bundle, 2, seed)).outputs["y"].tobytes().hex(), flush=True)
        except DovetailError as error:
            print("error", type(error).__name__, error, flush=True)
            break
print("end", flush=True)
"""


def client(hosts: Hosts, url: str, bundle: Path, run_s: float) -> subprocess.Popen[str]:
    support = str(Path(__file__).parents[1] / "support")
    words = [*hosts.inside(hosts.near), sys.executable, "-c", CLIENT, url, str(bundle), str(run_s)]
    environment = {**os.environ, "PYTHONPATH": support}
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("mended", [True, False])
def test_a_cable_that_is_cut_gives_the_same_answers_or_a_clear_error(
    mended: bool, hosts: Hosts, tmp_path: Path
) -> None:
    bundle = small_bundle()
    dovetail.save_bundle(bundle, tmp_path / "small")
    (tmp_path / "board").mkdir()
    options = ["--host", hosts.address, "--insecure"]
    with served(tmp_path / "board", options, before=hosts.inside(hosts.far)) as server:
        with client(hosts, server.url, tmp_path / "small", 30.0 if mended else 3.0) as process:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(20)]
            hosts.plug(into=False)
            if mended:
                time.sleep(1.0)
                hosts.plug(into=True)
            said += process.stdout.readlines()
            assert process.wait(work.PATIENCE_S) == 0
        hosts.plug(into=True)
        after = client(hosts, server.url, tmp_path / "small", 60.0)
        again = after.communicate(timeout=work.PATIENCE_S)[0].splitlines()
    assert (said[0], said[-1]) == ("loaded\n", "end\n")
    check(bundle, said[1:-1], server.url, may_fail=True)
    assert mended or said[-2].startswith("error ")
    assert len(again) == 402
    check(bundle, again[1:-1], server.url, may_fail=False)


def check(bundle: dovetail.Bundle, lines: list[str], url: str, *, may_fail: bool) -> None:
    """Check that every answer is right, and that an error is the last thing said, and names the board."""
    with dovetail.open_session(bundle) as session:
        for number, line in enumerate(lines):
            first, _, rest = line.strip().partition(" ")
            if first == "error":
                assert may_fail
                assert number == len(lines) - 1
                assert rest.split()[0] in ("DeviceLost", "RemoteError")
                assert url in rest
                continue
            assert rest == session.run(inputs_for(bundle, 2, int(first))).outputs["y"].tobytes().hex()


@contextmanager
def bad_cable(hosts: Hosts) -> Iterator[str]:
    """Lay a second cable that delays every packet and loses some; give the far host's address on it."""
    program, device = Path(__file__).parents[1] / "support" / "cable.py", f"{hosts.cable}t"
    words = [sys.executable, str(program), hosts.near, hosts.far, device, "20", "0.05", str(draws.seed_of("cable"))]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as it:
        assert it.stdin is not None
        assert it.stdout is not None
        assert it.stderr is not None
        if it.stdout.readline() != "ready\n":
            needs.without("tun", it.stderr.read().strip().splitlines()[-1])
        net = hosts.address.replace("10.213.", "10.214.").removesuffix("2")
        try:
            for host, own in ((hosts.near, 1), (hosts.far, 2)):
                ip("-n", host, "address", "add", f"{net}{own}/24", "dev", device)
                ip("-n", host, "link", "set", device, "up")
            yield f"{net}2"
        finally:
            it.stdin.close()
        told = re.fullmatch(r"handed on (\d+), lost (\d+)\n", it.stdout.read())
        assert told is not None
        assert int(told[1]) > 100
        assert int(told[2]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("lossy", [False, True])
def test_a_search_across_two_hosts(lossy: bool, hosts: Hosts, tmp_path: Path) -> None:
    import onnx

    onnx.save(to_onnx(small_network()), tmp_path / "model.onnx")
    x = np.random.default_rng(1).normal(size=(40, 3, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    (tmp_path / "board").mkdir()
    with ExitStack() as stack:
        address = stack.enter_context(bad_cable(hosts)) if lossy else hosts.address
        options = ["--host", address, "--insecure"]
        server = stack.enter_context(served(tmp_path / "board", options, before=hosts.inside(hosts.far)))
        words = ["tune", "model.onnx", "--data", "x.npz", "--metric", "noise", "--max-drop", "0.5", "--on", server.url]
        command = [*hosts.inside(hosts.near), sys.executable, "-m", "dovetail.cli", *words, "-o", "out", "--json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    board: Any = json.loads(done.stdout)["board"]
    assert (board["failure"], board["url"], board["equal_share"]) == ("", server.url, 1.0)
