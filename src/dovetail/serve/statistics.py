"""Statistics of a served model: how many requests, and where their time went."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Duration:
    """How often something happened, and how long it took in all."""

    count: int = 0
    total_ns: int = 0

    def add(self, elapsed_ns: int) -> None:
        """Take one more."""
        self.count += 1
        self.total_ns += elapsed_ns


@dataclass(slots=True)
class RequestSplit:
    """Where the time of one request went."""

    queue_ns: int
    input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0

    @property
    def total_ns(self) -> int:
        """Return the time on the server."""
        return self.queue_ns + self.input_ns + self.infer_ns + self.output_ns


PARTS = ("queue", "compute_input", "compute_infer", "compute_output")
"""What the protocol calls the parts of a request's time."""


@dataclass(slots=True)
class ServedStatistics:
    """The sums over all requests of a model; parts of the time are those of requests that were answered."""

    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    refused: int = 0
    """Requests that were not taken because the queue was full."""
    dropped: int = 0
    """Requests whose peer went away, or whose time was over, before they ran."""
    runs: dict[int, tuple[Duration, Duration]] = field(default_factory=dict)
    """Of the model, by the number of requests that each answered: reading these, and running."""
    parts: dict[str, Duration] = field(default_factory=lambda: {name: Duration() for name in PARTS})
    last_ms: int = 0
    """When the last request was answered, in milliseconds since 1970."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answered(self, split: RequestSplit) -> None:
        """Take a request that was answered."""
        with self.lock:
            self.success.add(split.total_ns)
            times = (split.queue_ns, split.input_ns, split.infer_ns, split.output_ns)
            for duration, elapsed in zip(self.parts.values(), times, strict=True):
                duration.add(elapsed)
            self.last_ms = time.time_ns() // 1_000_000

    def executed(self, requests: int, input_ns: int, infer_ns: int) -> None:
        """Take a run that answers so many requests."""
        with self.lock:
            read, ran = self.runs.setdefault(requests, (Duration(), Duration()))
            read.add(input_ns)
            ran.add(infer_ns)

    @property
    def executions(self) -> int:
        """Return how often the model ran."""
        return sum(ran.count for _, ran in self.runs.values())

    def failed(self, elapsed_ns: int) -> None:
        """Take a request that ended with an error."""
        with self.lock:
            self.fail.add(elapsed_ns)
