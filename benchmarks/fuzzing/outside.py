"""Fuzz targets: files of other makers and of people."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dovetail.data import open_samples, specs_of
from dovetail.data.labels import load_labels
from dovetail.data.preprocess_file import load_preprocess
from dovetail.formats import ReadRequest, WriteRequest, find_format, format_names
from dovetail.formats.acuity.inputmeta import lint_inputmeta, read_inputmeta
from dovetail.formats.acuity.network import read_network
from dovetail.formats.paddle.log import parse_log
from dovetail.inputs.beside import read_beside
from dovetail.inputs.tflite_metadata import read_tflite_metadata
from dovetail.ir import Graph
from dovetail.outputs.hints import load_hints, parse_hints
from dovetail.plan import load_recipe, make_plan, parse_placement
from dovetail.sdk.extract import extract_sdk
from dovetail.sdk.nbg import read_facts
from dovetail.sdk.pinned import PinnedWheel
from fuzzing.network import Small, model_bytes
from fuzzing.parser import Parser, through
from judges.fuzz_corpus import Specimen

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "formats" / "golden"
BASE = parse_placement("vsi:v853@i8pc")
_LOG = b"""subgraph clusters: 1
digraph G {
  node_1[label="conv2d" shape="box"]
}
subgraph operators:
feed:feed:x
conv2d:x,w:c
relu:c:r
sigmoid:r:s
elementwise_mul:r,s:y
fetch:y:fetch

Missing the quant params 'y0_scale' for the output 'y'
"""
_RECIPE = b"""default = "cpu@fp32"
fallback = ["cpu@fp16"]
[[rule]]
node = "Conv*"
op = "Conv"
place = "cpu@fp32"
reason = "by hand"
[limits]
forbid = ["vsi:a311d"]
partitions = 3
boundary_bytes = 65536
latency_ms = 12.5
memory_bytes = 4194304
[[group]]
node = "*"
op = "Relu"
"""
_PREPROCESS = (
    b"""channels = "rgb"
layout = "nchw"
mean = [127.5]
scale = [0.0078125]
interpolation = "bilinear"
resize = [256, 256]
resize_mode = "letterbox"
pad = 114
anchor = "centre"
centre_crop = [224, 224]
""",
    b"""channels = "bgr"
