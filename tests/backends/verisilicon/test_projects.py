"""Exported projects: built with CMake against the SDK, they give what our own run gives, bit for bit."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import needs
import numpy as np
import pytest

import dovetail
from dovetail.backend.project import ProjectStyle
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.backends.verisilicon.project.listing import list_program
from dovetail.backends.verisilicon.project.ovxlib import network_source
from dovetail.backends.verisilicon.project.ovxlib_rows import OVX_ROWS
from dovetail.backends.verisilicon.project.write import project_sources
from dovetail.cli.main import main
from dovetail.compile import CompileRequest, ProjectSet, make_projects
from dovetail.errors import CompileError
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import QuantizedGraph, Range, Ranges, quantize
from dovetail.testing.cases import CASES, quantized

from .conftest import target_named

pytestmark = pytest.mark.sdk
DIGITS = Path(__file__).parents[3] / "examples" / "digits"


def build(folder: Path, vendor: VsiBackend) -> Path:
    """Return the program of a project, built with the system's compiler."""
    needs.program("cmake", "cmake")
    sdk = f"-DVIVANTE_SDK_DIR={vendor.folder.sdk}"
    for command in (["cmake", "-S", str(folder), "-B", str(folder / "build"), sdk], ["cmake", "--build", "build"]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning" not in done.stdout + done.stderr, done.stdout + done.stderr
    return folder / "build" / "network"


def run(program: Path, arguments: list[str | Path], out: Path) -> subprocess.CompletedProcess[str]:
    """Run a program as a user would, with nothing of ours in its environment."""
    bare = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    command = [str(program), *map(str, arguments), "--out", str(out)]
    return subprocess.run(command, cwd=out.parent, env=bare, capture_output=True, text=True, check=False)


def our_run(source: QuantizedGraph, inputs: Mapping[str, AnyArray]) -> Mapping[str, AnyArray]:
    """Return what a bundle gives whose NPU partitions run on the vendor's simulator."""
    targets = {place.target for place in source.placements.values() if place.target != "cpu"}
    request = CompileRequest(backends=dict.fromkeys(targets, "vsi"))
    with dovetail.open_session(dovetail.compile_model(dovetail.partition(source), request)) as session:
        return session.run(inputs).outputs


def saved(source: QuantizedGraph, style: ProjectStyle, folder: Path) -> ProjectSet:
    """Write the projects of a model."""
    made = make_projects(dovetail.partition(source), style)
    for name, content in made.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return made


@pytest.mark.slow
def test_the_digits_detector_from_the_command_line(vendor: VsiBackend, tmp_path: Path) -> None:
    """8 bits with a 16-bit tail, several samples, both from source and from the binary network."""
    model, plan, ranges, folder = DIGITS / "digits.onnx", *(tmp_path / name for name in ("p.json", "r.json", "made"))
    assert main(["calibrate", str(model), "--data", str(DIGITS / "calib.npz"), "-o", str(ranges)]) == 0
    graph = dovetail.load_model(model)
    low, high = parse_placement("vsi:v853@u8"), parse_placement("vsi:v853@i16")
    tail = {node.name: Override(high, "the head") for node in graph.nodes[-8:]}
    plan.write_text(Plan(graph.digest, low, tail).to_json())
    call = ["export", str(plan), "--model", str(model), "--ranges", str(ranges), "--format", "ovxlib-project"]
    assert main([*call, "-o", str(folder)]) == 0
    images = np.load(DIGITS / "eval.npz", allow_pickle=False)["images"][:2].astype(np.float32)
    np.save(tmp_path / "images.npy", images)
    program = build(folder, vendor)
    source = quantize(graph, dovetail.load_plan(plan), dovetail.load_ranges(ranges))
    wanted = our_run(source, {"images": images})["detections"]
    choices: tuple[list[str | Path], ...] = ([], ["--nbg", folder / "network.nbg"])
    for more in choices:
        done = run(program, [*more, tmp_path / "images.npy"], tmp_path / f"out{len(more)}")
        assert done.returncode == 0, done.stderr
        found = np.load(tmp_path / f"out{len(more)}" / "detections.npy", allow_pickle=False)
        assert np.array_equal(found, wanted)
        best = int(wanted[1].argmax())
        assert f"[{best}] {wanted[1].reshape(-1)[best]:.9g}" in done.stdout
    assert main([*call, "-o", str(folder)]) == 2
    assert main([*call, "-o", str(tmp_path)]) == 2
    assert main([*call, "-o", str(folder), "--replace"]) == 0
    assert not (folder / "build").exists()


def branching(hostile: bool = False) -> tuple[Graph, Ranges]:
    """Return two inputs and three outputs with convolutions and a product; names of any kind on request."""
    random = np.random.default_rng(4)

    def name(text: str) -> str:
        return f'{text}"; system("echo x"); //\\\n{text}*/ ../../ é\u202e`|' if hostile else text

    a, b, w, t, s, y, z = map(name, ("a", "b", "w", "t", "s", "y", "z"))
    types = {one: TensorType(DType.F32, (1, 4, 6, 6)) for one in (a, b, t, s, y, z)}
    types[w] = TensorType(DType.F32, (4, 4, 3, 3))
    nodes = (
        Node(name("first"), "Conv", (a, w), (t,), {"pads": (1, 1, 1, 1)}),
        Node(name("sum"), "Add", (t, b), (s,)),
        Node(name("bend"), "Sigmoid", (s,), (y,)),
        Node(name("product"), "Mul", (s, b), (z,)),
    )
    constants = {w: random.standard_normal((4, 4, 3, 3)).astype(np.float32)}
    graph = Graph("branching", nodes, (a, b), (y, s, z), types, constants)
    return graph, Ranges(graph.digest, "stated", 0, {one: Range(-4.0, 4.0) for one in types})


def samples() -> dict[str, AnyArray]:
    random = np.random.default_rng(8)
    return {name: random.standard_normal((1, 4, 6, 6)).astype(np.float32) for name in ("a", "b")}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["vsi:a311d", "vsi:imx8mp"])
