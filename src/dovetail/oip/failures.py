"""Errors on the wire: what was raised on a board is raised on the host, as the same type."""

from __future__ import annotations

import json
from enum import Enum

import dovetail.errors
from dovetail.errors import DeviceError, DeviceLost, DovetailError, RemoteError

ERROR_KEY = "dovetail-error-bin"
"""The trailing metadata of a call that has the error."""

RETRY_KEY = "dovetail-retry-ms"
"""The trailing metadata of a call that was not begun: after how many milliseconds to send it again."""

_MOST_CHARS = 4000


class Reply(Enum):
    """How a request ended that was not answered: the status of REST and of gRPC."""

    BAD_REQUEST = (400, "INVALID_ARGUMENT")
    NO_TOKEN = (401, "UNAUTHENTICATED")
    FORBIDDEN = (403, "PERMISSION_DENIED")
    NOT_FOUND = (404, "NOT_FOUND")
    TOO_SLOW = (408, "DEADLINE_EXCEEDED")
    TOO_LARGE = (413, "RESOURCE_EXHAUSTED")
    FULL = (429, "RESOURCE_EXHAUSTED")
    DEFECT = (500, "INTERNAL")
    STOPPING = (503, "UNAVAILABLE")
    EXPIRED = (504, "DEADLINE_EXCEEDED")

    @property
    def status(self) -> int:
        """Return the status of REST."""
        return self.value[0]

    @property
    def code(self) -> str:
        """Return the name of the status of gRPC."""
        return self.value[1]


class RequestRefused(RemoteError):
    """A request that a server does not serve; `reply` says how it is told, `retry_s` when it may be sent again."""

    def __init__(self, reply: Reply, message: str, *, hint: str | None = None, retry_s: float | None = None) -> None:
        self.reply = reply
        self.retry_s = retry_s
        super().__init__(message, hint=hint)


def reply_of(error: DovetailError) -> Reply:
    """Return how an error is told to whom it concerns."""
    if isinstance(error, RequestRefused):
        return error.reply
    return Reply.DEFECT if isinstance(error, DeviceLost) else Reply.BAD_REQUEST


def error_to_json(error: DovetailError) -> str:
    """Return an error as a document."""
    kind = RemoteError if isinstance(error, RequestRefused) else type(error)
    return json.dumps({"error": error.message, "kind": kind.__name__, "hint": error.hint, "option": error.option})


def error_from_json(data: bytes) -> DovetailError:
    """Return the error in a document; a DeviceError where its type is unknown here or has more to it than words."""
    try:
        document = json.loads(data)
        message, hint, option = (document.get(key) for key in ("error", "hint", "option"))
        kind = getattr(dovetail.errors, str(document.get("kind")), None)
    except (ValueError, AttributeError, RecursionError):
        return RemoteError("the server answered with an error that cannot be read.")
    plain = isinstance(kind, type) and issubclass(kind, DovetailError) and kind.__init__ is DovetailError.__init__
    return (kind if plain and kind is not None else DeviceError)(
        str(message)[:_MOST_CHARS],
        hint=None if hint is None else str(hint)[:_MOST_CHARS],
        option=option if isinstance(option, str) else None,
    )
