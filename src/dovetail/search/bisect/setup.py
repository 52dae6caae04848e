"""What to bisect: the units of a model in the order of the prior, or lines that a person gives."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.errors import SearchError
from dovetail.ir.graph import Graph
from dovetail.plan.demands import ToolDemands
from dovetail.plan.placement import Placement
from dovetail.quantize.calibrate import Calibration
from dovetail.search.bisect.candidate import writer
from dovetail.search.bisect.noise import calibrate_on_noise
from dovetail.search.bisect.state import Setup
from dovetail.search.policy import PriorPolicy
from dovetail.search.prior import rank_units
from dovetail.search.space import Space, SpaceOptions, make_space

_TOPOLOGICAL = {"Concat": 4.0, "Exp": 4.0, "Pow": 4.0, "Div": 3.0, "Softmax": 2.0, "LayerNormalization": 2.0}
"""How many times as likely to do harm as others some operators are when nothing was measured. Judgement."""

_WORDS = {
    **dict.fromkeys(("concat", "cat", "exp", "pow", "div"), 4.0),
    **dict.fromkeys(("softmax", "layernorm", "layernormalization", "dw", "depthwise"), 2.0),
    **dict.fromkeys(("relu", "relu6", "clip", "identity", "dropout", "maxpool"), 0.2),
    **dict.fromkeys(("reshape", "flatten", "transpose", "permute", "squeeze", "unsqueeze", "slice", "split"), 0.2),
}
"""The same for words in names of lines: most exporters and most people name a node after its operator."""

_WORD = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+")

_LEAST = 0.01
"""The weight of a unit that the prior has nothing against."""


@dataclass(frozen=True, slots=True)
class BisectRequest:
    """How candidates are made: where the file goes, its format, and from where to where lines are raised."""

    candidate_path: str
    format: str
    low: Placement
    ladder: tuple[Placement, ...]
    certify: bool = False
    demands: ToolDemands | None = None
    """What the format can say: what it has as one is bisected as one."""


def setup_of_lines(lines: Sequence[str], request: BisectRequest) -> Setup:
    """Return the setup for plain lines; what a name says of its operator counts, and later ones a little, as heads do.

    Raises SearchError for no lines or lines that are there twice.
    """
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise SearchError("there are no lines to bisect.", hint="One name a line.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SearchError(f"the line '{twice}' is there twice.", hint="Every line needs a name of its own.")
    writer(request.format)
    weights = tuple(_named(name) * (1.0 + index / len(names)) for index, name in enumerate(names))
    return Setup(tuple(names), weights, request.candidate_path, request.format, request.certify)


def make_setup(graph: Graph, request: BisectRequest, calibration: Calibration | None = None) -> Setup:
    """Return the setup for a model, ordered by the noise of 8 bits.

    Without a calibration noise tells, and where the network cannot be fed noise, the operators and their order.
    """
    space = make_space(graph, request.low, request.ladder, options=SpaceOptions(demands=request.demands))
    known = calibration or calibrate_on_noise(graph)
    weights = _measured(space, known) if known is not None else _guessed(space)
    order = sorted(weights, key=lambda unit: weights[unit])
    units = space.units
    return Setup(
        lines=tuple(order),
        weights=tuple(weights[unit] for unit in order),
        candidate_path=request.candidate_path,
        format=request.format,
        certify=request.certify,
        nodes={unit: _sources(graph, units[unit].nodes) for unit in order},
        members={unit: units[unit].nodes for unit in order},
        base_plan=space.base.to_json(),
        raise_to={unit: str(space.ladders[unit][0]) for unit in order},
    )


def _named(line: str) -> float:
    """Return the weight that the last word of a name gives which says something of an operator."""
    words = [word.lower() for word in _WORD.findall(line)]
    joined = [first + second for first, second in itertools.pairwise(words)]
    known = [_WORDS[word] for word in (*words, *joined) if word in _WORDS]
    return known[-1] if known else 1.0


def _measured(space: Space, calibration: Calibration) -> dict[str, float]:
    return {item.unit: _LEAST + item.score**2 for item in rank_units(space, calibration, PriorPolicy())}


def _guessed(space: Space) -> dict[str, float]:
    count = len(space.units)
    weights: dict[str, float] = {}
    for index, (name, unit) in enumerate(space.units.items()):
        operators = (space.graph.node(node).op for node in unit.nodes)
        weights[name] = max(_TOPOLOGICAL.get(op, 1.0) for op in operators) * (1.0 + index / count)
    return weights


def _sources(graph: Graph, nodes: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for node in nodes for name in graph.node(node).origin))
