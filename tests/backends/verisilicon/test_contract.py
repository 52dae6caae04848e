"""Both builds of the shim keep the contract: over the newest SDK's ovxlib, and over the older one's TIM-VX."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from dovetail.backend.protocols import BackendAbilities
from dovetail.backend.target import TargetProfile
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.testing.contract import RUN_CASES, BackendContract, ContractCase

from .conftest import target_named

pytestmark = [pytest.mark.sdk, pytest.mark.usefixtures("traceless")]


class _OnePart:
    """The backend with one part and a few precisions: the contract runs everything that a verdict supports."""

    def __init__(self, inner: VsiBackend, part: str) -> None:
        self._inner, self._part = inner, part
        self.name, self.version, self.compile, self.devices = inner.name, inner.version, inner.compile, inner.devices

    def targets(self) -> tuple[TargetProfile, ...]:
        return (replace(target_named(self._part), precisions=(Precision.U8,)),)

    def abilities(self) -> BackendAbilities:
        return self._inner.abilities()


class _Contract(BackendContract):
    """At u8 on one part, for the operators whose compilation takes no shader."""

    names: tuple[str, ...] = ("Concat", "Conv", "Gemm", "Relu", "Reshape", "Sigmoid", "Transpose")

    def trials(
        self, names: tuple[str, ...] = RUN_CASES, change: Callable[[Graph], Graph] = lambda graph: graph
    ) -> Iterator[ContractCase]:
        return super().trials(tuple(name for name in names if name in self.names), change)


class TestOverOvxlib(_Contract):
    @pytest.fixture(autouse=True)
    def _choose(self, vendor: VsiBackend) -> None:
        self.backend = _OnePart(vendor, "vsi:v853")


class TestOverTimVx(_Contract):
    """On a part whose binary networks the older simulator loads."""

    @pytest.fixture(autouse=True)
    def _choose(self, timvx: VsiBackend) -> None:
        self.backend = _OnePart(timvx, "vsi:a311d")
