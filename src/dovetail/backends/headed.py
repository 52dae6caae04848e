"""Blobs with a header: a line of JSON says for what they were compiled, then comes the body."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from dovetail.errors import DeviceError

_MAX_HEADER = 1 << 16
_AGAIN = "Compile the model again."


@dataclass(frozen=True, slots=True)
class Header:
    """For which device, with which properties; `mark` names hardware and driver where the body depends on them."""

    device: str
    properties: tuple[tuple[str, str], ...]
    mark: str
    sha256: str


def pack(device: str, properties: dict[str, str], mark: str, body: bytes) -> bytes:
    """Return header and body as one payload."""
    header = Header(device, tuple(sorted(properties.items())), mark, hashlib.sha256(body).hexdigest())
    return json.dumps(asdict(header), sort_keys=True).encode() + b"\n" + body


def unpack(payload: bytes, where: str) -> tuple[Header, bytes]:
    """Return header and body; raise DeviceError when they are damaged."""
    head, sign, body = payload.partition(b"\n")
    try:
        if not sign or len(head) > _MAX_HEADER:
            raise ValueError("no header")
        found = json.loads(head)
        pairs = tuple((str(key), str(value)) for key, value in found["properties"])
        header = Header(str(found["device"]), pairs, str(found["mark"]), str(found["sha256"]))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise DeviceError(f"{where}: the blob is damaged: {str(error)[:80]}.", hint=_AGAIN) from error
    if hashlib.sha256(body).hexdigest() != header.sha256:
        raise DeviceError(f"{where}: the blob is damaged: its checksum differs.", hint=_AGAIN)
    return header, body


def check_mark(header: Header, here: str, where: str) -> None:
    """Raise DeviceError when a body was compiled for other hardware or for another driver."""
    if header.mark and header.mark != here:
        raise DeviceError(
            f"{where}: the blob was compiled for '{header.mark}'; here is '{here}'.",
            hint="Compile the model again on this machine, or install the driver that it was compiled for.",
        )
