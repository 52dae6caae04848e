"""What no option takes: a path that is empty, and a figure that is no finite number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args


def strict_values(hints: Mapping[str, Any]) -> Mapping[str, type]:
    """Return which values are paths, and which are figures, by name."""
    found = {name: next((kind for kind in (Path, float) if _holds(hint, kind)), None) for name, hint in hints.items()}
    return {name: kind for name, kind in found.items() if kind is not None}


def why_refused(kind: type, written: object) -> str | None:
    """Return why a value is none as it is written; None where nothing here speaks against it."""
    for text in written if isinstance(written, list | tuple) else (written,):
        if kind is Path and text == "":
            return "an empty path"
        if kind is float and not _is_finite(text):
            return "a finite number is expected"
    return None


def _is_finite(text: object) -> bool:
    try:
        return not isinstance(text, str) or math.isfinite(float(text))
    except ValueError:
        return True


def _holds(hint: object, kind: type) -> bool:
    return hint is kind or any(_holds(item, kind) for item in get_args(hint))
