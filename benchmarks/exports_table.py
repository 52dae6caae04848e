"""Whether the programs that read exported files arrive at what the plan says. Write docs/reference/exports.md.

Float models on the grid of a healed plan go through ONNX Runtime's `quantize_static`, with the arguments that lie
beside them; its integers are compared with those of the plan.

python benchmarks/exports_table.py [--model NAME ...] [--place PLACE ...] [--page FILE]
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, quantize_static

import dovetail
import zoo.machine as machine
from dovetail.backend.registry import find_target
from dovetail.data import Sample
from dovetail.errors import DovetailError
from dovetail.formats import WriteRequest, find_format
from dovetail.formats.onnxruntime.arguments import quantizer_arguments
from dovetail.ir import AnyArray, DType, Graph
from dovetail.plan import Plan, Recipe, make_plan, parse_placement
from dovetail.quantize import Calibration, QuantizedGraph, calibrate, dequantize, is_quantized, quantize
from dovetail.quantize.grid import GridGraph, grid_graph
from dovetail.repair import CHOICES, HealedModel, repair
from dovetail.testing.planted import HeldSamples
from dovetail.testing.running import random_feeds
from zoo.catalogue import CASES, models_root
from zoo.table import markdown

PLACES = ("vsi:a311d@u8", "vsi:v853@i8pc")
FILES = (
    "lenet_caffe/lenet.prototxt",
    "mnist_conv_fc/conv_fc_mnist.tflite",
    "yolo_fastest_darknet/yolo-fastest-1.1.cfg",
)
"""Models of the collection that have no samples of their own: they are calibrated on noise."""
_SAMPLES = 4
_HEADS = (
    "model",
    "place",
    "repairs",
    "nodes",
    "weights",
    "biases",
    "operands",
    "constants equal",
    "scales equal",
    "by hand",
)


@dataclass(frozen=True, slots=True)
class Row:
    """What ONNX Runtime's quantiser makes of one model at one place."""

    model: str
    place: str
    repairs: tuple[str, ...]
    nodes: int
    weights: int
    biases: int
    operands: int
    equal: int
    rounded: int
    """Biases that float32 cannot hold."""
    scales: int
    scales_equal: int
    handed_over: int
    """Constants whose scale had to be handed over."""
    unequal: tuple[str, ...]
    seconds: float


class _Feeds(CalibrationDataReader):
    def __init__(self, feeds: Sequence[Mapping[str, AnyArray]]) -> None:
        self._left = iter(feeds)

    def get_next(self) -> dict[str, AnyArray] | None:
        feeds = next(self._left, None)
        return None if feeds is None else dict(feeds)


