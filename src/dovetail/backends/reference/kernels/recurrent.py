"""Recurrent networks: RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dovetail.backends.reference.kernels.activation import sigmoid, softplus
from dovetail.backends.reference.kernels.call import Call, Kernels
from dovetail.ir import AnyArray

_Function = Callable[[AnyArray], AnyArray]
_Step = Callable[[AnyArray, tuple[AnyArray, ...]], tuple[AnyArray, ...]]

ACTIVATIONS: dict[str, Callable[[AnyArray, float, float], AnyArray]] = {
    "affine": lambda x, a, b: a * x + b,
    "elu": lambda x, a, b: np.where(x < 0, a * np.expm1(x), x),
    "hardsigmoid": lambda x, a, b: np.clip(a * x + b, 0.0, 1.0),
    "leakyrelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "relu": lambda x, a, b: np.maximum(x, 0.0),
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "sigmoid": lambda x, a, b: sigmoid(x),
    "softplus": lambda x, a, b: softplus(x),
    "softsign": lambda x, a, b: x / (1.0 + np.abs(x)),
    "tanh": lambda x, a, b: np.tanh(x),
    "thresholdedrelu": lambda x, a, b: np.where(x > a, x, 0.0),
}
_DEFAULTS = {"elu": (1.0, 0.0), "hardsigmoid": (0.2, 0.5), "leakyrelu": (0.01, 0.0), "thresholdedrelu": (1.0, 0.0)}


@dataclass(frozen=True, slots=True)
class _Cell:
    """The weights of one direction: `w [G*H, I]`, `r [G*H, H]`, biases `[G*H]`."""

    call: Call
    index: int
    hidden: int
    functions: tuple[_Function, ...]
    w: AnyArray
    r: AnyArray
    wb: AnyArray
    rb: AnyArray

    def clip(self, x: AnyArray) -> AnyArray:
        bound = self.call.node.number("clip", 0.0)
        return np.asarray(np.clip(x, -bound, bound)) if bound > 0 else x

    def gates(self, values: AnyArray) -> list[AnyArray]:
        return list(np.split(values, values.shape[-1] // self.hidden, axis=-1))


def _functions(call: Call, defaults: tuple[str, ...], directions: int) -> list[tuple[_Function, ...]]:
    names = call.node.attributes.get("activations") or defaults * directions
    assert isinstance(names, tuple)
    alphas, betas = (list(_numbers(call, name)) for name in ("activation_alpha", "activation_beta"))
    functions: list[_Function] = []
    for name in names:
        key = str(name).lower()
        alpha, beta = _DEFAULTS.get(key, (1.0, 0.0))
        if key in _DEFAULTS or key in ("affine", "scaledtanh"):
            alpha = alphas.pop(0) if alphas else alpha
        if key in ("affine", "scaledtanh", "hardsigmoid"):
            beta = betas.pop(0) if betas else beta
        functions.append(lambda x, f=ACTIVATIONS[key], a=alpha, b=beta: f(x, a, b))  # type: ignore[misc]
    width = len(defaults)
    return [tuple(functions[index * width : (index + 1) * width]) for index in range(directions)]


def _numbers(call: Call, name: str) -> tuple[float, ...]:
    value = call.node.attributes.get(name) or ()
    assert isinstance(value, tuple)
    return tuple(float(item) for item in value)


def _cell(call: Call, index: int, functions: tuple[_Function, ...]) -> _Cell:
    w, r, bias = call.input(1)[index], call.input(2)[index], call.optional(3)
    flat = np.zeros(2 * w.shape[0]) if bias is None else bias[index]
    return _Cell(call, index, r.shape[1], functions, w, r, flat[: w.shape[0]], flat[w.shape[0] :])


def _rnn_step(cell: _Cell) -> _Step:
    def step(x: AnyArray, state: tuple[AnyArray, ...]) -> tuple[AnyArray, ...]:
        (h,) = state
        return (cell.functions[0](cell.clip(x @ cell.w.T + h @ cell.r.T + cell.wb + cell.rb)),)

    return step


def _gru_step(cell: _Cell) -> _Step:
    linear_before_reset = bool(cell.call.node.integer("linear_before_reset", 0))
    _, _, r_h = np.split(cell.r, 3)

    def step(x: AnyArray, state: tuple[AnyArray, ...]) -> tuple[AnyArray, ...]:
        (h,) = state
        f, g = cell.functions
        from_x, from_h = cell.gates(x @ cell.w.T + cell.wb), cell.gates(h @ cell.r.T + cell.rb)
        update, reset = f(cell.clip(from_x[0] + from_h[0])), f(cell.clip(from_x[1] + from_h[1]))
        if linear_before_reset:
            new = from_x[2] + reset * from_h[2]
        else:
            new = from_x[2] + (reset * h) @ r_h.T + cell.rb[2 * cell.hidden :]
        return ((1.0 - update) * g(cell.clip(new)) + update * h,)

    return step


def _lstm_step(cell: _Cell) -> _Step:
    peepholes = cell.call.optional(7)
    flat = np.zeros(3 * cell.hidden) if peepholes is None else peepholes[cell.index]
    p_i, p_o, p_f = np.split(flat, 3)
    coupled = bool(cell.call.node.integer("input_forget", 0))

    def step(x: AnyArray, state: tuple[AnyArray, ...]) -> tuple[AnyArray, ...]:
        h, c = state
        f, g, last = cell.functions
        gate_i, gate_o, gate_f, gate_c = cell.gates(x @ cell.w.T + h @ cell.r.T + cell.wb + cell.rb)
        enter = f(cell.clip(gate_i + p_i * c))
        forget = 1.0 - enter if coupled else f(cell.clip(gate_f + p_f * c))
        memory = forget * c + enter * g(cell.clip(gate_c))
        return f(cell.clip(gate_o + p_o * memory)) * last(memory), memory

    return step


_STEPS: dict[str, tuple[Callable[[_Cell], _Step], tuple[str, ...]]] = {
    "RNN": (_rnn_step, ("Tanh",)),
    "GRU": (_gru_step, ("Sigmoid", "Tanh")),
    "LSTM": (_lstm_step, ("Sigmoid", "Tanh", "Tanh")),
}


def _unroll(step: _Step, x: AnyArray, state: tuple[AnyArray, ...], lengths: AnyArray, backwards: bool) -> _Unrolled:
    """Run one direction over `[T, N, I]`; past its own length a sample keeps its state and gives zeros."""
    times = range(x.shape[0] - 1, -1, -1) if backwards else range(x.shape[0])
    outputs = np.zeros((x.shape[0], *state[0].shape))
    for time in times:
        alive = (time < lengths)[:, None]
        moved = step(x[time], state)
        state = tuple(np.where(alive, new, old) for new, old in zip(moved, state, strict=True))
        outputs[time] = np.where(alive, moved[0], 0.0)
    return _Unrolled(outputs, state)


@dataclass(frozen=True, slots=True)
class _Unrolled:
    outputs: AnyArray
    state: tuple[AnyArray, ...]


def _recurrent(call: Call) -> tuple[AnyArray, ...]:
    """Return Y `[T, D, N, H]` and the last states `[D, N, H]`; layout=1 puts the batch first."""
    make, defaults = _STEPS[call.node.op]
    batch_first = call.node.integer("layout", 0) == 1
    x = call.x.transpose(1, 0, 2) if batch_first else call.x
    direction = call.node.text("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    lengths = call.optional(4)
    lengths = np.full(x.shape[1], x.shape[0]) if lengths is None else lengths
    hidden = call.input(2).shape[2]
    states: list[AnyArray] = []
    for index in range(2 if call.node.op == "LSTM" else 1):
        start = call.optional(5 + index)
        zero = np.zeros((directions, x.shape[1], hidden))
        states.append(zero if start is None else start.transpose(1, 0, 2) if batch_first else start)
    functions = _functions(call, defaults, directions)
    runs: list[_Unrolled] = []
    for index in range(directions):
        backwards = direction == "reverse" or index == 1
        step = make(_cell(call, index, functions[index]))
        runs.append(_unroll(step, x, tuple(state[index] for state in states), lengths, backwards))
    y = np.stack([run.outputs for run in runs], axis=1)
    last = [np.stack([run.state[index] for run in runs]) for index in range(len(states))]
    if batch_first:
        return y.transpose(2, 0, 1, 3), *(state.transpose(1, 0, 2) for state in last)
    return y, *last


KERNELS: Kernels = {"GRU": _recurrent, "LSTM": _recurrent, "RNN": _recurrent}
