"""The shim over TIM-VX: the same interface on the older SDK, whose TIM-VX fits its driver."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import needs
import numpy as np
import pytest

from dovetail.backend.project import ProjectStyle
from dovetail.backend.protocols import CompileOptions
from dovetail.backends.reference import run_graph
from dovetail.backends.verisilicon.driver.bench import GraphBench
from dovetail.backends.verisilicon.driver.process import DriverLimits
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.backends.verisilicon.project.listing import list_program
from dovetail.backends.verisilicon.project.timvx import network_source
from dovetail.backends.verisilicon.project.timvx_rows import TIM_ROWS
from dovetail.errors import CompileError
from dovetail.ir import graph_to_bytes
from dovetail.ir.precision import Precision
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import quantize
from dovetail.sdk.build import native_sources, timvx_features
from dovetail.testing.agreement import load_on
from dovetail.testing.cases import CASES, quantized

from .conftest import target_named
from .test_binaries import branching
from .test_projects import branching as two_inputs
from .test_projects import our_run, run, samples, saved

pytestmark = pytest.mark.sdk

REFUSED = dict.fromkeys(("Cos", "Atan", "ReduceL2"), "no such operator")
"""What the older TIM-VX has not."""


def measured(timvx: VsiBackend, target: str, precision: Precision, names: set[str]) -> dict[str, float | str]:
    """Return the largest difference from our reference for each case, or why it is refused."""
    found: dict[str, float | str] = {}
    chosen = target_named(target)
    part = part_of(chosen)
    with GraphBench(part.sdk_name, Settings(timvx.folder, DriverLimits())) as bench:
        for case in CASES:
            case_ = quantized(case, precision)
            graph = case_.graph
            try:
                program = lower_graph(graph, part)
            except CompileError:
                continue
            if names and case.name not in names:
                continue
            try:
                results = bench.measure(program, case_.inputs[:3], {name: graph.types[name] for name in graph.outputs})
            except CompileError as error:
                found[case.name] = str(error)
                continue
            worst = 0.0
            for sample, result in zip(case_.inputs, results.results, strict=False):
                wanted = run_graph(graph, sample, chosen.arithmetic)
                gaps = [
                    np.abs(np.subtract(result[name], wanted[name], dtype=np.float64)).max() for name in graph.outputs
                ]
                worst = max(worst, *map(float, gaps))
            found[case.name] = worst
    return found


@pytest.mark.slow
def test_every_operator_at_8_bits(timvx: VsiBackend) -> None:
    found = measured(timvx, "vsi:a311d", Precision.U8, set())
    refused = {name: reason for name, reason in found.items() if isinstance(reason, str)}
    assert refused.keys() == REFUSED.keys()
    assert all(REFUSED[name] in reason for name, reason in refused.items())
    gaps = {name: gap for name, gap in found.items() if isinstance(gap, float)}
    assert len(gaps) > 100
    assert max(gaps.values()) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("precision", [Precision.I16, Precision.I8PC])
def test_the_other_kinds_of_quantisation_arrive_as_what_they_are(timvx: VsiBackend, precision: Precision) -> None:
    """Fixed point and scales per channel: the enumeration whose numbers differ between versions of TIM-VX."""
    names = {"Conv", "Gemm", "Relu", "Add", "Concat", "MaxPool"}
    found = measured(timvx, "vsi:v853", precision, names)
    assert found.keys() == names
    assert all(isinstance(gap, float) and gap <= 1.0 for gap in found.values())


def test_enumerations_are_used_by_name(timvx: VsiBackend, tmp_path: Path) -> None:
    """Compile against headers with other numbers, as later versions have: what is used must have the same names."""
    source = (native_sources() / "timvx.cpp").read_text()
    assert not re.search(r"<vx::(QuantType|DataType|PadType|PoolType|RoundType|TensorAttribute)>", source)
    assert timvx.folder.timvx is not None
    shutil.copytree(timvx.folder.timvx / "include" / "tim", tmp_path / "tim")
    header = tmp_path / "tim" / "vx" / "types.h"
    text = header.read_text()
    later = "{ NONE, ASYMMETRIC, SYMMETRIC_PER_CHANNEL, ASYMMETRIC_PER_CHANNEL, DYNAMIC_FIXED_POINT }"
    changed = re.sub(r"(enum class QuantType )\{[^}]*\}", rf"\1{later}", text)
    assert changed != text
    header.write_text(changed)
    done = subprocess.run(
        ["c++", "-std=c++17", "-fsyntax-only", "-isystem", str(tmp_path), str(native_sources() / "timvx.cpp")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


RUN = """
import sys, numpy as np
from pathlib import Path
from dovetail.backend.protocols import Blob, Signature
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir import graph_from_bytes
from dovetail.sdk.location import SdkFolder
blob, sample, result, graph, sdk, shim = map(Path, sys.argv[1:])
backend = VsiBackend(SdkFolder(sdk, shim, "test", sdk))
signature = Signature.of(graph_from_bytes(graph.read_bytes()))
executable = backend.devices()[0].load(Blob("nbg", blob.read_bytes()), signature)
np.save(result, executable.run({"x": np.load(sample, allow_pickle=False)})["y"])
executable.close()
"""


@pytest.mark.slow
def test_a_binary_made_here_runs_in_another_process(timvx: VsiBackend, vendor: VsiBackend, tmp_path: Path) -> None:
    graph, target = branching(), target_named("vsi:a311d")
    blob = timvx.compile(graph, target, CompileOptions())
    sample = np.random.default_rng(3).integers(0, 256, (1, 8, 12, 12)).astype(np.uint8)
    files = [tmp_path / name for name in ("blob", "x.npy", "y.npy", "graph")]
    files[0].write_bytes(blob.payload)
    np.save(files[1], sample)
    files[3].write_bytes(graph_to_bytes(graph))
    command = [sys.executable, "-c", RUN, *map(str, files), str(timvx.folder.sdk), str(timvx.folder.shim)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    newest = load_on(vendor, graph, target, CompileOptions())
    assert np.array_equal(np.load(files[2], allow_pickle=False), newest.run({"x": sample})["y"])
    newest.close()


@pytest.mark.slow
def test_a_project_of_mixed_precision_gives_our_run(timvx: VsiBackend, vendor: VsiBackend, tmp_path: Path) -> None:
    """Built against the older SDK's TIM-VX; our run is on the newest SDK's ovxlib."""
    needs.program("cmake", "cmake")
    graph, ranges = two_inputs()
    wide = Override(parse_placement("vsi:v853@i16"), "asked")
    source = quantize(graph, Plan(graph.digest, parse_placement("vsi:v853@u8"), {"product": wide}), ranges)
    assert saved(source, ProjectStyle.TIMVX, tmp_path).is_whole
    for name, value in samples().items():
        np.save(tmp_path / f"{name}.npy", value)
    sdk = timvx.folder.sdk
    options = [f"-DVIVANTE_SDK_DIR={sdk}", f"-DTIM_VX_INSTALL_DIR={sdk}"]
    for command in (["cmake", "-S", ".", "-B", "build", *options], ["cmake", "--build", "build"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning" not in done.stdout + done.stderr
    ran = run(tmp_path / "build" / "network", [tmp_path / "a.npy", tmp_path / "b.npy"], tmp_path / "out")
    assert ran.returncode == 0, ran.stderr
    for name, wanted in our_run(source, samples()).items():
        assert np.array_equal(np.load(tmp_path / "out" / f"{name}.npy", allow_pickle=False), wanted)


def test_the_code_of_every_operator_compiles(timvx: VsiBackend, tmp_path: Path) -> None:
    """Compile what a project would hold for each case, each in a namespace of its own."""
    part, pieces = part_of(target_named("vsi:v853")), list[str]()
    for case in CASES:
        for precision in (Precision.U8, Precision.FP32):
            try:
                source = network_source(list_program(lower_graph(quantized(case, precision).graph, part)))
            except CompileError:
                continue
            pieces.append(f"namespace n{len(pieces)} {{\n{source}\n}}\n")
    assert len(pieces) > 200
    (tmp_path / "all.cpp").write_text("".join(pieces).replace('#include "timvx/builder.h"', ""))
    root = native_sources().parent / "project"
    assert timvx.folder.timvx is not None
    folders = [f"-I{root}", f"-I{root}/timvx", "-isystem", str(timvx.folder.timvx / "include")]
    features = [f"-DVSI_FEAT_OP_{name.upper()}" for name in timvx_features(timvx.folder.library)]
    flags = ["-std=c++17", "-fsyntax-only", "-Wall", "-Werror", "-include", "builder.h", *features]
    done = subprocess.run(
        ["c++", *flags, *folders, "all.cpp"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:2000]


def test_what_timvx_lacks_is_said_before_anything_is_written() -> None:
    case = next(case for case in CASES if case.name == "Cos")
    graph = quantized(case, Precision.U8).graph
    with pytest.raises(CompileError, match="TIM-VX has no form of 'cos'"):
        network_source(list_program(lower_graph(graph, part_of(target_named("vsi:v853")))))


def test_the_rows_are_those_of_the_shim() -> None:
    source = (native_sources() / "timvx.cpp").read_text()
    table = source[source.index("const Row ROWS[]") : source.index("const Row *find_row")]
    assert set(re.findall(r'\{"(\w+)"', table)) == TIM_ROWS.keys()
