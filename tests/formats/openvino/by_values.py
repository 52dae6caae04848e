"""Which numbers the operators of a quantised OpenVINO model read, told by values alone.

Nothing is known here of FakeQuantize: a tensor is rounded where it has no more than 256 values and is not what its
maker makes, and a weight where it is not what the model had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import openvino

from dovetail.ir import AnyArray, Graph
from dovetail.plan import Plan

LEVELS = 256
_SUMS = ("Add", "Subtract")
Values = Mapping[tuple[str, int], AnyArray]


@dataclass(frozen=True)
class Edge:
    """A tensor that an operator of a node computes with."""

    maker: str
    """The operator that makes it, in the model before."""
    rounded: bool | None
    """Whether it has few values and is not what its maker makes; None where too few are made to tell."""


@dataclass(frozen=True)
class Reads:
    """What the operators of one node read."""

    edges: tuple[Edge, ...]
    weights: bool
    """Whether some constant is not what it was."""


def regions(model: openvino.Model, graph: Graph) -> Mapping[str, list[Any]]:
    """Return the operators of every node: those between the tensors that it reads and the one that it makes."""
    working = [op for op in model.get_ordered_ops() if op.get_type_name() != "Result"]
    made = {name: value.get_node() for op in working for value in op.outputs() for name in value.get_names()}
    return {
        node.name: list(_region(made[node.outputs[0]], {made.get(name) for name in node.inputs}))
        for node in graph.nodes
    }


def _region(last: Any, stops: set[Any]) -> Iterator[Any]:
    stopped = {item.get_friendly_name() for item in stops if item is not None}
    waiting, seen = [last], set()
    while waiting:
        op = waiting.pop()
        name = op.get_friendly_name()
        if name in seen or op.get_type_name() == "Parameter" or _constant(op) or (name in stopped and op is not last):
            continue
        if not any(value.get_element_type().is_real() for value in op.outputs()):
            # Shapes: no real is computed with.
            continue
        seen.add(name)
        yield op
        waiting += [value.get_node() for value in op.input_values()]


def all_values(model: openvino.Model, feeds: Mapping[str, AnyArray]) -> Values:
    """Return every real tensor of a model, by operator and output, as OpenVINO's CPU computes it."""
    clone = model.clone()
    keys, wanted = [], []
    for op in clone.get_ordered_ops():
        if op.get_type_name() in ("Result", "Parameter"):
            continue
        for index, value in enumerate(op.outputs()):
            if value.get_element_type().is_real():
                keys.append((op.get_friendly_name(), index))
                wanted.append(value)
    probe = openvino.Model(wanted, clone.get_parameters(), "probe")
    compiled = openvino.Core().compile_model(probe, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled(dict(feeds))
    values = {key: np.asarray(found[index]) for index, key in enumerate(keys)}
    return values | {(name, 0): np.asarray(value) for name, value in feeds.items()}


@dataclass(frozen=True)
class Judge:
    """A float model and what a quantiser made of it, both with all of their values."""

    before: openvino.Model
    after: openvino.Model
    feeds: Mapping[str, AnyArray]

    def reads(self, graph: Graph) -> Mapping[str, Reads]:
        """Return what every node reads in the model after."""
        floats, given = all_values(self.before, self.feeds), all_values(self.after, self.feeds)
        kept = {op.get_friendly_name(): op for op in self.after.get_ordered_ops()}
        return {
            name: self._node(ops, kept, floats, given)
            for name, ops in regions(self.before, graph).items()
            if all(op.get_friendly_name() in kept for op in ops)
        }

    def _node(self, ops: list[Any], kept: Mapping[str, Any], floats: Values, given: Values) -> Reads:
        inside = {op.get_friendly_name() for op in ops}
        edges, weights = [], False
        for op in ops:
            now = kept[op.get_friendly_name()]
            for old, new in zip(op.input_values(), now.input_values(), strict=True):
                maker = old.get_node().get_friendly_name()
                if not old.get_element_type().is_real() or maker in inside:
                    continue
                key, other = (maker, old.get_index()), (new.get_node().get_friendly_name(), new.get_index())
                if _constant(old.get_node()):
                    # A sum's constant may be a bias that the quantiser has corrected.
                    same = op.get_type_name() in _SUMS or np.array_equal(floats[key], given[other])
                    weights = weights or not same
                elif np.unique(floats[key]).size <= 2 * LEVELS:
                    edges.append(Edge(maker, None))
                else:
                    edges.append(Edge(maker, _rounded(given[key], given[other])))
        return Reads(tuple(edges), weights)


def _rounded(made: AnyArray, read: AnyArray) -> bool | None:
    if np.array_equal(made, read):
        return None if _few(made) else False
    return _few(read) if np.unique(made).size > 1 else None


def _few(value: AnyArray) -> bool:
    """Tell whether every channel has few values: before a depthwise convolution each has a scale of its own."""
    return max(np.unique(channel).size for channel in value[0]) <= LEVELS and np.unique(value).size < value.size


def _constant(op: Any) -> bool:
    if op.get_type_name() == "Constant":
        return True
    reads = op.input_values()
    return len(reads) > 0 and all(_constant(value.get_node()) for value in reads)


_MOVES = frozenset({"Reshape", "Transpose", "MaxPool", "Concat", "Split", "Slice", "Squeeze", "Flatten"})
_CLAMPS = frozenset({"Relu", "Clip"})
Verdict = bool | None


def _all(found: Iterable[Verdict]) -> Verdict:
    values = list(found)
    return False if False in values else None if None in values else True


@dataclass(frozen=True)
class Obeyed:
    """Whether a plan is obeyed by every node, told from what the nodes read."""

    graph: Graph
    plan: Plan
    reads: Mapping[str, Reads]
    owner: Mapping[str, str]
    """The node of every operator of the model before."""

    def verdicts(self) -> Mapping[str, Verdict]:
        """Return the answer for every node that computes; None where values do not tell."""
        nodes = {name: read for name, read in self.reads.items() if self._op(name) not in _MOVES}
        return {name: self._in_bytes(name) if self._quantised(name) else self._in_float(name) for name in nodes}

    def _op(self, name: str) -> str:
        return self.graph.node(name).op

    def _maker(self, edge: Edge) -> str | None:
        """Return the node that makes a tensor, where it is one of those that are read."""
        name = self.owner.get(edge.maker)
        return name if name in self.reads else None

    def _quantised(self, name: str) -> bool:
        return self.plan.placement(name).precision.is_quantized

    def _moved_by(self, edge: Edge) -> str | None:
        name = self._maker(edge)
        return name if name is not None and self._op(name) in _MOVES else None

    def _rounded(self, edge: Edge) -> Verdict:
        mover = self._moved_by(edge)
        if edge.rounded or mover is None:
            return edge.rounded
        before = _all(self._rounded(item) for item in self.reads[mover].edges)
        return (before or None) if edge.rounded is None else before

    def _in_bytes(self, name: str) -> Verdict:
        found = []
        for edge in self.reads[name].edges:
            value = self._rounded(edge)
            if value is False and self._op(name) in _CLAMPS:
                value = self._joined(edge)
            found.append(value)
        return _all(found)

    def _joined(self, edge: Edge) -> Verdict:
        """Tell whether what a clamp reads comes out of bytes: it is joined to that, past what only moves numbers."""
        mover, maker = self._moved_by(edge), self._maker(edge)
        if mover is None:
            return False if maker is None else self._in_bytes(maker)
        found = [(item, self._rounded(item)) for item in self.reads[mover].edges]
        return _all(self._joined(item) if value is False else value for item, value in found)

    def _in_float(self, name: str) -> Verdict:
        wrong = [self._for_float(edge) for edge in self.reads[name].edges]
        return False if self.reads[name].weights or True in wrong else None if None in wrong else True

    def _for_float(self, edge: Edge) -> Verdict:
        """Tell whether a tensor is rounded though nothing in bytes makes it."""
        mover, maker = self._moved_by(edge), self.owner.get(edge.maker)
        if mover is not None:
            if edge.rounded:
                return any(end is None or not self._quantised(end) for end in self._ends(mover))
            before = [self._for_float(item) for item in self.reads[mover].edges]
            return True if True in before else None if None in before else False
        return edge.rounded and (maker is None or not self._quantised(maker))

    def _ends(self, mover: str) -> Iterator[str | None]:
        for edge in self.reads[mover].edges:
            other = self._moved_by(edge)
            if other is None:
                yield self.owner.get(edge.maker)
            else:
                yield from self._ends(other)


def verdicts(graph: Graph, plan: Plan, judge: Judge) -> Mapping[str, Verdict]:
    """Return whether each node that computes is as a plan says; None where values do not tell."""
    owner = {op.get_friendly_name(): name for name, ops in regions(judge.before, graph).items() for op in ops}
    return Obeyed(graph, plan, judge.reads(graph), owner).verdicts()
