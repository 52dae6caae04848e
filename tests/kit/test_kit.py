"""A kit on a board that has Python and numpy alone, and no network; its result read back by the commands."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from boards import NPU, Board, Fitted, bare_python, small_network, write_samples

import dovetail
from dovetail.cli.main import main
from dovetail.errors import BundleError, DataError, DeviceError
from dovetail.exporters.onnx import to_onnx
from dovetail.kit import RecordedRuntime
from dovetail.runtime import ProfileOptions
from dovetail.runtime.rows import read_feeds

Say = Callable[..., tuple[int, dict[str, object], str]]


@dataclass(frozen=True)
class Brought:
    """A model, its bundle, and what the board brought back."""

    model: Path
    data: Path
    bundle: Path
    result: Path
    kit: Path


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return bare_python(tmp_path_factory.mktemp("bare") / "venv")


@pytest.fixture(scope="module")
def brought(bare: Board, tmp_path_factory: pytest.TempPathFactory) -> Brought:
    folder = tmp_path_factory.mktemp("kit")
    graph = small_network()
    onnx.save(to_onnx(graph), folder / "model.onnx")
    data = write_samples(folder / "x.npz")
    source = dovetail.normalize(dovetail.load_model(folder / "model.onnx"))
    dovetail.save_bundle(Fitted(source).bundle(data), folder / "bundle")
    call = ["board", "kit", folder / "bundle", "--data", data, "--layers", "--runs", 3, "-o", folder / "fit.tar"]
    assert main([str(item) for item in call]) == 0
    board = folder / "board"
    with tarfile.open(folder / "fit.tar") as archive:
        archive.extractall(board, filter="data")
    done = subprocess.run(
        [str(board / "fit" / "run.sh")],
        cwd="/",
        env={"PATH": os.defpath, "PYTHON": str(bare.python)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return Brought(folder / "model.onnx", data, folder / "bundle", board / "fit" / "result", folder / "fit.tar")


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    def call(*arguments: object) -> tuple[int, dict[str, object], str]:
        capsys.readouterr()
        code = main([*map(str, arguments), "--json"])
        said = capsys.readouterr()
        return code, json.loads(said.out) if said.out else {}, said.err

    return call


def test_compare_of_the_result_says_what_it_says_here(brought: Brought, say: Say) -> None:
    call = ("compare", brought.model, brought.bundle, "--data", brought.data, "--layers")
    here, board = say(*call), say(*call, "--on", brought.result)
    assert here[1]["rows"]
    assert board == here


def test_run_of_the_result_saves_the_bytes_of_a_run_here(brought: Brought, say: Say, tmp_path: Path) -> None:
    for name, on in (("here", ()), ("board", ("--on", brought.result))):
        assert say("run", brought.bundle, "--data", brought.data, "--save", tmp_path / name, *on)[0] == 0
    files = [sorted((tmp_path / name).rglob("*.npy")) for name in ("here", "board")]
    assert [one.read_bytes() for one in files[0]] == [one.read_bytes() for one in files[1]]
    assert len(files[0]) == 4


def test_profile_of_the_result_has_the_times_of_the_board(brought: Brought, say: Say) -> None:
    code, document, _ = say("profile", brought.bundle, "--data", brought.data, "--on", brought.result)
    assert code == 0
    told = json.loads((brought.result / "result.json").read_text())["profile"]["runs"]
    assert len(told) == 3
    assert document["median_ns"] == sorted(run["elapsed_ns"] for run in told)[1]
    partitions = document["partitions"]
    assert isinstance(partitions, list)
    for index, row in enumerate(partitions):
        assert row["min_ns"] == min(run["marks"][index][2] for run in told)


def test_a_kit_is_the_same_bytes_each_time(brought: Brought, tmp_path: Path) -> None:
    call = ["board", "kit", brought.bundle, "--data", brought.data, "--layers", "--runs", 3, "-o", tmp_path / "fit.tar"]
    assert main([str(item) for item in call]) == 0
    assert (tmp_path / "fit.tar").read_bytes() == brought.kit.read_bytes()
    with tarfile.open(brought.kit) as archive:
        assert all(item.isfile() and item.name.startswith("fit/") for item in archive)


def test_other_samples_taps_and_bundles_are_refused(brought: Brought, tmp_path: Path) -> None:
    bundle = dovetail.load_bundle(brought.bundle)
    with RecordedRuntime(brought.result) as place:
        with pytest.raises(DeviceError, match="has not run this sample"):
            place.load(bundle).run({"x": np.ones((1, 3, 16, 16), np.float32)})
        feed = next(read_feeds(brought.data, bundle.inputs))
        with pytest.raises(DeviceError, match="has not told the tensor 'none'"):
            place.load(bundle).run(feed, ["none"])
        other = Fitted(small_network(4)).bundle(brought.data)
        with pytest.raises(BundleError, match="results of another bundle"):
            place.load(other)


DAMAGE: dict[str, Callable[[dict[str, object]], object]] = {
    "no JSON": lambda document: "{",
    "no table": lambda document: [],
    "other schema": lambda document: {**document, "schema": "other/9"},
    "fewer devices": lambda document: {**document, "devices": ["a"]},
    "fewer runs": lambda document: {**document, "runs": []},
    "negative time": lambda document: {**document, "profile": {"runs": [{"elapsed_ns": -1, "marks": []}]}},
    "times of no partition": lambda document: {
        **document,
        "profile": {"runs": [{"elapsed_ns": 1, "marks": [[99, 0, 1, 0]]}], "starts_ns": [0], "together_ns": 1},
    },
    "a time that is text": lambda document: {
        **document,
        "profile": {"runs": [{"elapsed_ns": "1", "marks": []}], "starts_ns": [0], "together_ns": 1},
    },
}


@pytest.mark.parametrize("how", sorted(DAMAGE))
def test_a_damaged_result_is_refused(how: str, brought: Brought, tmp_path: Path) -> None:
    document = DAMAGE[how](json.loads((brought.result / "result.json").read_text()))
    (tmp_path / "result.json").write_text(document if isinstance(document, str) else json.dumps(document))
    with RecordedRuntime(tmp_path) as place, pytest.raises(DataError, match=r"result\.json"):
        place.load(dovetail.load_bundle(brought.bundle)).profile([], ProfileOptions())


def test_a_result_without_its_arrays_is_refused(brought: Brought, tmp_path: Path) -> None:
    bundle = dovetail.load_bundle(brought.bundle)
    (tmp_path / "result.json").write_bytes((brought.result / "result.json").read_bytes())
    feed = next(read_feeds(brought.data, bundle.inputs))
    with RecordedRuntime(tmp_path) as place:
        with pytest.raises(DataError, match=r"outputs\.npz: missing"):
            place.load(bundle).run(feed)
        (tmp_path / "outputs.npz").write_bytes((brought.result / "outputs.npz").read_bytes()[:-100])
        with pytest.raises(DataError, match="damaged"):
            place.load(bundle).run(feed)


def test_a_bundle_that_boards_cannot_run_makes_no_kit(brought: Brought, say: Say, tmp_path: Path) -> None:
    bundle = Fitted(small_network(), "null@fp32", {}).bundle(brought.data)
    dovetail.save_bundle(bundle, tmp_path / "bundle")
    code, _, err = say("board", "kit", tmp_path / "bundle", "--data", brought.data, "-o", tmp_path / "fit.tar")
    assert (code, "compiled by 'null', which boards do not have" in err) == (2, True), err
    assert not (tmp_path / "fit.tar").exists()


def test_what_a_board_needs_is_said(brought: Brought, say: Say, tmp_path: Path) -> None:
    bundle = Fitted(small_network(), backends={NPU: "npusim"}).bundle(brought.data)
    dovetail.save_bundle(bundle, tmp_path / "bundle")
    code, said, _ = say("board", "kit", tmp_path / "bundle", "--data", brought.data, "-o", tmp_path / "fit.tar")
    assert (code, said["packages"]) == (0, ["numpy", "onnxruntime"])
