"""What every call in gRPC answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from dovetail.errors import DovetailError
from dovetail.ir.dtypes import AnyArray
from dovetail.oip.failures import Reply, RequestRefused
from dovetail.oip.messages import Message, calls, message
from dovetail.runtime.place import LocalRuntime
from dovetail.runtime.profiling import ProfileOptions, RunProfile
from dovetail.runtime.record import Run
from dovetail.serve.changes import RepositoryChanges
from dovetail.serve.describe import config_document, model_document, server_document, statistics_document
from dovetail.serve.model import ServedModel
from dovetail.serve.regions import SharedRegions
from dovetail.serve.repository import VERSION, Repository
from dovetail.serve.requests import answer_of, feed_of, parameter_value, shared_inputs, timeout_s


class GrpcAnswers:
    """The answers to the calls, by their names."""

    def __init__(
        self, repository: Repository, changes: RepositoryChanges, regions: SharedRegions, profile_runs: int
    ) -> None:
        self._repository = repository
        self._changes = changes
        self._regions = regions
        self._profile_runs = profile_runs

    def of(self, name: str) -> Callable[[Message], Awaitable[Any]]:
        """Return the coroutine that answers a call."""
        answers: dict[str, Callable[[Message], Awaitable[Any]]] = {
            "ServerLive": self._live,
            "ServerReady": self._ready,
            "ModelReady": self._model_ready,
            "ServerMetadata": self._server,
            "ModelMetadata": self._model,
            "ModelInfer": self._infer,
            "ModelConfig": self._config,
            "ModelStatistics": self._statistics,
            "RepositoryIndex": self._index,
            "RepositoryModelLoad": self._load,
            "RepositoryModelUnload": self._unload,
            "SystemSharedMemoryStatus": self._region_status,
            "SystemSharedMemoryRegister": self._register,
            "SystemSharedMemoryUnregister": self._unregister,
            "Devices": self._devices,
            "Profile": self._profile,
        }
        return answers[name]

    async def _live(self, request: Message) -> Message:
        return _response("ServerLive", live=True)

    async def _ready(self, request: Message) -> Message:
        return _response("ServerReady", ready=not self._repository.stopping)

    async def _model_ready(self, request: Message) -> Message:
        try:
            self._repository.model(request.name, request.version)
        except DovetailError:
            return _response("ModelReady", ready=False)
        return _response("ModelReady", ready=True)

    async def _server(self, request: Message) -> Message:
        return _response("ServerMetadata", **server_document())

    async def _model(self, request: Message) -> Message:
        return _response("ModelMetadata", **model_document(self._repository.model(request.name, request.version)))

    async def _config(self, request: Message) -> Message:
        return _response("ModelConfig", config=config_document(self._repository.model(request.name, request.version)))

    async def _statistics(self, request: Message) -> Message:
        models: Sequence[ServedModel] = self._repository.models()
        if request.name:
            models = (self._repository.model(request.name, request.version),)
        return _response("ModelStatistics", model_stats=[statistics_document(model) for model in models])

    async def _infer(self, request: Message) -> bytes:
        model = self._repository.model(request.model_name, request.model_version)
        spans = shared_inputs(request)
        light = len(request.raw_input_contents) + len(spans) == len(request.inputs)
        feed, answer = partial(feed_of, request, model, self._regions), answer_of(request, model, self._regions)
        with self._regions.hold(list(spans.values())):
            return await model.infer(feed, answer, timeout_s(request), light=light)

    async def _index(self, request: Message) -> Message:
        rows = [
            {"name": entry.name, "version": VERSION, "state": entry.state, "reason": entry.reason}
            for entry in self._repository.index()
            if entry.model is not None or not request.ready
        ]
        return _response("RepositoryIndex", models=rows)

    async def _load(self, request: Message) -> Message:
        given = {key: parameter_value(item) for key, item in request.parameters.items()}
        await self._changes.load(request.model_name, given)
        return _response("RepositoryModelLoad")

    async def _unload(self, request: Message) -> Message:
        await self._changes.unload(request.model_name)
        return _response("RepositoryModelUnload")

    async def _region_status(self, request: Message) -> Message:
        rows = {
            one.name: {"name": one.name, "key": one.key, "offset": one.offset, "byte_size": one.size_bytes}
            for one in self._regions.status(request.name)
        }
        return _response("SystemSharedMemoryStatus", regions=rows)

    async def _register(self, request: Message) -> Message:
        self._regions.register(request.name, request.key, request.offset, request.byte_size)
        return _response("SystemSharedMemoryRegister")

    async def _unregister(self, request: Message) -> Message:
        self._regions.unregister(request.name)
        return _response("SystemSharedMemoryUnregister")

    async def _devices(self, request: Message) -> Message:
        found = await asyncio.to_thread(LocalRuntime().devices)
        rows = [
            {
                "name": one.name,
                "available": one.available,
                "reason": one.reason,
                "version": one.version,
                "devices": one.devices,
                "absent": [{"name": item.name, "reason": item.reason} for item in one.absent],
            }
            for one in found
        ]
        return _response("Devices", backends=rows)

    async def _profile(self, request: Message) -> Message:
        asked = request.request
        model = self._repository.model(asked.model_name, asked.model_version)
        if request.runs + request.warm_ups > self._profile_runs:
            raise RequestRefused(Reply.BAD_REQUEST, f"a profile has {self._profile_runs} runs at most.")
        options = ProfileOptions(request.warm_ups, request.runs)

        def act(queue_ns: int) -> Message:
            inputs: dict[str, AnyArray] = dict(feed_of(asked, model, self._regions).inputs)
            return _profile_response(model.session.profile([inputs], options))

        with self._regions.hold(list(shared_inputs(asked).values())):
            return await model.in_turn(act, timeout_s(asked))


def _response(call: str, **fields: Any) -> Message:
    return calls()[call].response(**fields)


def _profile_response(profile: RunProfile) -> Message:
    first = profile.starts_ns[0]
    runs = [_timed(run, start - first) for run, start in zip(profile.runs, profile.starts_ns, strict=True)]
    told: dict[str, object] = {"together_ns": profile.together_ns, "devices": profile.devices}
    if profile.memory is not None:
        told["memory"] = {"before_bytes": profile.memory.before_bytes or 0, "peak_bytes": profile.memory.peak_bytes}
    told["accounts"] = [{"operators": one.operators, "elsewhere": one.elsewhere} for one in profile.accounts]
    return _response("Profile", runs=runs, **told)


def _timed(run: Run, start_ns: int) -> Message:
    mark = message("dovetail.board.Mark")
    marks = [
        mark(partition=index, start_ns=start - run.started_ns, elapsed_ns=elapsed, transfer_ns=moved)
        for index, start, elapsed, moved in run.marks
    ]
    return message("dovetail.board.TimedRun")(start_ns=start_ns, elapsed_ns=run.elapsed_ns, marks=marks)
