"""What the vendor's simulator tells of a part: figures, and which engine runs each operator at each precision.

`measured.json` holds the answers for the parts that have a name here; `dovetail sdk probe` makes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from dovetail.backend.target import Engine
from dovetail.backends.verisilicon.parts.figures import PartFigures
from dovetail.errors import DovetailError
from dovetail.ir.precision import Precision

SCHEMA = 1
_FILE = Path(__file__).with_name("measured.json")
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class MeasuredPart:
    """What probing a part gave.

    `engines`: the engine that runs an operator; `refused`: why the compiler takes no form of it that was tried.
    """

    sdk_name: str
    sdk_version: str
    figures: PartFigures
    engines: Mapping[tuple[str, Precision], Engine] = field(default_factory=dict)
    refused: Mapping[tuple[str, Precision], str] = field(default_factory=dict)


@cache
def measured_parts() -> Mapping[str, MeasuredPart]:
    """Return the parts whose answers are part of this package, by the simulator's name."""
    return parts_from_json(_FILE.read_bytes(), _FILE.name) if _FILE.is_file() else {}


def parts_from_json(data: bytes, where: str) -> dict[str, MeasuredPart]:
    """Return the parts in a file; raise DovetailError when it is damaged."""
    if len(data) > _MOST_BYTES:
        raise DovetailError(f"{where}: {len(data)} bytes are no table of parts.")
    try:
        document = json.loads(data)
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r}, this Dovetail reads {SCHEMA}")
        return {str(name): _part(str(name), entry) for name, entry in document["parts"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DovetailError(
            f"{where}: the table of parts is damaged: {error}.", hint="Make it again with 'dovetail sdk probe'."
        ) from error


def parts_to_json(parts: Mapping[str, MeasuredPart]) -> bytes:
    """Return parts as JSON text, one line for each engine and precision."""
    entries = {name: _entry(part) for name, part in sorted(parts.items())}
    return (json.dumps({"schema": SCHEMA, "parts": entries}, indent=1) + "\n").encode()


def _part(name: str, entry: Mapping[str, Mapping[str, object]]) -> MeasuredPart:
    raw = entry["figures"]
    numbers = {key: raw[key] for key in PartFigures.__slots__ if key not in ("core", "ddr_bytes_per_cycle")}
    if not all(isinstance(value, int) and 0 <= value < 1 << 40 for value in numbers.values()):
        raise ValueError(f"figures of {name}")
    bandwidth = raw["ddr_bytes_per_cycle"]
    if not isinstance(bandwidth, int | float):
        raise TypeError(f"bandwidth of {name}")
    figures = PartFigures(core=str(raw["core"]), ddr_bytes_per_cycle=float(bandwidth), **numbers)  # type: ignore[arg-type]
    engines = {
        (op, Precision(precision)): Engine(engine)
        for engine, by_precision in entry["engines"].items()
        for precision, ops in _texts(by_precision).items()
        for op in ops.split()
    }
    refused = {
        (op, Precision(precision)): str(reason)
        for precision, reasons in entry["refused"].items()
        for op, reason in _texts(reasons).items()
    }
    return MeasuredPart(name, str(entry["sdk"]), figures, engines, refused)


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise TypeError("an object of texts is expected")
    return value


def _entry(part: MeasuredPart) -> dict[str, object]:
    engines: dict[str, dict[str, str]] = {}
    for precision in Precision:
        for engine in Engine:
            ops = [op for (op, at), found in part.engines.items() if at is precision and found is engine]
            if ops:
                engines.setdefault(engine.value, {})[precision.value] = " ".join(sorted(ops))
    refused: dict[str, dict[str, str]] = {}
    for (op, precision), reason in sorted(part.refused.items(), key=lambda item: (item[0][1].value, item[0][0])):
        refused.setdefault(precision.value, {})[op] = reason
    figures = {key: getattr(part.figures, key) for key in PartFigures.__slots__}
    return {"sdk": part.sdk_version, "figures": figures, "engines": engines, "refused": refused}
