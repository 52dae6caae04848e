"""LiteRT keeps the contract."""

from __future__ import annotations

from dovetail.backend.registry import backend
from dovetail.testing.contract import BackendContract


class TestLitert(BackendContract):
    backend = backend("litert")
