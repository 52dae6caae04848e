"""TFLite's hybrid recurrent kernels: 8-bit weights meet float data and states that are quantised as they run.

Everything is float32 in the order of TFLite's portable kernels. Its exponentials are Eigen's: a last bit may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dovetail.facts.tflite import HybridFacts, hybrid_facts
from dovetail.ir import AnyArray, Node

_INPUT, _OUTPUT, _FORGET, _CELL = range(4)
"""ONNX's order of the gates."""
_STEPS = np.float32(127)
_ACTIVATIONS: dict[str, Callable[[AnyArray], AnyArray]] = {
    "Relu": lambda x: np.maximum(x, np.float32(0)),
    "Tanh": np.tanh,
}


def runs_hybrid(node: Node) -> bool:
    """Tell whether a node is a recurrent network with hybrid weights."""
    return node.op in ("LSTM", "RNN") and not node.domain and hybrid_facts(node) is not None


def run_hybrid(node: Node, stored: Sequence[AnyArray | None]) -> AnyArray:
    """Return Y `[T, D, N, H]` in float32; the inputs are those of ONNX's operator."""
    facts = hybrid_facts(node)
    x, w = stored[:2]
    assert facts is not None
    assert x is not None
    assert w is not None
    ways = [_direction(node, facts, stored, place)(x[::-1] if place else x) for place in range(w.shape[0])]
    return np.stack([way[::-1] if place else way for place, way in enumerate(ways)], axis=1)


def _direction(
    node: Node, facts: HybridFacts, stored: Sequence[AnyArray | None], place: int
) -> Callable[[AnyArray], AnyArray]:
    """Return how one direction goes over `[T, N, I]`."""
    w, r = (value[place] for value in stored[1:3] if value is not None)
    bias, peepholes = (stored[index] if len(stored) > index else None for index in (3, 7))
    gates, hidden = w.shape[0] // r.shape[1], r.shape[1]
    biases = np.zeros((gates, hidden), np.float32) if bias is None else bias[place, : gates * hidden]
    own = replace(
        facts,
        weights=facts.weights[place * gates : (place + 1) * gates],
        recurrent=facts.recurrent[place * gates : (place + 1) * gates],
    )
    sums = _Sums(own, np.split(w, gates), np.split(r, gates), list(biases.reshape(gates, -1)))
    diagonals = None if peepholes is None else np.split(peepholes[place], 3)
    names = node.attributes.get("activations", ("Tanh", "Tanh"))
    assert isinstance(names, tuple)

    def unroll(x: AnyArray) -> AnyArray:
        outputs: AnyArray = np.zeros((*x.shape[:2], hidden), np.float32)
        state: AnyArray = np.zeros((x.shape[1], hidden), np.float32)
        memory = state
        for time in range(x.shape[0]):
            parts = sums(x[time], state)
            if node.op == "RNN":
                state = _ACTIVATIONS[str(names[place])](parts[0])
            else:
                state, memory = _lstm(own, parts, memory, diagonals)
            outputs[time] = state
        return outputs

    return unroll


class _Sums:
    """Sum bias, data and state of every gate; weights are given as reals that are multiples of their scales."""

    def __init__(
        self, facts: HybridFacts, w: Sequence[AnyArray], r: Sequence[AnyArray], biases: Sequence[AnyArray]
    ) -> None:
        self._facts = facts
        self._w = [_whole(item, scale) for item, scale in zip(w, facts.weights, strict=True)]
        self._r = [_whole(item, scale) for item, scale in zip(r, facts.recurrent, strict=True)]
        self._biases = biases

    def __call__(self, x: AnyArray, state: AnyArray) -> list[AnyArray]:
        gates: list[AnyArray] = []
        data, data_scale = _quantized(x, asymmetric=self._facts.asymmetric)
        kept, kept_scale = _quantized(state, asymmetric=self._facts.asymmetric)
        for place, bias in enumerate(self._biases):
            total: AnyArray = bias + _product(data, self._w[place]) * (
                data_scale * np.float32(self._facts.weights[place])
            )
            total = total + _product(kept, self._r[place]) * (kept_scale * np.float32(self._facts.recurrent[place]))
            gates.append(total)
        return gates


def _lstm(
    facts: HybridFacts, parts: Sequence[AnyArray], memory: AnyArray, diagonals: Sequence[AnyArray] | None
) -> tuple[AnyArray, AnyArray]:
    """Return the next state and the next memory."""

    def gate(place: int, cell: AnyArray) -> AnyArray:
        seen = parts[place] if diagonals is None else parts[place] + diagonals[place] * cell
        return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-seen)))

    forget = gate(_FORGET, memory)
    enter = np.float32(1) - forget if facts.coupled else gate(_INPUT, memory)
    memory = forget * memory + np.tanh(parts[_CELL]) * enter
    if facts.cell_clip > 0:
        memory = np.clip(memory, -np.float32(facts.cell_clip), np.float32(facts.cell_clip))
    return gate(_OUTPUT, memory) * np.tanh(memory), memory


def _whole(real: AnyArray, scale: float) -> AnyArray:
    return np.rint(real.astype(np.float64) / scale)


def _product(steps: AnyArray, weight: AnyArray) -> AnyArray:
    """Return exact sums of integers as float32."""
    return (steps @ weight.T).astype(np.float32)


def _quantized(x: AnyArray, *, asymmetric: bool) -> tuple[AnyArray, AnyArray]:
    """Return the centred integers of every row and its scale `[N, 1]`."""
    if asymmetric:
        return _around_a_zero_point(x)
    largest = np.abs(x).max(axis=1, keepdims=True)
    empty = largest == 0
    safe = np.where(empty, np.float32(1), largest)
    steps = np.clip(_away(x * (_STEPS / safe)), -127, 127)
    return steps, np.where(empty, np.float32(1), largest / _STEPS)


def _around_a_zero_point(x: AnyArray) -> tuple[AnyArray, AnyArray]:
    lowest = np.minimum(x.min(axis=1, keepdims=True), np.float32(0))
    highest = np.maximum(x.max(axis=1, keepdims=True), np.float32(0))
    scale = (highest - lowest) / np.float32(255)
    safe = np.where(scale == 0, np.float32(1), scale)
    below, above = lowest / safe, highest / safe
    low, high = np.float32(-128), np.float32(127)
    choice = np.where(np.float32(128) + np.abs(below) < high + np.abs(above), low - below, high - above)
    point = np.clip(_away(choice), -128, 127).astype(np.float32)
    return np.clip(_away(point + x * (np.float32(1) / safe)), -128, 127) - point, safe


def _away(x: AnyArray) -> AnyArray:
    """Round in float64, halves away from zero."""
    wide = x.astype(np.float64)
    return np.copysign(np.floor(np.abs(wide) + 0.5), wide)
