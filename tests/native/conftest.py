"""The program for this machine, built once, and a small bundle for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from boards import small_network, write_samples
from runners import Runner, build_runner, compiled, onnxruntime_library

from dovetail.bundle import save_bundle


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return the program for this machine, with the installed ONNX Runtime."""
    library = onnxruntime_library()
    return Runner(build_runner(tmp_path_factory.mktemp("build")), options=("--ort", str(library)))


@pytest.fixture
def bundle(runner: Runner, tmp_path: Path) -> Path:
    """Return a bundle of several partitions; x.npz with four samples lies beside it."""
    graph = small_network()
    nodes = [node.name for node in graph.nodes]
    places = dict(zip(nodes, ("cpu@i8pc", "ort:CPU@u8", "cpu@fp32") * len(nodes), strict=False))
    save_bundle(compiled(graph, places), tmp_path / "bundle")
    write_samples(tmp_path / "x.npz")
    return tmp_path / "bundle"
