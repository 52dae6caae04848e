"""What the programs that exported plans are for make of them: nodes as planned, and scores beside the prediction.

python benchmarks/consumers_table.py [--model NAME ...] [--format NAME ...] [--seed N] [--keep FILE] [--page FILE]

Four plans for each model: everything at 8 bits; two that `tune --for` the format finds, which lose at most a half and
a quarter of what that loses of the metric `noise` on random inputs (parts of pages for a text detector, which finds
nothing in noise); and one in which a drawn quarter of the units is
elsewhere, at 16 bits where the format has a word for it, else in float. What a format cannot say becomes the nearest
plan that it can.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

import dovetail
import zoo.detectors as detectors
import zoo.machine as machine
from dovetail.backends.reference import run_graph
from dovetail.data import Sample, SplitOptions, first_samples, split_samples
from dovetail.environments import ConversionJob, find_environment, run_job, state_of
from dovetail.errors import DovetailError, InexpressiblePlan
from dovetail.exporters import to_onnx
from dovetail.fit import HandedRequest, read_scored, score_moved
from dovetail.fit.metric import choose_metric
from dovetail.formats import Format, WriteRequest, Written, find_format
from dovetail.formats.consumer import Consumer, ConsumerRequest, find_consumer
from dovetail.formats.demands import WordFormat, demands_of
from dovetail.formats.numerics import numerics_of
from dovetail.ir import Graph
from dovetail.ir.dtypes import AnyArray
from dovetail.plan import Override, Placement, Plan, find_units, parse_placement
from dovetail.plan.plan import plan_from_json
from dovetail.quantize import calibrate, dequantize, is_quantized, quantize
from dovetail.search import Goal, TuneOptions, TuneRequest, tune
from dovetail.testing.planted import HeldSamples
from dovetail.testing.running import random_feeds
from zoo.catalogue import models_root
from zoo.table import markdown

FILES = {
    "kws_dscnn": "kws01_dscnn/kws_dscnn_fp32_nchw.{}",
    "resnet8": "ic01_resnet8_cifar10/resnet8_float.{}",
    "mobilenet_v1": "mbv1_025_128_imagenet/mbnet128_0.25_f.{}",
    "vww": "vww01_mobilenetv1_025/vww_96_float.{}",
    "kwt1": "kwt1_transformer/kwt1_non_stream.{}",
    "mnist_conv_fc": "mnist_conv_fc/conv_fc_mnist.{}",
    "ultraface": "ultraface_rfb320/version-RFB-320.{}",
    "ppocr_det": "ppocrv3_det/model.{}",
    "shufflenet_v2": "shufflenetv2_int8_onnx/shufflenet-v2-12-int8.{}",
    "yolox_nano": "yolox_nano/yolox_nano_decoded.{}",
}
"""Models of the collection; a format takes the file that its consumer reads, `.onnx` or `.tflite`.

