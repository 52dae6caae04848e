"""What a request to `dovetail serve` takes beside the same run in process: p50 and p99 by number of clients.

python benchmarks/serve_overhead.py [--requests N | --seconds S] [--clients 1 8 32] [--rounds N]
    [--mlserver PYTHON] [--json]

One model, float input of 150 KB, output of 4 KB; clients are threads of one process of tritonclient, each with a
connection of its own, sending one request after the other; `our client` is `RemoteRuntime.served`, and `http.client` is
the standard library's, for what the server takes without tritonclient. A server of grpcio that runs nothing and has one
answer ready is asked too: that is what grpcio and tritonclient take by themselves. Sides take turns within a round and
all rounds count. With --mlserver, the Python of an environment that has `mlserver` and
`onnxruntime`, MLServer serves the same ONNX model too, over gRPC, without worker processes. Every answer is compared
with the run in process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import dovetail
from dovetail.ir import AnyArray
from dovetail.remote import RemoteRuntime
from zoo.table import number, text

SHAPE = (1, 3, 112, 112)
MLSERVER = """
import numpy, onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse

class Onnx(MLModel):
    async def load(self):
        self.session = onnxruntime.InferenceSession(self.settings.parameters.uri, providers=["CPUExecutionProvider"])
        return True

    async def predict(self, request):
        x = NumpyCodec.decode_input(request.inputs[0])
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output("y", self.session.run(None, {"x": x})[0])]
        )
"""

BARE = """
import sys
from concurrent.futures import ThreadPoolExecutor
import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

class Bare(service_pb2_grpc.GRPCInferenceServiceServicer):
    def ModelInfer(self, request, context):
        return answer