def main() -> int:
    """Measure every row and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="only this model; may be repeated")
    parser.add_argument("--place", action="append", help="only at this place; may be repeated")
    parser.add_argument("--page", type=Path, help="where the page goes")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    rows: list[Row] = []
    for name, graph, calibration, feeds in _models(options.model or ()):
        for place in options.place or PLACES:
            try:
                rows.append(measure(name, HealedModel(graph, calibration), place, feeds))
            except DovetailError as error:
                print(f"{name} {place}: {error}", file=sys.stderr, flush=True)
            else:
                print(json.dumps(asdict(rows[-1])), flush=True)
    if options.page is not None:
        options.page.write_text(page(rows), encoding="utf-8")
    return 0


Model = tuple[str, Graph, Calibration, list[Mapping[str, AnyArray]]]


def _models(wanted: Sequence[str]) -> Iterator[Model]:
    """Yield models with their calibration and a few of their samples."""
    root = models_root()
    for case in CASES:
        if wanted and case.name not in wanted:
            continue
        graph = dovetail.normalize(dovetail.load_model(root / case.file, dovetail.LoadOptions(shapes=case.shapes)))
        lifted = dequantize(graph) if is_quantized(graph) else None
        graph = graph if lifted is None else lifted.graph
        samples = case.open(graph, root).calibration[:_SAMPLES]
        calibration = calibrate(graph, HeldSamples(samples))
        refined = calibration if lifted is None else lifted.refine(calibration)
        yield case.name, graph, refined, [sample.inputs for sample in samples]
    for file in FILES:
        name = Path(file).parent.name
        if not wanted or name in wanted:
            graph = dovetail.normalize(dovetail.load_model(root / file))
            feeds = [random_feeds(graph, seed) for seed in range(_SAMPLES)]
            samples = [Sample(str(index), item) for index, item in enumerate(feeds)]
            yield name, graph, calibrate(graph, HeldSamples(samples)), list(feeds)


def measure(name: str, start: HealedModel, place: str, feeds: Sequence[Mapping[str, AnyArray]]) -> Row:
    """Return the row of a model: everything low that the target takes there, healed as far as repairs find sites."""
    began = time.perf_counter()
    low = parse_placement(place)
    healed = repair(start, CHOICES["all"], low.precision.weight.per_channel)
    targets = {item: find_target(item) for item in (low.target, "cpu")}
    plan = make_plan(healed.graph, Recipe(low, (parse_placement("cpu@fp32"),)), targets)
    plan = Plan(plan.graph_digest, plan.default, plan.overrides, healed.records)
    quantized = quantize(healed.graph, plan, healed.calibration.ranges)
    written = find_format("onnx-grid").write(WriteRequest(plan, healed.graph, quantized=quantized))
    grid = grid_graph(healed.graph, quantized)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "float.onnx"), Path(folder, "quantised.onnx")
        source.write_bytes(written.content)
        quantize_static(source, target, _Feeds(feeds), **quantizer_arguments(written.beside["quantize_static"]))
        model = onnx.load(target)
    equal, unequal = _constants(grid, model)
    scales, scales_equal = _scales(healed.graph, quantized, model)
    kinds = [_kind(grid, item) for item in grid.constants]
    return Row(
        model=name,
        place=place,
        repairs=healed.kinds,
        nodes=sum(item.precision.is_quantized for item in quantized.placements.values()),
        weights=kinds.count("weight"),
        biases=kinds.count("bias"),
        operands=kinds.count("operand"),
        equal=equal,
        rounded=len(grid.rounded_biases),
        scales=scales,
        scales_equal=scales_equal,
        handed_over=len(grid.hidden_scales),
        unequal=unequal,
        seconds=time.perf_counter() - began,
    )


def _kind(grid: GridGraph, name: str) -> str:
    if grid.constants[name].kind.dtype in (DType.I32, DType.I64):
        return "bias"
    weighted = ("Conv", "ConvTranspose", "Gemm", "MatMul")
    reader = grid.graph.consumers[name][0]
    return "weight" if reader.op in weighted and list(reader.inputs).index(name) == 1 else "operand"


def _constants(grid: GridGraph, model: onnx.ModelProto) -> tuple[int, tuple[str, ...]]:
    """Return how many constants have the integers of the plan, and which have not."""
    integers = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    unequal = tuple(
        name
        for name, item in grid.constants.items()
        if f"{name}_quantized" not in integers
        or not np.array_equal(integers[f"{name}_quantized"].reshape(item.stored.shape), item.stored)
    )
    return len(grid.constants) - len(unequal), unequal


def _scales(graph: Graph, quantized: QuantizedGraph, model: onnx.ModelProto) -> tuple[int, int]:
    """Return how many tensors that nodes make the plan stores, and how many have its scale and zero point."""
    values = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    stored: dict[str, set[tuple[float, int]]] = {}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.input[1] in values:
            pair = (float(values[node.input[1]].reshape(-1)[0]), int(values[node.input[2]].reshape(-1)[0]))
            stored.setdefault(node.input[0].removesuffix("_QuantizeLinear_Input"), set()).add(pair)
    count = same = 0
    for node in graph.nodes:
        for tensor, version in zip(node.outputs, quantized.graph.node(node.name).outputs, strict=True):
            quant = quantized.graph.types[version].quant if version else None
            if quant is not None:
                count += 1
                same += (quant.scale[0], quant.zero_point[0]) in stored.get(tensor, ())
    return count, same


def page(rows: Sequence[Row]) -> str:
    """Return the page."""
    constants = sum(row.weights + row.biases + row.operands for row in rows)
    cells = [
        (
            row.model,
            row.place,
            ", ".join(row.repairs) or "none",
            str(row.nodes),
            str(row.weights),
            str(row.biases),
            str(row.operands),
            f"{row.equal} of {row.weights + row.biases + row.operands}",
            f"{row.scales_equal} of {row.scales}",
            str(row.handed_over),
        )
        for row in rows
    ]
    lines = [
        "# Exported files, read by the programs that they are for",
        "",
        "Made by `python benchmarks/exports_table.py --page docs/reference/exports.md`; do not edit. The models are a"
        " collection that is not part of this repository.",
        "",
        *machine.facts(("dovetail", "onnxruntime", "numpy")),
        "",
        "## Float models on the grid of a plan",
        "",
        "Every model is healed as far as repairs find sites, everything that the target takes is low, and the float"
        " model on the plan's grid (`--format onnx-grid`) goes through ONNX Runtime's `quantize_static`, which derives"
        " weights and biases by minimum and maximum. `by hand`: constants whose scale is in no minimum or maximum (dead"
        " channels beside a bias); it lies beside the model. `scales equal`: of the tensors that the plan stores, those"
        " with its scale and zero point, which were handed over.",
        "",
        f"{sum(row.equal for row in rows)} of {constants} constants have the integers of the plan.",
        "",
        markdown(_HEADS, cells),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
