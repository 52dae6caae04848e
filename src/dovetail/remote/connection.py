"""Calls to a server: deadlines, retries, and errors as they were raised there."""

from __future__ import annotations

import json
import time
from typing import Any

from dovetail.errors import DeviceLost, DovetailError, RemoteError
from dovetail.oip.failures import ERROR_KEY, RETRY_KEY, error_from_json
from dovetail.oip.messages import BOARD, INFERENCE, Message, calls, without_package
from dovetail.remote.access import BoardAccess, parse_url

_MOST_BYTES = 1 << 30
_MOST_DIGITS = 10
_REPEATED = (
    "ModelInfer",
    "ModelReady",
    "ModelConfig",
    "ModelMetadata",
    "ServerMetadata",
    "RepositoryIndex",
    "Devices",
)
"""Calls that may be sent again when the connection breaks: they change nothing."""


class Connection:
    """A channel to one server."""

    def __init__(self, access: BoardAccess) -> None:
        try:
            import grpc
        except ImportError as error:
            raise without_package(error) from error
        self.url = access.url
        self._grpc = grpc
        self._metadata = () if access.token is None else (("authorization", f"Bearer {access.token}"),)
        self._answered = False
        where = parse_url(access.url)
        options = (
            ("grpc.max_receive_message_length", _MOST_BYTES),
            ("grpc.max_send_message_length", -1),
            ("grpc.enable_retries", 1),
            ("grpc.service_config", _service_config()),
        )
        if where.tls:
            self._channel = grpc.secure_channel(where.target, self._credentials(access), options)
        else:
            self._channel = grpc.insecure_channel(where.target, options)
        self._calls = {
            name: self._channel.unary_unary(
                call.path, request_serializer=_to_bytes, response_deserializer=call.response.FromString
            )
            for name, call in calls().items()
        }

    def ask(self, name: str, request: Message, within_s: float) -> Message:
        """Return the answer of a call; raise the error that was raised there, RemoteError or DeviceLost.

        A server that says when to ask again, because this peer asks for more than one may, is asked again then.
        """
        until = time.monotonic() + within_s
        while True:
            left_s = until - time.monotonic()
            try:
                answer = self._calls[name](request, timeout=left_s, metadata=self._metadata)
            except self._grpc.RpcError as error:
                wait_s = _retry_s(error)
                if wait_s is None or wait_s >= left_s:
                    raise self._told(error) from error
                time.sleep(wait_s)
                continue
            self._answered = True
            return answer

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def _credentials(self, access: BoardAccess) -> Any:
        try:
            ca, cert, key = (
                None if path is None else path.read_bytes() for path in (access.ca, access.cert, access.key)
            )
        except OSError as error:
            raise RemoteError(f"{error.filename}: cannot be read: {error.strerror}.", hint="Check the path.") from error
        return self._grpc.ssl_channel_credentials(ca, key, cert)

    def _told(self, error: Any) -> DovetailError:
        metadata = dict(error.trailing_metadata() or ())
        if ERROR_KEY in metadata:
            return error_from_json(metadata[ERROR_KEY])
        code, why = error.code(), str(error.details() or "").rstrip(".")[:300]
        if code is self._grpc.StatusCode.UNIMPLEMENTED:
            return RemoteError(f"{self.url}: the server does not know this call.", hint="It is no 'dovetail serve'.")
        lost = code in (self._grpc.StatusCode.UNAVAILABLE, self._grpc.StatusCode.DEADLINE_EXCEEDED)
        kind = DeviceLost if lost and self._answered else RemoteError
        return kind(
            f"{self.url}: {code.name}: {why}.", hint="Is the server there? Does it speak TLS?" if lost else None
        )


def _retry_s(error: Any) -> float | None:
    """Return after how many seconds a server wants to be asked again; None where it does not say so."""
    told = str(dict(error.trailing_metadata() or ()).get(RETRY_KEY, ""))
    return int(told) / 1000 if told.isdigit() and len(told) < _MOST_DIGITS else None


def _to_bytes(request: Message) -> bytes:
    data: bytes = request.SerializeToString()
    return data


def _service_config() -> str:
    policy = {
        "maxAttempts": 4,
        "initialBackoff": "0.1s",
        "maxBackoff": "1s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    names = [
        {"service": call.service, "method": call.name}
        for call in calls().values()
        if call.name in _REPEATED and call.service in (INFERENCE, BOARD)
    ]
    return json.dumps({"methodConfig": [{"name": names, "retryPolicy": policy}]})
