"""TFLite's integer LSTM: 8-bit data and weights, 32-bit biases, gates and cell in 16 bits, step by step as its kernel.

The node works on reals that are multiples of the scales in its facts (`dovetail.facts.tflite`), so its integers are
found again by division; what it gives are multiples of its output's scale. Gates have 3 integer bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.backends.reference.fixed_point import multiply_32
from dovetail.backends.reference.gemmlowp_16 import divide_by_power, logistic, saturated, tanh
from dovetail.facts.tflite import LstmFacts, lstm_facts
from dovetail.ir import AnyArray, Node

_GATE_SCALE = np.float32(2.0**-12)
_GATE_BITS = 3
_ONE = 32767
_INPUT, _OUTPUT, _FORGET, _CELL = range(4)
"""ONNX's order of the gates."""


def runs_lstm(node: Node) -> bool:
    """Tell whether a node is an LSTM that TFLite computes on integers."""
    return node.op == "LSTM" and not node.domain and lstm_facts(node) is not None


def run_lstm(node: Node, stored: Sequence[AnyArray | None]) -> AnyArray:
    """Return Y `[T, 1, N, H]` in float32 of an LSTM with facts; its inputs are those of ONNX's LSTM."""
    facts = lstm_facts(node)
    x, w, r = stored[:3]
    assert facts is not None
    assert x is not None
    assert w is not None
    assert r is not None
    bias = stored[3] if len(stored) > 3 else None
    peepholes = stored[7] if len(stored) > 7 else None
    cell = _cell(facts, w[0], r[0], None if bias is None else bias[0], None if peepholes is None else peepholes[0])
    data = _steps(x, facts.data[0]) + facts.data[1]
    state = np.full((x.shape[1], r.shape[2]), facts.state[1], np.int64)
    memory = np.zeros((x.shape[1], r.shape[2]), np.int64)
    outputs = np.zeros((x.shape[0], 1, *state.shape), np.float32)
    for time in range(x.shape[0]):
        state, memory = cell.step(data[time], state, memory)
        outputs[time, 0] = (state - facts.state[1]).astype(np.float32) * np.float32(facts.state[0])
    return outputs


@dataclass(frozen=True, slots=True)
class _Gate:
    """The integers of one gate and the multipliers that bring their sums to the gate's scale."""

    w: AnyArray
    r: AnyArray
    bias: AnyArray
    peephole: AnyArray | None
    data_ratio: np.float32
    state_ratio: np.float32
    cell_ratio: np.float32

    def sum(self, data: AnyArray, state: AnyArray, memory: AnyArray) -> AnyArray:
        """Return the gate's input in 16 bits; every part is rounded and saturated by itself."""
        total = saturated(multiply_32(_product(data, self.w) + self.bias, np.asarray(self.data_ratio)))
        total = saturated(total + multiply_32(_product(state, self.r), np.asarray(self.state_ratio)))
        if self.peephole is not None:
            total = saturated(total + multiply_32(memory * self.peephole, np.asarray(self.cell_ratio)))
        return total


@dataclass(frozen=True, slots=True)
class _Cell:
    """The four gates in ONNX's order."""

    facts: LstmFacts
    gates: tuple[_Gate, ...]
    hidden_ratio: np.float32
    clip: int

    def step(self, data: AnyArray, state: AnyArray, memory: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return the next state and the next memory of every sample; `state` is stored, `memory` centred."""
        x, h = data - self.facts.data[1], state - self.facts.state[1]
        forget = logistic(self.gates[_FORGET].sum(x, h, memory))
        news = tanh(self.gates[_CELL].sum(x, h, memory), _GATE_BITS)
        enter = _ONE - forget if self.facts.coupled else logistic(self.gates[_INPUT].sum(x, h, memory))
        exponent = self.facts.cell_exponent
        memory = saturated(divide_by_power(forget * memory, 15) + divide_by_power(enter * news, 30 + exponent))
        if self.clip > 0:
            memory = np.asarray(np.clip(memory, -self.clip, self.clip))
        leave = logistic(self.gates[_OUTPUT].sum(x, h, memory))
        steps = multiply_32(leave * tanh(memory, 15 + exponent), np.asarray(self.hidden_ratio))
        return np.asarray(np.clip(steps + self.facts.hidden[1], -128, 127)), memory


def _cell(
    facts: LstmFacts, weight: AnyArray, recurrent: AnyArray, bias: AnyArray | None, peepholes: AnyArray | None
) -> _Cell:
    w, r = np.split(weight, 4), np.split(recurrent, 4)
    zeros: AnyArray = np.zeros(len(w[0]))
    biases = [zeros] * 4 if bias is None else np.split(bias[: 4 * len(zeros)], 4)
    # Peepholes belong to the input, the output and the forget gate.
    diagonals = [None] * 4 if peepholes is None or not facts.peepholes else [*np.split(peepholes, 3), None]
    gates: list[_Gate] = []
    for place in range(4):
        diagonal = diagonals[place]
        peephole_scale = facts.peepholes[place] if diagonal is not None else 1.0
        gates.append(
            _Gate(
                _steps(w[place], facts.weights[place]),
                _steps(r[place], facts.recurrent[place]),
                _steps(biases[place], facts.biases[place]),
                None if diagonal is None else _steps(diagonal, peephole_scale),
                np.float32(facts.weights[place]) * np.float32(facts.data[0]) / _GATE_SCALE,
                np.float32(facts.recurrent[place]) * np.float32(facts.state[0]) / _GATE_SCALE,
                np.float32(2.0**facts.cell_exponent * float(np.float32(peephole_scale)) / float(_GATE_SCALE)),
            )
        )
    hidden = np.float32(2.0**-15 / float(np.float32(facts.hidden[0])) * 2.0**-15)
    clip = min(int(np.float32(facts.cell_clip) / np.float32(2.0**facts.cell_exponent)), 32767)
    return _Cell(facts, tuple(gates), hidden, clip)


def _steps(real: AnyArray, scale: float) -> AnyArray:
    """Return the integers that reals are multiples of a scale by."""
    return np.rint(real.astype(np.float64) / scale).astype(np.int64)


def _product(left: AnyArray, right: AnyArray) -> AnyArray:
    """Return `left @ right.T` of small integers; float64 holds such sums exactly."""
    return np.rint(left.astype(np.float64) @ right.T.astype(np.float64)).astype(np.int64)
