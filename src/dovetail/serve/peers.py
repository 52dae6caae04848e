"""What one peer may ask for, so that it leaves something for the others."""

from __future__ import annotations

import hashlib
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dovetail.oip.failures import Reply, RequestRefused
from dovetail.serve.budget import ByteBudget
from dovetail.serve.limits import ServeLimits

_MOST_PEERS = 4096
_FORGET_S = 60.0
"""How long a peer that asks for nothing is remembered when there are many: its bucket is full again by then."""
_SOON_S = 1.0
"""After how long a peer is told to ask again, where it is not known when there will be room."""
_IPV6_PREFIX = 64
"""Whoever has one address of version 6 has all that share so many bits."""


class TokenBucket:
    """An allowance that fills up again: one second's worth at most, `per_s` a second; 0 is no limit."""

    def __init__(self, per_s: float, now: float) -> None:
        self._per_s = per_s
        self._most = max(per_s, 1.0)
        self._level = self._most
        self._at = now

    def wait_s(self, now: float) -> float:
        """Return how long it is until one may be taken."""
        if not self._per_s:
            return 0.0
        self._level = min(self._most, self._level + (now - self._at) * self._per_s)
        self._at = now
        return max(0.0, (1.0 - self._level) / self._per_s)

    def take(self, count: float) -> None:
        """Take so much, also more than there is: what is owed has to fill up again first."""
        self._level -= count


@dataclass(slots=True)
class _Peer:
    """What is known of a peer."""

    calls: TokenBucket
    bytes: TokenBucket
    under_way: int = 0
    connections: int = 0
    held: int = 0
    seen: float = field(default=0.0)


class Guest:
    """A request of a peer that was let in, and the bytes of it that are held."""

    def __init__(self, peer: _Peer, budget: ByteBudget, limits: ServeLimits) -> None:
        self._peer = peer
        self._budget = budget
        self._limits = limits
        self._held = 0

    def hold(self, count: int) -> None:
        """Hold bytes until the request is over.

        They count against what the peer may send in a second. Raises RequestRefused where the peer, or all together,
        hold too many already.
        """
        self._peer.bytes.take(count)
        if self._peer.held + count > self._limits.peer_held_bytes:
            raise _refused("this peer's requests hold as many bytes as one peer's may", _SOON_S)
        self._budget.take(count)
        self._peer.held += count
        self._held += count

    def leave(self) -> None:
        """Hold nothing any more."""
        self._budget.give(self._held)
        self._peer.held -= self._held
        self._held = 0


class Peers:
    """Who asks, with the limits of each; used by one thread."""

    def __init__(self, budget: ByteBudget, limits: ServeLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._budget = budget
        self._limits = limits
        self._clock = clock
        self._known: OrderedDict[str, _Peer] = OrderedDict()

    @contextmanager
    def admitted(self, name: str) -> Iterator[Guest]:
        """Let a request of a peer in while the body runs.

        Raises RequestRefused where the peer has too many under way, or asks too often; `retry_s` says when to return.
        """
        now, limits = self._clock(), self._limits
        peer = self._peer(name, now)
        wait_s = max(peer.calls.wait_s(now), peer.bytes.wait_s(now))
        if wait_s > 0:
            raise _refused(f"this peer asks for more than one may: {limits.peer_rate_text()}", wait_s)
        peer.calls.take(1)
        if peer.under_way >= limits.peer_requests:
            raise _refused(f"this peer has {peer.under_way} requests under way", _SOON_S)
        peer.under_way += 1
        guest = Guest(peer, self._budget, limits)
        try:
            yield guest
        finally:
            guest.leave()
            peer.under_way -= 1

    def connect(self, name: str) -> bool:
        """Count a connection of a peer; return False where it has too many."""
        try:
            peer = self._peer(name, self._clock())
        except RequestRefused:
            return False
        if peer.connections >= self._limits.peer_requests:
            return False
        peer.connections += 1
        return True

    def disconnect(self, name: str) -> None:
        """Count a connection less."""
        peer = self._known.get(name)
        if peer is not None:
            peer.connections -= 1

    def __len__(self) -> int:
        return len(self._known)

    def _peer(self, name: str, now: float) -> _Peer:
        peer = self._known.get(name)
        if peer is None:
            if len(self._known) >= _MOST_PEERS:
                self._forget(now)
            limits = self._limits
            peer = _Peer(TokenBucket(limits.peer_calls_per_s, now), TokenBucket(limits.peer_bytes_per_s, now))
            self._known[name] = peer
        peer.seen = now
        self._known.move_to_end(name)
        return peer

    def _forget(self, now: float) -> None:
        """Forget peers that ask for nothing; raise RequestRefused where all of them do."""
        idle = [
            name
            for name, peer in self._known.items()
            if not (peer.under_way or peer.connections) and now - peer.seen > _FORGET_S
        ]
        for name in idle:
            del self._known[name]
        if not idle:
            raise _refused("too many peers ask at once", _SOON_S)


def _refused(why: str, retry_s: float) -> RequestRefused:
    return RequestRefused(Reply.FULL, f"{why}.", hint="Try again later.", retry_s=retry_s)


def peer_of_address(host: str) -> str:
    """Return the name of a peer by its address; of version 6, by the network that one customer gets."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address) >> _IPV6_PREFIX << _IPV6_PREFIX, _IPV6_PREFIX)))
    return str(address)


def peer_of_certificate(certificate: bytes) -> str:
    """Return the name of a peer by the certificate that it showed (DER)."""
    return f"certificate {hashlib.sha256(certificate).hexdigest()}"


def retry_text(wait_s: float) -> str:
    """Return the whole seconds after which to ask again, as HTTP has them."""
    return str(max(1, math.ceil(wait_s)))
