"""Small files of every format that is read, to be damaged."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import numpy_helper, parser

from dovetail.importers import LoadOptions, load_model, load_onnx
from dovetail.importers.converted import recognise
from dovetail.importers.tflite import load_tflite
from dovetail.ir import Graph, graph_to_bytes
from judges.tflite_cases import case, random, real
from judges.tflite_hybrid_cases import recurrent as hybrid_recurrent
from judges.tflite_lstm_cases import lstm_cases

Load = Callable[[bytes], object]

_ONNX = """<ir_version: 8, opset_import: ["": 13]>
net (float[1,3,8,8] x, bool flag) => (float[N,M] y)
<float s = {0.02}, uint8 z = {128}, int64[2] shape = {1, -1}, float[1] one = {1}>
{
  q = QuantizeLinear(x, s, z)
  d = DequantizeLinear(q, s, z)
  c = Conv<pads = [1, 1, 1, 1]>(d, w)
  r = Relu(c)
  p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
  i = If(flag) <
    then_branch = yes () => (float[1,4,4,4] a) { a = Add(p, one) },
    else_branch = no () => (float[1,4,4,4] b) { b = Mul(p, one) }
  >
  y = Reshape(i, shape)
}"""
_CAFFE = """name: "net"
input: "data"
input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }
layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" relu_param { negative_slope: 0.1 } }
layer { name: "pool" type: "Pooling" bottom: "relu" top: "pool" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "soft" type: "Softmax" bottom: "pool" top: "soft" }
"""
_DARKNET = """[net]
height=8
width=8
channels=3

[convolutional]
batch_normalize=1
filters=4
size=3
stride=1
pad=1
activation=leaky

[maxpool]
size=2
stride=2

[route]
layers=-1
"""


@dataclass(frozen=True, slots=True)
class Specimen:
    """Name a format, a whole file of it, and what reads its bytes."""

    format: str
    data: bytes
    load: Load


def specimens(folder: Path) -> Iterator[Specimen]:
    """Yield one file of every format; those that are read from disc are written into `folder`."""
    onnx = _onnx()
    yield Specimen("onnx", onnx, load_onnx)
    own = folder / "model.dvg"
    own.write_bytes(graph_to_bytes(load_onnx(onnx)))
    yield Specimen("dovetail", own.read_bytes(), _through(own, own))
    inputs = [real(1, 5, 5, 3), random(4, 3, 3, 3), random(4)]
    fields = {"padding": 0, "strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    yield Specimen(
        "tflite", case("CONV_2D", inputs, options=("Conv2DOptions", fields)).operator.to_bytes(), load_tflite
    )
    for name, recurrent in (("integer", next(lstm_cases())), ("hybrid", next(hybrid_recurrent()))):
        yield Specimen(f"tflite {name}", recurrent.operator.to_bytes(), load_tflite)
    generator = np.random.default_rng(0)
    weights = (
        np.array([0, 2, 0, 0, 0], np.int32).tobytes()
        + generator.normal(size=4 * 4 + 4 * 27).astype(np.float32).tobytes()
    )
    texts = {
        "caffe": (".prototxt", _CAFFE, ".caffemodel", b"\n\x03net"),
        "darknet": (".cfg", _DARKNET, ".weights", weights),
    }
    for name, (suffix, text, other, bulk) in texts.items():
        path = folder / f"{name}{suffix}"
        path.write_text(text)
        path.with_suffix(other).write_bytes(bulk)
        for one in (path, path.with_suffix(other)):
            yield Specimen(f"{name} {one.suffix}", one.read_bytes(), _through(one, path))
    yield from _converted(folder)


def _onnx() -> bytes:
    model = parser.parse_model(_ONNX)
    weight = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return bytes(model.SerializeToString())


def _through(target: Path, path: Path) -> Load:
    """Write the damaged half of a pair, load the pair, and put the whole half back."""
    whole = target.read_bytes()

    def load(data: bytes) -> Graph:
        target.write_bytes(data)
        try:
            return load_model(path)
        finally:
            target.write_bytes(whole)

    return load


def _converted(folder: Path) -> Iterator[Specimen]:
    """Yield files that converters read; what is judged is the decision which converter that is."""
    files = {
        "torchscript.pt": _archive(
            {"constants.pkl": b"\x80\x02).", "code/__torch__.py": b"", "data.pkl": b"\x80\x02N."}
        ),
        "program.pt2": _archive({"models/model.json": b"{}", "archive_format": b"pt2"}),
        "keras.keras": _archive({"config.json": json.dumps({"a": 1}).encode(), "metadata.json": b"{}"}, ""),
        "graph.pb": b"\n\x10\n\x01x\x12\x0bPlaceholder",
        "paddle.pdmodel": b"\n\x04\x08\x00\x10\x00",
    }
    (folder / "paddle.pdiparams").write_bytes(b"")
    for name, data in files.items():
        path = folder / name

        def load(mutant: bytes, path: Path = path) -> object:
            path.write_bytes(mutant)
            return recognise(path, LoadOptions())

        yield Specimen(path.suffix, data, load)


def _archive(members: dict[str, bytes], root: str = "m/") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(root + name, content)
    return buffer.getvalue()
