"""Advice before any search: which board is enough for a model, which size of input, and what rewrites bring."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dovetail.backend.registry import find_target, known_targets
from dovetail.backend.target import Target, TargetProfile
from dovetail.compare.verify import random_samples
from dovetail.cost import PlanCost, make_cost_model, units_of_plan
from dovetail.errors import CostError, DeviceNotFound, DovetailError, SearchError
from dovetail.fit.policy import choose_low
from dovetail.importers import LoadOptions, load_model
from dovetail.ir import AnyArray, Graph
from dovetail.ir.open_shapes import check_fixed
from dovetail.ir.precision import Precision
from dovetail.passes import NORMAL_FORM, normalize, run_passes
from dovetail.passes.base import Pass
from dovetail.plan import Plan, Recipe, make_plan
from dovetail.plan.placement import HOST, Placement, parse_placement
from dovetail.plan.resolve import placeable_units
from dovetail.quantize import dequantize, is_quantized
from dovetail.quantize.calibrate import load_float
from dovetail.repair import relative_error
from dovetail.report.advice import BoardRow, PassRow, SizeRow, StoredRow
from dovetail.sdk.location import verisilicon_folder
from dovetail.sdk.parts import simulated_parts

NAMED, SIMULATED = "named", "simulator"
"""Words for the parts that have a name here, and for all parts that an installed simulator knows."""
_FAMILY = "vsi:"
_SAMPLES = 4
_SEED = 0


@dataclass(frozen=True, slots=True)
class AdviceRequest:
    """Which model, for which boards."""

    model: Path
    load: LoadOptions = field(default_factory=LoadOptions)
    targets: tuple[str, ...] = (NAMED,)
    precision: str | None = None
    """None is what a search would start from: the first 8-bit one that the target prefers."""
    most_ms: float | None = None
    """A latency that is enough."""
    simulate_seconds: float = 0.0
    """How long the vendor's simulator may take for each rewrite that saves; 0 leaves it out."""


def survey_boards(request: AdviceRequest, advance: Callable[[int], None] = lambda done: None) -> tuple[BoardRow, ...]:
    """Return what a model takes on every board, those that are enough first, then the fastest first.

    Everything is at one precision, and on the CPU beside the NPU where the NPU refuses it; accuracy is not looked at.
    Raises LoadError where the model leaves the shape of an input open.
    """
    graph = float_graph(request.model, request.load)
    check_fixed(graph, "no board has a latency")
    rows: list[BoardRow] = []
    for done, name in enumerate(board_names(request.targets)):
        rows.append(board_row(graph, name, request))
        advance(done + 1)
    return tuple(sorted(rows, key=lambda row: (not row.enough, _order(row.latency_ns), row.target)))


def survey_stored(request: AdviceRequest, boards: Sequence[BoardRow]) -> tuple[StoredRow, ...]:
    """Return what a file quantised with a scale per channel takes as it is stored, where boards prefer one scale.

    Their arrays have no scales per channel, so that shaders compute its convolutions; a search takes it as the float
    model that it stands for. Nothing where the file is not stored so.
    """
    source = load_model(request.model, request.load)
    kinds = [source.types[name].quant for name in source.constants]
    if not any(quant is not None and quant.per_channel for quant in kinds):
        return ()
    graph, stored = float_graph(request.model, request.load), replace(request, precision=Precision.I8PC.value)
    coarse = [row for row in boards if row.precision not in ("", Precision.I8PC.value)]
    return tuple(StoredRow(board_row(graph, row.target, stored), row) for row in coarse)


def board_names(targets: Sequence[str]) -> tuple[str, ...]:
    """Return the targets that words and names stand for; raise DovetailError for unknown ones."""
    names: list[str] = []
    for item in targets:
        if item == NAMED:
            names += [target.name for target in known_targets() if target.name.startswith(_FAMILY)]
        elif item == SIMULATED:
            folder = verisilicon_folder()
            parts = simulated_parts(folder.sdk) if folder.has_sdk else ()
            if not parts:
                raise DeviceNotFound(
                    "no installed simulator lists its parts.", hint="Run 'dovetail sdk install verisilicon'."
                )
            names += [f"{_FAMILY}{part}" for part in parts]
        else:
            names.append(find_target(item).name)
    return tuple(dict.fromkeys(names))


def sweep_sizes(request: AdviceRequest, sizes: Sequence[int]) -> tuple[SizeRow, ...]:
    """Return what a model takes on the first board at several sizes of its picture, in the order given.

    Raises SearchError where the model has no single picture among its inputs, or a size is none.
    """
    graph = float_graph(request.model, request.load)
    pictures = [name for name in graph.inputs if len(graph.types[name].shape or ()) == 4]
    if len(pictures) != 1:
        raise SearchError(
            f"'{request.model}' has {len(pictures)} inputs of four axes; one is swept.", hint="Fix shapes one by one."
        )
    wrong = [size for size in sizes if not 0 < size <= 1 << 14]
    if wrong:
        raise SearchError(f"{wrong[0]} is no size of a picture.", hint="For example 224,256,288.", option="sizes")
    shape = graph.types[pictures[0]].shape or ()
    name = board_names(request.targets)[0]
    return tuple(_size(request, name, pictures[0], _sized(shape, size), size) for size in sizes)


