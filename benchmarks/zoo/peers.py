"""Other tools' searches on the same problem, counted the same way."""

from __future__ import annotations

import itertools
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import dovetail
from dovetail.plan import parse_placement
from dovetail.search import parse_goal
from zoo.priced import Pricer
from zoo.tasks import Task

_QUANTISERS = frozenset({"QuantizeLinear", "DequantizeLinear"})


class Clock:
    """Take wall and processor time; the second is the one that other work on the machine disturbs little."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def wall_s(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self._wall

    def cpu_s(self) -> float:
        """Return the seconds that all threads of this process have computed since the start."""
        return time.process_time() - self._cpu


class OutOfTime(Exception):
    """A tool has had its time."""


class PeerMissing(Exception):
    """A tool is not installed."""


@dataclass(frozen=True, slots=True)
class Found:
    """Hold what a tool found; nodes are those of the model that compute, not Q and DQ."""

    tool: str
    nodes_at_start: int
    nodes_raised: int
    units_raised: int | None
    calls: int
    full_equivalents: float
    wall_s: float
    cpu_s: float
    search_score: float
    holdout_score: float
    finished: bool
    note: str = ""
    latency_ms: float | None = None
    """What our cost model says of the plan, with all that is not 8 bits on the CPU unless it is 16 bits."""
    bound_ms: float | None = None
    """What no plan that passes can be below; only our search has one."""
    lost: float | None = None
    """Loss of the plan on the hold-out split in our exact simulation of the target."""
    holds: bool = False
    """Whether that is within the goal."""


class Meter:
    """Score ONNX models on one split of a task, counting calls and samples."""

    def __init__(self, task: Task, indices: Sequence[int], batch: int | None = None) -> None:
        self._task = task
        self._batch = batch or task.batch
        self._indices = np.asarray(indices)
        self.calls = 0
        self.samples = 0

    @property
    def full_equivalents(self) -> float:
        """Return how many passes over the split the samples so far make."""
        return self.samples / len(self._indices)

    def per_sample(self, model: onnx.ModelProto, picks: NDArray[Any] | None = None) -> NDArray[np.float64]:
        """Return the scores of a model on the split, or on some of its positions."""
        rows = self._indices if picks is None else self._indices[picks]
        self.calls += 1
        self.samples += len(rows)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        # Q/DQ stay as they are: integer kernels of CPUs without VNNI saturate and would judge another model.
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        names = [item.name for item in session.get_outputs()]
        runs = [
            session.run(names, {self._task.input: self._task.inputs[rows[start : start + self._batch]]})
            for start in range(0, len(rows), self._batch)
        ]
        outputs = {name: np.concatenate([run[index] for run in runs]) for index, name in enumerate(names)}
        scores = self._task.metric.per_sample(outputs, {key: value[rows] for key, value in self._task.labels.items()})
        assert scores is not None
        return scores

    def score(self, model: onnx.ModelProto) -> float:
        """Return the mean score of a model on the split."""
        return float(self.per_sample(model).mean())


def quantised_nodes(model: onnx.ModelProto) -> set[str]:
    """Return the nodes that read a dequantised activation."""
    constants = {item.name for item in model.graph.initializer}
    fed = {
        node.output[0]
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] not in constants
    }
    made = {name: node for node in model.graph.node for name in node.output}
    activations = {name for name in fed if _is_activation(made[made[name].input[0]], made, constants)}
    return {
        node.name
        for node in model.graph.node
        if node.op_type not in _QUANTISERS and any(name in activations for name in node.input)
    }


def _is_activation(quantiser: onnx.NodeProto, made: dict[str, onnx.NodeProto], constants: set[str]) -> bool:
    return quantiser.input[0] not in constants


def allowed_drop(task: Task, float_score: float) -> float:
    """Return the absolute loss that the task's goal allows."""
    return parse_goal(task.goal).allowance(float_score)


def _nncf() -> Any:
    try:
        import nncf  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise PeerMissing("nncf is not installed: pip install 'dovetail[bench]'") from error
    nncf.set_log_level(logging.ERROR)
    return nncf


