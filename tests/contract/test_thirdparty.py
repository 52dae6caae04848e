"""A backend in a package of its own is found through its entry point and keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dovetail.backend import registry
from dovetail.testing.contract import BackendContract


@pytest.fixture(scope="module", autouse=True)
def _installed(install: Callable[[str], None]) -> None:
    install("toyback")


class TestToyback(BackendContract):
    @pytest.fixture(autouse=True)
    def _found(self) -> None:
        self.backend = registry.backend("toyback")


def test_its_target_is_known_and_runs() -> None:
    target = registry.find_target("toy:one")
    assert [one.name for one in registry.backends_for("toy:one")] == ["toyback"]
    assert "toy:one" in {known.name for known in registry.known_targets()}
    assert registry.find_device("toyback", target.name).name == "toy"


def test_a_typing_error_names_the_nearest() -> None:
    with pytest.raises(registry.DeviceNotFound, match="Did you mean 'toy:one'"):
        registry.find_target("toy:ome")


def test_it_computes() -> None:
    from dovetail.backend.protocols import CompileOptions
    from dovetail.ir import parse_graph
    from dovetail.testing.agreement import load_on

    graph = parse_graph('graph "g" opset 21\ninput "x": f32[3]\n"n" = Relu("x") -> ("y": f32[3])\noutput "y"\nend\n')
    executable = load_on(registry.backend("toyback"), graph, registry.find_target("toy:one"), CompileOptions())
    found = executable.run({"x": np.array([-1, 0, 2], np.float32)})["y"]
    np.testing.assert_array_equal(found, np.array([0, 0, 2], np.float32))
