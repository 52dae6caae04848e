"""Recurrent operators written otherwise: products, sums and functions, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dovetail.ir import AnyArray, Graph, Node
from dovetail.passes.rewrites.base import Rewrite, Scene

_DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "RNN": ("Tanh",),
    "GRU": ("Sigmoid", "Tanh"),
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
}
_PLAIN = {name.lower(): name for name in ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")}
_BENT = {"elu": ("Elu", 1.0), "leakyrelu": ("LeakyRelu", 0.01), "thresholdedrelu": ("ThresholdedRelu", 1.0)}
_Function = tuple[str, dict[str, object]]


@dataclass(frozen=True)
class UnrollRecurrent(Rewrite):
    """Write an LSTM, a GRU or an RNN of few steps as what it computes, gate by gate and step by step.

    What a gate takes from the input is one product for all steps. A state that is zero at first costs nothing there.
    Products are convolutions by one element over planes `[1, features, 1, samples]`: of two fully connected layers, a
    sum and a sigmoid, VeriSilicon's compiler makes something else on VIP9000, of two convolutions it does not.
    """

    name: ClassVar[str] = "unroll-recurrent"
    title: ClassVar[str] = "a recurrent operator as products and functions, step by step"
    any_outputs: ClassVar[bool] = True
    most: int = 100
    """Steps."""

    def fits(self, graph: Graph, node: Node) -> bool:
        """Tell whether it has fixed weights, known sizes, few steps, all of the same length, and known functions."""
        if node.op not in _DEFAULTS or node.integer("layout", 0) != 0:
            return False
        shape = graph.types[node.inputs[0]].static_shape
        if shape is None or not 0 < shape[0] <= self.most or 0 in shape:
            return False
        fixed = [_given(node, index) for index in (1, 2, 3, 7)]
        if any(name and name not in graph.constants for name in fixed) or _functions(node) is None:
            return False
        starts = [name for name in (_given(node, 5), _given(node, 6)) if name]
        lengths = graph.constants.get(_given(node, 4)) if _given(node, 4) else np.array(shape[0])
        known = all(graph.types[name].static_shape is not None for name in starts)
        return known and lengths is not None and bool(np.all(lengths == shape[0]))

    def build(self, scene: Scene, node: Node) -> None:
        """Put the steps of each direction in its place, and what puts their states together."""
        functions = _functions(node)
        assert functions is not None
        scene.remove(node)
        runs = [_Direction(scene, node, index, functions[index]).run() for index in range(len(functions))]
        states = [[run.steps[time] for time in sorted(run.steps)] for run in runs]
        _join_steps(scene, node, states)
        for place, last in ((1, [run.last for run in runs]), (2, [run.memory for run in runs])):
            if len(node.outputs) > place and node.outputs[place]:
                _join_states(scene, node, last, node.outputs[place])


def _given(node: Node, index: int) -> str:
    return node.inputs[index] if len(node.inputs) > index else ""


def _functions(node: Node) -> list[list[_Function]] | None:
    """Return the functions of each direction as operators with attributes; None where one is unknown."""
    direction = node.text("direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    default = _DEFAULTS[node.op]
    names = node.attributes.get("activations") or default * count
    alphas, betas = (_numbers(node, name) for name in ("activation_alpha", "activation_beta"))
    if not isinstance(names, tuple) or len(names) != len(default) * count:
        return None
    made: list[_Function] = []
    for name in (str(item).lower() for item in names):
        if name in _PLAIN:
            made.append((_PLAIN[name], {}))
        elif name in _BENT:
            op, alpha = _BENT[name]
            made.append((op, {"alpha": alphas.pop(0) if alphas else alpha}))
        elif name == "hardsigmoid":
            alpha, beta = (known.pop(0) if known else usual for known, usual in ((alphas, 0.2), (betas, 0.5)))
            made.append(("HardSigmoid", {"alpha": alpha, "beta": beta}))
        elif name == "affine" and (alphas.pop(0) if alphas else 1.0, betas.pop(0) if betas else 0.0) == (1.0, 0.0):
            made.append(("Identity", {}))
        else:
            return None
    return [made[index * len(default) : (index + 1) * len(default)] for index in range(count)]


def _numbers(node: Node, name: str) -> list[float]:
    value = node.attributes.get(name) or ()
    assert isinstance(value, tuple)
    return [float(item) for item in value]


@dataclass(frozen=True, slots=True)
class _Run:
    """What one direction gives: its state at each time, the last one, and the last memory of an LSTM."""

    steps: Mapping[int, str]
    last: str
    memory: str


class _Direction:
    """One direction of a recurrent node, written step by step; every tensor is a plane `[1, H, 1, N]`."""

    def __init__(self, scene: Scene, node: Node, index: int, functions: Sequence[_Function]) -> None:
        self._scene, self._node, self._functions = scene, node, functions
        self._index = index
        steps, self._batch, width = scene.graph.types[node.inputs[0]].static_shape or ()
        self._times = range(steps - 1, -1, -1) if index == 1 or _is_reverse(node) else range(steps)
        w, r = (scene.graph.constants[node.inputs[place]][index] for place in (1, 2))
        self._hidden = r.shape[1]
        gates = r.shape[0] // self._hidden
        flat = self._constant(3)
        both = np.zeros(2 * r.shape[0], w.dtype) if flat is None else flat
        self._rows, self._into = np.split(r, gates), np.split(both[r.shape[0] :], gates)
        late = 2 if node.op == "GRU" and node.integer("linear_before_reset", 0) else gates
        """The gate whose second bias is scaled before it is added."""
        first = np.split(both[: r.shape[0]], gates)
        bias = [
            one + more if place != late else one
            for place, (one, more) in enumerate(zip(first, self._into, strict=True))
        ]
        data = _as_plane(scene, node, node.inputs[0], steps * self._batch, width)
        self._inputs = [
            self._product(data, part, one, steps * self._batch)
            for part, one in zip(np.split(w, gates), bias, strict=True)
        ]
        peepholes = self._constant(7)
        self._peepholes = [None] * 3 if peepholes is None else np.split(peepholes, 3)

    def run(self) -> _Run:
        """Write all steps."""
        step = {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}[self._node.op]
        state, memory = self._start(5), self._start(6)
        made: dict[int, str] = {}
        for time in self._times:
            state, memory = step(time, state, memory)
            made[time] = state
        assert state is not None
        return _Run(made, state, memory or "")

    def _rnn(self, time: int, state: str | None, memory: str | None) -> tuple[str, str | None]:
        return self._apply(0, self._clipped(self._sum(self._input(0, time), self._state(0, state)))), memory

    def _gru(self, time: int, state: str | None, memory: str | None) -> tuple[str, str | None]:
        update, reset = (
            self._apply(0, self._clipped(self._sum(self._input(gate, time), self._state(gate, state))))
            for gate in (0, 1)
        )
        new = self._input(2, time)
        if self._node.integer("linear_before_reset", 0):
            bias = self._into[2]
            seen = self._held(bias) if state is None and bias.any() else None
            if state is not None:
                seen = self._product(state, self._rows[2], bias, self._batch)
            more = None if seen is None else self._op("Mul", reset, seen)
        else:
            more = None if state is None else self._state(2, self._op("Mul", reset, state))
        new = self._apply(1, self._clipped(self._sum(new, more)))
        if state is None:
            return self._op("Sub", new, self._op("Mul", update, new)), memory
        return self._op("Add", new, self._op("Mul", update, self._op("Sub", state, new))), memory

    def _lstm(self, time: int, state: str | None, memory: str | None) -> tuple[str, str | None]:
        def gate(place: int, peephole: int | None, kept: str | None) -> str:
            value = self._sum(self._input(place, time), self._state(place, state))
            weights = None if peephole is None else self._peepholes[peephole]
            if kept is not None and weights is not None and weights.any():
                value = self._op("Add", value, self._op("Mul", kept, self._held(weights)))
            return self._clipped(value)

        enter = self._apply(0, gate(0, 0, memory))
        new = self._op("Mul", enter, self._apply(1, gate(3, None, None)))
        if memory is not None and self._node.integer("input_forget", 0):
            new = self._op("Add", new, self._op("Sub", memory, self._op("Mul", enter, memory)))
        elif memory is not None:
            new = self._op("Add", self._op("Mul", self._apply(0, gate(2, 2, memory)), memory), new)
        return self._op("Mul", self._apply(0, gate(1, 1, new)), self._apply(2, new)), new

    @property
    def _shape(self) -> tuple[int, ...]:
        return (1, self._hidden, 1, self._batch)

    def _input(self, gate: int, time: int) -> str:
        """Return what a gate takes from the input at a time, both biases with it."""
        data, count = self._inputs[gate], self._scene.shape(self._inputs[gate])[3]
        if count == self._batch:
            return data
        values = ([time * self._batch], [(time + 1) * self._batch], [3])
        names = [self._scene.constant(f"{self._node.name}/time", np.array(value, np.int64)) for value in values]
        return self._scene.add(self._node, "Slice", (data, *names), self._shape, {})

    def _state(self, gate: int, state: str | None) -> str | None:
        return None if state is None else self._product(state, self._rows[gate], None, self._batch)

    def _start(self, place: int) -> str | None:
        """Return the state at first; None where there is none, or where it is zero."""
        name = _given(self._node, place)
        value = self._scene.graph.constants.get(name)
        if not name or (value is not None and not value.any()):
            return None
        directions = self._scene.shape(name)[0]
        if directions != 1:
            names = [
                self._scene.constant(f"{self._node.name}/direction", np.array([value], np.int64))
                for value in (self._index, self._index + 1, 0)
            ]
            shape = (1, self._batch, self._hidden)
            name = self._scene.add(self._node, "Slice", (name, *names), shape, {})
        return _as_plane(self._scene, self._node, name, self._batch, self._hidden)

    def _product(self, data: str, weights: AnyArray, bias: AnyArray | None, count: int) -> str:
        more = () if bias is None or not bias.any() else (self._scene.constant(f"{self._node.name}/bias", bias),)
        stored = self._scene.constant(f"{self._node.name}/weights", weights[:, :, None, None])
        shape = (1, weights.shape[0], 1, count)
        return self._scene.add(self._node, "Conv", (data, stored, *more), shape, {"kernel_shape": (1, 1)})

    def _apply(self, place: int, data: str) -> str:
        op, attributes = self._functions[place]
        if op == "Identity":
            return data
        return self._scene.add(self._node, op, (data,), self._shape, attributes)

    def _clipped(self, data: str) -> str:
        bound = self._node.number("clip", 0.0)
        if bound <= 0:
            return data
        dtype = self._scene.draft.types[data].dtype.carrier
        ends = [self._scene.constant(f"{self._node.name}/clip", np.array(end, dtype)) for end in (-bound, bound)]
        return self._scene.add(self._node, "Clip", (data, *ends), self._shape, {})

    def _sum(self, one: str, other: str | None) -> str:
        return one if other is None else self._op("Add", one, other)

    def _op(self, op: str, *inputs: str) -> str:
        return self._scene.add(self._node, op, inputs, self._shape, {})

    def _held(self, value: AnyArray) -> str:
        return self._scene.constant(f"{self._node.name}/row", value.reshape(1, -1, 1, 1))

    def _constant(self, place: int) -> AnyArray | None:
        name = _given(self._node, place)
        return self._scene.graph.constants[name][self._index] if name else None


def _is_reverse(node: Node) -> bool:
    return node.text("direction", "forward") == "reverse"


def _join_steps(scene: Scene, node: Node, states: Sequence[Sequence[str]]) -> None:
    """Make the output with the states of all times, `[T, D, N, H]`."""
    if not node.outputs[0]:
        return
    steps, directions = len(states[0]), len(states)
    _, hidden, _, batch = scene.shape(states[0][0])
    assert isinstance(hidden, int)
    assert isinstance(batch, int)
    shape = (1, hidden, 1, steps * batch)
    rows = [_as_rows(scene, node, _concat(scene, node, run, shape, 3)) for run in states]
    if directions > 1:
        rows = [scene.reshape(node, run, (steps, 1, batch, hidden)) for run in rows]
    joined = _concat(scene, node, rows, (steps, directions, batch, hidden), 1)
    sizes = scene.sizes(node, (steps, directions, batch, hidden))
    scene.end(node, "Reshape", (joined, sizes), {}, node.outputs[0])


def _join_states(scene: Scene, node: Node, states: Sequence[str], output: str) -> None:
    """Make the output with the last state of each direction, `[D, N, H]`."""
    _, hidden, _, batch = scene.shape(states[0])
    assert isinstance(hidden, int)
    assert isinstance(batch, int)
    joined = _concat(scene, node, states, (1, hidden, 1, len(states) * batch), 3)
    rows = _as_rows(scene, node, joined)
    scene.end(node, "Reshape", (rows, scene.sizes(node, (len(states), batch, hidden))), {}, output)


def _as_plane(scene: Scene, node: Node, tensor: str, count: int, width: int) -> str:
    """Return what holds so many rows as a plane `[1, width, 1, count]`."""
    if count > 1:
        tensor = scene.transpose(node, scene.reshape(node, tensor, (count, width)), (1, 0))
    return scene.reshape(node, tensor, (1, width, 1, count))


def _as_rows(scene: Scene, node: Node, plane: str) -> str:
    """Return a plane `[1, width, 1, count]` as something that holds so many rows."""
    _, width, _, count = scene.shape(plane)
    return plane if count == 1 else scene.transpose(node, scene.reshape(node, plane, (width, count)), (1, 0))


def _concat(scene: Scene, node: Node, tensors: Sequence[str], shape: tuple[int, ...], axis: int) -> str:
    return tensors[0] if len(tensors) == 1 else scene.add(node, "Concat", tensors, shape, {"axis": axis})
