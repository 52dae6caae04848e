"""Time and memory of importing a file of 30 MB: under 3 s, and under three times the file.

python benchmarks/import_cost.py [--mb 30] [--json]

A network of 60 convolutions with random weights is written in every format and loaded in a process of its own. Time
is that of the processor in load_model and normalize, without starting Python and importing Dovetail; memory is the
growth of the peak of resident memory during the same, over the size of the file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from dovetail.importers import load_onnx
from dovetail.ir import DType, save_graph
from judges.caffe_files import write_caffe
from judges.tflite_graphs import LiteSubgraph, Step, build_model
from judges.tflite_model import LiteTensor
from zoo.table import number, text

MOST_S, MOST_TIMES = 3.0, 3.0
_LAYERS = 60
_CHILD = """
import json, sys, time
import dovetail
from dovetail import load_model, normalize
import dovetail.importers.onnx, dovetail.importers.tflite, dovetail.quantize
def peak():
    # A child starts with its parent's peak in getrusage; Linux counts anew after a 5 in clear_refs.
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
load_model(sys.argv[2])
open("/proc/self/clear_refs", "w").write("5")
before, start = peak(), time.process_time()
graph = normalize(load_model(sys.argv[1]))
print(json.dumps([time.process_time() - start, peak() - before, len(graph.nodes)]))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """One line: a format, what loading cost, and how many nodes came of it."""

    format: str
    file_bytes: int
    load_s: float
    peak_bytes: int
    nodes: int

    @property
    def times(self) -> float:
        """Return the growth of memory over the size of the file."""
        return self.peak_bytes / self.file_bytes


def costs(megabytes: float, folder: Path) -> Iterator[Cost]:
    """Yield the cost of every format; a small file of the format is loaded first, so that code is warm."""
    width = max(8, int((megabytes * 1e6 / (4 * 9 * _LAYERS)) ** 0.5))
    writers = {"onnx": _onnx, "tflite": _tflite, "dvg": _own, "prototxt": _caffe, "cfg": _darknet}
    for suffix, write in writers.items():
        paths = [folder / suffix / f"{name}.{suffix}" for name in ("large", "small")]
        paths[0].parent.mkdir()
        for path, channels in zip(paths, (width, 8), strict=True):
            write(path, channels)
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, *map(str, paths)], capture_output=True, text=True, check=True
        )
        load_s, peak_bytes, nodes = json.loads(done.stdout)
        size = sum(path.stat().st_size for path in paths[0].parent.glob("large.*") if path.suffix != ".source")
        yield Cost(suffix, size, load_s, peak_bytes, nodes)


def _onnx(path: Path, width: int) -> None:
    generator = np.random.default_rng(0)
    nodes, constants = [], []
    for layer in range(_LAYERS):
        weight = generator.normal(size=(width, width, 3, 3)).astype(np.float32)
        constants.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(helper.make_node("Conv", [f"x{layer}", f"w{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"x{layer + 1}"]))
    shape = [1, width, 8, 8]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x0", f"x{_LAYERS}")]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


def _tflite(path: Path, width: int) -> None:
    from ai_edge_litert import schema_py_generated as schema

    generator = np.random.default_rng(0)
    shape = (1, 8, 8, width)
    tensors, steps = [LiteTensor("x0", DType.F32, shape)], []
    for layer in range(_LAYERS):
        weight = generator.normal(size=(width, 3, 3, width)).astype(np.float32)
        bias = np.zeros(width, np.float32)
        tensors += [
            LiteTensor(f"w{layer}", DType.F32, weight.shape, None, weight),
            LiteTensor(f"b{layer}", DType.F32, bias.shape, None, bias),
            LiteTensor(f"x{layer + 1}", DType.F32, shape),
        ]
        options = schema.Conv2DOptionsT()
        options.strideH = options.strideW = options.dilationHFactor = options.dilationWFactor = 1
        options.fusedActivationFunction = 1
        kind = schema.BuiltinOptions.Conv2DOptions
        names = (f"x{layer}", f"w{layer}", f"b{layer}")
        steps.append(Step(schema.BuiltinOperator.CONV_2D, names, (f"x{layer + 1}",), kind, options))
    path.write_bytes(build_model([LiteSubgraph(tensors, steps, ("x0",), (f"x{_LAYERS}",))]))


def _own(path: Path, width: int) -> None:
    _onnx(path.with_suffix(".source"), width)
    save_graph(load_onnx(path.with_suffix(".source")), path)


def _caffe(path: Path, width: int) -> None:
    layers, blobs, generator = "", {}, np.random.default_rng(0)
    for layer in range(_LAYERS):
        ends = f'bottom: "{f"c{layer - 1}" if layer else "data"}" top: "c{layer}"'
        options = f"num_output: {width} kernel_size: 3 pad: 1 bias_term: false"
        layers += f'layer {{ name: "c{layer}" type: "Convolution" {ends} convolution_param {{ {options} }} }}\n'
        layers += f'layer {{ name: "r{layer}" type: "ReLU" bottom: "c{layer}" top: "c{layer}" }}\n'
        blobs[f"c{layer}"] = [generator.normal(size=(width, width, 3, 3)).astype(np.float32)]
    made = write_caffe(path.parent, layers, blobs, (1, width, 8, 8))
    made.rename(path)
    made.with_suffix(".caffemodel").rename(path.with_suffix(".caffemodel"))


def _darknet(path: Path, width: int) -> None:
    layer = f"[convolutional]\nfilters={width}\nsize=3\nstride=1\npad=1\nactivation=leaky\n"
    path.write_text(f"[net]\nwidth=8\nheight=8\nchannels={width}\n" + layer * _LAYERS)
    values = np.random.default_rng(0).normal(size=_LAYERS * width * (1 + width * 9)).astype("<f4")
    # Darknet's header: version 0.2.0 and how many images were seen.
    path.with_suffix(".weights").write_bytes(np.array([0, 2, 0, 0, 0], "<i4").tobytes() + values.tobytes())


def main() -> int:
    """Print the table; the exit code is 1 where a bound is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, default=30.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = list(costs(arguments.mb, Path(folder)))
    if arguments.json:
        print(json.dumps([asdict(item) | {"times": item.times} for item in found]))
    else:
        heads = ("format", "file MB", "load s", "peak MB", "times the file", "nodes")
        rows = [
            [
                item.format,
                number(item.file_bytes / 1e6, 1),
                number(item.load_s, 2),
                number(item.peak_bytes / 1e6, 1),
                number(item.times, 2),
                str(item.nodes),
            ]
            for item in found
        ]
        print(text(heads, rows))
    return int(any(item.load_s > MOST_S or item.times > MOST_TIMES for item in found))


if __name__ == "__main__":
    sys.exit(main())