[[step]]
kind = "resize_short"
size = [256, 256]
[[step]]
kind = "centre_crop"
size = [224, 224]
""",
)
_HINTS = b"""[outputs]
kind = "detection"
boxes = "bbox_*"
scores = ["cls_*", "obj"]
"""


def people(small: Small, folder: Path) -> tuple[Parser, ...]:
    """Return the parsers of what people write: TOML files, lines of hints, labels."""

    def recipe(path: Path) -> object:
        from dovetail.backend.registry import find_target

        found = load_recipe(path)
        return make_plan(small.graph, found, {"cpu": find_target("cpu")}).to_json()

    boxes = {"a.jpg": [[0, 1, 2, 3, 4]], "b.jpg": []}
    return (
        Parser("recipe", (_RECIPE,), through(folder / "recipe.toml", recipe)),
        Parser("preprocess", _PREPROCESS, through(folder / "preprocess.toml", load_preprocess)),
        Parser("hints", (_HINTS,), through(folder / "hints.toml", load_hints)),
        Parser("line of hints", (b"boxes=bbox_*,scores=cls_*,kind=detection",), _text(parse_hints)),
        Parser(
            "table of labels",
            (b'file,label,name\na.jpg,3,"x, y"\nb.jpg,4 5,z\n',),
            through(folder / "l.csv", load_labels),
        ),
        Parser("boxes", (json.dumps(boxes).encode(),), through(folder / "l.json", load_labels)),
    )


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode(errors="replace"))


def toolchains(small: Small) -> tuple[Parser, ...]:
    """Return the parsers of every installed format, read and looked over."""
    found = []
    for name in format_names():
        form = find_format(name)
        listing, seeds = _listing(name, small.graph), _samples(name, small)

        def parse(data: bytes, form=form, listing=listing) -> object:
            request = ReadRequest(small.graph, BASE, listing=listing)
            form.lint(data, request)
            return form.read(data, request)

        found.append(Parser(name, seeds, parse))
    network = (GOLDEN / "acuity" / "ymini.json").read_bytes()
    meta = (GOLDEN / "acuity" / "ymini_inputmeta.yml").read_bytes()

    def inputmeta(data: bytes) -> object:
        lint_inputmeta(data, "file")
        return read_inputmeta(data, "file")

    def of_acuity(data: bytes) -> object:
        found = read_network(data, "file")
        found.bind(small.graph)
        return list(found.conflicts({})), found.chains

    return (
        *found,
        Parser("Paddle Lite's log", (_LOG,), lambda data: parse_log(data)),
        Parser("Acuity's network", (network, _small_network()), of_acuity),
        Parser("Acuity's inputmeta", (meta,), inputmeta),
        _performance(),
    )


def _performance() -> Parser:
    from dovetail.backends.verisilicon.driver.records import owners, read_perf

    mark, end = "**********Show Perf********", "**********Show Perf End********"
    names = "layer_id:0 operation_name:VXNNE_OPERATOR_CONVOLUTION operation_target:VXNNE_OPERATION_TARGET_NN\nuid:0\n"
    fields = "abs_op_id:1\nCycleCount: 12\nReadBW: 5\nWriteBW: 6\nSrcBuf: DDR\nDstBuf: VIP_SRAM\nKernelBuf: DDR\n"
    seed = f"TotalTPCores: 4\n{mark}\n{names}{fields}{end}\n{mark}\n{names}{fields}{end}\n".encode()

    def parse(data: bytes) -> object:
        found = read_perf(data.decode(errors="replace"))
        return found.missing, owners(found.records, ("conv2d", "relu"))

    return Parser("performance records", (seed,), parse, (ValueError,))


def _small_network() -> bytes:
    layers = {
        "x_0": {"name": "x", "op": "input", "inputs": [], "outputs": ["out0"]},
        "c_1": {"name": "c", "op": "convolution", "inputs": ["@x_0:out0"], "outputs": ["out0"]},
        "y_2": {"name": "y", "op": "output", "inputs": ["@c_1:out0"], "outputs": ["out0"]},
    }
    return json.dumps({"MetaData": {"Name": "small"}, "Layers": layers}).encode()


def _listing(name: str, graph: Graph) -> bytes | None:
    """Return the toolchain's own description of the network, where a format needs it."""
    if name.startswith("paddle"):
        return _LOG
    if name == "acuity-quantize":
        return _small_network()
    return model_bytes() if name == "onnxruntime-layers" else None


def _samples(name: str, small: Small) -> tuple[bytes, ...]:
    """Return files of a format: what it writes of the plan where it can, and the golden ones of the tests."""
    from dovetail.errors import DovetailError

    found = [path.read_bytes() for path in sorted(GOLDEN.rglob("*")) if path.is_file() and path.name.startswith(name)]
    if name == "acuity-quantize":
        found = [(GOLDEN / "acuity" / "u8.quantize").read_bytes(), (GOLDEN / "acuity" / "hyb.quantize").read_bytes()]
    if name.startswith("paddle"):
        found = [b"conv2d:x,w:c\nrelu:c\nsigmoid\n"]
    try:
        quantized = None
        from dovetail.quantize import quantize

        quantized = quantize(small.graph, small.plan, small.ranges)
        listing = _listing(name, small.graph)
        found.append(find_format(name).write(WriteRequest(small.plan, small.graph, listing, None, quantized)).content)
    except DovetailError:
        pass
    return tuple(found) or (b"{}", b"[]", b"a: b\n")


