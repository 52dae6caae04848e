"""Programs of a user's own that run one bundle: C++ that links with `native/run`, and pipelines of GStreamer."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dovetail.bundle.bundle import Bundle
from dovetail.errors import BundleError
from dovetail.ir.dtypes import DType
from dovetail.ir.text import print_type
from dovetail.ir.types import TensorType

_STEP = re.compile(r"(add|mul|div):[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?(@\d+)?", re.ASCII | re.IGNORECASE)
_CHANNELS = re.compile(r"per-channel:(false|true@\d+)", re.ASCII)
_PICTURE_RANK = 4
_COLOURS = {1: "GRAY8", 3: "RGB"}

_INFER = """\
// Runs the bundle '{name}' in a program of your own: reads frames from stdin, writes the outputs of each to stdout.
{comments}
#include <cstdio>
#include <iostream>

#include "loaded.h"

int main(int count, char **words) try {{
    const Bundle bundle = load_bundle(count > 1 ? words[1] : "bundle");
    Board board;  // empty: libraries are where the loader finds them
    if (count > 2) board.ort_library = words[2];
    if (count > 3) board.vsi_library = words[3];
    Loaded model(bundle, board);
    Feed inputs;
{inputs}
    while (true) {{
        for (const char *name : {{{in_names}}}) {{
            auto &data = inputs[name].data;
            if (!std::cin.read(reinterpret_cast<char *>(data.data()), std::streamsize(data.size()))) return 0;
        }}
        const Feed outputs = model.run(inputs);
        for (const char *name : {{{out_names}}}) {{
            const auto &data = outputs.at(name).data;
            std::cout.write(reinterpret_cast<const char *>(data.data()), std::streamsize(data.size()));
        }}
    }}
}} catch (const std::exception &error) {{
    std::fprintf(stderr, "error: %s\\n", error.what());
    return 2;
}}
"""

_CMAKE = """\
# cmake -S . -B build -DDOVETAIL_RUN=FOLDER && cmake --build build
# FOLDER is native/run of Dovetail's sources; for another processor add -DCMAKE_TOOLCHAIN_FILE=... as it says there.
cmake_minimum_required(VERSION 3.18)
project(infer LANGUAGES CXX)
set(DOVETAIL_RUN "" CACHE PATH "native/run of Dovetail's sources")
add_subdirectory("${DOVETAIL_RUN}" dovetail EXCLUDE_FROM_ALL)
add_executable(infer infer.cpp)
target_link_libraries(infer PRIVATE dovetail_loaded)
"""

_FILTER = '''\
"""A filter of NNStreamer (framework=python3) that runs the bundle '{name}'; it needs dovetail-runtime on the board.

The bundle is the folder that `custom=` names. Tensors come and go as bytes; sizes are told innermost first.
"""

import nnstreamer_python as nns
import numpy as np

from dovetail.bundle import load_bundle
from dovetail.runtime import open_session

INPUTS = {inputs}
OUTPUTS = {outputs}


class CustomFilter:
    """What NNStreamer looks for in this file."""

    def __init__(self, *words):
        self.session = open_session(load_bundle(words[0] if words else "bundle"))

    def getInputDim(self):
        return [nns.TensorShape(list(reversed(shape)), np.dtype(kind).type) for _, shape, kind in INPUTS]

    def getOutputDim(self):
        return [nns.TensorShape(list(reversed(shape)), np.dtype(kind).type) for _, shape, kind in OUTPUTS]

    def invoke(self, arrays):
        feed = {{
            name: np.frombuffer(array, kind).reshape(shape) for (name, shape, kind), array in zip(INPUTS, arrays)
        }}
        outputs = self.session.run(feed).outputs
        return [np.ascontiguousarray(outputs[name]).reshape(-1) for name, _, _ in OUTPUTS]
'''

_PIPELINE = """\
#!/bin/sh
# Pipelines for the bundle '{name}'; BUNDLE=/path/to/bundle ./pipeline.sh nnstreamer (or: plain).
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
bundle=${{BUNDLE:-$here/bundle}}
case "${{1:-nnstreamer}}" in
nnstreamer)
    # {camera}
    exec gst-launch-1.0 {source} ! \\
        tensor_filter framework=python3 model="$here/filter.py" custom="$bundle" ! \\
        tensor_sink name=out
    ;;
plain)
    # GStreamer alone: frames of {frame} bytes from a file to the program of infer.cpp, its outputs to stdout.
    gst-launch-1.0 -q filesrc location="${{FRAMES:-$here/frames.raw}}" blocksize={frame} ! fdsink fd=1 |
        "${{INFER:-$here/build/infer}}" "$bundle" ${{LIBRARIES:-}}
    ;;
*)
    echo "error: '$1' is unknown: nnstreamer or plain." >&2
    exit 2
    ;;
esac
"""


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A tensor whose sizes are known; those that are not are 1, as for one sample."""

    name: str
    shape: tuple[int, ...]
    kind: TensorType

    @property
    def size_bytes(self) -> int:
        """Return its bytes in memory."""
        return math.prod(self.shape) * self.carrier_bytes

    @property
    def carrier_bytes(self) -> int:
        """Return the bytes of an element in memory, where bf16 is float32."""
        return self.kind.dtype.carrier.itemsize

    @property
    def numpy_name(self) -> str:
        """Return what numpy calls its elements."""
        return self.kind.dtype.carrier.name


