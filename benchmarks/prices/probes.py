"""What the vendor's model says of generated networks: asked once, kept in a file that grows."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import dovetail
from dovetail.backend.modelled import BoardSettings, ModelledGraph, OperatorCycles
from dovetail.backend.registry import backend
from dovetail.backend.target import Engine
from dovetail.cost import OperatorRow
from dovetail.cost.modelled import attribute
from dovetail.cost.stated import stated_ranges
from dovetail.errors import DovetailError
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.partition import Partition, partition
from dovetail.plan import Plan, find_units
from dovetail.plan.plan import Override
from dovetail.quantize.quantizer import quantize

MIXED = "+"
_RAISED = 0.35
"""Share of the units that are raised where precisions are mixed."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The answers for one network at one placement: a modelled graph for each partition, or why there is none."""

    name: str
    place: str
    answers: tuple[ModelledGraph, ...]
    error: str = ""


@dataclass(frozen=True, slots=True)
class Conversion:
    """What bringing a tensor to a precision takes."""

    precision: Precision
    elements: int
    cycles: int


def plan_of(graph: Graph, place: str) -> Plan:
    """Return the plan with everything at a placement, and on the CPU what is refused there.

    Behind a `+` stands a precision to which units are raised, drawn by the graph's name: `vsi:v853@u8+i16`.
    """
    place, _, raised = place.partition(MIXED)
    placement, host = dovetail.parse_placement(place), dovetail.parse_placement("cpu@fp32")
    targets = {name: dovetail.find_target(name) for name in (placement.target, host.target)}
    plan = dovetail.make_plan(graph, dovetail.Recipe(placement, (host,)), targets)
    if not raised:
        return plan
    above = dovetail.parse_placement(f"{placement.target}@{raised}")
    high = dovetail.make_plan(graph, dovetail.Recipe(above, (host,)), targets)
    rng = np.random.default_rng(zlib.crc32(graph.name.encode()))
    units = [unit for unit in find_units(graph).items if rng.random() < _RAISED]
    moved = {name: Override(high.placement(name), "drawn") for unit in units for name in unit.nodes}
    return replace(plan, overrides={**plan.overrides, **moved})


def partitions_of(graph: Graph, plan: Plan) -> list[Partition]:
    """Return the partitions of a plan that its default target runs."""
    parts = partition(quantize(graph, plan, stated_ranges(graph))).partitions
    return [part for part in parts if part.target == plan.default.target]


def ask(name: str, graph: Graph, place: str) -> Probe:
    """Ask the vendor's model about a network; needs the SDK."""
    model = backend("vsi").abilities().model_cycles
    assert model is not None
    try:
        plan = plan_of(graph, place)
        target = dovetail.find_target(plan.default.target)
        answers = tuple(model(part.graph, target, BoardSettings()) for part in partitions_of(graph, plan))
    except DovetailError as error:
        return Probe(name, place, (), error.message)
    return Probe(name, place, answers)


def rows_of(graph: Graph, probe: Probe) -> dict[str, OperatorRow]:
    """Return what each node takes by the model's answers; conversions that the plan put in are left out."""
    return {row.node: row for _, row in _rows(graph, probe) if row.precision is not None}


def conversions_of(graph: Graph, probe: Probe) -> Iterator[Conversion]:
    """Return what the conversions take that the plan put in between its precisions."""
    raised = Precision(probe.place.partition(MIXED)[2])
    low = dovetail.parse_placement(probe.place.partition(MIXED)[0]).precision
    for part, row in _rows(graph, probe):
        if row.precision is None:
            made = part.node(row.node).outputs[0]
            precision = raised if part.types[made].dtype is raised.activation.dtype else low
            yield Conversion(precision, part.element_counts[made], row.cycles)


def _rows(graph: Graph, probe: Probe) -> Iterator[tuple[Graph, OperatorRow]]:
    plan = plan_of(graph, probe.place)
    for part, answer in zip(partitions_of(graph, plan), probe.answers, strict=True):
        yield from ((part.graph, row) for row in attribute(graph, plan, part, answer).rows)


def read_probes(path: Path) -> Iterator[Probe]:
    """Return the probes in a file; a last line that was cut off is left out."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        yield Probe(entry["name"], entry["place"], tuple(map(_answer, entry["answers"])), entry["error"])


def append_probe(path: Path, probe: Probe) -> None:
    """Add a probe to a file."""
    answers = [{**asdict(item), "facts": {}} for item in probe.answers]
    for answer in answers:
        answer["operators"] = [{**row, "engine": row["engine"].value} for row in answer["operators"]]
    entry = {"name": probe.name, "place": probe.place, "error": probe.error, "answers": answers}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def _answer(entry: dict[str, object]) -> ModelledGraph:
    rows = entry.pop("operators")
    assert isinstance(rows, list)
    operators = tuple(OperatorCycles(**{**row, "engine": Engine(row["engine"])}) for row in rows)
    return ModelledGraph(operators=operators, **entry)  # type: ignore[arg-type]
