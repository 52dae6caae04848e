"""Ask a server for as long as one likes, rightly and wrongly: does its memory grow, do files or threads stay behind?

python benchmarks/soak.py [--seconds 600] [--clients 4] [--seed N] [--json FILE]

Clients run the model over gRPC and REST; others send mutants of requests, hang up in the middle, and upload. The
server's memory is read twenty times; what counts is the middle of the last third beside that of the second. Open files
rise where a server without a processor has connections waiting; what counts is whether they fall back to what they
were before, once nobody asks any more.
"""

from __future__ import annotations

import argparse
import json
import re
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from dovetail.bundle import save_bundle
from dovetail.errors import DovetailError
from dovetail.remote.runtime import RemoteRuntime
from fuzzing.child import mutant_of
from fuzzing.network import Small, small_network
from fuzzing.served import rest_seeds

_READINGS = 21
_MOST_GROWTH = 0.05
"""Of the memory, from the second third of the time to the last: what allocators move is less, what leaks is more."""

_MOST_MORE, _ENDED_S = 10, 120.0
"""Open files of a server that nobody asks any more, beyond those it began with: of a library that was loaded since, of
workers; and how long its connections may take to end."""


@dataclass
class Soaked:
    """What came of it: answers by kind, memory in MB, open files and threads as time went on, and what went wrong."""

    seconds: float
    answers: dict[str, int] = field(default_factory=dict)
    memory_mb: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    files_before: int = 0
    """Open files before anybody asked."""
    files_left: int = 0
    """Open files once nobody asks any more, and connections had the time to end."""
    quiet_s: float = 0.0
    """How long that took."""

    @property
    def growth(self) -> float:
        """Return the growth of memory from the second third of the readings to the last, as a share."""
        third = len(self.memory_mb) // 3
        return statistics.median(self.memory_mb[2 * third :]) / statistics.median(self.memory_mb[third : 2 * third]) - 1


