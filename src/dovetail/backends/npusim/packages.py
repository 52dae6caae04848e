"""The one package that the fast simulation needs where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

ONNXRUNTIME = "onnxruntime"


def onnxruntime_version() -> str:
    """Return the version of ONNX Runtime; empty where it is not installed."""
    try:
        return version(ONNXRUNTIME)
    except PackageNotFoundError:
        return ""


def unmet_packages(needs: Mapping[str, str]) -> str:
    """Return which package is missing or of another version than it was compiled with; empty where none is."""
    for name, wanted in needs.items():
        if name != ONNXRUNTIME:
            return f"'{name}' ({wanted}), which is unknown here"
        found = onnxruntime_version()
        if found != wanted:
            return f"{name} {wanted}, and {found or 'none'} is installed"
    return ""