def _quantisers(nncf: Any, task: Task) -> Any:
    """Return NNCF's settings for the task's precision; its defaults are signed, with a scale a channel of weights."""
    if task.per_channel:
        return None
    from nncf.quantization.advanced_parameters import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        AdvancedQuantizationParameters,
        QuantizationParameters,
    )

    scheme = nncf.common.quantization.structs.QuantizationScheme.ASYMMETRIC
    activations = QuantizationParameters(mode=scheme, per_channel=False)
    # NNCF's ONNX backend has no asymmetric weights.
    weights = QuantizationParameters(per_channel=False)
    return AdvancedQuantizationParameters(
        activations_quantization_params=activations, weights_quantization_params=weights
    )


def run_nncf(task: Task, limit_s: float, one_by_one: bool = False) -> Found:
    """Run NNCF's quantize_with_accuracy_control on its ONNX backend, ranked by the metric.

    Its own examples validate sample by sample; by default it is given our batches, which is faster.
    """
    nncf = _nncf()
    searched, held = task.parts()
    meter, holdout = Meter(task, searched, 1 if one_by_one else None), Meter(task, held)
    model = onnx.load(task.model)
    float_score = Meter(task, searched).score(model)
    clock = Clock()

    def validate(candidate: onnx.ModelProto, items: Iterable[int]) -> tuple[float, list[float]]:
        if clock.cpu_s() > limit_s:
            raise OutOfTime
        scores = meter.per_sample(candidate, np.fromiter(items, dtype=np.int64))
        return float(scores.mean()), scores.tolist()

    calibration = nncf.Dataset(list(task.calibration), lambda item: {task.input: item[None]})
    name = "NNCF accuracy control" + (", one by one" if one_by_one else "")
    whole = _quantised_by_nncf(task)
    clock = Clock()
    try:
        found = nncf.quantize_with_accuracy_control(
            model,
            calibration_dataset=calibration,
            validation_dataset=nncf.Dataset(range(len(searched))),
            validation_fn=validate,
            max_drop=allowed_drop(task, float_score),
            subset_size=len(task.calibration),
            advanced_quantization_parameters=_quantisers(nncf, task),
        )
    except OutOfTime:
        spent = (meter.calls, meter.full_equivalents, clock.wall_s(), clock.cpu_s())
        nan = float("nan")
        return Found(name, len(whole), 0, None, *spent, nan, nan, False, f"no plan after {limit_s:.0f} s of computing")
    wall_s, cpu_s = clock.wall_s(), clock.cpu_s()
    calls, full = meter.calls, meter.full_equivalents
    kept = quantised_nodes(found)
    priced = Pricer(task).price(kept)
    return Found(
        tool=name,
        nodes_at_start=len(whole),
        nodes_raised=len(whole - kept),
        units_raised=None,
        calls=calls,
        full_equivalents=full,
        wall_s=wall_s,
        cpu_s=cpu_s,
        search_score=meter.score(found),
        holdout_score=holdout.score(found),
        finished=True,
        note="quantises what its CPU configuration lists; the rest stays float",
        latency_ms=priced.latency_ms,
        lost=priced.loss,
        holds=priced.holds,
    )


def _quantised_by_nncf(task: Task) -> set[str]:
    """Return the nodes that NNCF quantises before its search."""
    nncf = _nncf()
    calibration = nncf.Dataset(list(task.calibration), lambda item: {task.input: item[None]})
    quantised = nncf.quantize(
        onnx.load(task.model),
        calibration,
        subset_size=len(task.calibration),
        advanced_parameters=_quantisers(nncf, task),
    )
    return quantised_nodes(quantised)


def left_float_by_nncf(task: Task) -> frozenset[str]:
    """Return the nodes of the units that NNCF does not quantise at all."""
    return Pricer(task).nodes_above(_quantised_by_nncf(task))


def left_float_by_ort(task: Task) -> frozenset[str]:
    """Return the nodes of the units that ONNX Runtime's quantize_static does not quantise at all."""
    with tempfile.TemporaryDirectory() as folder:
        quantised = quantised_nodes(_Excluder(task, Path(folder)).quantise(()))
    return Pricer(task).nodes_above(quantised)


class _Reader(CalibrationDataReader):
    def __init__(self, task: Task) -> None:
        self._items = iter({task.input: item[None]} for item in task.calibration)

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        return next(self._items, None)


