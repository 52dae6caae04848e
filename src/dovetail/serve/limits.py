"""Bounds of a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """What a server takes at most, of one peer and of all together."""

    request_bytes: int = 64 << 20
    """Of a request, other than an upload."""
    upload_bytes: int = 1 << 30
    """Of a bundle that is uploaded, as it comes: in REST a third more than the bundle has."""
    json_bytes: int = 16 << 20
    """Of a JSON document in a request to run a model: numbers in text take several times their bytes to read."""
    held_bytes: int = 2 << 30
    """Of all requests that wait or run."""
    queue: int = 64
    """Requests that wait for one model."""
    requests: int = 1024
    """Requests under way, over gRPC; and connections, over REST."""
    peer_requests: int = 512
    """Requests of one peer under way, and its connections over REST; half of all, so that others are served."""
    peer_held_bytes: int = 1 << 30
    """Of the requests of one peer that wait or run."""
    peer_calls_per_s: float = 0.0
    """Requests that one peer may make in a second; 0 is no limit."""
    peer_bytes_per_s: float = 0.0
    """Of the requests that one peer makes in a second, in the mean; 0 is no limit."""
    models: int = 64
    head_s: float = 10.0
    """How long a peer may take for the head of a REST request, and for the handshake of gRPC."""
    body_s: float = 60.0
    """How long a peer may take to send a request."""
    queue_s: float = 60.0
    """How long a request waits for its model before it is given back."""
    stop_s: float = 10.0
    """How long requests under way have to end when the server stops."""
    batch_rows: int = 1
    """Rows of requests that are run together at most; 1 runs each by itself."""
    batch_delay_s: float = 0.0
    """How long a request waits for others to be run with; without a delay only those are joined that wait anyway."""
    profile_runs: int = 10_000

    def peer_rate_text(self) -> str:
        """Return what one peer may ask for in a second, in words."""
        told = []
        if self.peer_calls_per_s:
            told.append(f"{self.peer_calls_per_s:g} requests")
        if self.peer_bytes_per_s:
            told.append(f"{self.peer_bytes_per_s / (1 << 20):g} MB")
        return f"{' and '.join(told)} a second"