def runner_sources() -> Path | None:
    """Return the folder of the sources of `dovetail-run`; None where they are not installed."""
    package = Path(__file__).parents[1]
    places = (package / "native" / "run", package.parents[1] / "native" / "run")
    return next((place for place in places if (place / "loaded.h").is_file()), None)


def example_files(bundle: Bundle, pixels: str = "") -> Mapping[str, str]:
    """Return the example programs of a bundle by the names of their files.

    `pixels` is what makes inputs of pixels of 0 to 255, as `tensor_transform` of NNStreamer has it: `div:255.0`.
    Raises BundleError for a bundle with a tensor of unknown rank, and for steps that `tensor_transform` does not know.
    """
    _check_steps(pixels)
    inputs = [_fixed(name, kind) for name, kind in bundle.inputs.items()]
    outputs = [_fixed(name, kind) for name, kind in bundle.outputs.items()]
    camera, source = _source(inputs, pixels)
    frame = sum(item.size_bytes for item in inputs)
    name = "".join(sign if sign.isprintable() and sign not in "'\"\\" else "?" for sign in bundle.name)[:60]
    return {
        "infer.cpp": _INFER.format(
            name=name,
            comments=_comments(inputs, outputs),
            inputs=_declared(inputs),
            in_names=", ".join(_quoted(item.name) for item in inputs),
            out_names=", ".join(_quoted(item.name) for item in outputs),
        ),
        "CMakeLists.txt": _CMAKE,
        "filter.py": _FILTER.format(name=name, inputs=_rows(inputs), outputs=_rows(outputs)),
        "pipeline.sh": _PIPELINE.format(name=name, camera=camera, source=source, frame=frame),
    }


def _check_steps(pixels: str) -> None:
    """Raise BundleError for what is no arithmetic of `tensor_transform`: `per-channel` first, then its operations."""
    if not pixels:
        return
    steps = pixels.split(",")
    wrong = next((step for step in steps[bool(_CHANNELS.fullmatch(steps[0])) :] if not _STEP.fullmatch(step)), None)
    if wrong is not None or _CHANNELS.fullmatch(steps[-1]):
        raise BundleError(
            f"'{pixels if wrong is None else wrong}': no steps of tensor_transform.",
            hint="add, mul or div and a number, such as div:255.0 or add:-127.5,div:127.5.",
            option="pixels",
        )


def _fixed(name: str, kind: TensorType) -> _Fixed:
    if kind.shape is None:
        raise BundleError(f"'{name}' has no known rank: there is no example for it.", hint="Give fixed shapes.")
    return _Fixed(name, tuple(dim if isinstance(dim, int) else 1 for dim in kind.shape), kind)


def _comments(inputs: list[_Fixed], outputs: list[_Fixed]) -> str:
    rows = [("in: ", item) for item in inputs] + [("out:", item) for item in outputs]
    told = [f"//   {way} {_quoted(item.name)} {print_type(item.kind)}, {item.size_bytes} bytes" for way, item in rows]
    return "\n".join(line[:118] for line in told)


def _declared(inputs: list[_Fixed]) -> str:
    return "\n".join(
        f"    inputs[{_quoted(item.name)}] = {{DType::{item.kind.dtype.name}, "
        f"{{{', '.join(map(str, item.shape))}}}, std::vector<uint8_t>({item.size_bytes})}};"
        for item in inputs
    )


def _quoted(text: str) -> str:
    """Return a text as C++ and as Python write it; what is no plain letter in octal."""
    plain = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode()
    )
    return f'"{plain}"'


def _rows(tensors: list[_Fixed]) -> str:
    return repr([(item.name, item.shape, item.numpy_name) for item in tensors])


def _source(inputs: list[_Fixed], pixels: str) -> tuple[str, str]:
    """Return what the first half of a pipeline is, in words and as GStreamer has it."""
    first = inputs[0]
    shape = first.shape
    picture = len(inputs) == 1 and len(shape) == _PICTURE_RANK and shape[0] == 1
    if picture and (shape[1] in _COLOURS or shape[3] in _COLOURS):
        planes = shape[1] in _COLOURS
        height, width = shape[2:] if planes else shape[1:3]
        colours = shape[1] if planes else shape[3]
        steps = [
            "v4l2src",
            "videoconvert",
            "videoscale",
            f"video/x-raw,format={_COLOURS[colours]},width={width},height={height}",
            "tensor_converter",
        ]
        if planes:
            steps.append("tensor_transform mode=transpose option=1:2:0:3")
        if first.kind.dtype is not DType.U8 or pixels:
            arithmetic = f"typecast:{first.numpy_name}" + (f",{pixels}" if pixels else "")
            steps.append(f"tensor_transform mode=arithmetic option={arithmetic}")
        told = "A camera; " + (f"pixels are made inputs by {pixels}." if pixels else "pixels are inputs as they are.")
        return told, " ! ".join(steps)
    sizes = ",".join(":".join(map(str, reversed(item.shape))) or "1" for item in inputs)
    kinds = ",".join(item.numpy_name for item in inputs)
    frame = sum(item.size_bytes for item in inputs)
    location = '"${FRAMES:-$here/frames.raw}"'
    steps = [
        f"filesrc location={location} blocksize={frame}",
        "application/octet-stream",
        f"tensor_converter input-dim={sizes} input-type={kinds}",
    ]
    return "Frames of bytes from a file: all inputs one behind the other.", " ! ".join(steps)
