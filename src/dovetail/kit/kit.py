"""A kit: one tar with all that a board without a network needs to run a bundle and to say how it went."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dovetail.bundle.bundle import Bundle
from dovetail.bundle.directory import bundle_to_files
from dovetail.errors import BundleError
from dovetail.ir.dtypes import AnyArray
from dovetail.kit.wheel import BOARD_BACKENDS, wheel_name, write_board_wheel
from dovetail.runtime.rows import write_rows

_PACKAGES = {"cpu": "onnxruntime", "litert": "ai-edge-litert"}
"""What backends need on the board besides numpy."""

_SCRIPT = """\
#!/bin/sh
# Runs the bundle on this machine and writes the folder 'result' beside this script: no network, nothing is installed.
# It needs Python 3.11 or newer with {packages}. PYTHON=/path/to/python3 ./run.sh takes another one.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
python=${{PYTHON:-python3}}
if [ ! -d "$here/runner" ]; then
    rm -rf "$here/runner.part"
    "$python" -m zipfile -e "$here/{wheel}" "$here/runner.part"
    mv "$here/runner.part" "$here/runner"
fi
PYTHONPATH="$here/runner" exec "$python" -m dovetail.runtime measure "$here/bundle" -i "$here/samples.npz" \
    -o "$here/result" {options} "$@"
"""


_RUNNER_SCRIPT = """\
#!/bin/sh
# Runs the bundle on this machine and writes the folder 'result' beside this script: no network, nothing is installed.
# It needs {packages}.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
exec "$here/{program}" "$here/bundle" -i "$here/samples.npz" --record "$here/result" {options} "$@"
"""
_PROGRAM = "dovetail-run"
_RUNNER_BACKENDS = {
    "cpu": "libonnxruntime.so of ONNX Runtime {version} (run.sh --ort FILE)",
    "ort": "libonnxruntime.so of ONNX Runtime {version} (run.sh --ort FILE)",
    "vsi": "the part's driver and libdovetail_vsi.so, built on it (run.sh --vsi FILE)",
}
"""What the program without Python runs, and what that needs on the board."""
_MOST_PROGRAM = 256 << 20


@dataclass(frozen=True, slots=True)
class KitOptions:
    """What the script does: how many runs it times (0: none), after how many, and whether it keeps inner tensors."""

    runs: int = 20
    warm_ups: int = 2
    layers: bool = False
    runner: Path | None = None
    """`dovetail-run`, built for the board, for boards without Python."""


def needed_libraries(bundle: Bundle) -> tuple[str, ...]:
    """Return what a board without Python needs; raise BundleError for a partition that its program does not run."""
    needed: dict[str, None] = {}
    for index, part in enumerate(bundle.partitions):
        if part.backend not in _RUNNER_BACKENDS or (part.backend == "ort" and part.target != "ort:CPU"):
            raise BundleError(
                f"partition {index} ({part.target}) is compiled by '{part.backend}', which {_PROGRAM} does not run.",
                hint=f"Compile it by one of {', '.join(_RUNNER_BACKENDS)}, or make a kit with the runtime in Python.",
            )
        version = part.backend_version.rpartition("ort")[2]
        needed[_RUNNER_BACKENDS[part.backend].format(version=version)] = None
    return tuple(needed)


def needed_packages(bundle: Bundle) -> tuple[str, ...]:
    """Return the packages of Python that a board needs; raise BundleError for a backend that boards do not have."""
    for index, part in enumerate(bundle.partitions):
        if part.backend not in BOARD_BACKENDS:
            raise BundleError(
                f"partition {index} ({part.target}) is compiled by '{part.backend}', which boards do not have.",
                hint=f"Compile it by one of {', '.join(BOARD_BACKENDS)}.",
            )
    used = {part.backend for part in bundle.partitions} & _PACKAGES.keys()
    told = {name for part in bundle.partitions for name in part.needs}
    return tuple(sorted({"numpy", *(_PACKAGES[name] for name in used), *told}))


def write_kit(
    bundle: Bundle, feeds: Iterable[Mapping[str, AnyArray]], path: Path, options: KitOptions | None = None
) -> None:
    """Write a kit of a bundle with these samples to a tar, all or nothing; the same contents give the same bytes.

    Raises BundleError for a bundle that the board's runtime cannot run, and where the file cannot be written or another
    kind of file is there.
    """
    how = options or KitOptions()
    if how.runs < 0:
        raise BundleError(f"{how.runs} runs cannot be timed.", hint="Give 0 to time nothing.", option="runs")
    if path.exists() and not _is_kit(path):
        raise BundleError(f"{path}: exists and is not a kit.", hint="Choose another name.", option="output")
    words = f"--runs {how.runs} --warm-ups {how.warm_ups}" + (" --layers" if how.layers else "")
    if how.runner is None:
        packages = " and ".join(needed_packages(bundle))
        script = _SCRIPT.format(wheel=wheel_name(), options=words, packages=packages)
        programs = {}
    else:
        libraries = " and ".join(needed_libraries(bundle)) or "nothing else"
        words = f"--repeat {how.runs} --warm-up {how.warm_ups}"
        script = _RUNNER_SCRIPT.format(program=_PROGRAM, options=words, packages=libraries)
        programs = {_PROGRAM: _program(how)}
    root = f"{path.name.removesuffix('.tar')}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name[:60]}.", dir=path.parent) as folder:
            samples = Path(folder) / "samples.npz"
            write_rows(samples, list(feeds))
            files = {f"bundle/{name}": content for name, content in bundle_to_files(bundle).items()}
            files |= {"run.sh": script.encode(), "samples.npz": samples.read_bytes(), **programs}
            if how.runner is None:
                files[wheel_name()] = write_board_wheel(Path(folder)).read_bytes()
            draft = Path(folder) / "draft"
            with tarfile.open(draft, "w") as archive:
                for name in sorted(files):
                    entry = tarfile.TarInfo(f"{root}/{name}")
                    entry.size, entry.mode = len(files[name]), 0o755 if name in ("run.sh", _PROGRAM) else 0o644
                    archive.addfile(entry, io.BytesIO(files[name]))
            os.replace(draft, path)
    except OSError as error:
        raise BundleError(f"{path}: cannot be written: {error.strerror}.", hint="Choose another place.") from error


def _is_kit(path: Path) -> bool:
    """Tell whether a file is a kit, by the names in it."""
    try:
        # A pipe or a device is no file to look into.
        with tarfile.open(path if path.is_file() else os.devnull) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
    except (OSError, EOFError, IndexError, ValueError, tarfile.TarError, zlib.error):
        return False
    return {"run.sh", "bundle/manifest.json"} <= names


def _program(how: KitOptions) -> bytes:
    """Return the program of the options; raise BundleError where it is none, or cannot do what is asked for."""
    path = how.runner
    assert path is not None
    if how.layers:
        raise BundleError(f"{path}: {_PROGRAM} tells outputs only.", hint="Leave --layers out.", option="layers")
    try:
        content = path.read_bytes() if path.stat().st_size <= _MOST_PROGRAM else b""
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}.", hint="'make runner' builds it.") from error
    if not content.startswith(b"\x7fELF"):
        raise BundleError(f"{path}: no program for Linux.", hint="'make runner' builds it: build/run.")
    return content
