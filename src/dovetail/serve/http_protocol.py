"""HTTP with limits for peers that send the head of a request slowly or never, or open many connections."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, ClassVar

from dovetail.serve.peers import Peers, peer_of_address, peer_of_certificate

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as Http
else:
    try:
        from dovetail.serve.http_tools import HttpTools as Http
    except ImportError:  # No wheels for every board.
        from uvicorn.protocols.http.h11_impl import H11Protocol as Http

PEER = "peer"
"""Where the state of a request says who asks."""

_QUICK: int | None = getattr(socket, "TCP_QUICKACK", None)


class BoundedProtocol(Http):
    """HTTP/1.1 that does not wait for ever; a server has a subclass with its own limits."""

    head_s: ClassVar[float]
    peers: ClassVar[Peers]

    _late: asyncio.TimerHandle | None = None
    _socket: Any = None
    _peer = ""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first head."""
        name = _peer_of(transport)
        if self.peers.connect(name):
            self._peer = name
        else:
            transport.close()
        self.app_state = {**self.app_state, PEER: name}
        self._socket = transport.get_extra_info("socket")
        # Heads and bodies are written apart: the body would wait for the peer to acknowledge the head.
        self._set(socket.TCP_NODELAY)
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Read on; wait for the rest of a head that is not whole."""
        super().data_received(data)
        # The same with peers: what Linux delays an acknowledgement by, they would wait before they send the rest.
        self._set(_QUICK)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        self._stop_waiting()
        if self._peer:
            self.peers.disconnect(self._peer)
            self._peer = ""

    def _set(self, option: int | None) -> None:
        if option is not None and self._socket.fileno() >= 0:
            self._socket.setsockopt(socket.IPPROTO_TCP, option, 1)

    def _await_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._late is None:
            self._late = self.loop.call_later(self.head_s, self._close_late)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close_late(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            self.transport.close()


def bounded_protocol(head_s: float, peers: Peers) -> type[BoundedProtocol]:
    """Return the protocol; a connection is closed on which a head takes too long, or of a peer that has too many."""
    return type("LimitedProtocol", (BoundedProtocol,), {"head_s": head_s, "peers": peers})


def _peer_of(transport: Any) -> str:
    """Return who is connected: by the certificate that was shown, else by the address."""
    secured = transport.get_extra_info("ssl_object")
    certificate = None if secured is None else secured.getpeercert(binary_form=True)
    if certificate:
        return peer_of_certificate(certificate)
    address = transport.get_extra_info("peername")
    return peer_of_address(str(address[0])) if address else ""
