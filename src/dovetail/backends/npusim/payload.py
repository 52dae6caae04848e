"""The blob of the exact simulation: the target's arithmetic as a line of JSON, then the graph."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from dovetail.backend.arithmetic import Arithmetic, Carrier, Rounding, Tie, Vip, ZeroPointOrder
from dovetail.errors import BundleError, DeviceError
from dovetail.ir import DType, Graph, graph_from_bytes, graph_to_bytes

_HEADER = re.compile(rb"dovetail npusim 1 (\d{1,9})\n")


@dataclass(frozen=True, slots=True)
class Job:
    """Say what to simulate: a graph, how its target rounds, and on how many threads of this machine."""

    graph: Graph
    arithmetic: Arithmetic
    threads: int = 1


def pack(job: Job) -> bytes:
    """Return a job as bytes."""
    arithmetic = job.arithmetic
    facts = {
        "threads": job.threads,
        "default": _rounding(arithmetic.default),
        "multiplier_bits": arithmetic.multiplier_bits,
        "vip": None if arithmetic.vip is None else arithmetic.vip.value,
        "by_op": [
            [key if isinstance(key, str) else [key[0], key[1].value], _rounding(value)]
            for key, value in sorted(arithmetic.by_op.items(), key=str)
        ],
    }
    text = json.dumps(facts, sort_keys=True).encode()
    return b"dovetail npusim 1 %d\n" % len(text) + text + graph_to_bytes(job.graph)


def unpack(payload: bytes) -> Job:
    """Return what `pack` wrote; raise DeviceError when it is damaged."""
    header = _HEADER.match(payload)
    if header is None:
        raise DeviceError("npusim: the blob is damaged: it does not begin as one.", hint="Compile the model again.")
    start, size = header.end(), int(header.group(1))
    try:
        facts = json.loads(payload[start : start + size])
        threads, bits = int(facts["threads"]), facts["multiplier_bits"]
        arithmetic = Arithmetic(
            default=_parse(facts["default"]),
            multiplier_bits=None if bits is None else int(bits),
            by_op={_key(key): _parse(value) for key, value in facts["by_op"]},
            vip=None if facts.get("vip") is None else Vip(facts["vip"]),
        )
        graph = graph_from_bytes(payload[start + size :], "the blob's graph")
    except (ValueError, KeyError, TypeError, BundleError) as error:
        raise DeviceError(f"npusim: the blob is damaged: {error}", hint="Compile the model again.") from error
    return Job(graph, arithmetic, threads)


def _rounding(rounding: Rounding) -> list[str]:
    return [rounding.tie.value, rounding.zero_point.value, rounding.carrier.value]


def _parse(value: list[str]) -> Rounding:
    tie, order, carrier = value
    return Rounding(Tie(tie), ZeroPointOrder(order), Carrier(carrier))


def _key(key: str | list[str]) -> str | tuple[str, DType]:
    return key if isinstance(key, str) else (key[0], DType(key[1]))
