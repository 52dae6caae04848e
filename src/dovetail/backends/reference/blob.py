"""Compiled partitions of the reference: a line of JSON about the target, then the graph.

Layout: the line `dovetail reference 1 <bytes of JSON>`, the JSON, then the graph as `dovetail.ir.storage` writes it.
The bytes are untrusted.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from dovetail.backend.arithmetic import Accumulator, Arithmetic, Carrier, Rounding, Scheme, Tie, ZeroPointOrder
from dovetail.errors import BundleError, DeviceError
from dovetail.ir import DType, Graph, graph_from_bytes, graph_to_bytes

FORMAT = "dovetail-graph"
_HEADER = re.compile(rb"dovetail reference 1 (\d{1,6})\n")
_HINT = "Make the bundle again with 'dovetail compile'."


@dataclass(frozen=True, slots=True)
class ReferenceProgram:
    """A graph and the arithmetic that it runs with."""

    target: str
    arithmetic: Arithmetic
    graph: Graph


def program_to_bytes(program: ReferenceProgram) -> bytes:
    """Return a program as bytes; equal programs give equal bytes."""
    arithmetic = program.arithmetic
    rows: list[list[str | None]] = []
    for key, rounding in arithmetic.by_op.items():
        op, stored = (key, None) if isinstance(key, str) else (key[0], key[1].value)
        rows.append([op, stored, *_names(rounding)])
    facts = {
        "target": program.target,
        "default": _names(arithmetic.default),
        "multiplier_bits": arithmetic.multiplier_bits,
        "by_op": sorted(rows, key=str),
        "scheme": arithmetic.scheme.value,
        "accumulator": arithmetic.accumulator.value,
    }
    text = json.dumps(facts, sort_keys=True).encode()
    return b"dovetail reference 1 %d\n" % len(text) + text + graph_to_bytes(program.graph)


def program_from_bytes(data: bytes) -> ReferenceProgram:
    """Return the program in these bytes; raise DeviceError when they are damaged."""
    header = _HEADER.match(data)
    if header is None:
        raise DeviceError("blob: not made by the reference backend.", hint=_HINT)
    stop = header.end() + int(header.group(1))
    try:
        facts = json.loads(data[header.end() : stop])
        target, arithmetic = facts["target"], _arithmetic(facts)
        if not isinstance(target, str):
            raise TypeError("the target is not a name")
        return ReferenceProgram(target, arithmetic, graph_from_bytes(data[stop:], "blob"))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise DeviceError(f"blob: damaged header: {error}.", hint=_HINT) from error
    except BundleError as error:
        raise DeviceError(error.message, hint=_HINT) from error


def _names(rounding: Rounding) -> list[str]:
    return [rounding.tie.value, rounding.zero_point.value, rounding.carrier.value]


def _rounding(tie: object, order: object, carrier: object) -> Rounding:
    return Rounding(Tie(tie), ZeroPointOrder(order), Carrier(carrier))


def _arithmetic(facts: dict[str, object]) -> Arithmetic:
    default, rows, bits = facts["default"], facts["by_op"], facts["multiplier_bits"]
    if not isinstance(default, list) or not isinstance(rows, list) or not isinstance(bits, int | None):
        raise TypeError("the arithmetic is not as expected")
    if bits is not None and not 1 <= bits <= 64:
        raise ValueError(f"a multiplier of {bits} bits")
    by_op: dict[str | tuple[str, DType], Rounding] = {}
    for op, stored, tie, order, carrier in rows:
        key: str | tuple[str, DType] = str(op) if stored is None else (str(op), DType(stored))
        by_op[key] = _rounding(tie, order, carrier)
    accumulator = Accumulator(facts.get("accumulator", Accumulator.WIDE.value))
    return Arithmetic(_rounding(*default), bits, by_op, Scheme(facts["scheme"]), accumulator)