def test_several_inputs_and_outputs(target: str, vendor: VsiBackend, tmp_path: Path) -> None:
    graph, ranges = branching()
    source = quantize(graph, Plan(graph.digest, parse_placement(f"{target}@u8"), {}), ranges)
    assert saved(source, ProjectStyle.OVXLIB, tmp_path).is_whole
    inputs = samples()
    for name, value in inputs.items():
        np.save(tmp_path / f"{name}.npy", value)
    done = run(build(tmp_path, vendor), [tmp_path / "a.npy", tmp_path / "b.npy"], tmp_path / "out")
    assert done.returncode == 0, done.stderr
    for name, wanted in our_run(source, inputs).items():
        assert np.array_equal(np.load(tmp_path / "out" / f"{name}.npy", allow_pickle=False), wanted)


@pytest.mark.slow
def test_hostile_names_stay_text(vendor: VsiBackend, tmp_path: Path) -> None:
    graph, ranges = branching(hostile=True)
    source = quantize(graph, Plan(graph.digest, parse_placement("vsi:v853@u8"), {}), ranges)
    made = saved(source, ProjectStyle.OVXLIB, tmp_path)
    assert all(".." not in Path(name).parts for name in made.files)
    text = made.files["network.cpp"].decode("ascii")
    code = re.sub(r'"(?:\\.|[^"\\])*"|//.*', "", text)
    assert set(re.findall(r"\W", code)) <= set(" \n#(){}[]<>;,=*&:.-")
    assert "system(" not in code
    for index, name in enumerate(graph.inputs):
        np.save(tmp_path / f"{index}.npy", samples()["ab"[index]])
        assert name not in made.files["README.md"].decode()
    done = run(build(tmp_path, vendor), [tmp_path / "0.npy", tmp_path / "1.npy"], tmp_path / "out")
    assert done.returncode == 0, done.stderr
    wanted = our_run(source, dict(zip(graph.inputs, samples().values(), strict=True)))
    files = sorted(path for path in (tmp_path / "out").glob("*.npy") if ".stored" not in path.name)
    assert len(files) == 3
    found = [np.load(path, allow_pickle=False) for path in files]
    assert all(any(np.array_equal(value, one) for one in found) for value in wanted.values())


