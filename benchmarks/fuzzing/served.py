"""Fuzz targets: requests to the server, through both of its real faces, without sockets."""

from __future__ import annotations

import asyncio
import json
import logging
import struct
import weakref
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from dovetail.bundle import save_bundle
from dovetail.oip.failures import Reply, RequestRefused, reply_of
from dovetail.oip.messages import calls
from dovetail.serve.access import AccessToken
from dovetail.serve.budget import ByteBudget
from dovetail.serve.changes import RepositoryChanges
from dovetail.serve.grpc_answers import GrpcAnswers
from dovetail.serve.http_protocol import PEER
from dovetail.serve.options import ServeOptions
from dovetail.serve.peers import Peers
from dovetail.serve.regions import SharedRegions
from dovetail.serve.repository import Repository
from dovetail.serve.rest_face import RestFace
from fuzzing.network import Small
from fuzzing.parser import Parser

_WITHIN_S = 60.0
_NAME = "small"


class _Server:
    """The server's own objects in a loop of this process; the model is loaded again where a request took it away."""

    def __init__(self, folder: Path) -> None:
        options = ServeOptions(folder, changes=True)
        self.repository = Repository(folder, options.limits)
        self.loop = asyncio.new_event_loop()
        # Objects of the server and this one hold each other: what collects them must not find the loop open.
        weakref.finalize(self, self.loop.close)
        budget = ByteBudget(options.limits.held_bytes)
        peers = Peers(budget, options.limits)
        changes = RepositoryChanges(self.repository, allowed=True)
        regions = SharedRegions(budget, options.limits.request_bytes, allowed=True)
        self.answers = GrpcAnswers(self.repository, changes, regions, 2)
        self.app = RestFace(self.repository, changes, AccessToken(None), peers, regions, options).app()
        self.repository.load_all()
        logging.getLogger("dovetail.serve").setLevel(logging.CRITICAL)

    def rest(self, data: bytes) -> object:
        """Answer a request: its first line, headers, an empty line, the body."""
        head, _, body = data.partition(b"\n\n")
        first, *lines = head.split(b"\n")
        method, _, path = first.partition(b" ")
        pairs = [tuple(part.strip() for part in line.lower().partition(b":")[::2]) for line in lines]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method.decode("latin-1") or "GET",
            "scheme": "http",
            "path": path.decode("utf-8", "replace"),
            "raw_path": path,
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"localhost"), (b"content-length", b"%d" % len(body)), *pairs],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
            "state": {PEER: "127.0.0.1"},
        }
        status, answer = self.loop.run_until_complete(asyncio.wait_for(self._asked(scope, body), _WITHIN_S))
        self._again()
        if status == Reply.DEFECT.status or (status >= 500 and b"unexpected" in answer):
            raise AssertionError(f"status {status}: {answer[:200]!r}")
        return status

    async def _asked(self, scope: dict[str, Any], body: bytes) -> tuple[int, bytes]:
        told: list[MutableMapping[str, Any]] = []
        given = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if not given:
                await asyncio.Event().wait()
            return given.pop()

        async def send(message: MutableMapping[str, Any]) -> None:
            told.append(message)

        await self.app(scope, receive, send)
        return int(told[0]["status"]), b"".join(part.get("body", b"") for part in told[1:])

    def grpc(self, data: bytes) -> object:
        """Answer a call: its name on the first line, then the message."""
        name, _, rest = data.partition(b"\n")
        call = calls().get(name.decode("latin-1"))
        if call is None:
            return None
        try:
            request = call.request.FromString(rest)
        except DecodeError as error:
            raise RequestRefused(Reply.BAD_REQUEST, "the message cannot be read.") from error
        try:
            answer = self.answers.of(call.name)(request)
            return self.loop.run_until_complete(asyncio.wait_for(answer, _WITHIN_S))
        except RequestRefused as refused:
            if reply_of(refused) is Reply.DEFECT:
                raise AssertionError(str(refused)) from refused
            raise
        finally:
            self._again()

    def _again(self) -> None:
        for entry in self.repository.index():
            if entry.name != _NAME:
                self.repository.unload(entry.name)
        if not any(model.name == _NAME for model in self.repository.models()):
            self.repository.load(_NAME)


