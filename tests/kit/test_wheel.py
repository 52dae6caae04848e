"""The board's wheel in an environment that has numpy and nothing else: equal bytes, and no other package."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from boards import NPU, Board, Fitted, board_of_wheel, small_network, write_samples

import dovetail
from dovetail.errors import BundleError
from dovetail.kit import wheel_name, write_board_wheel
from dovetail.runtime.rows import read_feeds

HEAVY = ("onnx", "onnxruntime", "scipy", "typer", "rich", "PIL", "yaml")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return board_of_wheel(tmp_path_factory.mktemp("board") / "venv")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_samples(tmp_path_factory.mktemp("data") / "x.npz")


PLACES = {"npu": f"{NPU}@i8pc", "npu16": f"{NPU}@i16", "cpu": "reference@i8", "float": "reference@fp32"}


@pytest.mark.parametrize("place", sorted(PLACES))
def test_a_bundle_gives_the_bytes_of_the_full_install(place: str, board: Board, samples: Path, tmp_path: Path) -> None:
    bundle = Fitted(small_network(), PLACES[place]).bundle(samples)
    dovetail.save_bundle(bundle, tmp_path / "bundle")
    said = board.run("run", tmp_path / "bundle", "-i", samples, "-o", tmp_path / "y.npz")
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["samples"] == 4
    found = np.load(tmp_path / "y.npz")
    with dovetail.open_session(bundle) as session:
        runs = [session.run(feed).outputs for feed in read_feeds(samples, bundle.inputs)]
    assert set(found.files) == set(bundle.outputs)
    for name in bundle.outputs:
        assert found[name].tobytes() == b"".join(run[name].tobytes() for run in runs)
        assert len(np.unique(found[name])) > 10


def test_nothing_but_numpy_is_imported(board: Board, samples: Path, tmp_path: Path) -> None:
    dovetail.save_bundle(Fitted(small_network()).bundle(samples), tmp_path / "bundle")
    program = (
        "import json, sys; from dovetail.runtime.__main__ import main;"
        "code = main(['run', *sys.argv[1:]]);"
        "own = {'dovetail', 'numpy'} | set(sys.stdlib_module_names);"
        "print(json.dumps([code, sorted({name.partition('.')[0] for name in sys.modules} - own)]))"
    )
    said = board.python_run("-c", program, tmp_path / "bundle", "-i", samples, "-o", tmp_path / "y.npz")
    code, others = json.loads(said.stdout.splitlines()[-1])
    assert code == 0
    assert [name for name in others if name in HEAVY] == []
    assert [name for name in others if not name.startswith(("_", "cython", "mtrand"))] == []


def test_the_wheel_has_no_more_than_boards_need(tmp_path: Path) -> None:
    wheel = write_board_wheel(tmp_path)
    assert wheel.name == wheel_name()
    rooms = {Path(name).parts[1] for name in zipfile.ZipFile(wheel).namelist() if name.startswith("dovetail/")}
    needed = {"backend", "backends", "bundle", "data", "facts", "ir", "plan", "runtime", "sdk"}
    assert {room for room in rooms if "." not in room} == needed
    assert wheel.stat().st_size < 500_000
    assert write_board_wheel(tmp_path / "again").read_bytes() == wheel.read_bytes()


def test_a_partition_that_needs_a_package_is_refused_with_the_reason(
    board: Board, samples: Path, tmp_path: Path
) -> None:
    dovetail.save_bundle(Fitted(small_network(), backends={NPU: "npusim"}).bundle(samples), tmp_path / "bundle")
    said = board.run("run", tmp_path / "bundle", "-i", samples, "-o", tmp_path / "y.npz")
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    assert "backend 'cpu' cannot be used: No module named 'onnxruntime'" in said.stderr
    assert not (tmp_path / "y.npz").exists()


def test_what_a_bundle_needs_of_the_board_is_kept_in_it_and_looked_for(samples: Path, tmp_path: Path) -> None:
    bundle = Fitted(small_network()).bundle(samples)
    index, part = next((index, part) for index, part in enumerate(bundle.partitions) if part.backend == "npusim")
    parts = list(bundle.partitions)
    parts[index] = replace(part, needs={"onnxruntime": "0.0.1"})
    dovetail.save_bundle(replace(bundle, partitions=tuple(parts)), tmp_path / "bundle")
    with pytest.raises(BundleError, match=r"does not run here: it needs onnxruntime 0\.0\.1, and 1\..* is installed"):
        dovetail.open_session(dovetail.load_bundle(tmp_path / "bundle"))
    parts[index] = replace(part, needs={"phase of the moon": "full"})
    with pytest.raises(BundleError, match=r"it needs 'phase of the moon' .full., which is unknown here"):
        dovetail.open_session(replace(bundle, partitions=tuple(parts)))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"z": np.zeros((1, 1, 3, 16, 16)), "w": np.zeros(1)}, "no array for input 'x'"),
        ({"x": np.zeros((2, 1, 3, 8, 8))}, "expected shape [1, 3, 16, 16], found [1, 3, 8, 8]"),
        ({"x": np.float32(1)}, "is a single number"),
        ({"x": np.full((1, 3, 16, 16), np.nan)}, "NaN or infinite"),
        ({"x": np.array([None])}, "plain values"),
    ],
)
def test_wrong_inputs_are_one_line(
    arrays: dict[str, np.ndarray], words: str, board: Board, samples: Path, tmp_path: Path
) -> None:
    dovetail.save_bundle(Fitted(small_network()).bundle(samples), tmp_path / "bundle")
    np.savez(tmp_path / "wrong.npz", allow_pickle=True, **arrays)
    said = board.run("run", tmp_path / "bundle", "-i", tmp_path / "wrong.npz", "-o", tmp_path / "y.npz")
    assert (said.returncode, said.stderr.count("\n"), words in said.stderr) == (2, 1, True), said.stderr
