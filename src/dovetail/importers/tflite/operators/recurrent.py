"""Recurrent networks as ONNX's LSTM and RNN, computed on reals; quantised ones are dequantised at their border.

The scales of integer and of hybrid ones are facts of their nodes: target `reference:tflite` computes with them as
TFLite's kernels do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.importers.tflite.operators.recurrent_facts import facts_attributes, recurrent_facts
from dovetail.importers.tflite.operators.table import Converters
from dovetail.importers.tflite.site import Attributes, Site
from dovetail.importers.tflite.values import real_value
from dovetail.ir import AnyArray, DType, TensorType

_ACTIVATIONS = {0: "Affine", 1: "Relu", 4: "Tanh"}
_TANH = 4


@dataclass(frozen=True, slots=True)
class _Direction:
    """The weights of one direction in ONNX's order: w `[G * H, I]`, r `[G * H, H]`, biases, peepholes."""

    w: AnyArray
    r: AnyArray
    bias: AnyArray
    peepholes: AnyArray | None


def _real(site: Site, index: int) -> AnyArray | None:
    """Return a constant input as reals, or None when it is omitted; raise LoadError when it is computed."""
    if not site.has(index):
        return None
    tensor, value = site.tensor(index), site.value(index)
    if value is None:
        raise site.fail(f"its weight '{tensor.name}' is computed at run time")
    if tensor.dtype in (DType.I32, DType.I64) and tensor.quant is None:
        raise site.fail(f"its bias '{tensor.name}' has no scale")
    return real_value(value, tensor.quant)


def _must(site: Site, index: int) -> AnyArray:
    value = _real(site, index)
    if value is None:
        raise site.fail(f"input {index} is omitted")
    return value


def _gates(site: Site, first: int, rows: int, *, coupled: bool) -> list[AnyArray | None]:
    """Return four tensors in TFLite's order (input, forget, cell, output) as ONNX orders them: i, o, f, c.

    A coupled input gate is what the forget gate leaves: `1 - sigmoid(z) = sigmoid(-z)`.
    """
    values = [_real(site, first + offset) for offset in range(4)]
    if coupled:
        values[0] = None if values[1] is None else -values[1]
    for value in values[1:]:
        if value is not None and value.shape[0] != rows:
            raise site.fail("its weights do not fit each other")
    return [values[0], values[3], values[1], values[2]]


def _lstm_direction(site: Site, base: int) -> _Direction:
    """Read the tensors of one direction; they start at `base` with the weights from the input."""
    coupled = not site.has(base)
    hidden = _must(site, base + 1).shape[0]
    w = [item for item in _gates(site, base, hidden, coupled=coupled) if item is not None]
    r = [item for item in _gates(site, base + 4, hidden, coupled=coupled) if item is not None]
    peepholes = [_real(site, base + 8 + offset) for offset in range(3)]
    if coupled and peepholes[1] is not None:
        peepholes[0] = -peepholes[1]
    if len(w) != 4 or len(r) != 4:
        raise site.fail("some of its gates have no weights")
    if r[0].shape[1] != hidden:
        raise site.fail("it projects its state")
    biases = _gates(site, base + 11, hidden, coupled=coupled)
    bias = [np.zeros(hidden, np.float32) if item is None else item for item in biases]
    flat = None
    if any(item is not None for item in peepholes):
        known = [np.zeros(hidden, np.float32) if item is None else item for item in peepholes]
        flat = np.concatenate([known[0], known[2], known[1]])
    joined = np.concatenate([*bias, np.zeros(4 * hidden, np.float32)])
    return _Direction(np.concatenate(w), np.concatenate(r), joined, flat)


def _rnn_direction(site: Site, base: int) -> _Direction:
    w, r, bias = (_must(site, base + offset) for offset in range(3))
    return _Direction(w, r, np.concatenate([bias, np.zeros_like(bias)]), None)


def _check_lstm(site: Site) -> None:
    options = site.operator.options
    if options.number("ProjClip") > 0:
        raise site.fail("it clips its projection")
    if options.integer("FusedActivationFunction", _TANH) != _TANH:
        raise site.fail("its cell activation is not tanh")