def requests(small: Small, folder: Path) -> tuple[Parser, ...]:
    """Return the parsers of requests over REST and over gRPC."""
    save_bundle(small.bundle, folder / _NAME)
    server = _Server(folder)
    return (
        Parser("REST", tuple(rest_seeds()), server.rest),
        Parser("gRPC", tuple(_grpc_seeds()), server.grpc),
    )


def rest_seeds() -> list[bytes]:
    """Return whole requests over REST, as text: the first line, headers, an empty line, the body."""
    tensor = {"name": "x", "shape": [1, 3, 8, 8], "datatype": "FP32", "data": [0.5] * 192}
    named = {"inputs": [tensor], "outputs": [{"name": "y"}, {"name": "c"}], "id": "1", "parameters": {"timeout": 10**7}}
    infer = b"POST /v2/models/small/infer\ncontent-type: application/json"
    region = {"shared_memory_region": "r", "shared_memory_byte_size": 768, "shared_memory_offset": 0}
    shared = {"inputs": [{**tensor, "data": None, "parameters": region}]}
    binary = {"name": "x", "shape": [1, 3, 8, 8], "datatype": "FP32", "parameters": {"binary_data_size": 768}}
    head = json.dumps({"inputs": [binary], "parameters": {"binary_data_output": True}}).encode()
    raw = struct.pack("<192f", *([0.5] * 192))
    paths = ("/v2", "/v2/models/small", "/v2/models/small/versions/1/stats", "/metrics", "/v2/models/small/config")
    return [
        infer + b"\n\n" + json.dumps(named).encode(),
        infer + b"\n\n" + json.dumps(shared).encode(),
        infer + b"\ninference-header-content-length: %d\n\n" % len(head) + head + raw,
        b'POST /v2/repository/models/small/load\n\n{"parameters": {"config": "{}", "file:1/plan.json": "e30="}}',
        b"POST /v2/repository/models/small/unload\n\n{}",
        b'POST /v2/repository/index\n\n{"ready": true}',
        b'POST /v2/systemsharedmemory/region/r/register\n\n{"key": "/none", "offset": 0, "byte_size": 768}',
        *(f"GET {path}\nauthorization: Bearer none\n\n".encode() for path in paths),
    ]


def _grpc_seeds() -> list[bytes]:
    infer = calls()["ModelInfer"].request(model_name=_NAME)
    tensor = infer.inputs.add(name="x", datatype="FP32", shape=[1, 3, 8, 8])
    raw = _call("ModelInfer", infer, lambda it: it.raw_input_contents.append(struct.pack("<192f", *([0.5] * 192))))
    infer.ClearField("raw_input_contents")
    tensor.contents.fp32_contents.extend([0.5] * 192)
    plain = {"SystemSharedMemoryRegister": {"name": "r", "key": "/none", "byte_size": 8}}
    found = [raw, _call("ModelInfer", infer)]
    for name in ("ModelMetadata", "ModelReady", "ModelConfig", "ModelStatistics"):
        found.append(_call(name, calls()[name].request(name=_NAME)))
    found.append(
        _call("SystemSharedMemoryRegister", calls()["SystemSharedMemoryRegister"].request(**plain.popitem()[1]))
    )
    load = calls()["RepositoryModelLoad"].request(model_name="other")
    load.parameters["file:1/plan.json"].bytes_param = b"{}"
    return [*found, _call("RepositoryModelLoad", load), _call("RepositoryIndex", calls()["RepositoryIndex"].request())]


def _call(name: str, request: Any, change: Callable[[Any], object] = lambda request: None) -> bytes:
    change(request)
    return name.encode() + b"\n" + bytes(request.SerializeToString())
