"""A server says where it listens once it does: who reads that may connect, and count what is open."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.serve import ServeOptions, server
from dovetail.serve.server import Listening


class _Heard(Exception):
    """What the server is ended with."""


def test_where_it_listens_is_said_when_it_takes_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a starting server opens would else be taken for a connection that is left over."""
    startup, order = server._Rest.startup, []

    async def watched(self: server._Rest, sockets: object = None) -> None:
        await startup(self, sockets)  # type: ignore[arg-type]
        order.append("takes connections")

    def ready(where: Listening) -> None:
        order.append("said")
        raise _Heard(where.rest)

    monkeypatch.setattr(server._Rest, "startup", watched)
    with pytest.raises(_Heard, match="http://127"):
        server.run(ServeOptions(tmp_path, port=0, grpc_port=0), ready)
    assert order == ["takes connections", "said"]