def data_files(small: Small, folder: Path) -> tuple[Parser, ...]:
    """Return the parsers of arrays: `.npz`, `.npy` in a folder, tensors in text of Acuity."""
    specs = specs_of(small.graph)

    def samples(path: Path) -> object:
        return [sample.labels for sample in open_samples(path, specs)]

    arrays: dict[str, Any] = {"x": np.zeros((2, 3, 8, 8), np.float32), "label": np.array([1, 2])}
    whole = io.BytesIO()
    np.savez(whole, **arrays)
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    single = io.BytesIO()
    np.save(single, arrays["x"][0])
    (folder / "samples").mkdir()
    from dovetail.compare.saved import load_tensor_pair
    from dovetail.formats.acuity.tensors import read_tensor_file

    def pair(path: Path) -> object:
        return load_tensor_pair(path, path)

    text = b"\n".join(b"%d.5" % number for number in range(8))
    return (
        Parser("npz", (whole.getvalue(), packed.getvalue()), through(folder / "data.npz", samples)),
        Parser("npy", (single.getvalue(),), through(folder / "samples" / "0.npy", lambda path: samples(path.parent))),
        Parser("pair of npz", (whole.getvalue(),), through(folder / "pair.npz", pair)),
        Parser("tensor in text", (text,), through(folder / "iter_0_c_1_out0_1_8.tensor", read_tensor_file)),
    )


def binaries(folder: Path) -> tuple[Parser, ...]:
    """Return the parsers of binary networks, of TFLite's metadata, of files beside models, of archives of SDKs."""

    def nbg(data: bytes) -> object:
        # With a checksum and a size that fit: what lies behind them is what is fuzzed.
        if len(data) >= 24:
            data = data[:16] + struct.pack("<Q", len(data)) + data[24:]
            data = data[:12] + struct.pack("<I", zlib.crc32(data[:12] + bytes(4) + data[16:])) + data[16:]
        return read_facts(data)

    beside = folder / "beside"
    beside.mkdir()
    return (
        Parser("binary network", (_nbg(),), nbg),
        Parser("TFLite metadata", (_metadata(),), through(folder / "m.tflite", read_tflite_metadata)),
        *_beside(beside),
        *_archives(folder),
    )


def _nbg() -> bytes:
    sections = [(0x23, b"net".ljust(220, b"\0"), 220), (1, bytes(112), 112), (2, bytes(224), 112)]
    at = 0x3C + 44 * len(sections)
    table = body = b""
    for kind, data, item in sections:
        table += struct.pack("<IQQ12xI8x", kind, at + len(body), len(data), item)
        body += data
    directory = struct.pack("<III", 0x3C, 44, len(sections))
    size = 0x3C + len(table) + len(body)
    return b"VPMN" + struct.pack("<IIIQII", 0x20005, 0xEE, 0, size, 0x30, 12) + bytes(16) + directory + table + body


def _metadata() -> bytes:
    """Return the head of a TFLite model: buffers, and the metadata's place among them (metadata_schema.fbs)."""
    import flatbuffers

    def table(b, offsets=(), numbers=()):
        b.StartObject(max([slot for slot, *_ in (*offsets, *numbers)], default=0) + 1)
        for slot, value in offsets:
            b.PrependUOffsetTRelativeSlot(slot, value, 0)
        for slot, size, value in numbers:
            {1: b.PrependUint8Slot, 4: b.PrependUint32Slot}[size](slot, value, 0)
        return b.EndObject()

    def tables(b, items):
        b.StartVector(4, len(items), 4)
        for item in reversed(items):
            b.PrependUOffsetTRelative(item)
        return b.EndVector()

    def reals(b, values):
        b.StartVector(4, len(values), 4)
        for value in reversed(values):
            b.PrependFloat32(value)
        return b.EndVector()

    b = flatbuffers.Builder()
    options = table(b, [(0, reals(b, (127.5,))), (1, reals(b, (128.0,)))])
    units = tables(b, [table(b, [(1, options)], [(0, 1, 1)])])
    content = table(b, [(1, table(b, (), [(0, 1, 1)]))], [(0, 1, 2)])
    graph = table(b, [(2, tables(b, [table(b, [(3, content), (4, units)])]))])
    b.Finish(table(b, [(0, b.CreateString("net")), (3, tables(b, [graph]))]))
    inner = bytes(b.Output())
    b = flatbuffers.Builder()
    buffers = tables(b, [table(b), table(b, [(0, b.CreateByteVector(inner))])])
    entry = table(b, [(0, b.CreateString("TFLITE_METADATA"))], [(1, 4, 1)])
    b.Finish(table(b, [(4, buffers), (6, tables(b, [entry]))], [(0, 4, 3)]), file_identifier=b"TFL3")
    return bytes(b.Output())


