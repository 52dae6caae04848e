"""OpenVINO's devices keep the contract."""

from __future__ import annotations

from dovetail.backend.registry import backend
from dovetail.testing.contract import BackendContract


class TestOpenVino(BackendContract):
    backend = backend("openvino")
