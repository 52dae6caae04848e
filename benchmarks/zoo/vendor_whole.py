"""Whole models and mixed plans on VeriSilicon's simulator: the rows that `vendor_run.py` prints."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import dovetail
from dovetail.backend.protocols import CompileOptions, Executable, Signature
from dovetail.backend.registry import backend, find_target
from dovetail.compare import VerifyRequest, load_metric, verify
from dovetail.compare.steps import Steps, compare_steps
from dovetail.data import Sample, open_samples, specs_of
from dovetail.ir import AnyArray
from dovetail.partition import Partition
from dovetail.plan import Rule, parse_placement

from .table import number

_DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
_WIDE = ("b4/dw*", "b4/project", "b2/expand*", "b2/dw*")
_TAIL = ("head/concat", "head/reshape", "head/transpose")
_OURS = "npusim"


@dataclass(frozen=True, slots=True)
class Case:
    """Describe a model cut for a part; samples are raw inputs, labelled where there is a metric."""

    title: str
    target: str
    precision: str
    parts: tuple[Partition, ...]
    outputs: tuple[str, ...]
    samples: tuple[Sample, ...]
    metric: str = ""
    """What `load_metric` takes."""


@dataclass(frozen=True, slots=True)
class Row:
    """Hold what a case gave: steps of what leaves the NPU, seconds a sample on the NPU, scores of both."""

    case: Case
    steps: Steps
    seconds: tuple[float, float]
    """Of the vendor's simulator, and of ours."""
    scores: tuple[float, float] | None
    first: str
    """The first operator that deviates."""

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the row of the table."""
        vendor, ours = self.seconds
        equal = self.steps.elements - self.steps.differing
        scores = "-" if self.scores is None else f"{self.scores[0]:g} and {self.scores[1]:g}"
        times = (number(vendor, 3), number(ours, 5), f"{vendor / ours:.0f}x")
        counts = f"{equal} of {self.steps.elements}"
        named = histogram(self.steps) + (f"; {self.first}" if self.first else "")
        return (self.case.title, self.case.target, self.case.precision, counts, named, scores, *times)


HEADINGS = ("model", "part", "precision", "equal", "steps", "score of both", "vendor s", "npusim s", "ratio")


def histogram(steps: Steps) -> str:
    """Return how many elements differ by how many steps."""
    found = [f"{count} by {size}" for size, count in enumerate(steps.counts) if size and count]
    return ", ".join(found) if found else "none differs"


def digit_cases(count: int) -> list[Case]:
    """Return the digit detector in 8 bits, with a 16-bit tail, and split between NPU and CPU."""
    wide = tuple(Rule(parse_placement("vsi:v853@i16"), node) for node in _WIDE)
    tail = tuple(Rule(parse_placement("vsi:v853@i16"), node) for node in _TAIL)
    head = Rule(parse_placement("cpu@fp32"), "head/*")
    return [
        _digits("digits", "vsi:v853@u8", (), count),
        _digits("digits", "vsi:v853@i8pc", (), count),
        _digits("digits", "vsi:a311d@u8", (), count),
        _digits("digits, 16-bit tail", "vsi:v853@i8pc", (*tail, *wide), count),
        _digits("digits, NPU and CPU", "vsi:v853@i8pc", (*wide, head), count),
    ]


def _digits(title: str, low: str, rules: tuple[Rule, ...], count: int) -> Case:
    graph = dovetail.normalize(dovetail.load_model(_DIGITS / "digits.onnx"))
    with np.load(_DIGITS / "calib.npz", allow_pickle=False) as file:
        calibration = [image[None].astype(np.float32) for image in file["images"]]
    ranges = dovetail.calibrate(graph, open_samples(calibration, specs_of(graph))).ranges
    placement = parse_placement(low)
    recipe = dovetail.Recipe(placement, (parse_placement("cpu@fp32"),), rules)
    targets = {name: find_target(name) for name in (placement.target, "cpu")}
    parts = dovetail.partition(dovetail.quantize(graph, dovetail.make_plan(graph, recipe, targets), ranges)).partitions
    samples = tuple(open_samples(_DIGITS / "eval.npz", specs_of(graph)).subset(range(count)))
    precisions = dict.fromkeys([placement.precision.value, *(rule.placement.precision.value for rule in rules)])
    metric = f"{_DIGITS / 'metric.py'}:score"
    return Case(title, placement.target, ", ".join(precisions), tuple(parts), graph.outputs, samples, metric)


def measure(case: Case) -> Row:
    """Return how far the vendor's simulator and ours agree on a case; inner operators are looked at where they do not.

    A piece of either is loaded once and runs once before it is timed.
    """
    (theirs, vendor), (ours, own) = (_values(case, name) for name in ("vsi", _OURS))
    leaving = [name for part in case.parts if part.target != "cpu" for name in part.graph.outputs]
    steps = Steps()
    for one, other in zip(theirs, ours, strict=True):
        for name in dict.fromkeys((*case.outputs, *leaving)):
            steps += compare_steps(one[name], other[name])
    scores = (_score(case, theirs), _score(case, ours)) if case.metric else None
    return Row(case, steps, (vendor, own), scores, _first(case) if steps.differing else "")


def _values(case: Case, npu: str) -> tuple[list[dict[str, AnyArray]], float]:
    """Return all tensors between partitions for each sample, and the seconds that a sample takes on the NPU."""
    found, taken = [dict(sample.inputs) for sample in case.samples], 0.0
    for part in case.parts:
        executable = _load(part, "cpu" if part.target == "cpu" else npu)
        fed = [{name: values[name] for name in part.graph.inputs} for values in found]
        executable.run(fed[0])
        times = []
        for values, given in zip(found, fed, strict=True):
            start = time.perf_counter()
            values.update(executable.run(given))
            times.append(time.perf_counter() - start)
        if part.target != "cpu":
            taken += statistics.median(times)
        executable.close()
    return found, taken


def _load(part: Partition, name: str) -> Executable:
    one, _types = backend(name), part.graph.types
    signature = Signature.of(part.graph)
    blob = one.compile(part.graph, find_target(part.target), CompileOptions())
    return next(device for device in one.devices() if device.accepts(part.target)).load(blob, signature)


def _score(case: Case, found: Sequence[Mapping[str, AnyArray]]) -> float:
    outputs = {name: np.concatenate([values[name] for values in found]) for name in case.outputs}
    labels = {name: np.stack([sample.labels[name] for sample in case.samples]) for name in case.samples[0].labels}
    return float(load_metric(case.metric).score(outputs, labels))


def _first(case: Case) -> str:
    """Return the first operator that gives something else from the same inputs."""
    samples = [sample.inputs for sample in case.samples[:1]]
    first = verify(case.parts, case.outputs, samples, VerifyRequest(operator_samples=1)).first_deviation
    if first is None:
        return "no operator alone: it is what the vendor's compiler joins"
    return f"first {first.op} {first.node}: {histogram(first.steps)}"