class _Excluder:
    """Quantise with ONNX Runtime, leaving some nodes out."""

    def __init__(self, task: Task, folder: Path) -> None:
        self._task = task
        self._source, self._target = folder / "named.onnx", folder / "quantised.onnx"
        model = onnx.shape_inference.infer_shapes(onnx.load(task.model))
        for index, node in enumerate(model.graph.node):
            node.name = node.name or f"{node.op_type}_{index}"
        onnx.save(model, self._source)
        self.names = [node.name for node in model.graph.node]
        self._operators = sorted({node.op_type for node in model.graph.node})

    def quantise(self, excluded: Iterable[str]) -> onnx.ModelProto:
        quantize_static(
            self._source,
            self._target,
            _Reader(self._task),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=self._operators,
            nodes_to_exclude=sorted(excluded),
            per_channel=self._task.per_channel,
            activation_type=QuantType.QInt8 if self._task.per_channel else QuantType.QUInt8,
            weight_type=QuantType.QInt8 if self._task.per_channel else QuantType.QUInt8,
        )
        return onnx.load(self._target)


def _computed_low(model: onnx.ModelProto, excluded: Iterable[str]) -> set[str]:
    """Return the nodes that are quantised; one that was left out may read what another, quantised, has made."""
    return quantised_nodes(model) - set(excluded)


ANSWERS: dict[str, dovetail.Plan] = {}
"""The last plan that our search has found for a task."""


def items_of(task: Task) -> list[dict[str, NDArray[Any]]]:
    """Return every sample of a task with its labels."""
    return [
        {task.input: task.inputs[index][None], **{key: value[index] for key, value in task.labels.items()}}
        for index in range(len(task.inputs))
    ]


def run_exclude_loop(task: Task, quantise_one: bool, limit_s: float) -> Found:
    """Rank the nodes with ONNX Runtime's quantize_static, then leave out one more until the goal is met.

    `quantise_one` ranks by quantising one node alone, worst first; otherwise by restoring one, best first.
    """
    searched, held = task.parts()
    meter, holdout = Meter(task, searched), Meter(task, held)
    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        tool = _Excluder(task, Path(folder))
        float_score = Meter(task, searched).score(onnx.load(task.model))
        bar = float_score - allowed_drop(task, float_score) - 1e-12
        clock = Clock()

        def late() -> bool:
            return clock.cpu_s() > limit_s

        model = tool.quantise(())
        at_start, score = len(quantised_nodes(model)), meter.score(model)
        ranks: dict[str, float] = {}
        for name in tool.names if score < bar else ():
            excluded = set(tool.names) - {name} if quantise_one else {name}
            ranks[name] = meter.score(tool.quantise(excluded)) * (1 if quantise_one else -1)
            if late():
                break
        left_out: list[str] = []
        for name in sorted(ranks, key=ranks.__getitem__):
            if score >= bar or late():
                break
            left_out.append(name)
            model = tool.quantise(left_out)
            score = meter.score(model)
        wall_s, cpu_s = clock.wall_s(), clock.cpu_s()
    priced = Pricer(task).price(_computed_low(model, left_out))
    way = "quantise-one" if quantise_one else "restore-one"
    return Found(
        f"ORT exclude, {way}",
        at_start,
        len(left_out),
        None,
        meter.calls,
        meter.full_equivalents,
        wall_s,
        cpu_s,
        score,
        holdout.score(model),
        score >= bar,
        "" if score >= bar else f"stopped after {limit_s:.0f} s of computing",
        priced.latency_ms,
        lost=priced.loss,
        holds=priced.holds,
    )


