"""Messages and calls of the protocol.

They live in a pool of descriptors of their own, so that another package that has the protocol's messages too, such as
`tritonclient`, can be used in the same process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from dovetail.errors import RemoteError

Message = Any
"""A protobuf message: its fields are known at run time only."""

INFERENCE = "inference.GRPCInferenceService"
BOARD = "dovetail.board.Board"


@dataclass(frozen=True, slots=True)
class WireCall:
    """A call of the protocol, with the classes of its messages."""

    service: str
    name: str
    request: Message
    response: Message

    @property
    def path(self) -> str:
        """Return the path of the call on the wire."""
        return f"/{self.service}/{self.name}"


@cache
def message_pool() -> Any:
    """Return the pool of descriptors; raise RemoteError where protobuf is not installed."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
    except ImportError as error:
        raise without_package(error) from error
    pool = descriptor_pool.DescriptorPool()
    data = files("dovetail.oip").joinpath("messages.desc").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.Add(file)
    return pool


@cache
def message(name: str) -> Message:
    """Return the class of a message by its full name, such as `inference.ModelInferRequest`."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(message_pool().FindMessageTypeByName(name))


@cache
def calls() -> Mapping[str, WireCall]:
    """Return the calls of both services by their names."""
    found: dict[str, WireCall] = {}
    for service in (INFERENCE, BOARD):
        for method in message_pool().FindServiceByName(service).methods:
            kinds = (message(method.input_type.full_name), message(method.output_type.full_name))
            found[method.name] = WireCall(service, method.name, *kinds)
    return found


def without_package(error: ImportError) -> RemoteError:
    """Return the error that says what has to be installed."""
    return RemoteError(
        f"boards need the package '{error.name}', which is not installed.",
        hint="Install it with: pip install 'dovetail[serve]'.",
    )