def _run(site: Site, op: str, parts: Sequence[_Direction], *, time_major: bool, facts: Attributes | None = None) -> str:
    """Add the recurrent node; return Y as `[N, T, D * H]` or, time first, `[T, N, D * H]`."""
    x = site.read(0)
    kind, shape = site.scope.types[x], site.shape(0)
    if len(shape) != 3:
        raise site.fail(f"its input has rank {len(shape)}")
    times, batch = (shape[0], shape[1]) if time_major else (shape[1], shape[0])
    if not time_major:
        # Integers are turned, not reals: ONNX Runtime 1.31 loads no Transpose behind a DequantizeLinear of int8.
        kind = TensorType(kind.dtype, (times, batch, shape[2]), kind.quant)
        x = site.emit("Transpose", (x,), kind, {"perm": (1, 0, 2)})
    if kind.quant is not None:
        x = site.emit("DequantizeLinear", (x,), site.float_like(x))
    hidden, count = parts[0].r.shape[1], len(parts)
    inputs = [
        x,
        site.real(np.stack([part.w for part in parts]), "weight"),
        site.real(np.stack([part.r for part in parts]), "recurrent_weight"),
        site.real(np.stack([part.bias for part in parts]), "bias"),
    ]
    peepholes = [part.peepholes for part in parts]
    if any(item is not None for item in peepholes):
        known = [np.zeros(3 * hidden, np.float32) if item is None else item for item in peepholes]
        inputs += ["", "", "", site.real(np.stack(known), "peepholes")]
    made = TensorType(DType.F32, (times, count, batch, hidden))
    y = site.emit(op, inputs, made, {**_attributes(site, op, hidden, count), **(facts or {})})
    order = (0, 2, 1, 3) if time_major else (2, 0, 1, 3)
    lead = (times, batch) if time_major else (batch, times)
    y = site.emit("Transpose", (y,), TensorType(DType.F32, (*lead, count, hidden)), {"perm": order})
    joined = (*lead, count * hidden)
    return site.emit("Reshape", (y, site.number(joined, "joined")), TensorType(DType.F32, joined))


def _attributes(site: Site, op: str, hidden: int, count: int) -> dict[str, object]:
    direction = "bidirectional" if count == 2 else "forward"
    attributes: dict[str, object] = {"hidden_size": hidden, "direction": direction}
    if op == "RNN":
        code = site.operator.options.integer("FusedActivationFunction", _TANH)
        if code not in (1, _TANH):
            raise site.fail(f"its activation {code} has no counterpart")
        attributes["activations"] = (_ACTIVATIONS[code],) * count
    return attributes


def _conclude(site: Site, y: str) -> None:
    op = "QuantizeLinear" if site.output().is_quantized else "Identity"
    site.conclude(0, op, (y,))


def _one_way_lstm(site: Site) -> None:
    _check_lstm(site)
    if site.has(16) or any(site.has(index) for index in range(20, 24)):
        raise site.fail("it projects or normalises its state")
    part = _lstm_direction(site, 1)
    facts = facts_attributes(recurrent_facts(site.scope.lite, site.operator))
    _conclude(site, _run(site, "LSTM", [part], time_major=site.operator.options.flag("TimeMajor"), facts=facts))


def _both_ways(site: Site, op: str, parts: Sequence[_Direction]) -> None:
    options = site.operator.options
    facts = facts_attributes(recurrent_facts(site.scope.lite, site.operator))
    y = _run(site, op, parts, time_major=options.flag("TimeMajor"), facts=facts)
    if options.flag("MergeOutputs"):
        _conclude(site, y)
        return
    shape = site.scope.types[y].shape or ()
    half = TensorType(DType.F32, (*shape[:2], parts[0].r.shape[1]))
    for index in range(2):
        start, stop = (site.number((place * parts[0].r.shape[1],), "bound") for place in (index, index + 1))
        part = site.emit("Slice", (y, start, stop, site.number((2,), "axes")), half)
        op_out = "QuantizeLinear" if site.output(index).is_quantized else "Identity"
        site.conclude(index, op_out, (part,))


def _two_way_lstm(site: Site) -> None:
    _check_lstm(site)
    if any(site.has(index) for index in (16, 17, 33, 34, *range(39, site.count))):
        raise site.fail("it projects its state or has an auxiliary input")
    _both_ways(site, "LSTM", [_lstm_direction(site, 1), _lstm_direction(site, 18)])


def _one_way_rnn(site: Site) -> None:
    part = _rnn_direction(site, 1)
    facts = facts_attributes(recurrent_facts(site.scope.lite, site.operator))
    _conclude(site, _run(site, "RNN", [part], time_major=site.operator.options.flag("TimeMajor"), facts=facts))


def _two_way_rnn(site: Site) -> None:
    if any(site.has(index) for index in range(9, site.count)):
        raise site.fail("it has an auxiliary input")
    _both_ways(site, "RNN", [_rnn_direction(site, 1), _rnn_direction(site, 5)])


CONVERTERS: Converters = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": _two_way_lstm,
    "BIDIRECTIONAL_SEQUENCE_RNN": _two_way_rnn,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _one_way_lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": _one_way_rnn,
}
