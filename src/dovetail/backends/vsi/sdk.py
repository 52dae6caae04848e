"""Where the installed SDK and the built shim are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Installation:
    """An SDK that can be used: the folder with `include` and `lib`, and the shim that was built against it."""

    sdk: Path
    shim: Path