One that came quantised is taken as the float model that it stands for, one without a fixed size with that of SHAPES.
"""
SHAPES = {"ppocr_det": {"x": (1, 3, 64, 96)}}
TEXTS = "ppocr_det"
"""What finds nothing in noise: its inputs are windows of pages in which it finds text."""
BRANCHING = ("ultraface", "ppocr_det", "shufflenet_v2", "yolox_nano")
"""Those with branches, and gathers or slices between them."""
SHARES = {"tuned, a half": 0.5, "tuned, a quarter": 0.25}
"""How much of what everything at 8 bits loses a tuned plan may lose."""
ACUITY = "acuity-quantize"
HIGH = {"onnx-qdq": "i16", "onnx-grid": "i16", "onnxruntime": "i16", "ai-edge-quantizer": "w8a16", ACUITY: "i16"}
FORMATS = (*HIGH, "nncf", "openvino")
LOW, FLOAT = parse_placement("vsi:v853@i8pc"), parse_placement("cpu@fp32")
_SAMPLES, _CALIBRATED, _TUNED = 48, 20, 10
_LIMIT_S = 600.0
_IR_VERSION = 8
"""The version of ONNX files that every consumer reads."""
_NEAR = 0.005
"""A given score so near to the prediction is as predicted."""
_SHIFT, _SHIFTS = 1e-4, 4
_PLANS = 16
"""Plans that a search tries before it takes what it has."""
_HEADS = ("format", "model", "plan", "moved", "nodes as planned", "predicted", "given", "read by")


@dataclass(frozen=True, slots=True)
class Row:
    """One plan of one model in one format; `moved` are nodes that the nearest plan has elsewhere."""

    format: str
    model: str
    plan: str
    moved: int
    nodes: int
    honoured: int
    predicted: float | None
    given: float | None
    consumer: str
    reason: str
    seconds: float
    commit: str
    """Of Dovetail, when it was measured."""
    samples: int = 4
    """Random inputs that it was scored on; rows from before it was written down have this many."""
    spread: float = 0.0
    """By how much the scores move, prediction or given, where inputs move by a ten-thousandth of their range; of rows
    whose two scores are apart."""

    @property
    def named(self) -> tuple[str, str]:
        """Return the format and the model."""
        return self.format, self.model


@dataclass(frozen=True, slots=True)
class Case:
    """A model in a format; `listing` is what the format names layers by, where it needs that."""

    model: str
    path: Path
    graph: Graph
    format: str
    listing: bytes | None

    @property
    def high(self) -> Placement:
        """Return where what 8 bits break goes."""
        return parse_placement(f"vsi:v853@{HIGH[self.format]}") if self.format in HIGH else FLOAT


def main() -> int:
    """Measure every row and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", choices=tuple(FILES), help="only this model; may be repeated")
    parser.add_argument("--format", action="append", choices=FORMATS, help="only this format; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="seed of the drawn plans (default: %(default)s)")
    parser.add_argument("--page", type=Path, help="where the page goes")
    parser.add_argument("--keep", type=Path, help="file of rows: what is in it is not measured again")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    keep: Path | None = options.keep
    kept = keep.read_text(encoding="utf-8").splitlines() if keep is not None and keep.exists() else []
    rows = [Row(**json.loads(line)) for line in kept]
    for name in options.format or FORMATS:
        for model in options.model or FILES:
            for row in _rows(model, name, options.seed, {item.plan for item in rows if item.named == (name, model)}):
                rows.append(row)
                print(json.dumps(asdict(row)), flush=True)
                if keep is not None:
                    keep.write_text("".join(json.dumps(asdict(item)) + "\n" for item in rows), encoding="utf-8")
    if options.page is not None:
        options.page.write_text(page(rows, options.seed), encoding="utf-8")
    return 0


def _rows(model: str, name: str, seed: int, known: Collection[str]) -> Iterator[Row]:
    consumer = find_consumer(name)
    path = models_root() / FILES[model].format("" if consumer is None else consumer.models[1:])
    if consumer is None or not path.is_file() or set(known) >= {"low", *SHARES, "drawn"}:
        return
    with tempfile.TemporaryDirectory(prefix="dovetail-") as folder:
        case = _opened(model, path, name, Path(folder))
        for label in ("low", *SHARES, "drawn"):
            if label not in known:
                yield measure(case, label, seed)


def _opened(model: str, path: Path, name: str, folder: Path) -> Case:
    """Return a float model of fixed size; its file is a copy where that of the collection is none."""
    shapes, copy = SHAPES.get(model, {}), folder / "model.onnx"
    graph = dovetail.normalize(dovetail.load_model(path, dovetail.LoadOptions(shapes=shapes)))
    if shapes or is_quantized(graph):
        made = to_onnx(dequantize(graph).graph if is_quantized(graph) else graph)
        made.ir_version = min(made.ir_version, _IR_VERSION)
        copy.write_bytes(made.SerializeToString())
        path, graph = copy, dovetail.normalize(dovetail.load_model(copy))
    listing = path.read_bytes() if path.suffix == ".tflite" else None
    return Case(model, path, graph, name, _network(path, folder) if name == ACUITY else listing)


def _network(path: Path, folder: Path) -> bytes:
    """Return the network as Acuity imports it."""
    job = ConversionJob("acuity_network", {"path": str(path), "label": path.name}, folder, _LIMIT_S)
    answer = run_job(state_of(find_environment("acuity")), job, lambda _step, _share: None)
    return (folder / str(answer["network"])).read_bytes()


def _plan(case: Case, label: str, seed: int) -> Plan:
    if label == "low":
        return Plan(case.graph.digest, LOW)
    return drawn_plan(case, seed) if label == "drawn" else tuned_plan(case, SHARES[label])


def tuned_plan(case: Case, share: float) -> Plan:
    """Return the plan that a search for a format accepts; it may lose a share of what everything low loses."""
    graph, form = case.graph, find_format(case.format)
    samples = _samples(case, range(100, 100 + _TUNED))
    start = Plan(graph.digest, LOW)
    demands = None
    if isinstance(form, WordFormat):
        demands = demands_of(form, WriteRequest(start, graph, case.listing), LOW, (case.high, FLOAT))
    metric, own = choose_metric("noise", None, graph, samples), numerics_of(form)
    calibration = calibrate(graph, samples) if own is None else own.calibrate(graph, samples)
    asked = HandedRequest(graph, samples, ranges=calibration.ranges, metric="noise")
    lost = score_moved(graph, start, start, asked)
    request = TuneRequest(
        graph=graph,
        calibration=calibration,
        samples=samples,
        splits=split_samples(samples, SplitOptions(0.4, 0)),
        metric=metric.metric,
        goal=Goal(share * (lost.float_score - (lost.asked.value or 0.0))),
        low=LOW,
        ladder=(case.high,),
        options=TuneOptions(max_plans=_PLANS),
        demands=demands,
    )
    return tune(request).plan


def drawn_plan(case: Case, seed: int) -> Plan:
    """Return a plan with a quarter of the units elsewhere, at random."""
    rng, graph = random.Random(seed), case.graph
    away = [unit for unit in find_units(graph).items if rng.random() < 0.25]
    return Plan(graph.digest, LOW, {node: Override(case.high, f"seed {seed}") for unit in away for node in unit.nodes})


def _samples(case: Case, seeds: Sequence[int]) -> HeldSamples:
    feeds = _texts(case.graph, seeds) if case.model == TEXTS else [random_feeds(case.graph, seed) for seed in seeds]
    return HeldSamples([Sample(str(seed), item) for seed, item in zip(seeds, feeds, strict=True)])


@cache
def _windows(graph: Graph) -> list[AnyArray]:
    """Return the windows of pages in which the float model finds text in a tenth or more, in the page and alone.

    In a window without text all outputs are near 0, and their noise has no range to be a share of.
    """
    (name,), pages = graph.inputs, next(case for case in detectors.CASES if case.name == "ppocrv3_det")
    whole = dovetail.normalize(
        dovetail.load_model(models_root() / pages.file, dovetail.LoadOptions(shapes=pages.shapes))
    )
    height, width = graph.types[name].shape[2:]
    windows = []
    for sample in pages.open(whole, models_root()).samples:
        (page,) = sample.inputs.values()
        found = run_graph(whole, sample.inputs)[whole.outputs[0]]
        for top, left in product(range(0, page.shape[2] - height, 32), range(0, page.shape[3] - width, 32)):
            spot = np.s_[:, :, top : top + height, left : left + width]
            if _has_text(found[spot]) and _has_text(run_graph(graph, {name: page[spot]})[graph.outputs[0]]):
                windows.append(page[spot])
    return windows


def _has_text(found: AnyArray) -> bool:
    return bool(np.mean(found > 0.3) >= 0.1)


def _texts(graph: Graph, seeds: Sequence[int]) -> list[dict[str, AnyArray]]:
    """Return a window with text for each seed."""
    windows, (name,) = _windows(graph), graph.inputs
    return [{name: windows[int(np.random.default_rng(seed).integers(len(windows)))]} for seed in seeds]


def measure(case: Case, label: str, seed: int) -> Row:
    """Return what becomes of a plan in a format."""
    began, graph = time.perf_counter(), case.graph
    plan = asked = _plan(case, label, seed)
    samples = _samples(case, range(_SAMPLES))
    ranges = calibrate(graph, first_samples(samples, _CALIBRATED)).ranges
    form, content, consumer = find_format(case.format), case.path.read_bytes(), find_consumer(case.format)
    assert consumer is not None
    file = content if case.path.suffix == ".onnx" else None
    moved, predicted, given, reason, read, spread = 0, None, None, "", "-", 0.0
    nodes = honoured = 0
    try:
        asked_file = WriteRequest(plan, graph, case.listing, model=file)
        plan, written = _written(form, asked_file, None if case.format == ACUITY else ranges)
        moved = sum(plan.placement(node.name) != asked.placement(node.name) for node in graph.nodes)
        request = HandedRequest(graph, samples, ranges=ranges, metric="noise")
        asked_reading = ConsumerRequest(graph, plan, written, content, listing=case.listing)
        reading, score = read_scored(consumer, asked_reading, request)
        nodes, honoured = len(reading.nodes), len(reading.nodes) - len(reading.disobeyed)
        predicted, given, read = score.predicted.value, score.given, reading.consumer
        if predicted is not None and abs(given - predicted) > _NEAR:
            spread = _spread(consumer, asked_reading, request, (predicted, given))
    except DovetailError as error:
        reason = error.message[:200]
    return Row(
        format=case.format,
        model=case.model,
        plan=label,
        moved=moved,
        nodes=nodes,
        honoured=honoured,
        predicted=predicted,
        given=given,
        consumer=read,
        reason=reason,
        seconds=round(time.perf_counter() - began, 1),
        commit=machine.commit(),
        samples=_SAMPLES,
        spread=spread,
    )


def _spread(consumer: Consumer, asked: ConsumerRequest, request: HandedRequest, scores: tuple[float, float]) -> float:
    """Return by how much prediction or given score moves where all inputs move by a ten-thousandth of their range."""
    found = [[item] for item in scores]
    for seed in range(_SHIFTS):
        rng = np.random.default_rng(seed)
        shifted = [Sample(item.id, _shifted(item.inputs, rng)) for item in request.samples]
        score = read_scored(consumer, asked, replace(request, samples=HeldSamples(shifted)))[1]
        found[0].append(score.predicted.value or 0.0)
        found[1].append(score.given)
    return round(max(max(items) - min(items) for items in found), 4)


def _shifted(inputs: Mapping[str, AnyArray], rng: np.random.Generator) -> dict[str, AnyArray]:
    return {
        name: (value + _SHIFT * np.ptp(value) * rng.uniform(-1, 1, value.shape)).astype(value.dtype)
        for name, value in inputs.items()
    }


def _written(form: Format, request: WriteRequest, ranges: dovetail.Ranges | None) -> tuple[Plan, Written]:
    """Return the plan that is written; without ranges the toolchain finds its own."""

    def write(plan: Plan) -> Written:
        quantized = None if ranges is None else quantize(request.graph, plan, ranges)
        return form.write(replace(request, plan=plan, quantized=quantized))

    try:
        return request.plan, write(request.plan)
    except InexpressiblePlan as error:
        nearest = plan_from_json(error.nearest)
        return nearest, write(nearest)


def page(rows: Sequence[Row], seed: int) -> str:
    """Return the page."""
    read = [row for row in rows if not row.reason]
    branching = [name for name in BRANCHING if any(row.model == name for row in rows)]
    tuned = [row for row in read if row.plan.startswith("tuned")]
    off = [abs(row.given - row.predicted) for row in read if row.given is not None and row.predicted is not None]
    cells = [
        (
            f"`{row.format}`",
            row.model,
            row.plan,
            str(row.moved),
            f"{row.honoured} of {row.nodes}" if not row.reason else f"refused: {row.reason}",
            "-" if row.predicted is None else f"{row.predicted:.4f}",
            "-" if row.given is None else f"{row.given:.4f}",
            row.consumer,
        )
        for row in rows
    ]
    lines = [
        "# Exported plans, read by the programs that they are for",
        "",
        "Made by `python benchmarks/consumers_table.py --page docs/reference/consumers.md`; do not edit. The models are"
        " a collection that is not part of this repository.",
        "",
        *machine.facts(("dovetail", "onnxruntime", "openvino", "nncf", "ai-edge-quantizer", "ai-edge-litert")),
        "",
        f"`low`: everything in 8 bits; `tuned`: what `tune --for` the format accepts that loses so much of what `low`"
        f" loses of `noise` on {_TUNED} random inputs (of {TEXTS}: windows of pages with text), after at most"
        f" {_PLANS} plans; `drawn` (seed {seed}): a quarter"
        f" of the units elsewhere. Branches and gathers: {', '.join(branching)}."
        " `moved`: nodes that the"
        " nearest plan has elsewhere, where a format cannot say the plan. `nodes as planned`: what `export` calls"
        f" honoured. `predicted` and `given`: the metric `noise` on random inputs ({_counts(rows)}), of the plan in"
        " simulation and of what the program computes. For ONNX Runtime it is simulated with the kernels of ONNX"
        " Runtime itself, run by Dovetail on what it quantised: what is compared is the file. All but `onnx-qdq` and"
        " `onnx-grid` find ranges of their own, by rules that the prediction follows (but Acuity's), as it"
        " does NNCF's rules of where to round; and OpenVINO computes in float.",
        "",
        f"{_share(read)} nodes as planned in {len(read)} exports; {len(rows) - len(read)} were refused."
        f" {sum(item <= _NEAR for item in off)} of {len(off)} scores are within {_NEAR} of the prediction."
        f"{_moving(read)} Of tuned"
        f" plans, {_share(tuned)} nodes in {len(tuned)} exports, {sum(row.moved for row in tuned)} moved.",
        "",
        f"Rows were measured at {', '.join(dict.fromkeys(row.commit for row in rows))}. Not measured:"
        f" {'; '.join(_unmeasured(rows)) or 'nothing'}.",
        "",
        markdown(_HEADS, cells),
    ]
    return "\n".join(lines) + "\n"


def _counts(rows: Sequence[Row]) -> str:
    """Return on how many inputs rows were scored."""
    formats: dict[int, dict[str, None]] = {}
    for row in rows:
        formats.setdefault(row.samples, {})[row.format] = None
    most = max(formats, key=lambda count: len(formats[count]), default=_SAMPLES)
    others = (f"{count} for `{'`, `'.join(names)}`" for count, names in formats.items() if count != most)
    return "; ".join((str(most), *others))


def _moving(rows: Sequence[Row]) -> str:
    """Return what is known of the scores that are not as predicted: by how much they move with their inputs."""
    texts = [
        f"`{row.format}` on {row.model}, {row.plan}: {abs(row.given - row.predicted):.4f} apart, moving by"
        f" {row.spread:.4f}"
        for row in rows
        if row.given is not None and row.predicted is not None and abs(row.given - row.predicted) > _NEAR
    ]
    if not texts:
        return ""
    return (
        " Of the others, how far the two are apart, and how far one of them moves by itself where all inputs, those of"
        f" the calibration too, move by up to {_SHIFT} of their range: {'; '.join(texts)}."
    )


def _share(rows: Sequence[Row]) -> str:
    return f"{sum(row.honoured for row in rows)} of {sum(row.nodes for row in rows)}"


def _unmeasured(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the plans of a model in a format that no row is about, where the format has others."""
    plans = ("low", *SHARES, "drawn")
    for name in FORMATS:
        models = dict.fromkeys(row.model for row in rows if row.format == name)
        if not models:
            yield f"`{name}`"
        for model in models:
            known = {row.plan for row in rows if row.named == (name, model)}
            if missing := [plan for plan in plans if plan not in known]:
                yield f"`{name}` of {model}: {', '.join(missing)}"


if __name__ == "__main__":
    sys.exit(main())