@pytest.mark.slow
def test_a_plan_with_the_cpu_between_gives_parts_that_chain(vendor: VsiBackend, tmp_path: Path) -> None:
    """Run the parts one after another as the README says: ONNX Runtime for the CPU's, the programs for the NPU's."""
    import onnxruntime

    graph, ranges = branching()
    plan = Plan(graph.digest, parse_placement("vsi:v853@u8"), {"sum": Override(parse_placement("cpu@fp32"), "asked")})
    source = quantize(graph, plan, ranges)
    made = saved(source, ProjectStyle.OVXLIB, tmp_path)
    assert not made.is_whole
    record = json.loads(made.files["project.json"])
    known: dict[str, AnyArray] = dict(samples())
    for part in record["parts"]:
        inputs = {name: known[name] for name in part["inputs"]}
        place = tmp_path / part["path"]
        if part["target"] == "cpu":
            session = onnxruntime.InferenceSession(str(place), providers=["CPUExecutionProvider"])
            known.update(zip(part["outputs"], session.run(part["outputs"], inputs), strict=True))
            continue
        for index, value in enumerate(inputs.values()):
            np.save(place / f"in{index}.npy", value)
        done = run(build(place, vendor), [place / f"in{index}.npy" for index in range(len(inputs))], place / "out")
        assert done.returncode == 0, done.stderr
        for name in part["outputs"]:
            file = name.replace("@", "_")
            known[name] = np.load(place / "out" / f"{file}.stored.npy", allow_pickle=False)
    for name, wanted in our_run(source, samples()).items():
        assert np.array_equal(known[name], wanted)


@pytest.mark.slow
def test_wrong_files_are_refused(vendor: VsiBackend, tmp_path: Path) -> None:
    graph, ranges = branching()
    source = quantize(graph, Plan(graph.digest, parse_placement("vsi:v853@u8"), {}), ranges)
    saved(source, ProjectStyle.OVXLIB, tmp_path)
    program, good = build(tmp_path, vendor), tmp_path / "a.npy"
    np.save(good, samples()["a"])
    np.save(tmp_path / "half.npy", samples()["a"][:, :2])
    np.save(tmp_path / "wide.npy", np.zeros((1, 4, 6, 6), np.int16))
    np.save(tmp_path / "two.npy", np.zeros((2, 4, 6, 6), np.float32))
    (tmp_path / "cut.npy").write_bytes(good.read_bytes()[:20])
    weights = (tmp_path / "weights.bin").read_bytes()
    (tmp_path / "bad.bin").write_bytes(weights[:-1] + bytes([weights[-65] ^ 1]))
    (tmp_path / "bad2.bin").write_bytes(bytes([weights[0] ^ 1]) + weights[1:])
    binary = (tmp_path / "network.nbg").read_bytes()
    (tmp_path / "short.nbg").write_bytes(binary[:-50])
    (tmp_path / "flipped.nbg").write_bytes(binary[:-50] + bytes([binary[-50] ^ 4]) + binary[-49:])
    (tmp_path / "other.nbg").write_bytes(binary[:8] + b"\x88\0\0\0" + binary[12:])
    (tmp_path / "junk.nbg").write_bytes(b"junk")
    mistakes: tuple[tuple[list[str | Path], str], ...] = (
        ([good, good, "--nbg", tmp_path / "short.nbg"], "cut short"),
        ([good, good, "--nbg", tmp_path / "flipped.nbg"], "damaged"),
        ([good, good, "--nbg", tmp_path / "other.nbg"], "another part"),
        ([good, good, "--nbg", tmp_path / "junk.nbg"], "not a binary network"),
        ([good], "2 inputs"),
        ([good, tmp_path / "half.npy"], "a sample has 144"),
        ([good, tmp_path / "wide.npy"], "--real"),
        ([good, tmp_path / "two.npy"], "numbers of samples"),
        ([good, tmp_path / "cut.npy"], "cut short"),
        ([good, tmp_path / "none.npy"], "cannot be read"),
        ([good, good, "--weights", tmp_path / "bad2.bin"], "damaged"),
        ([good, good, "--mean", "1,2"], "4 channels"),
        ([good, good, "--frobnicate"], "unknown option"),
    )
    for arguments, reason in mistakes:
        done = run(program, arguments, tmp_path / "out")
        assert done.returncode == 1
        assert reason in done.stderr
        assert done.stderr.count("\n") == 1


