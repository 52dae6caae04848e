"""The CPU, through ONNX Runtime: float32, and 8 bits with its integer kernels."""

from __future__ import annotations

from dovetail.backend.protocols import Backend


def __getattr__(name: str) -> Backend:
    """Return the plug-in as `backend`; ImportError tells the registry why it cannot be used.

    The target is known without ONNX Runtime: on a board that has numpy alone, the reference serves it.
    """
    if name != "backend":
        raise AttributeError(name)
    from dovetail.backends.cpu.plugin import backend

    return backend
