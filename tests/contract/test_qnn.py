"""The emulated Hexagon NPU keeps the contract; needs the package onnxruntime-qnn."""

from __future__ import annotations

import needs
import pytest

from dovetail.testing.contract import BackendContract

needs.package("onnxruntime_qnn")


@pytest.mark.slow
class TestQnn(BackendContract):
    same_bytes = False

    @pytest.fixture(autouse=True)
    def _one_generation(self) -> None:
        from dovetail.backends.ort.plugin import OrtBackend
        from dovetail.backends.qnn.providers import hexagon_providers

        self.backend = OrtBackend("qnn", lambda: hexagon_providers()[2:3], absent=lambda: (), static=True)
