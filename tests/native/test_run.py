"""`dovetail-run`, the program for boards without Python: it gives what LocalRuntime gives, to the last bit."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import needs
import numpy as np
import pytest
from boards import NPU, NUMPY_ONLY, small_network
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from runners import Runner, blob_of, compiled, expected, reseal, same_bytes, write_feeds

import dovetail
from dovetail.backend.protocols import CompileOptions
from dovetail.bundle import export_bundle, save_bundle
from dovetail.cli.main import main
from dovetail.errors import BundleError
from dovetail.ir import Graph
from dovetail.kit import RecordedRuntime, needed_libraries
from dovetail.runtime import ProfileOptions
from dovetail.sdk import find_verisilicon
from dovetail.testing.networks import networks
from dovetail.testing.running import random_feeds
from dovetail.testing.topologies import TOPOLOGIES, Topology, devices_of

# Building the program takes most of a minute.
pytestmark = pytest.mark.slow

PLACES = ("cpu@u8", "cpu@i8", "cpu@i8pc", "cpu@fp32", "ort:CPU@u8", "ort:CPU@i8pc", "ort:CPU@fp32")


def check_same(
    runner: Runner, graph: Graph, places: dict[str, str], folder: Path, batches: tuple[int, ...] = (1,)
) -> int:
    """Compare with the runtime in Python; return the number of partitions."""
    bundle = compiled(graph, places)
    save_bundle(bundle, folder / "bundle")
    for batch in batches:
        feeds = [random_feeds(graph, number, batch) for number in range(3)]
        samples = write_feeds(folder / "x.npz", feeds)
        found = runner.outputs(folder / "bundle", samples, folder / "y.npz")
        assert same_bytes(found, expected(bundle, feeds))
    return len(bundle.partitions)


@st.composite
def placed(draw: st.DrawFn) -> tuple[Graph, dict[str, str]]:
    """Draw a network and a place for every node."""
    graph = dovetail.normalize(draw(networks()))
    return graph, {node.name: draw(st.sampled_from(PLACES)) for node in graph.nodes}


@seed(24)
@settings(max_examples=60, database=None)
@given(case=placed())
def test_any_placement(
    runner: Runner, tmp_path_factory: pytest.TempPathFactory, case: tuple[Graph, dict[str, str]]
) -> None:
    check_same(runner, *case, tmp_path_factory.mktemp("case"))


@pytest.mark.parametrize("make", TOPOLOGIES, ids=lambda make: make.__name__)
def test_topologies(runner: Runner, tmp_path: Path, make: Callable[[], Topology]) -> None:
    case = make()
    places = {"A": "cpu@fp32", "B": "ort:CPU@fp32", "X": "cpu@fp32", "Y": "ort:CPU@fp32", "Z": "cpu@fp32"}
    targets = {node: places[device] for node, device in devices_of(case).items()}
    open_sizes = any(isinstance(dim, str) for name in case.graph.inputs for dim in case.graph.types[name].shape or ())
    check_same(runner, case.graph, targets, tmp_path, (1, 5) if open_sizes else (1,))


def test_one_file_and_one_array(runner: Runner, bundle: Path) -> None:
    folder, made = bundle.parent, dovetail.load_bundle(bundle)
    export_bundle(made, folder / "one.zip")
    with np.load(folder / "x.npz") as archive:
        x = archive["x"]
    np.save(folder / "x.npy", x)
    wanted = runner.outputs(bundle, folder / "x.npz", folder / "y.npz")
    assert same_bytes(runner.outputs(folder / "one.zip", folder / "x.npy", folder / "z.npz"), wanted)
    ended = runner.run(folder / "one.zip", "-i", "x.npy", "-o", "y.npy", folder=folder)
    assert ended.returncode == 0, ended.stderr
    assert np.load(folder / "y.npy").tobytes() == next(iter(wanted.values())).tobytes()
    # Compressed, of another name, and of types that lose nothing.
    for number, array in enumerate((x.astype(np.float64), np.rint(x).astype(np.int8))):
        np.savez_compressed(folder / "other.npz", any_name=array)
        found = runner.outputs(bundle, folder / "other.npz", folder / "z.npz")
        assert same_bytes(found, expected(made, [{"x": row.astype(np.float32)} for row in array])), number


def test_without_samples_it_checks(runner: Runner, bundle: Path) -> None:
    ended = runner.run(bundle, "--json")
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert [row["backend"] for row in document["partitions"]] == [
        part.backend for part in dovetail.load_bundle(bundle).partitions
    ]


def test_times(runner: Runner, bundle: Path) -> None:
    ended = runner.run(bundle, "-i", bundle.parent / "x.npz", "--repeat", 7, "--warm-up", 1, "--json")
    document = json.loads(ended.stdout)
    assert document["repeats"] == 7
    for times in (document["times"], *(row["times"] for row in document["partitions"])):
        (least, most), (low, high) = times["range_ns"], times["quartiles_ns"]
        assert 0 < least <= low <= times["median_ns"] <= high <= most
    inside = sum(row["times"]["range_ns"][0] for row in document["partitions"])
    assert inside <= document["times"]["range_ns"][1]


def test_a_folder_to_bring_back(runner: Runner, bundle: Path) -> None:
    folder, made = bundle.parent, dovetail.load_bundle(bundle)
    ended = runner.run(bundle, "-i", folder / "x.npz", "--record", folder / "result", "--repeat", 5)
    assert ended.returncode == 0, ended.stderr
    with np.load(folder / "x.npz") as archive:
        feeds = [{"x": row} for row in archive["x"]]
    with RecordedRuntime(folder / "result") as there, there.load(made) as model:
        wanted = expected(made, feeds)
        rows = [model.run(feed).outputs for feed in feeds]
        assert same_bytes({name: np.stack([row[name] for row in rows]) for name in wanted}, wanted)
        profile = model.profile(feeds, ProfileOptions(2, 5))
    assert len(profile.runs) == 5
    assert profile.together_ns >= sum(run.elapsed_ns for run in profile.runs)


def test_a_kit_without_python(runner: Runner, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bundle.parent
    call = ["board", "kit", bundle, "--data", folder / "x.npz", "--runs", 3, "-o", folder / "fit.tar", "--json"]
    assert main([*map(str, call), "--runner", str(runner.program)]) == 0
    (needed,) = json.loads(capsys.readouterr().out)["packages"]
    assert "libonnxruntime.so" in needed
    with tarfile.open(folder / "fit.tar") as archive:
        archive.extractall(folder / "board", filter="data")
    script = folder / "board" / "fit" / "run.sh"
    # A board that has `dirname` and nothing else, from another folder.
    tools = folder / "tools"
    tools.mkdir()
    (tools / "dirname").symlink_to(needs.program("dirname", "coreutils"))
    done = subprocess.run([script, *runner.options], cwd="/", env={"PATH": str(tools)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    on = ["--on", str(folder / "board" / "fit" / "result"), "--data", str(folder / "x.npz"), "--json"]
    assert main(["profile", str(bundle), *on]) == 0
    assert len(json.loads(capsys.readouterr().out)["partitions"]) == len(dovetail.load_bundle(bundle).partitions)
    for more, said in ((["--layers"], "outputs only"), ([], "no program for Linux")):
        wrong = str(runner.program) if more else str(script)
        assert main([*map(str, call), "--runner", wrong, *more]) == 2
        assert said in capsys.readouterr().err


def test_what_the_program_does_not_run_makes_no_kit(runner: Runner, tmp_path: Path) -> None:
    graph = small_network()
    made = compiled(graph, {node.name: f"{NPU}@u8" for node in graph.nodes}, NUMPY_ONLY)
    with pytest.raises(BundleError, match="which dovetail-run does not run"):
        needed_libraries(made)
    save_bundle(made, tmp_path / "bundle")
    assert "which this program does not run" in runner.refusal(tmp_path / "bundle")


@pytest.mark.sdk
@pytest.mark.parametrize("backend", ["nbg", "vsi-graph"])
def test_the_vendors_driver(runner: Runner, tmp_path: Path, backend: str) -> None:
    needs.verisilicon()
    sdk = find_verisilicon().folder
    graph = small_network()
    nodes = [node.name for node in graph.nodes]
    # In two pieces of the NPU, with the CPU between them and behind them.
    places = dict.fromkeys(nodes, f"{NPU}@u8") | {nodes[2]: "cpu@fp32", nodes[-1]: "cpu@fp32"}
    options = CompileOptions(taps=backend == "vsi-graph")
    made = compiled(graph, places, {NPU: "vsi"}, options)
    assert {part.blob.format for part in made.partitions if part.backend == "vsi"} == {backend}
    save_bundle(made, tmp_path / "bundle")
    feeds = [random_feeds(graph, number) for number in range(2)]
    samples = write_feeds(tmp_path / "x.npz", feeds)
    libraries = ":".join(map(str, sdk.libraries))
    words = ("env", f"LD_LIBRARY_PATH={libraries}", f"VIVANTE_SDK_DIR={sdk.sdk}")
    there = Runner(runner.program, words, (*runner.options, "--vsi", str(sdk.shim)))
    ended = there.run(tmp_path / "bundle", "-i", samples, "-o", tmp_path / "y.npz", "--json")
    assert ended.returncode == 0, ended.stderr
    # What the driver prints is not among it.
    assert json.loads(ended.stdout)["samples"] == 2
    with np.load(tmp_path / "y.npz") as archive:
        found = {name: archive[name] for name in archive.files}
    assert same_bytes(found, expected(made, feeds))
    # The driver starts as another part than the one that it was compiled for.
    other = Runner(there.program, (*words, "VSIMULATOR_CONFIG=VIP8000NANOSI_PID0XB5"), there.options)
    assert "product id" in other.refusal(tmp_path / "bundle")
    assert "needs VeriSilicon SDK" in there.refusal(tmp_path / "bundle", "--have", "VeriSilicon SDK=1.0")
    assert "needs product id" in there.refusal(tmp_path / "bundle", "--have", "product id=0x1")
    if backend == "nbg":
        document, path = blob_of(tmp_path / "bundle")
        payload = bytearray(path.read_bytes()[32:])
        payload[-100] ^= 1
        path.write_bytes(hashlib.sha256(payload).digest() + payload)
        reseal(tmp_path / "bundle", document)
        assert "its checksum differs" in there.refusal(tmp_path / "bundle")
