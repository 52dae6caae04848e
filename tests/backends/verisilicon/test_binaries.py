"""Binary networks: made in one process, run in another, equal to the graph; what is damaged is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import needs
import numpy as np
import pytest

from dovetail.backend.protocols import CompileOptions, Signature
from dovetail.backends.verisilicon.blob import program_from_bytes
from dovetail.backends.verisilicon.plugin import VsiBackend, unsealed
from dovetail.bundle import load_bundle
from dovetail.cli.main import main
from dovetail.errors import DeviceError, DovetailError
from dovetail.ir import DType, Graph, Node, Quantization, TensorType, graph_to_bytes
from dovetail.runtime import open_session
from dovetail.sdk.nbg import read_facts, read_file
from dovetail.testing.agreement import load_on

from .conftest import target_named

pytestmark = [pytest.mark.sdk, pytest.mark.usefixtures("traceless")]
FIVE = ("vsi:a311d", "vsi:imx8mp", "vsi:v853", "vsi:t527", "vsi:a733")

RUN = """
import sys, numpy as np
from pathlib import Path
from dovetail.backend.protocols import Blob, Signature
from dovetail.backend.registry import backend
from dovetail.ir import graph_from_bytes
blob, graph = Blob("nbg", Path(sys.argv[1]).read_bytes()), graph_from_bytes(Path(sys.argv[4]).read_bytes())
executable = backend("vsi").devices()[0].load(blob, Signature.of(graph))
np.save(sys.argv[3], executable.run({"x": np.load(sys.argv[2], allow_pickle=False)})["y"])
executable.close()
"""


def branching(dtype: DType = DType.U8) -> Graph:
    """Return two convolutions, one of them behind a pooling, whose results are added."""
    low = dtype.integer_range[0]

    def kind(shape: tuple[int, ...], scale: float, zero: int) -> TensorType:
        return TensorType(dtype, shape, Quantization((float(np.float32(scale)),), (low + zero,)))

    random = np.random.default_rng(11)
    types = {
        "x": kind((1, 8, 12, 12), 0.05, 120),
        "w": kind((8, 8, 3, 3), 0.02, 128),
        "v": kind((8, 8, 1, 1), 0.03, 128),
        **{name: kind((1, 8, 12, 12), 0.2, 128) for name in ("a", "b")},
        "y": kind((1, 8, 12, 12), 0.3, 110),
    }
    bounds = dtype.integer_range
    constants = {
        name: random.integers(bounds[0], bounds[1] + 1, types[name].static_shape or ()).astype(dtype.carrier)
        for name in ("w", "v")
    }
    nodes = (
        Node("wide", "Conv", ("x", "w"), ("a",), {"pads": (1, 1, 1, 1)}),
        Node("point", "Conv", ("x", "v"), ("b",)),
        Node("sum", "Add", ("a", "b"), ("y",)),
    )
    return Graph("branching", nodes, ("x",), ("y",), types, constants)


@pytest.mark.slow
@pytest.mark.parametrize("name", FIVE)
def test_made_here_and_run_in_another_process(
    name: str, vendor: VsiBackend, graphs: VsiBackend, tmp_path: Path
) -> None:
    if name not in {target.name for target in vendor.targets()}:
        needs.without("vsi", f"{name} is not a target of this SDK")
    target, graph = target_named(name), branching()
    blob = vendor.compile(graph, target, CompileOptions())
    program = program_from_bytes(unsealed(blob.payload, ""))
    assert read_facts(program.binary or b"").pid == program.pid
    sample = np.random.default_rng(3).integers(0, 256, (1, 8, 12, 12)).astype(np.uint8)
    direct = load_on(graphs, graph, target, CompileOptions())
    wanted = direct.run({"x": sample})["y"]
    direct.close()
    files = [tmp_path / item for item in ("blob", "x.npy", "y.npy", "graph")]
    files[0].write_bytes(blob.payload)
    files[3].write_bytes(graph_to_bytes(graph))
    np.save(files[1], sample)
    command = [sys.executable, "-c", RUN, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(files[2], allow_pickle=False), wanted)


@pytest.mark.parametrize("dtype", [DType.U8, DType.I8])
@pytest.mark.parametrize("name", ["vsi:a311d", "vsi:v853"])
def test_sums_and_layers_of_either_sign_survive_the_file(
    dtype: DType, name: str, vendor: VsiBackend, graphs: VsiBackend
) -> None:
    """A fully connected layer once held garbage in the file, and only there."""
    low = dtype.integer_range[0]
    random = np.random.default_rng(2)
    types = {
        "x": TensorType(dtype, (1, 32), Quantization((float(np.float32(0.1)),), (low + 100,))),
        "w": TensorType(dtype, (10, 32), Quantization((float(np.float32(0.02)),), (low + 128,))),
        "h": TensorType(dtype, (1, 10), Quantization((float(np.float32(0.2)),), (low + 128,))),
        "y": TensorType(dtype, (1, 10), Quantization((1 / 256,), (low,))),
    }
    bounds = dtype.integer_range
    weight = random.integers(bounds[0], bounds[1] + 1, (10, 32)).astype(dtype.carrier)
    nodes = (
        Node("layer", "Gemm", ("x", "w"), ("h",), {"transB": 1}),
        Node("softmax", "Softmax", ("h",), ("y",), {"axis": 1}),
    )
    graph, target = Graph("tail", nodes, ("x",), ("y",), types, {"w": weight}), target_named(name)
    binary, direct = (load_on(one, graph, target, CompileOptions()) for one in (vendor, graphs))
    for _ in range(3):
        sample = {"x": random.integers(bounds[0], bounds[1] + 1, (1, 32)).astype(dtype.carrier)}
        assert np.array_equal(binary.run(sample)["y"], direct.run(sample)["y"])
    binary.close()
    direct.close()


def layers(names: str) -> Graph:
    """Return convolutions of unsigned bytes one after another: `d` depthwise 3x3, `p` pointwise."""
    random, channels = np.random.default_rng(3), 16
    types = {"x": TensorType(DType.U8, (1, channels, 16, 16), Quantization((0.5,), (3,)))}
    constants, nodes, scale = {}, [], 0.5
    for index, name in enumerate(names):
        group, kernel = (channels, 3) if name == "d" else (1, 1)
        shape, before = (channels, channels // group, kernel, kernel), f"y{index - 1}" if index else "x"
        types[f"w{index}"] = TensorType(DType.U8, shape, Quantization((0.25,), (128,)))
        constants[f"w{index}"] = random.integers(0, 256, shape).astype(np.uint8)
        scale *= 37.0
        types[f"y{index}"] = TensorType(DType.U8, (1, channels, 16, 16), Quantization((scale,), (128,)))
        attributes = {"group": group, "pads": (kernel // 2,) * 4}
        nodes.append(Node(f"c{index}", "Conv", (before, f"w{index}"), (f"y{index}",), attributes))
    return Graph("layers", tuple(nodes), ("x",), (f"y{len(names) - 1}",), types, constants)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", ["p", "dp", "dpdp"])
@pytest.mark.parametrize("name", ["vsi:a311d", "vsi:s905d3", "vsi:rk1808", "vsi:stm32mp2", "vsi:v853"])
def test_convolutions_of_unsigned_bytes_survive_the_file(
    kinds: str, name: str, vendor: VsiBackend, graphs: VsiBackend
) -> None:
    """The oldest generation once stopped with an exception of its memory unit, as the weights were not in the file."""
    graph, target = layers(kinds), target_named(name)
    binary, direct = (load_on(one, graph, target, CompileOptions()) for one in (vendor, graphs))
    sample = {"x": np.random.default_rng(4).integers(0, 256, (1, 16, 16, 16)).astype(np.uint8)}
    found, wanted = (one.run(sample)[graph.outputs[0]] for one in (binary, direct))
    assert np.array_equal(found, wanted)
    assert len(np.unique(wanted)) > 16
    binary.close()
    direct.close()


@pytest.mark.slow
def test_a_bundle_holds_several_binaries_and_damage_is_told(
    vendor: VsiBackend, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two partitions on the NPU with one on the CPU between them, compiled by the command, loaded from disk."""
    from dovetail import save_bundle
    from dovetail.compile import CompileRequest, compile_model
    from dovetail.partition import partition
    from dovetail.plan import Override, Plan, parse_placement
    from dovetail.quantize import Range, Ranges, quantize

    random = np.random.default_rng(1)
    types = {name: TensorType(DType.F32, (1, 4, 8, 8)) for name in ("x", "a", "b", "y")}
    types |= {name: TensorType(DType.F32, (4, 4, 1, 1)) for name in ("w", "v")}
    constants = {name: random.standard_normal((4, 4, 1, 1)).astype(np.float32) for name in ("w", "v")}
    nodes = (
        Node("first", "Conv", ("x", "w"), ("a",)),
        Node("middle", "Sigmoid", ("a",), ("b",)),
        Node("last", "Conv", ("b", "v"), ("y",)),
    )
    graph = Graph("three", nodes, ("x",), ("y",), types, constants)
    npu, cpu = parse_placement("vsi:v853@u8"), parse_placement("cpu@fp32")
    plan = Plan(graph.digest, npu, {"middle": Override(cpu, "asked for")})
    ranges = Ranges(graph.digest, "stated", 0, {name: Range(-4.0, 4.0) for name in types})
    parts = partition(quantize(graph, plan, ranges))
    made = compile_model(parts, CompileRequest(backends={"vsi:v853": "vsi"}))
    folder = tmp_path / "bundle"
    save_bundle(made, folder)
    bundle = load_bundle(folder)
    assert [part.blob.format for part in bundle.partitions if part.target == "vsi:v853"] == ["nbg", "nbg"]
    sample = {"x": random.standard_normal((1, 4, 8, 8)).astype(np.float32)}
    wanted = open_session(compile_model(parts, CompileRequest(backends={"vsi:v853": "npusim"}))).run(sample)
    with open_session(bundle) as session:
        assert np.array_equal(session.run(sample).outputs["y"], wanted.outputs["y"])
    _extracted(folder, tmp_path / "nbg", capsys)
    device, blob = vendor.devices()[0], vendor.compile(branching(), target_named("vsi:v853"), CompileOptions())
    for payload in (blob.payload[:-9], blob.payload[:40], b"", blob.payload[:-1] + bytes([blob.payload[-1] ^ 1])):
        with pytest.raises(DeviceError) as caught:
            device.load(type(blob)(blob.format, payload), Signature.of(branching()))
        assert str(caught.value).count("\n") == 0
    largest = max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-100])
    with pytest.raises(DovetailError):
        open_session(load_bundle(folder))
    assert main(["run", str(folder), "--data", str(tmp_path / "none.npz")]) == 2


def _extracted(bundle: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check the files for the vendor's own runtime, and what is said of the tensors beside them."""
    capsys.readouterr()
    assert main(["nbg", "extract", str(bundle), "-o", str(folder), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["networks"]
    assert [row["target"] for row in rows if "file" in row] == ["vsi:v853", "vsi:v853"]
    assert [row["target"] for row in rows if "file" not in row]
    assert {path.name for path in folder.iterdir()} == {
        "networks.json",
        *(row["file"] for row in rows if "file" in row),
    }
    for row in rows:
        assert [item["shape"] for item in row["inputs"] + row["outputs"]] == [[1, 4, 8, 8]] * 2
        if "file" in row:
            facts = read_file(folder / row["file"])
            assert (facts.inputs, facts.outputs) == (1, 1)
            # -4 to 4 in 255 steps
            assert row["outputs"][0]["scale"] == pytest.approx([8 / 255], rel=1e-6)
            assert row["outputs"][0]["dtype"] == "u8"
    (bundle.parent / "mine").mkdir()
    (bundle.parent / "mine" / "notes").write_text("mine")
    assert main(["nbg", "extract", str(bundle), "-o", str(bundle.parent / "mine")]) == 2
    assert (bundle.parent / "mine" / "notes").read_text() == "mine"
