"""Runs as a trace that chrome://tracing and Perfetto show."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dovetail.runtime.record import Run


def chrome_trace(runs: Sequence[Run], starts_ns: Sequence[int]) -> str:
    """Return the trace of runs that began at these times: a row for every device, a row for the requests."""
    timings = [run.timings for run in runs]
    devices = list(dict.fromkeys(item.device for items in timings for item in items))
    first = min(starts_ns, default=0)
    events: list[dict[str, object]] = [_name(0, "requests")]
    events += [_name(row, device) for row, device in enumerate(devices, 1)]
    for number, (run, start) in enumerate(zip(runs, starts_ns, strict=True)):
        begin = start - first
        events.append(_event(f"request {number}", 0, (begin, run.elapsed_ns), {"idle_us": run.idle_ns / 1e3}))
        for item in timings[number]:
            facts = {"request": number, "target": item.target, "transfer_us": item.transfer_ns / 1e3}
            row = devices.index(item.device) + 1
            events.append(_event(f"partition {item.index}", row, (begin + item.start_ns, item.elapsed_ns), facts))
    return json.dumps({"kind": "dovetail-trace", "displayTimeUnit": "ms", "traceEvents": events}, indent=1) + "\n"


def _name(row: int, name: str) -> dict[str, object]:
    return {"name": "thread_name", "ph": "M", "pid": 1, "tid": row, "args": {"name": name}}


def _event(name: str, row: int, span_ns: tuple[int, int], facts: dict[str, object]) -> dict[str, object]:
    start, elapsed = span_ns
    return {"name": name, "ph": "X", "pid": 1, "tid": row, "ts": start / 1e3, "dur": elapsed / 1e3, "args": facts}
