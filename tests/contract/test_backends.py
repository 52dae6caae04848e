"""Every backend that comes with Dovetail keeps the contract."""

from __future__ import annotations

from dovetail.backend.registry import backend
from dovetail.testing.contract import BackendContract


class TestCpu(BackendContract):
    backend = backend("cpu")


class TestNpuSimulator(BackendContract):
    backend = backend("npusim")


class TestNull(BackendContract):
    backend = backend("null")


class TestReference(BackendContract):
    backend = backend("reference")