def run_ddmin(task: Task, limit_s: float) -> Found:
    """Minimise the nodes that ONNX Runtime's quantize_static leaves out by ddmin, in the order of the file.

    Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002: halves, complements, then finer.
    """
    searched, held = task.parts()
    meter, holdout = Meter(task, searched), Meter(task, held)
    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        tool = _Excluder(task, Path(folder))
        float_score = Meter(task, searched).score(onnx.load(task.model))
        bar = float_score - allowed_drop(task, float_score) - 1e-12
        clock = Clock()
        at_start = len(quantised_nodes(tool.quantise(())))
        known: dict[frozenset[str], float] = {}

        def passes(names: Sequence[str]) -> bool:
            if clock.cpu_s() > limit_s:
                return False
            key = frozenset(names)
            if key not in known:
                known[key] = meter.score(tool.quantise(names))
            return known[key] >= bar

        kept = [] if passes(()) else list(tool.names)
        parts = 2
        while len(kept) >= 2 and clock.cpu_s() <= limit_s:
            edges = [len(kept) * index // parts for index in range(parts + 1)]
            chunks = [kept[start:stop] for start, stop in itertools.pairwise(edges)]
            rests = [[name for name in kept if name not in chunk] for chunk in chunks]
            smaller = next((chunk for chunk in chunks if passes(chunk)), None)
            fewer = None if smaller is not None else next((rest for rest in rests if passes(rest)), None)
            if smaller is not None:
                kept, parts = smaller, 2
            elif fewer is not None:
                kept, parts = fewer, max(2, parts - 1)
            elif parts >= len(kept):
                break
            else:
                parts = min(len(kept), 2 * parts)
        finished = clock.cpu_s() <= limit_s
        wall_s, cpu_s, calls, full = clock.wall_s(), clock.cpu_s(), meter.calls, meter.full_equivalents
        model = tool.quantise(kept)
        scores = meter.score(model), holdout.score(model)
    note = "" if finished else f"stopped after {limit_s:.0f} s of computing"
    priced = Pricer(task).price(_computed_low(model, kept))
    return Found(
        "ORT exclude, ddmin",
        at_start,
        len(kept),
        None,
        calls,
        full,
        wall_s,
        cpu_s,
        *scores,
        finished,
        note,
        priced.latency_ms,
        lost=priced.loss,
        holds=priced.holds,
    )


def run_ours(task: Task, high: str, pinned: Iterable[str] = (), whose: str = "") -> Found:
    """Run dovetail tune, calibration included; `pinned` nodes stay float on the CPU, as with the tool `whose`."""
    from dovetail.data import open_samples, specs_of, split_samples
    from dovetail.plan import Recipe, Rule
    from dovetail.search import CostOptions

    clock = Clock()
    graph = dovetail.normalize(dovetail.load_model(task.model))
    rules = tuple(Rule(parse_placement("cpu@fp32"), node=name) for name in pinned)
    specs = specs_of(graph)
    calibration = dovetail.calibrate(graph, open_samples([item[None] for item in task.calibration], specs))
    samples = open_samples(items_of(task), specs)
    calls, low, step = _Calls(), parse_placement(task.low), parse_placement(high)
    request = dovetail.TuneRequest(
        graph=graph,
        calibration=calibration,
        samples=samples,
        splits=split_samples(samples),
        metric=task.metric,
        goal=parse_goal(task.goal),
        low=low,
        ladder=(step,),
        wishes=Recipe(low, (step,), rules) if rules else None,
        # The cheapest plan there is, even if a unit that is raised for it saves a thousandth.
        costs=CostOptions(worthwhile=0.0),
    )
    result = dovetail.tune(request, calls)
    ANSWERS[task.name] = result.plan
    proof = result.certificate
    exact = result.holdout.tuned_exact
    return Found(
        tool=f"dovetail, up to {high}" + (f", {whose}'s nodes" if whose else ""),
        nodes_at_start=len(graph.nodes) - len(rules),
        nodes_raised=sum(len(item.nodes) for item in result.raised),
        units_raised=len(result.raised),
        calls=calls.trials,
        full_equivalents=result.cost.full_equivalents,
        wall_s=clock.wall_s(),
        cpu_s=clock.cpu_s(),
        search_score=result.search.tuned,
        holdout_score=result.holdout.tuned,
        finished=result.accepted,
        note=f"{result.unit_count} units" + ("" if result.accepted else f"; {result.summary}"),
        latency_ms=None if proof is None else proof.cost.latency_ns / 1e6,
        bound_ms=None if proof is None else proof.lower_bound_ns / 1e6,
        lost=None if exact is None else result.holdout.float_score - exact,
        holds=result.accepted,
    )


class _Calls:
    def __init__(self) -> None:
        self.trials = 0

    def stage(self, title: str) -> None:
        pass

    def trial(self, trial: object) -> None:
        self.trials += 1


Runner = Callable[[], Found]