answer = service_pb2.ModelInferResponse(model_name="overhead", raw_output_contents=[sys.stdin.buffer.read()])
answer.outputs.add(name="y", datatype="FP32", shape=[1, len(answer.raw_output_contents[0]) // 4])
server = grpc.server(ThreadPoolExecutor(40))
service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Bare(), server)
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"""
"""A server that has its one answer ready: what grpcio and the client take by themselves."""


@dataclass(frozen=True)
class Amount:
    """How much each side is asked in a round: so many requests, or for so many seconds where that is not 0."""

    requests: int
    seconds: float

    def turns(self, clients: int) -> Iterator[int]:
        """Yield the turns of one client of several."""
        if not self.seconds:
            yield from range(max(1, self.requests // clients))
            return
        end, turn = time.perf_counter() + self.seconds, 0
        while time.perf_counter() < end:
            yield turn
            turn += 1


Ask = Callable[[], AnyArray]
Connect = Callable[[], Ask]
"""Makes what sends one request and returns its answer; called once for each client."""


def model() -> onnx.ModelProto:
    """Return a network that does little with a large input: `x [1, 3, 112, 112]` -> `y [1, 1024]`."""
    weight = np.random.default_rng(1).normal(size=(3, 1024)).astype(np.float32)
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("MatMul", ["f", "w"], ["y"], "dense"),
    ]
    graph = helper.make_graph(
        nodes,
        "overhead",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1024])],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def bundle_of(path: Path) -> dovetail.Bundle:
    """Return the bundle of a model, in float on the CPU."""
    graph = dovetail.normalize(dovetail.load_model(path))
    plan = dovetail.make_plan(
        graph, dovetail.Recipe(dovetail.parse_placement("cpu@fp32")), {"cpu": dovetail.find_target("cpu")}
    )
    ranges = dovetail.Ranges(graph.digest, "none", 0, {})
    return dovetail.compile_model(dovetail.partition(dovetail.quantize(graph, plan, ranges)))


@contextmanager
def our_server(folder: Path) -> Iterator[dict[str, str]]:
    """Serve a folder by the command; give its addresses by form."""
    command = [sys.executable, "-m", "dovetail.cli", "serve", str(folder), "--port", "0", "--grpc-port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    try:
        found = re.search(r"http://(\S+) and grpc://(\S+)", process.stderr.readline())
        if found is None:
            raise SystemExit("the server did not start")
        yield {"http": found[1], "grpc": found[2]}
    finally:
        process.terminate()
        process.wait(60)
        process.stderr.close()


@contextmanager
def bare_server(answer: AnyArray) -> Iterator[str]:
    """Serve one answer by grpcio alone; give the address."""
    process = subprocess.Popen([sys.executable, "-c", BARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(answer.tobytes())
        process.stdin.close()
        yield f"127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def mlserver(python: str, folder: Path, path: Path) -> Iterator[dict[str, str]]:
    """Serve the model by MLServer; give its addresses by form."""
    folder.mkdir()
    ports = [_free_port() for _ in range(3)]
    (folder / "onnx_model.py").write_text(MLSERVER)
    settings = {
        "host": "127.0.0.1",
        "http_port": ports[0],
        "grpc_port": ports[1],
        "metrics_port": ports[2],
        "parallel_workers": 0,
        "logging_settings": None,
        "debug": False,
    }
    (folder / "settings.json").write_text(json.dumps({key: value for key, value in settings.items() if value != ""}))
    (folder / "model-settings.json").write_text(
        json.dumps({"name": "overhead", "implementation": "onnx_model.Onnx", "parameters": {"uri": str(path)}})
    )
    command = [python, "-c", "from mlserver.cli import main; main()", "start", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    log = (folder / "log").open("w")
    process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        _await_ready(process, ports[0], folder / "log")
        yield {"http": f"127.0.0.1:{ports[0]}", "grpc": f"127.0.0.1:{ports[1]}"}
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


def _await_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    import http.client

    for _ in range(240):
        time.sleep(0.5)
        if process.poll() is not None:
            break
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/v2/models/overhead/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
    raise SystemExit(f"MLServer did not start: {log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def client(form: str, address: str, array: AnyArray) -> Connect:
    """Return what connects a client of tritonclient."""
    import tritonclient.grpc
    import tritonclient.http

    room = {"http": tritonclient.http, "grpc": tritonclient.grpc}[form]

    def connect() -> Ask:
        # Without options tritonclient shares channels between its clients.
        more = {"channel_args": [("grpc.use_local_subchannel_pool", 1)]} if form == "grpc" else {}
        connected = room.InferenceServerClient(address, **more)
        tensor = room.InferInput("x", SHAPE, "FP32")
        tensor.set_data_from_numpy(array)

        def ask() -> AnyArray:
            found: AnyArray = connected.infer("overhead", [tensor]).as_numpy("y")
            return found

        return ask

    return connect


def plain_client(address: str, array: AnyArray) -> Connect:
    """Return what connects the standard library's client of HTTP."""
    import http.client

    size = array.nbytes
    tensor = {"name": "x", "shape": SHAPE, "datatype": "FP32", "parameters": {"binary_data_size": size}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    body = head + array.tobytes()
    length = "Inference-Header-Content-Length"

    def connect() -> Ask:
        host, _, port = address.rpartition(":")
        connected = http.client.HTTPConnection(host, int(port))

        def ask() -> AnyArray:
            connected.request("POST", "/v2/models/overhead/infer", body, {length: str(len(head))})
            answer = connected.getresponse()
            return np.frombuffer(answer.read()[int(answer.headers[length]) :], np.float32)

        return ask

    return connect


def our_client(address: str, array: AnyArray) -> Connect:
    """Return what connects our own client to a server of either kind."""

    def connect() -> Ask:
        served = RemoteRuntime(f"grpc://{address}").served("overhead")
        return lambda: served.run({"x": array})["y"]

    return connect


def measured(connect: Connect, clients: int, amount: Amount, expected: AnyArray) -> list[float]:
    """Return the seconds of every request of so many clients at a time; all answers have to be right."""
    times: list[float] = []
    failures: list[object] = []
    barrier = threading.Barrier(clients)

    def work() -> None:
        own: list[float] = []
        try:
            ask = connect()
            for _ in range(3):
                ask()
            barrier.wait()
            for _ in amount.turns(clients):
                start = time.perf_counter()
                answer = ask()
                own.append(time.perf_counter() - start)
                if not np.array_equal(answer.ravel(), expected.ravel()):
                    raise AssertionError("another answer")
        except BaseException as error:
            failures.append(error)
            barrier.abort()
        times.extend(own)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit(f"{type(failures[0]).__name__}: {failures[0]}")
    return times


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=640, help="requests of a side in a round")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long a side is asked instead")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--mlserver", metavar="PYTHON", help="Python of an environment with mlserver and onnxruntime")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    array = np.random.default_rng(2).normal(size=SHAPE).astype(np.float32)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        onnx.save(model(), folder / "model.onnx")
        bundle = bundle_of(folder / "model.onnx")
        dovetail.save_bundle(bundle, folder / "models" / "overhead")
        session = stack.enter_context(dovetail.open_session(bundle))
        expected = session.run({"x": array}).outputs["y"]
        sides: dict[str, Connect] = {"in process": lambda: lambda: session.run({"x": array}).outputs["y"]}
        ours = stack.enter_context(our_server(folder / "models"))
        for form, address in ours.items():
            sides[f"dovetail {form}"] = client(form, address, array)
        sides["dovetail http, http.client"] = plain_client(ours["http"], array)
        bare = stack.enter_context(bare_server(expected))
        sides["grpcio with one answer"] = client("grpc", bare, array)
        sides["dovetail, our client"] = our_client(ours["grpc"], array)
        if options.mlserver is not None:
            found = stack.enter_context(mlserver(options.mlserver, folder / "mlserver", folder / "model.onnx"))
            # Over gRPC only: MLServer 1.7.1 takes binary tensors in REST for broken JSON.
            sides["mlserver grpc"] = client("grpc", found["grpc"], array)
            sides["mlserver, our client"] = our_client(found["grpc"], array)
        amount = Amount(options.requests, options.seconds)
        rows = table(sides, options.clients, options.rounds, amount, expected)
    if options.json:
        print(json.dumps(rows))
        return 0
    heads = ("clients", "side", "requests", "p50 ms", "p99 ms", "added at p50")
    figures = ("p50_ms", "p99_ms", "added_ms")
    cells = [
        [str(row["clients"]), str(row["side"]), str(row["requests"])]
        + [number(float(str(row[key])), 3) for key in figures]
        for row in rows
    ]
    print(text(heads, cells))
    return 0


def table(
    sides: dict[str, Connect], clients: Sequence[int], rounds: int, amount: Amount, expected: AnyArray
) -> list[dict[str, object]]:
    """Return a row for every number of clients and every side; `added_ms` is p50 beside the run in process."""
    rows: list[dict[str, object]] = []
    for count in clients:
        times: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(rounds):
            for name, connect in sides.items():
                times[name] += measured(connect, count, amount, expected)
        here = statistics.median(times["in process"])
        for name, found in times.items():
            half = statistics.median(found)
            rows.append(
                {
                    "clients": count,
                    "side": name,
                    "requests": len(found),
                    "p50_ms": half * 1e3,
                    "p99_ms": float(np.quantile(found, 0.99)) * 1e3,
                    "added_ms": (half - here) * 1e3,
                }
            )
    return rows


if __name__ == "__main__":
    sys.exit(main())
