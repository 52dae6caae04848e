"""What the vendor's model says of generated networks: asked once, kept in a file that grows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import dovetail
from dovetail.backend.modelled import BoardSettings, ModelledGraph, OperatorCycles
from dovetail.backend.registry import backend
from dovetail.backend.target import Engine
from dovetail.cost.modelled import stated_ranges
from dovetail.errors import DovetailError
from dovetail.ir import Graph
from dovetail.partition import partition
from dovetail.plan import Plan
from dovetail.quantize.quantizer import quantize
from prices.networks import network

PLACES: tuple[str, ...] = (
    *("vsi:v853@u8", "vsi:a311d@u8", "vsi:imx8mp@u8", "vsi:rv1126@u8"),
    *("vsi:v853@i16", "vsi:a311d@i16", "vsi:imx8mp@i16", "vsi:rv1126@i16"),
    "vsi:v853@i8pc",
    *("vsi:v853@i8", "vsi:a311d@i8", "vsi:imx8mp@i8", "vsi:rv1126@i8"),
)
"""Weights per channel run on the shaders of the older parts, of which the vendor's model knows only the traffic."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The answers for one network at one placement: a modelled graph for each partition, or why there is none."""

    seed: int
    place: str
    answers: tuple[ModelledGraph, ...]
    error: str = ""


def plan_of(graph: Graph, place: str) -> Plan:
    """Return the plan with everything at a placement, and on the CPU what is refused there."""
    placement, host = dovetail.parse_placement(place), dovetail.parse_placement("cpu@fp32")
    targets = {name: dovetail.find_target(name) for name in (placement.target, host.target)}
    return dovetail.make_plan(graph, dovetail.Recipe(placement, (host,)), targets)


def ask(seed: int, place: str) -> Probe:
    """Ask the vendor's model about the network of a seed; needs the SDK."""
    graph = dovetail.normalize(network(seed))
    target = place.partition("@")[0]
    model = backend("vsi").abilities().model_cycles
    assert model is not None
    try:
        quantized = quantize(graph, plan_of(graph, place), stated_ranges(graph))
        parts = [part for part in partition(quantized).partitions if part.target == target]
        answers = tuple(model(part.graph, dovetail.find_target(target), BoardSettings()) for part in parts)
    except DovetailError as error:
        return Probe(seed, place, (), error.message)
    return Probe(seed, place, answers)


def read_probes(path: Path) -> Iterator[Probe]:
    """Return the probes in a file; a last line that was cut off is left out."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        yield Probe(entry["seed"], entry["place"], tuple(map(_answer, entry["answers"])), entry["error"])


def append_probe(path: Path, probe: Probe) -> None:
    """Add a probe to a file."""
    entry = {"seed": probe.seed, "place": probe.place, "error": probe.error}
    answers = [{**asdict(item), "facts": {}} for item in probe.answers]
    for answer in answers:
        for row in answer["operators"]:
            row["engine"] = row["engine"].value
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**entry, "answers": answers}) + "\n")


def _answer(entry: dict[str, object]) -> ModelledGraph:
    rows = entry.pop("operators")
    assert isinstance(rows, list)
    operators = tuple(OperatorCycles(**{**row, "engine": Engine(row["engine"])}) for row in rows)
    return ModelledGraph(operators=operators, **entry)  # type: ignore[arg-type]