def _sized(shape: Sequence[object], size: int) -> tuple[int, ...]:
    batch, *rest = (item if isinstance(item, int) else 1 for item in shape)
    # Pictures are [N, C, H, W] but for models of TensorFlow, whose last axis is the small one.
    last = rest[2] <= 4 < rest[0]
    return (batch, size, size, rest[2]) if last else (batch, rest[0], size, size)


def _size(request: AdviceRequest, target: str, picture: str, shape: tuple[int, ...], size: int) -> SizeRow:
    options = replace(request.load, shapes={**request.load.shapes, picture: shape})
    try:
        return SizeRow(size, board_row(float_graph(request.model, options), target, request))
    except DovetailError as error:
        return SizeRow(size, None, error.message)


def try_normal_form(request: AdviceRequest) -> tuple[PassRow, ...]:
    """Return what every pass of the normal form brings on the first board, alone and all together.

    The proof is the largest difference of the float outputs on random samples, as a share of the output's largest
    value. Raises DovetailError where the model cannot be run in float.
    """
    source = load_model(request.model, request.load)
    graph = dequantize(source).graph if is_quantized(source) else source
    samples = random_samples(graph, _SAMPLES, _SEED)
    target = board_names(request.targets)[0]
    before = board_row(graph, target, request)
    steps: list[tuple[str, tuple[Pass, ...]]] = [(step.name, (step,)) for step in dict.fromkeys(NORMAL_FORM)]
    rows = []
    for name, passes in [*steps, ("all", ())]:
        after = run_passes(graph, passes) if passes else normalize(graph, request.load.passes)
        if after is graph:
            continue
        error = float_change(graph, after, samples)
        rows.append(PassRow(name, len(graph.nodes), len(after.nodes), before, board_row(after, target, request), error))
    return tuple(rows)


def float_change(before: Graph, after: Graph, samples: Sequence[Mapping[str, AnyArray]]) -> float:
    """Return what the float outputs of two graphs differ by at most, as a share of an output's largest value.

    The largest of all samples: where a detector sees nothing, its output is the rounding of zero.
    """
    with closing(load_float(before)) as one, closing(load_float(after)) as other:
        pairs = [(one.run(sample), other.run(sample)) for sample in samples]
    changes = []
    for name in before.outputs:
        expected, measured = ([side[name] for side in sides] for sides in zip(*pairs, strict=True))
        if [item.shape for item in expected] != [item.shape for item in measured]:
            return math.inf
        flat = (np.concatenate([item.reshape(-1) for item in side]) for side in (expected, measured))
        changes.append(relative_error(*flat))
    return max(changes, default=0.0)


def float_graph(path: Path, options: LoadOptions) -> Graph:
    """Return a model in normal form, in float."""
    graph = normalize(load_model(path, options), options.passes)
    return dequantize(graph).graph if is_quantized(graph) else graph


def board_row(graph: Graph, name: str, request: AdviceRequest) -> BoardRow:
    """Return what a graph takes on a board."""
    try:
        target = find_target(name)
        low = choose_low(name, request.precision)
    except DovetailError as error:
        return BoardRow(name, "", why=error.message)
    host = parse_placement(f"{HOST}@fp32")
    targets = {name: target, HOST: find_target(HOST)}
    plan = make_plan(graph, Recipe(low, (host,)), targets)
    units = placeable_units(graph, low, targets)
    away = [unit for unit in units.items if plan.placement(unit.nodes[0]) != low]
    reasons = Counter(_reason(plan, unit.nodes[0], low) for unit in away)
    row = BoardRow(
        target=name,
        precision=low.precision.value,
        units=len(units.items),
        away=tuple(unit.name for unit in away),
        reasons=tuple(reason for reason, _ in reasons.most_common()),
    )
    try:
        cost = make_cost_model(graph, units_of_plan(units, plan), list(targets.values()), (), None).plan_cost(plan)
    except CostError as error:
        return replace(row, why=error.message)
    fits = request.most_ms is None or cost.latency_ns <= request.most_ms * 1e6
    return replace(
        row,
        latency_ns=cost.latency_ns,
        memory_bytes=cost.memory.total_bytes,
        partitions=cost.partition_count,
        enough=fits,
        sources=tuple(_sources(cost)),
        lender=_lender(target),
    )


def _lender(target: Target) -> str:
    """Return the board whose fitted prices a target has; nothing where they are its own, or none."""
    prices = target.hardware.prices if isinstance(target, TargetProfile) and target.hardware else None
    return prices.other if prices else ""


def _sources(cost: PlanCost) -> Iterator[str]:
    yield from dict.fromkeys(item.figure.quality.value for item in cost.units)


def _reason(plan: Plan, node: str, low: Placement) -> str:
    """Return why a node leaves, without the names of the placement and of the node."""
    text = plan.reason(node)
    return text.removeprefix(f"{low} refuses ").partition(": ")[2] or text


def _order(latency_ns: float | None) -> float:
    return math.inf if latency_ns is None else latency_ns
