"""OpenVINO: every device that it lists, and plug-ins that are registered by name."""

from __future__ import annotations

import importlib.util

from dovetail.backend.protocols import Backend


def __getattr__(name: str) -> Backend:
    """Return the plug-in as `backend`; ImportError tells the registry why it cannot be used."""
    if name != "backend":
        raise AttributeError(name)
    if importlib.util.find_spec("openvino") is None:
        raise ImportError("the package openvino is not installed: pip install 'dovetail[openvino]'")
    from dovetail.backends.openvino.plugin import backend

    return backend
