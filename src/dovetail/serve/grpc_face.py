"""The server's face in gRPC."""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError

from dovetail.errors import DovetailError
from dovetail.oip.failures import ERROR_KEY, RETRY_KEY, Reply, RequestRefused, error_to_json, reply_of
from dovetail.oip.messages import Message, WireCall, calls
from dovetail.serve.access import AccessToken
from dovetail.serve.grpc_answers import GrpcAnswers
from dovetail.serve.limits import ServeLimits
from dovetail.serve.options import ServeOptions
from dovetail.serve.peers import Peers, peer_of_address, peer_of_certificate

_LOG = logging.getLogger("dovetail.serve")
_OPEN = frozenset({"ServerLive", "ServerReady"})
"""Calls that need no token: those who watch a server ask them, and they tell nothing."""
_UPLOADS = frozenset({"RepositoryModelLoad"})
_METADATA_BYTES = 16 << 10

Context = Any
Answer = Callable[[Message], Awaitable[Message | bytes]]


class GrpcFace(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The calls of the protocol, each behind token, bounds and deadlines."""

    def __init__(self, answers: GrpcAnswers, token: AccessToken, peers: Peers, limits: ServeLimits) -> None:
        self._token = token
        self._peers = peers
        self._limits = limits
        self._calls = {call.path: call for call in calls().values()}
        self._answers = answers

    def service(self, handler_call_details: Any) -> Any:
        """Return what serves a call; one without a token ends before any of its message is read."""
        call = self._calls.get(handler_call_details.method)
        if call is None:
            return None
        if call.name not in _OPEN:
            try:
                self._token.check(dict(handler_call_details.invocation_metadata or ()).get("authorization"))
            except RequestRefused as refused:
                return grpc.stream_stream_rpc_method_handler(self._refusing(refused))
        return grpc.stream_unary_rpc_method_handler(self._serving(call, self._answers.of(call.name)))

    def _serving(self, call: WireCall, answer: Answer) -> Callable[[Any, Context], Awaitable[bytes]]:
        """Return the coroutine of a call; it reads the message itself, so that a slow peer has a limit."""
        most = self._limits.upload_bytes if call.name in _UPLOADS else self._limits.request_bytes

        async def serve(_: Any, context: Context) -> bytes:
            try:
                with self._peers.admitted(_peer(context)) as guest:
                    data = await self._message(context, most)
                    guest.hold(len(data))
                    found = await answer(_parsed(call, data))
                    return found if isinstance(found, bytes) else found.SerializeToString()
            except DovetailError as error:
                await _abort(context, error)
            except Exception as error:  # asyncio.CancelledError is none: a peer that goes away ends the call
                _LOG.error("%s: unexpected %s", call.name, type(error).__name__, exc_info=error)
                await _abort(context, RequestRefused(Reply.DEFECT, f"unexpected {type(error).__name__}."))
            raise AssertionError  # abort raises

        return serve

    def _refusing(self, refused: RequestRefused) -> Callable[[Any, Context], AsyncIterator[bytes]]:
        """Return the coroutine of a call that shows no token; it counts as one of the peer's."""

        async def refuse(_: Any, context: Context) -> AsyncIterator[bytes]:
            try:
                with self._peers.admitted(_peer(context)):
                    raise refused
            except RequestRefused as error:
                await _abort(context, error)
            yield b""  # never reached: it makes this a stream

        return refuse

    async def _message(self, context: Context, most: int) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body_s):
                data = await context.read()
        except TimeoutError as error:
            raise RequestRefused(Reply.TOO_SLOW, "the request took too long to arrive.") from error
        if data is grpc.aio.EOF:
            raise RequestRefused(Reply.BAD_REQUEST, "the call has no message.")
        if len(data) > most:
            raise RequestRefused(Reply.TOO_LARGE, f"the request has {len(data)} bytes; {most} are taken.")
        message: bytes = data
        return message


def _parsed(call: WireCall, data: bytes) -> Message:
    try:
        return call.request.FromString(data)
    except DecodeError as error:
        raise RequestRefused(Reply.BAD_REQUEST, "the message cannot be read.") from error


def _peer(context: Context) -> str:
    """Return who asks: by the certificate that was shown, else by the address."""
    shown = context.auth_context().get("x509_pem_cert")
    if shown:
        return peer_of_certificate(ssl.PEM_cert_to_DER_cert(shown[0].decode("ascii")))
    kind, _, rest = unquote(context.peer()).partition(":")
    return peer_of_address(rest.rpartition(":")[0].strip("[]")) if kind in ("ipv4", "ipv6") else rest


async def _abort(context: Context, error: DovetailError) -> None:
    code = getattr(grpc.StatusCode, reply_of(error).code)
    told: tuple[tuple[str, str | bytes], ...] = ((ERROR_KEY, error_to_json(error).encode()),)
    if isinstance(error, RequestRefused) and error.retry_s is not None:
        told = (*told, (RETRY_KEY, str(math.ceil(error.retry_s * 1000))))
    await context.abort(code, str(error), told)


def start_grpc(face: GrpcFace, options: ServeOptions) -> tuple[Any, int]:
    """Return a server that listens, not yet started, and its port; raise RequestRefused where the port is taken."""
    limits = options.limits
    settings = (
        # Otherwise another process of this user could listen on the same port and get half of the requests.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", max(limits.upload_bytes, limits.request_bytes)),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", _METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", _METADATA_BYTES),
        ("grpc.server_handshake_timeout_ms", int(limits.head_s * 1000)),
    )
    server = grpc.aio.server(options=settings, maximum_concurrent_rpcs=limits.requests)
    server.add_generic_rpc_handlers((face,))
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"{host}:{options.grpc_port}"
    try:
        if options.tls is None:
            port = server.add_insecure_port(address)
        else:
            tls = options.tls
            authority = None if tls.client_ca is None else tls.client_ca.read_bytes()
            pair = ((tls.key.read_bytes(), tls.cert.read_bytes()),)
            port = server.add_secure_port(
                address, grpc.ssl_server_credentials(pair, authority, require_client_auth=authority is not None)
            )
    except RuntimeError as error:
        raise RequestRefused(Reply.DEFECT, f"{address}: cannot listen there.", hint="Choose another port.") from error
    return server, port
