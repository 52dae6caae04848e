"""What parts the simulator of an SDK knows."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_NAME = re.compile(rb"(?<![A-Z0-9_])(?:VIP|GCNANO)[A-Z0-9_]{1,60}_PID0X[0-9A-F]{1,8}(?![A-Z0-9_])")
_LIBRARY = Path("lib/libEmulator.so")


@cache
def simulated_parts(sdk: Path) -> tuple[str, ...]:
    """Return the names of the NPUs that the simulator of an SDK knows, as it spells them; none on a board's SDK."""
    library = sdk / _LIBRARY
    if not library.is_file():
        return ()
    return tuple(sorted({found.decode() for found in _NAME.findall(library.read_bytes())}))


def part_pid(sdk_name: str) -> int:
    """Return the product id at the end of a part's name; raise ValueError when there is none."""
    _, mark, digits = sdk_name.rpartition("_PID0X")
    if not mark:
        raise ValueError(f"'{sdk_name}' does not end in _PID0X...")
    return int(digits, 16)
