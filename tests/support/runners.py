"""`dovetail-run`, built by CMake from native/run for this machine or for another processor, and bundles for it."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import needs
import numpy as np
import work
from sysroots import Sysroot

import dovetail
from dovetail.backend.protocols import CompileOptions
from dovetail.bundle import Bundle
from dovetail.compile import CompileRequest, compile_model
from dovetail.ir import AnyArray, Graph
from dovetail.partition import partition
from dovetail.plan import Override, Plan
from dovetail.quantize import Range, Ranges, quantize
from dovetail.runtime import LocalRuntime
from dovetail.seal import sealed, unsealed

Facts = dict[str, Any]
"""A table of JSON."""

SOURCE = Path(__file__).parents[2] / "native" / "run"
_HEADERS = ("nlohmann/json.hpp", "minizip/unzip.h", "sha256.h", "zlib.h")
_PACKAGES = "nlohmann-json3-dev libminizip-dev libmd-dev zlib1g-dev"
_TOOLCHAINS = {"arm64": "aarch64", "armhf": "armhf"}


@dataclass(frozen=True)
class Runner:
    """The program; `before` are words that go in front of it, such as an emulator's."""

    program: Path
    before: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def run(self, *arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run it, and return how it ended."""
        words = [*self.before, str(self.program), *map(str, arguments), *self.options]
        return subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=work.PATIENCE_S)

    def outputs(self, bundle: Path, samples: Path, output: Path, *arguments: object) -> dict[str, AnyArray]:
        """Return the outputs of samples, stacked; what it says on stderr is the assertion's message."""
        ended = self.run(bundle, "-i", samples, "-o", output, *arguments)
        assert ended.returncode == 0, ended.stderr
        with np.load(output) as archive:
            return {name: archive[name] for name in archive.files}

    def refusal(self, *arguments: object) -> str:
        """Return the one line that it says when it refuses."""
        ended = self.run(*arguments)
        assert ended.returncode == 2, f"{ended.returncode}: {ended.stdout} {ended.stderr}"
        assert ended.stderr.startswith("error: ")
        assert ended.stderr.count("\n") == 1
        assert not ended.stdout
        return ended.stderr


def build_runner(folder: Path, sysroot: Sysroot | None = None) -> Path:
    """Build the program in a folder, and return its path; skip the test where something for that is not here."""
    needs.program("cmake", "cmake")
    words = ["cmake", "-S", str(SOURCE), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Debug"]
    if sysroot is None:
        needs.program("c++", "compiler")
        if not all(Path("/usr/include", name).exists() for name in _HEADERS):
            needs.without("runner-libraries", f"a header is missing of {_PACKAGES}")
    else:
        needs.program(f"{sysroot.triplet}-g++", "cross-compilers")
        toolchain = SOURCE / "toolchains" / f"{_TOOLCHAINS[sysroot.architecture]}.cmake"
        words += [f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DDOVETAIL_LIBRARIES={sysroot.folder / 'linked/root'}"]
        # The compiler compares the places of functions in ort_abi.h with ONNX Runtime's own header.
        words += [f"-DONNXRUNTIME_HEADERS={sysroot.root / 'usr/include/onnxruntime'}"]
    for command in (words, ["cmake", "--build", str(folder)]):
        ended = subprocess.run(command, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder / "dovetail-run"


def onnxruntime_library() -> Path:
    """Return the library of the installed package."""
    found = find_spec("onnxruntime")
    folder = Path(found.origin).parent if found is not None and found.origin else Path("/nowhere")
    libraries = sorted(folder.glob("capi/libonnxruntime.so.*"))
    if not libraries:
        needs.without("onnxruntime-library", f"{folder} holds none")
    return libraries[0]


def compiled(
    graph: Graph,
    places: Mapping[str, str],
    backends: Mapping[str, str] | None = None,
    options: CompileOptions | None = None,
) -> Bundle:
    """Return a bundle of a graph whose nodes are placed as `target@precision`; every real tensor lies in -4..4."""
    where = {node: dovetail.parse_placement(place) for node, place in places.items()}
    default = next(iter(where.values()))
    plan = Plan(graph.digest, default, {node: Override(p, "test") for node, p in where.items() if p != default})
    reals = {name: Range(-4.0, 4.0) for name, kind in graph.types.items() if kind.holds_reals}
    cut = partition(quantize(graph, plan, Ranges(graph.digest, "test", 1, reals)))
    return compile_model(cut, CompileRequest(options or CompileOptions(), backends=dict(backends or {})))


def expected(bundle: Bundle, feeds: Sequence[Mapping[str, AnyArray]]) -> dict[str, AnyArray]:
    """Return what the runtime in Python gives, stacked."""
    with LocalRuntime() as here, here.load(bundle) as model:
        rows = [model.run(feed).outputs for feed in feeds]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def same_bytes(one: Mapping[str, AnyArray], other: Mapping[str, AnyArray]) -> bool:
    """Tell whether arrays are the same to the last bit, with their types and shapes."""
    if one.keys() != other.keys():
        return False
    pairs = [(one[name], other[name]) for name in one]
    return all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def write_feeds(path: Path, feeds: Sequence[Mapping[str, AnyArray]]) -> Path:
    """Write samples as arrays [N, ...]."""
    columns = {name: np.stack([feed[name] for feed in feeds]) for name in feeds[0]}
    np.savez(path, **columns)  # type: ignore[arg-type]
    return path


def reseal(bundle: Path, document: Facts) -> None:
    """Write the manifest, with the checksums of the blobs that are there."""
    for index, part in enumerate(document["partitions"]):
        part["sha256"] = hashlib.sha256((bundle / f"partition-{index}.blob").read_bytes()).hexdigest()
    (bundle / "manifest.json").write_text(json.dumps(sealed(document)))


def blob_of(bundle: Path) -> tuple[Facts, Path]:
    """Return the manifest, and the path of the driver's blob."""
    document = unsealed(json.loads((bundle / "manifest.json").read_text()))
    index = next(index for index, part in enumerate(document["partitions"]) if part["backend"] == "vsi")
    return document, bundle / f"partition-{index}.blob"
