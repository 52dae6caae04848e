"""The figures of every part that the vendor's simulator knows, as its performance model prints them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dovetail.errors import DovetailError

SCHEMA = 1
_CORE = re.compile(r"0x[0-9a-f]{1,8}:0x[0-9a-f]{1,8}")
FILE = Path(__file__).with_name("figures.json")
_MACS_PER_LANE = 3
"""Multiply-accumulates that each of a core's lanes does in a cycle at 8 bits."""


@dataclass(frozen=True, slots=True)
class PartFigures:
    """The figures that the vendor's performance model prints of a part.

    `core` is the chip's model and revision. Memory bandwidth and clock are the model's defaults, not a board's.
    `lut_lanes` are those of a stream processor's tables.
    """

    core: str
    nn_cores: int
    nn_cores_16_bit: int
    macs_per_core: int
    tp_cores: int
    shader_cores: int
    lut_lanes: int
    vip_sram_bytes: int
    axi_sram_bytes: int
    clock_mhz: int
    ddr_bytes_per_cycle: float

    @property
    def revision(self) -> int:
        """Return the chip's revision; 0 where none is known."""
        text = self.core.rpartition(":")[2]
        return int(text, 16) if text.startswith("0x") else 0

    @property
    def macs_per_cycle(self) -> int:
        """Return the multiply-accumulates of the array in a cycle at 8 bits."""
        return self.nn_cores * self.macs_per_core * _MACS_PER_LANE


_COLUMNS = tuple(PartFigures.__slots__)


@cache
def printed_figures() -> Mapping[str, PartFigures]:
    """Return the figures that are part of this package, by the simulator's name of the part.

    `benchmarks/part_figures.py` makes the file; a part that its compiler cannot serve is not in it.
    """
    return figures_from_json(FILE.read_bytes(), FILE.name) if FILE.is_file() else {}


def figures_from_json(data: bytes, where: str) -> dict[str, PartFigures]:
    """Return the figures in a file; raise DovetailError when it is damaged."""
    try:
        document = json.loads(data)
        if document["schema"] != SCHEMA or tuple(document["columns"]) != _COLUMNS:
            raise ValueError("another schema, or other columns")
        return {str(name): _figures(name, row) for name, row in document["parts"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DovetailError(
            f"{where}: the table of figures is damaged: {error}.", hint="Install Dovetail again."
        ) from error


def figures_to_json(figures: Mapping[str, PartFigures], version: str) -> bytes:
    """Return figures as JSON text, one line for each part; `version` is the SDK's."""
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(astuple(item))}" for name, item in sorted(figures.items()))
    head = f'"schema": {SCHEMA},\n "sdk": {json.dumps(version)},\n "columns": {json.dumps(_COLUMNS)}'
    return f'{{\n {head},\n "parts": {{\n{rows}\n }}\n}}\n'.encode()


def _figures(name: str, row: list[object]) -> PartFigures:
    core, *numbers, bandwidth = row
    if len(row) != len(_COLUMNS) or not all(isinstance(item, int) and 0 <= item < 1 << 40 for item in numbers):
        raise ValueError(f"figures of {name}")
    if not isinstance(bandwidth, int | float) or not bandwidth > 0:
        raise TypeError(f"bandwidth of {name}")
    if not _CORE.fullmatch(str(core)):
        raise ValueError(f"revision of {name}")
    values: dict[str, Any] = dict(zip(_COLUMNS, (core, *numbers, float(bandwidth)), strict=True))
    figures = PartFigures(**values)
    if not figures.macs_per_cycle or not figures.clock_mhz:
        raise ValueError(f"figures of {name}")
    return figures