def _beside(folder: Path) -> tuple[Parser, ...]:
    hugging = {"image_mean": [0.5], "image_std": [0.5], "rescale_factor": 0.1, "size": {"shortest_edge": 224}}
    hugging |= {"do_resize": True, "do_normalize": True, "do_rescale": True, "crop_size": 224, "do_center_crop": True}
    paddle = b"Preprocess:\n- type: Resize\n  target_size: [32, 32]\n  keep_ratio: true\n- type: NormalizeImage\n"
    paddle += b"  mean: [0.5, 0.5, 0.5]\n  std: [0.5, 0.5, 0.5]\n  is_scale: true\n"
    timm = {"pretrained_cfg": {"mean": [0.5], "std": [0.5], "input_size": [3, 8, 8], "interpolation": "bicubic"}}
    found = []
    for name, seed in (
        ("preprocessor_config.json", json.dumps(hugging).encode()),
        ("infer_cfg.yml", paddle),
        ("config.json", json.dumps(timm).encode()),
    ):
        place = folder / name.partition(".")[0]
        place.mkdir()
        found.append(Parser(name, (seed,), through(place / name, lambda path: read_beside(path.parent / "m.onnx"))))
    return tuple(found)


def _archives(folder: Path) -> tuple[Parser, ...]:
    import shutil

    wheel = PinnedWheel("p", "1", "cp310", "any", "0" * 64, 1, "sdk/vsi_sdk.tar.gz", "vsi_sdk")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=0) as archive:
        for name in ("include/a.h", "lib/a.so", "VERSION"):
            entry = tarfile.TarInfo(f"vsi_sdk/{name}")
            entry.size = 3
            archive.addfile(entry, io.BytesIO(b"abc"))
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as zipped:
        zipped.writestr(wheel.archive, packed.getvalue())
    target = folder / "sdk"

    def extract(path: Path) -> object:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        extract_sdk(wheel, path, target)
        outside = [item for item in target.rglob("*") if not item.resolve().is_relative_to(target.resolve())]
        assert not outside, f"{outside[0]} leads out of the folder"
        return None

    return (Parser("archive of an SDK", (whole.getvalue(), packed.getvalue()), through(folder / "sdk.whl", extract)),)


def models(specimens: list[Specimen], wanted: Callable[[str], bool]) -> tuple[Parser, ...]:
    """Return the parsers of model files, by format."""
    return tuple(Parser(one.format, (one.data,), one.load) for one in specimens if wanted(one.format))


def trained_caffe(folder: Path) -> tuple[Parser, ...]:
    """Return the parser of trained blobs of Caffe, with layers that want them."""
    from dovetail.importers import load_model
    from judges.caffe_files import write_caffe

    layers = """
layer { name: "c" type: "Convolution" bottom: "data" top: "c"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
layer { name: "b" type: "BatchNorm" bottom: "c" top: "c" }
layer { name: "s" type: "Scale" bottom: "c" top: "c" scale_param { bias_term: true } }
layer { name: "f" type: "InnerProduct" bottom: "c" top: "f" inner_product_param { num_output: 2 } }
layer { name: "u" type: "Eltwise" bottom: "f" bottom: "f" top: "u" eltwise_param { operation: SUM coeff: 1 coeff: -1 } }
"""
    rng = np.random.default_rng(0)
    real = [rng.normal(size=size).astype(np.float32) for size in ((4, 3, 3, 3), (4,), (4,), (4,), (1,), (2, 64), (2,))]
    blobs = {
        "c": real[:2],
        "b": [real[2], np.abs(real[3]), np.abs(real[4]) + 1],
        "s": [real[2], real[3]],
        "f": real[5:],
    }
    path = write_caffe(folder, layers, blobs, (1, 3, 4, 4))
    bulk = path.with_suffix(".caffemodel")
    whole, text = bulk.read_bytes(), path.read_bytes()

    def of_text(data: bytes) -> object:
        path.write_bytes(data)
        try:
            return load_model(path)
        finally:
            path.write_bytes(text)

    return (
        Parser("blobs of Caffe", (whole,), through(bulk, lambda _: load_model(path))),
        Parser("text of Caffe", (text,), of_text),
    )
