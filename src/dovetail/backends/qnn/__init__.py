"""Qualcomm's Hexagon NPUs through onnxruntime-qnn; on x86-64 its package emulates them."""

from __future__ import annotations

import importlib.util
from functools import cache

from dovetail.backends.ort.plugin import OrtBackend
from dovetail.backends.qnn.providers import hexagon_providers


@cache
def _backend() -> OrtBackend:
    if importlib.util.find_spec("onnxruntime_qnn") is None:
        raise ImportError("the package onnxruntime-qnn is not installed: pip install 'dovetail[qnn]'")
    # Asked for now: a library that does not load is the reason that `dovetail devices` shows.
    hexagon_providers()
    return OrtBackend("qnn", hexagon_providers, absent=lambda: (), static=True)


def __getattr__(name: str) -> OrtBackend:
    """Return the plug-in as `backend`; ImportError tells the registry why it cannot be used."""
    if name != "backend":
        raise AttributeError(name)
    return _backend()
