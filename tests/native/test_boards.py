"""Bundles made here give the same integers on other processors (emulated): by `dovetail-run`, and by Python."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import needs
import numpy as np
import pytest
from boards import NPU, NUMPY_ONLY, small_network
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from runners import Runner, build_runner, compiled, expected, same_bytes, write_feeds
from sysroots import VARIABLE, Sysroot, find_sysroot

import dovetail
from dovetail.bundle import save_bundle
from dovetail.ir import Graph
from dovetail.kit import write_board_wheel
from dovetail.testing.networks import networks
from dovetail.testing.running import random_feeds

INTEGERS = ("cpu@u8", "cpu@i8", "cpu@i8pc", "ort:CPU@u8", "ort:CPU@i8pc")
OLDEST = {"arm64": "cortex-a53", "armhf": "cortex-a15"}
"""Without the products of bytes and the half floats of newer processors: ONNX Runtime takes other kernels there."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["arm64", "armhf"])
def board(request: pytest.FixtureRequest) -> Sysroot:
    """Return the programs of another processor."""
    found = find_sysroot(request.param)
    if found is None:
        needs.without("boards", f"{VARIABLE} names no folder with {request.param}: see tests/support/sysroots.py")
    needs.program(found.emulator, "qemu")
    return found


@pytest.fixture(scope="module")
def emulated(board: Sysroot, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return the program for the other processor, with ONNX Runtime for it, whatever its version."""
    if board.onnxruntime is None:
        needs.without("boards", f"{board.folder} holds no ONNX Runtime")
    options = ("--ort", str(board.onnxruntime), "--any-version")
    program = build_runner(tmp_path_factory.mktemp("build"), board)
    return Runner(program, tuple(board.command("")[:-1]), options)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the contents of the board's wheel."""
    folder = tmp_path_factory.mktemp("package")
    with zipfile.ZipFile(write_board_wheel(folder)) as wheel:
        wheel.extractall(folder / "runtime")
    return folder / "runtime"


@st.composite
def placed(draw: st.DrawFn) -> tuple[Graph, dict[str, str]]:
    """Draw a network whose nodes all compute with integers."""
    graph = dovetail.normalize(draw(networks()))
    return graph, {node.name: draw(st.sampled_from(INTEGERS)) for node in graph.nodes}


@seed(24)
@settings(max_examples=12, database=None)
@given(case=placed())
def test_integers_are_those_of_this_machine(
    board: Sysroot, emulated: Runner, tmp_path_factory: pytest.TempPathFactory, case: tuple[Graph, dict[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("case")
    bundle = compiled(*case)
    save_bundle(bundle, folder / "bundle")
    feeds = [random_feeds(case[0], number) for number in range(3)]
    samples = write_feeds(folder / "x.npz", feeds)
    wanted = expected(bundle, feeds)
    assert same_bytes(emulated.outputs(folder / "bundle", samples, folder / "y.npz"), wanted)
    before = board.command("", processor=OLDEST[board.architecture])[:-1]
    older = Runner(emulated.program, tuple(before), emulated.options)
    assert same_bytes(older.outputs(folder / "bundle", samples, folder / "z.npz"), wanted)


@pytest.mark.parametrize("place", ["cpu@u8", "cpu@i8pc", f"{NPU}@i8pc", f"{NPU}@u8", f"{NPU}@i16"])
def test_python_gives_the_same_bytes(board: Sysroot, package: Path, tmp_path: Path, place: str) -> None:
    graph = small_network(5)
    bundle = compiled(graph, {node.name: place for node in graph.nodes}, NUMPY_ONLY)
    save_bundle(bundle, tmp_path / "bundle")
    feeds = [random_feeds(graph, number) for number in range(3)]
    samples = write_feeds(tmp_path / "x.npz", feeds)
    words = ["-m", "dovetail.runtime", "run", tmp_path / "bundle", "-i", samples, "-o", tmp_path / "y.npz"]
    command = board.python(*words)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(package)}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    with np.load(tmp_path / "y.npz") as archive:
        found = {name: archive[name] for name in archive.files}
    assert same_bytes(found, expected(bundle, feeds))
