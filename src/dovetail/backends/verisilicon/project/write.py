"""Write a program as a CMake project: the network, its weights, a main program, and the binary network beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from dovetail.backend.project import ProjectStyle
from dovetail.backends.verisilicon.program import Program, ProgramTensor, Quant
from dovetail.backends.verisilicon.project import ovxlib, timvx
from dovetail.backends.verisilicon.project.listing import NamedProgram, edge_scale, list_program
from dovetail.backends.verisilicon.project.spelling import remark
from dovetail.errors import DovetailError

_SHARED = ("main.cpp", "network.h", "tensor_file.h", "tensor_file.cpp")
_WRITERS: Mapping[ProjectStyle, tuple[str, Callable[[NamedProgram], str]]] = {
    ProjectStyle.OVXLIB: ("ovxlib", ovxlib.network_source),
    ProjectStyle.TIMVX: ("timvx", timvx.network_source),
}
"""The folder of a style's own sources, and what writes its network.cpp."""


def project_sources() -> Path:
    """Return the folder of the sources that every project gets; raise DovetailError when it is not here."""
    package = Path(__file__).resolve().parents[3]
    for folder in (package / "native" / "project", package.parents[1] / "native" / "project"):
        if all((folder / name).is_file() for name in _SHARED):
            return folder
    raise DovetailError("the sources of projects (native/project) are not here.", hint="Install Dovetail again.")


def project_files(program: Program, style: ProjectStyle, binary: bytes) -> dict[str, bytes]:
    """Return the files of a project by path; raise CompileError where an operator cannot be written."""
    folder, write = _WRITERS[style]
    listing = list_program(program)
    root = project_sources()
    files = {name: (root / name).read_bytes() for name in _SHARED}
    for path in sorted((root / folder).iterdir()):
        name = path.name if path.name == "CMakeLists.txt" else f"{folder}/{path.name}"
        files[name] = path.read_bytes()
    files["network.cpp"] = write(listing).encode()
    files["weights.bin"] = listing.weights
    files["network.nbg"] = binary
    files["README.md"] = _readme(listing, style).encode()
    return files


_RUN: Mapping[ProjectStyle, str] = {
    ProjectStyle.OVXLIB: """\
VIVANTE_SDK_DIR is a folder with `include/ovxlib` and `lib`: a board's SDK (then give CMake the board's toolchain
file), or the simulator's that `dovetail sdk status` names.

```
export VIVANTE_SDK_DIR=/path/to/sdk
cmake -S . -B build && cmake --build build
```
""",
    ProjectStyle.TIMVX: """\
TIM_VX_INSTALL_DIR is a folder with `include/tim` and `lib/libtim-vx.so`, VIVANTE_SDK_DIR one with the driver's `lib`: a
board's (then give CMake the board's toolchain file), or both that of the simulator after
`dovetail sdk install verisilicon --version 6.42.0`.

```
export TIM_VX_INSTALL_DIR=/path/to/tim-vx VIVANTE_SDK_DIR=/path/to/sdk
cmake -S . -B build && cmake --build build
```
""",
}


def _readme(listing: NamedProgram, style: ProjectStyle) -> str:
    program = listing.program
    count = len(program.inputs)
    inputs = "\n".join(_row(program, place, listing.files[place]) for place in range(count))
    outputs = "\n".join(
        _row(program, place, listing.files[place]) for place in range(count, count + len(program.outputs))
    )
    files = " ".join(f"{name}.npy" for name in dict.fromkeys(listing.files[:count]))
    return f"""\
# A network for {remark(program.target)}

For the part {program.sdk_name}. `network.cpp` builds it, `weights.bin` holds its constants, `network.nbg` is the same
network in the vendor's binary form, `main.cpp` runs either.

| input | file | stored as | shape of a sample | scale, zero point |
| --- | --- | --- | --- | --- |
{inputs}

| output | file | stored as | shape of a sample | scale, zero point |
| --- | --- | --- | --- | --- |
{outputs}

real = (stored - zero point) * scale. Inputs of float32 are quantised by `main.cpp` (division in float32, ties to even);
a .npy of the stored type is taken as stored. Where a file holds several samples they are run one after another.

## Build and run

{_RUN[style]}
```
build/network {files} --out .
build/network --nbg network.nbg {files} --out .
```

The simulator reads `VSIMULATOR_CONFIG`; the program sets it to this part, and refuses another one.
"""


def _row(program: Program, place: int, file: str) -> str:
    name, tensor = (*program.inputs, *program.outputs)[place]
    held: ProgramTensor = program.tensors[tensor]
    scale, zero = edge_scale(held.form)
    how = "-" if held.form.quant is Quant.NONE else f"{scale:.9g}, {zero}"
    label = remark(name).replace("|", "<7c>")
    return f"| `{label}` | {file}.npy | {held.form.code.name.lower()} | {list(reversed(held.shape))} | {how} |"
