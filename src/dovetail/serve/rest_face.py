"""The server's face in REST."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dovetail.errors import DovetailError
from dovetail.oip.failures import Reply, RequestRefused, error_to_json, reply_of
from dovetail.serve.access import AccessToken, is_loopback
from dovetail.serve.changes import RepositoryChanges
from dovetail.serve.describe import config_document, model_document, server_document, statistics_document
from dovetail.serve.http_protocol import PEER
from dovetail.serve.metrics import METRICS_TYPE, metrics_text
from dovetail.serve.model import ServedModel
from dovetail.serve.options import ServeOptions
from dovetail.serve.peers import Guest, Peers, retry_text
from dovetail.serve.regions import SharedRegions
from dovetail.serve.repository import VERSION, Repository
from dovetail.serve.rest_body import HEAD_LENGTH, RestAnswer, RestRequest, parse_object, parse_request

_LOG = logging.getLogger("dovetail.serve")
_OPEN = frozenset({"/v2/health/live", "/v2/health/ready"})
"""Paths that need no token: those who watch a server ask them, and they tell nothing."""
_SMALL_BYTES = 64 << 10

Answer = Callable[[Request], Awaitable[Response]]


class RestFace:
    """The paths of the protocol, each behind token, bounds and deadlines."""

    def __init__(
        self,
        repository: Repository,
        changes: RepositoryChanges,
        token: AccessToken,
        peers: Peers,
        regions: SharedRegions,
        options: ServeOptions,
    ) -> None:
        self._repository = repository
        self._changes = changes
        self._token = token
        self._peers = peers
        self._regions = regions
        self._limits = options.limits
        self._local = is_loopback(options.host)

    def app(self) -> Starlette:
        """Return the application."""
        routes = [
            self._route("/v2", self._server),
            self._route("/v2/health/live", self._live),
            self._route("/v2/health/ready", self._ready),
            self._route("/v2/models/stats", self._all_statistics),
            self._route("/v2/repository/index", self._index, "POST"),
            self._route("/v2/repository/models/{name}/load", self._load, "POST"),
            self._route("/v2/repository/models/{name}/unload", self._unload, "POST"),
            self._route("/metrics", self._metrics),
            self._route("/v2/systemsharedmemory/region/{region}/register", self._register, "POST"),
        ]
        for prefix in ("/v2/systemsharedmemory", "/v2/systemsharedmemory/region/{region}"):
            routes += [
                self._route(f"{prefix}/status", self._region_status),
                self._route(f"{prefix}/unregister", self._unregister, "POST"),
            ]
        for prefix in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
            routes += [
                self._route(prefix, self._model),
                self._route(f"{prefix}/ready", self._model_ready),
                self._route(f"{prefix}/config", self._config),
                self._route(f"{prefix}/stats", self._statistics),
                self._route(f"{prefix}/infer", self._infer, "POST"),
            ]
        return Starlette(routes=routes)

    def _route(self, path: str, answer: Answer, method: str = "GET") -> Route:
        async def guarded(request: Request) -> Response:
            try:
                with self._peers.admitted(request.scope["state"][PEER]) as request.state.guest:
                    self._check(request)
                    return await answer(request)
            except DovetailError as error:
                return _told(error)
            except ClientDisconnect:
                return Response(status_code=499)
            except Exception as error:
                _LOG.error("%s: unexpected %s", path, type(error).__name__, exc_info=error)
                return _told(RequestRefused(Reply.DEFECT, f"unexpected {type(error).__name__}."))

        return Route(path, guarded, methods=[method])

    def _check(self, request: Request) -> None:
        """Raise RequestRefused for whom the server is not."""
        if request.url.path not in _OPEN:
            self._token.check(request.headers.get("authorization"))
        # A page in a browser of this machine could ask the server, also by a name that leads to this machine.
        if "origin" in request.headers or (self._local and not is_loopback((request.url.hostname or "").strip("[]"))):
            raise RequestRefused(Reply.FORBIDDEN, "pages of the web may not ask this server.")

    def _found(self, request: Request) -> ServedModel:
        return self._repository.model(request.path_params["name"], request.path_params.get("version", ""))

    async def _server(self, request: Request) -> Response:
        return JSONResponse(server_document())

    async def _live(self, request: Request) -> Response:
        return Response()

    async def _ready(self, request: Request) -> Response:
        return Response(status_code=503 if self._repository.stopping else 200)

    async def _model(self, request: Request) -> Response:
        return JSONResponse(model_document(self._found(request)))

    async def _model_ready(self, request: Request) -> Response:
        self._found(request)
        return Response()

    async def _config(self, request: Request) -> Response:
        return JSONResponse(config_document(self._found(request)))

    async def _statistics(self, request: Request) -> Response:
        return JSONResponse({"model_stats": [statistics_document(self._found(request))]})

    async def _all_statistics(self, request: Request) -> Response:
        return JSONResponse({"model_stats": [statistics_document(model) for model in self._repository.models()]})

    async def _metrics(self, request: Request) -> Response:
        return Response(metrics_text(self._repository.models()), media_type=METRICS_TYPE)

    async def _index(self, request: Request) -> Response:
        asked = parse_object(await self._body(request, self._limits.json_bytes))
        rows = [
            {"name": entry.name, "version": VERSION, "state": entry.state, "reason": entry.reason}
            for entry in self._repository.index()
            if entry.model is not None or asked.get("ready") is not True
        ]
        return JSONResponse(rows)

    async def _load(self, request: Request) -> Response:
        body = await self._body(request, self._limits.upload_bytes)
        parameters = parse_object(body).get("parameters") or {}
        if not isinstance(parameters, dict):
            raise RequestRefused(Reply.BAD_REQUEST, "'parameters' is an object.")
        await self._changes.load(request.path_params["name"], parameters)
        return JSONResponse({})

    async def _unload(self, request: Request) -> Response:
        await self._changes.unload(request.path_params["name"])
        return JSONResponse({})

    async def _infer(self, request: Request) -> Response:
        model = self._found(request)
        body = await self._body(request, self._limits.request_bytes)
        # Large documents are read on a thread, so that others need not wait.
        head = request.headers.get(HEAD_LENGTH)
        small = head is not None or len(body) < 1 << 16
        arguments = (body, head, self._limits.json_bytes)
        asked = parse_request(*arguments) if small else await asyncio.to_thread(parse_request, *arguments)
        with self._regions.hold(asked.shared_inputs):
            answer = await self._answered(request, asked, model, light=head is not None and not asked.numbers)
        if answer.head_bytes is None:
            return Response(answer.body, media_type="application/json")
        length = {HEAD_LENGTH: str(answer.head_bytes)}
        return Response(answer.body, headers=length, media_type="application/octet-stream")

    async def _answered(self, request: Request, asked: RestRequest, model: ServedModel, *, light: bool) -> RestAnswer:
        feed, answered = partial(asked.feed, model, self._regions), asked.answer(model, self._regions)
        serving = asyncio.ensure_future(model.infer(feed, answered, asked.timeout_s, light=light))
        leaving = asyncio.ensure_future(_leaving(request, serving))
        try:
            return await serving
        except asyncio.CancelledError as error:
            raise ClientDisconnect from error
        finally:
            leaving.cancel()

    async def _region_status(self, request: Request) -> Response:
        rows = [
            {"name": one.name, "key": one.key, "offset": one.offset, "byte_size": one.size_bytes}
            for one in self._regions.status(request.path_params.get("region", ""))
        ]
        return JSONResponse(rows)

    async def _register(self, request: Request) -> Response:
        asked = parse_object(await self._body(request, _SMALL_BYTES))
        key, offset, size = asked.get("key"), asked.get("offset", 0), asked.get("byte_size")
        if not isinstance(key, str) or type(offset) is not int or type(size) is not int:
            raise RequestRefused(Reply.BAD_REQUEST, "a region has a 'key', an 'offset' and a 'byte_size'.")
        self._regions.register(request.path_params["region"], key, offset, size)
        return Response()

    async def _unregister(self, request: Request) -> Response:
        self._regions.unregister(request.path_params.get("region", ""))
        return Response()

    async def _body(self, request: Request, most: int) -> bytes:
        """Return the body, held from its first piece on.

        Raises RequestRefused where it is too large or said to be, packed, too slow, or more than can be held.
        """
        guest: Guest = request.state.guest
        if request.headers.get("content-encoding", "identity") != "identity":
            raise RequestRefused(Reply.BAD_REQUEST, "bodies that are packed are not taken.")
        stated = request.headers.get("content-length", "0")
        if not stated.isdigit() or len(stated) > 18 or int(stated) > most:
            raise RequestRefused(Reply.TOO_LARGE, f"the request has {stated[:30]} bytes; {most} are taken.")
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_s):
                async for piece in request.stream():
                    size += len(piece)
                    if size > most:
                        raise RequestRefused(Reply.TOO_LARGE, f"the request has more than {most} bytes.")
                    guest.hold(len(piece))
                    pieces.append(piece)
        except TimeoutError as error:
            raise RequestRefused(Reply.TOO_SLOW, "the request took too long to arrive.") from error
        return b"".join(pieces)


async def _leaving(request: Request, serving: asyncio.Future[Any]) -> None:
    """Cancel what is done for a peer when it goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    serving.cancel()


def _told(error: DovetailError) -> Response:
    reply = reply_of(error)
    # What is left of a body that was refused is not read.
    headers = {"connection": "close"} if reply in (Reply.TOO_LARGE, Reply.TOO_SLOW, Reply.NO_TOKEN) else {}
    if reply is Reply.NO_TOKEN:
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, RequestRefused) and error.retry_s is not None:
        headers |= {"connection": "close", "retry-after": retry_text(error.retry_s)}
    return Response(error_to_json(error), reply.status, headers, "application/json")
