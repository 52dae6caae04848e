"""A backend in a package of its own is found through its entry point and keeps the contract."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dovetail.backend import registry
from dovetail.testing.contract import BackendContract

PACKAGE = Path(__file__).parents[1] / "thirdparty" / "toyback"


def _forget() -> None:
    for cached in (registry._points, registry.backend, registry.find_target):
        cached.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put the package and the metadata that an installer would write on the path."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    site = tmp_path_factory.mktemp("site")
    metadata = site / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    added = [str(site), str(PACKAGE)]
    sys.path[:0] = added
    _forget()
    yield
    sys.path[:] = [folder for folder in sys.path if folder not in added]
    sys.modules.pop("toyback", None)
    _forget()


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
