"""LiteRT (TFLite): its own kernels, and external delegates by the path of their library."""

from __future__ import annotations

import importlib.util

from dovetail.backend.protocols import Backend


def __getattr__(name: str) -> Backend:
    """Return the plug-in as `backend`; ImportError tells the registry why it cannot be used."""
    if name != "backend":
        raise AttributeError(name)
    if importlib.util.find_spec("ai_edge_litert") is None:
        raise ImportError("the package ai-edge-litert is not installed: pip install 'dovetail[litert]'")
    from dovetail.backends.litert.plugin import LitertBackend

    return LitertBackend()