class _Clients:
    """Threads that ask one server until they are told to stop."""

    def __init__(self, small: Small, rest: str, grpc: str, seed: int) -> None:
        self._small, self._rest, self._grpc, self._seed = small, rest, grpc, seed
        self._answers: Counter[str] = Counter()
        self.problems: list[str] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def run(self, count: int, seconds: float, look: threading.Thread) -> dict[str, int]:
        """Ask until the time is up; return how often what was answered."""
        kinds = (self._run_grpc, self._send_mutants, self._hang_up, self._upload)
        threads = [threading.Thread(target=self._asking, args=(kinds[i % 4], i), daemon=True) for i in range(count)]
        for thread in (*threads, look):
            thread.start()
        look.join(seconds + 120)
        self._stop.set()
        for thread in threads:
            thread.join(120)
        return dict(self._answers)

    def _asking(self, ask: Callable[[int], None], number: int) -> None:
        try:
            ask(number)
        except Exception as error:  # a client that ends early would soak nothing
            self.problems.append(f"a client ended: {type(error).__name__}: {error}")

    def _count(self, what: str) -> None:
        with self._lock:
            self._answers[what] += 1

    def _run_grpc(self, number: int) -> None:
        rng = np.random.default_rng([self._seed, number])
        bundle = self._small.bundle
        with RemoteRuntime(self._grpc) as runtime:
            runtime.install("small", bundle)
            model = runtime.load(bundle)
            first = {"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)}
            expected = model.run(first).outputs["y"]
            while not self._stop.is_set():
                if not np.array_equal(model.run(first).outputs["y"], expected):
                    self.problems.append("another answer to the same question")
                self._count("gRPC: answered")

    def _send_mutants(self, number: int) -> None:
        rng = np.random.default_rng([self._seed, number])
        seeds = [seed for seed in rest_seeds() if b"/load" not in seed and b"/unload" not in seed]
        while not self._stop.is_set():
            data = mutant_of(seeds[int(rng.integers(len(seeds)))], rng) if rng.random() < 0.7 else seeds[0]
            self._count(f"REST: {self._asked(data)}")

    def _asked(self, data: bytes) -> str:
        """Send a request as it is, on a connection of its own; return the status of the answer."""
        head, _, body = data.partition(b"\n\n")
        first, *lines = head.split(b"\n")
        fields = (b"host: localhost", b"connection: close", b"content-length: %d" % len(body), *lines)
        whole = b"\r\n".join((first + b" HTTP/1.1", *fields, b"", body))
        host, _, port = self._rest.removeprefix("http://").rpartition(":")
        answer = b""
        try:
            with socket.create_connection((host, int(port)), timeout=60) as connection:
                connection.sendall(whole)
                while piece := connection.recv(1 << 16):
                    answer += piece
        except TimeoutError:
            return "no answer within a minute"
        except OSError:
            # The server hangs up on what is no HTTP, often before it was all sent.
            return "hung up on"
        if b"unexpected" in answer:
            self.problems.append(f"{answer[:300]!r} to {data[:200]!r}")
        status = re.match(rb"HTTP/1.1 (\d+)", answer)
        return status[1].decode() if status else "closed"

    def _hang_up(self, number: int) -> None:
        rng = np.random.default_rng([self._seed, number])
        host, _, port = self._rest.removeprefix("http://").rpartition(":")
        body = json.dumps({"inputs": [{"name": "x", "shape": [1, 3, 8, 8], "datatype": "FP32", "data": [0] * 192}]})
        whole = f"POST /v2/models/small/infer HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n\r\n{body}"
        while not self._stop.is_set():
            with socket.create_connection((host, int(port)), timeout=60) as connection:
                connection.sendall(whole.encode()[: int(rng.integers(1, len(whole)))])
            self._count("hung up")
            time.sleep(0.01)

    def _upload(self, number: int) -> None:
        with RemoteRuntime(self._grpc) as runtime:
            while not self._stop.is_set():
                try:
                    runtime.install(f"other{number}", self._small.bundle)
                    self._count("uploaded")
                except DovetailError as error:
                    self._count(f"upload refused: {str(error)[:40]}")
                time.sleep(0.05)


def soak(seconds: float, clients: int, seed: int, folder: Path) -> Soaked:
    """Serve a small model in a process of its own, ask it, and return what came of it."""
    small = small_network()
    save_bundle(small.bundle, folder / "small")
    command = [sys.executable, "-m", "dovetail.cli", "serve", str(folder), "--port", "0", "--grpc-port", "0"]
    found = Soaked(seconds)
    with (folder / "said").open("w+") as said:
        server = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            rest, grpc = addresses(folder / "said", server)
            found.files_before = open_files(server.pid)
            asking = _Clients(small, rest, grpc, seed)
            look = threading.Thread(target=_look, args=(server.pid, seconds, found), daemon=True)
            found.answers = asking.run(clients, seconds, look)
            found.problems += asking.problems
            began = time.monotonic()
            found.files_left = files_left(server.pid, found.files_before + _MOST_MORE)
            found.quiet_s = time.monotonic() - began
            if found.files_left > found.files_before + _MOST_MORE:
                found.problems.append(
                    f"{found.files_left} files are open where nobody asks any more; before there were "
                    f"{found.files_before}"
                )
            if server.poll() is not None:
                found.problems.append(f"the server ended with {server.returncode}")
        finally:
            server.terminate()
            if server.wait(120):
                found.problems.append(f"the server ended with {server.returncode}")
    if "Traceback" in (text := (folder / "said").read_text()):
        found.problems.append(text[text.index("Traceback") :][:500])
    if found.growth > _MOST_GROWTH:
        found.problems.append(f"memory grew by {found.growth:.1%} from the second third of the time to the last")
    return found


def addresses(said: Path, server: subprocess.Popen[bytes]) -> tuple[str, str]:
    """Return where a server that was started says that it listens, over REST and gRPC."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and server.poll() is None:
        match = re.search(r"(http://\S+) and (grpc://\S+)", said.read_text())
        if match is not None:
            return match[1], match[2].rstrip(",.")
        time.sleep(0.1)
    raise AssertionError(said.read_text())


def open_files(pid: int) -> int:
    """Return how many files, sockets among them, a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def files_left(pid: int, most: int) -> int:
    """Return how many files are open when connections have had the time to end."""
    deadline = time.monotonic() + _ENDED_S
    while (left := open_files(pid)) > most and time.monotonic() < deadline:
        time.sleep(0.5)
    return left


def _look(pid: int, seconds: float, found: Soaked) -> None:
    """Read what the server holds, from time to time."""
    for _ in range(_READINGS):
        time.sleep(seconds / _READINGS)
        text = Path(f"/proc/{pid}/status").read_text()
        memory, threads = (re.search(rf"{name}:\s+(\d+)", text) for name in ("VmRSS", "Threads"))
        assert memory is not None
        assert threads is not None
        found.memory_mb.append(int(memory[1]) / 1024)
        found.threads.append(int(threads[1]))
        found.files.append(open_files(pid))


def main() -> int:
    """Soak a server as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 31) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        found = soak(given.seconds, given.clients, seed, Path(folder))
    for name in ("memory_mb", "files", "threads"):
        values = getattr(found, name)
        print(f"{name}: {values[0]:.0f} at first, {max(values):.0f} at most, {values[-1]:.0f} at last")
    print(
        f"files open before anybody asked: {found.files_before}; "
        f"once nobody asks any more, after {found.quiet_s:.0f} s: {found.files_left}"
    )
    print(f"growth of memory, last third beside the second: {found.growth:+.1%}")
    print(", ".join(f"{count} {what}" for what, count in sorted(found.answers.items())))
    print("\n".join(found.problems) or "nothing wrong")
    if given.json is not None:
        given.json.write_text(json.dumps({"seed": seed, "growth": found.growth, **asdict(found)}, indent=1))
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