def test_every_operator_compiles(vendor: VsiBackend, tmp_path: Path) -> None:
    """Compile all cases of the contract, each in a namespace of its own; every kind of the shim can be written."""
    pieces: list[str] = []
    seen: set[str] = set()
    part = part_of(target_named("vsi:v853"))
    for case in CASES:
        for precision in (Precision.U8, Precision.FP32):
            try:
                listing = list_program(lower_graph(quantized(case, precision).graph, part))
            except CompileError:
                continue
            seen |= {operator.kind for operator in listing.program.operators}
            pieces.append(f"namespace n{len(pieces)} {{\n{network_source(listing)}\n}}\n")
    assert len(seen) > 60
    assert seen <= OVX_ROWS.keys()
    (tmp_path / "all.cpp").write_text("".join(pieces).replace('#include "ovxlib/builder.h"', ""))
    root, sdk = project_sources(), vendor.folder.sdk
    folders = [f"-I{root}", f"-I{root}/ovxlib", "-isystem", f"{sdk}/include", "-isystem", f"{sdk}/include/ovxlib"]
    command = ["c++", "-std=c++17", "-fsyntax-only", "-Wall", "-Werror", "-include", "builder.h", *folders, "all.cpp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]


def test_the_rows_are_those_of_the_shim() -> None:
    source = (project_sources().parent / "vsi" / "ovxlib.cpp").read_text()
    table = source[source.index("const Row ROWS[]") : source.index("const Row *find_row")]
    rows = {
        line.split('"')[1]: line.split("VSI_NN_OP_")[1].split(",")[0] for line in table.splitlines() if '{"' in line
    }
    assert {kind: row.op for kind, row in OVX_ROWS.items()} == rows


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.parametrize(("target", "wide"), [("vsi:v853", 5), ("vsi:a311d", 0)])
def test_a_keyword_spotter(target: str, wide: int, vendor: VsiBackend, models: Path, tmp_path: Path) -> None:
    """DS-CNN from its file, with its last operators in 16 bits, and all in 8."""
    model = models / "kws01_dscnn" / "kws_dscnn_fp32_nchw.onnx"
    sounds = np.random.default_rng(9).normal(0.0, 12.0, (4, 1, 49, 10)).astype(np.float32)
    np.savez(tmp_path / "calib.npz", mfcc=sounds)
    ranges = tmp_path / "r.json"
    assert main(["calibrate", str(model), "--data", str(tmp_path / "calib.npz"), "-o", str(ranges)]) == 0
    graph = dovetail.load_model(model)
    high = Override(parse_placement(f"{target}@i16"), "the end")
    tail = {node.name: high for node in graph.nodes[len(graph.nodes) - wide :]}
    plan = Plan(graph.digest, parse_placement(f"{target}@u8"), tail)
    source = quantize(graph, plan, dovetail.load_ranges(ranges))
    assert saved(source, ProjectStyle.OVXLIB, tmp_path / "made").is_whole
    np.save(tmp_path / "mfcc.npy", sounds[:1])
    done = run(build(tmp_path / "made", vendor), [tmp_path / "mfcc.npy"], tmp_path / "out")
    assert done.returncode == 0, done.stderr
    for name, wanted in our_run(source, {"mfcc": sounds[:1]}).items():
        assert np.array_equal(np.load(tmp_path / "out" / f"{name}.npy", allow_pickle=False), wanted)
