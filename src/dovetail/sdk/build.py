"""Build the shim with the system's compiler, against the headers of the SDK that it will run with."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from dovetail.errors import DovetailError
from dovetail.sdk.location import SHIM_NAME, SdkFolder

_SOURCES = ("ovxlib.cpp", "timvx.cpp", "dovetail_vsi.h", "CMakeLists.txt")
_FEATURES = ("CumSum", "Mod")
"""Operators that TIM-VX's headers hide unless they are told that its library has them."""
_TIME_LIMIT_S = 300


def native_sources() -> Path:
    """Return the folder of the shim's sources; raise DovetailError when this installation lacks them."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "native" / "vsi", package.parents[1] / "native" / "vsi"):
        if all((folder / name).is_file() for name in _SOURCES):
            return folder
    raise DovetailError(
        "the shim's sources (native/vsi) are not part of this installation.", hint="Install Dovetail again."
    )


def find_compiler() -> str:
    """Return a C++ compiler; raise DovetailError naming the Debian package where there is none."""
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise DovetailError(
        "no C++ compiler (c++, g++ or clang++) is on the PATH.", hint="On Debian: apt-get install g++; then try again."
    )


def build_shim(folder: SdkFolder) -> None:
    """Build the shim; raise DovetailError with the compiler's first error."""
    compiler, sources = find_compiler(), native_sources()
    folder.shim.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dovetail-shim-") as scratch:
        built = Path(scratch) / SHIM_NAME
        cmake = shutil.which("cmake")
        if cmake and (shutil.which("make") or shutil.which("ninja")):
            _with_cmake(cmake, compiler, sources, folder, Path(scratch))
        else:
            _directly(compiler, sources, folder, built)
        partial = folder.shim.with_suffix(".partial")
        shutil.copyfile(built, partial)
        partial.replace(folder.shim)


def mark_shim(folder: SdkFolder) -> None:
    """Note beside the shim which sources it was built from."""
    _mark(folder).write_text(sources_digest() + "\n", encoding="utf-8")


def sources_digest() -> str:
    """Return the SHA-256 of the shim's sources."""
    folder = native_sources()
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in _SOURCES)).hexdigest()


def shim_is_current(folder: SdkFolder) -> bool:
    """Tell whether the shim is there and was built from the sources of this installation."""
    mark = _mark(folder)
    return folder.has_shim and mark.is_file() and mark.read_text(encoding="utf-8").strip() == sources_digest()


def _mark(folder: SdkFolder) -> Path:
    return folder.shim.with_suffix(".sources")


def _with_cmake(cmake: str, compiler: str, sources: Path, folder: SdkFolder, scratch: Path) -> None:
    options = [f"-DVIVANTE_SDK_DIR={folder.sdk}", f"-DTIM_VX_INSTALL_DIR={folder.timvx or ''}"]
    options += [f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_BUILD_TYPE=Release"]
    _run([cmake, "-S", str(sources), "-B", str(scratch), *options])
    _run([cmake, "--build", str(scratch)])


def _directly(compiler: str, sources: Path, folder: SdkFolder, built: Path) -> None:
    sdk, above = folder.sdk, folder.timvx
    if above is None:
        source, library, folders, defined = "ovxlib.cpp", "-lovxlib", [sdk / "include", sdk / "include/ovxlib"], []
    else:
        source, library, folders = "timvx.cpp", "-ltim-vx", [above / "include"]
        defined = [f"-DVSI_FEAT_OP_{name.upper()}" for name in timvx_features(folder.library)]
    includes = [part for place in folders for part in ("-isystem", str(place))]
    _run(
        [
            *(compiler, "-std=c++17", "-O2", "-fPIC", "-shared", *defined, *includes, str(sources / source)),
            *("-o", str(built), f"-L{folder.library.parent}", library, f"-L{sdk / 'lib'}", "-lOpenVX"),
            "-Wl,--allow-shlib-undefined",
        ]
    )


def timvx_features(library: Path) -> tuple[str, ...]:
    """Return the operators that a TIM-VX library has and its headers hide."""
    content = library.read_bytes()
    return tuple(name for name in _FEATURES if f"3ops{len(name)}{name}C".encode() in content)


def _run(command: list[str]) -> None:
    what = Path(command[0]).name
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=_TIME_LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise DovetailError(f"the shim does not build: {what} took longer than {_TIME_LIMIT_S} s.") from error
    except OSError as error:
        raise DovetailError(f"the shim does not build: {what} cannot be started: {error.strerror}.") from error
    if ended.returncode != 0:
        lines = [line.strip() for line in (ended.stderr + ended.stdout).splitlines() if line.strip()]
        reason = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "no reason given")
        raise DovetailError(
            f"the shim does not build: {reason[:300]}.",
            hint="On Debian: apt-get install g++ (and cmake, make); 'dovetail doctor' lists what is missing.",
        )
