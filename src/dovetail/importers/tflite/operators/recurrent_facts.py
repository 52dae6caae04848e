"""What TFLite's recurrent kernels compute with, as facts of the node that computes it on reals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.facts.tflite import HybridFacts, LstmFacts
from dovetail.importers.tflite.model import LiteGraph, LiteOperator, LiteTensor
from dovetail.ir import DType

_STATE, _MEMORY, _INPUTS = 18, 19, 24
_MOST_INPUTS = 48
_HIDDEN = 4
"""Which of the operator's intermediate tensors is what it gives before a projection."""
_MOST_EXACT = 1 << 23
"""Biases below this are found again from their float32 products with the scale."""
_ORDER = (0, 3, 1, 2)
"""TFLite's gates (input, forget, cell, output) in ONNX's order: input, output, forget, cell."""


def integer_lstm_facts(graph: LiteGraph, operator: LiteOperator) -> LstmFacts | None:
    """Return the facts of an LSTM of 8-bit data with a 16-bit cell, or None where TFLite has no such kernel."""
    tensors = [_tensor(graph, index) for index in operator.inputs[:_INPUTS]]
    tensors += [None] * (_INPUTS - len(tensors))
    hidden = _tensor(graph, operator.intermediates[_HIDDEN]) if len(operator.intermediates) > _HIDDEN else None
    output = _tensor(graph, operator.outputs[0]) if operator.outputs else None
    data, state, memory = tensors[0], tensors[_STATE], tensors[_MEMORY]
    coupled = tensors[1] is None
    ends = [_scale_and_zero(item, DType.I8) for item in (data, state)]
    same = [_scale_and_zero(item, DType.I8) for item in (hidden, output)] == [ends[1]] * 2
    exponent = _exponent(memory)
    weights, recurrent = (_gates(tensors[first : first + 4], DType.I8, coupled) for first in (1, 5))
    biases = _gates(tensors[12:16], DType.I32, coupled)
    peepholes = _peepholes(tensors[9:12], coupled)
    if any(item is not None for item in (*tensors[16:18], *tensors[20:24])) or not _exact(tensors[12:16]):
        return None
    if ends[0] is None or ends[1] is None or not same or exponent is None or peepholes is None:
        return None
    if weights is None or recurrent is None or biases is None:
        return None
    return LstmFacts(
        data=ends[0],
        state=ends[1],
        hidden=ends[1],
        weights=weights,
        recurrent=recurrent,
        biases=biases,
        peepholes=peepholes,
        cell_exponent=exponent,
        cell_clip=operator.options.number("CellClip"),
        coupled=coupled,
    )


def recurrent_facts(graph: LiteGraph, operator: LiteOperator) -> LstmFacts | HybridFacts | None:
    """Return the facts of a recurrent operator, integer or hybrid, or None."""
    both = operator.kind.startswith("BIDIRECTIONAL")
    if operator.kind.endswith("LSTM"):
        found = None if both else integer_lstm_facts(graph, operator)
        return found or _hybrid(graph, operator, (1, 18) if both else (1,), 4)
    return _hybrid(graph, operator, (1, 5) if both else (1,), 1)


def _hybrid(graph: LiteGraph, operator: LiteOperator, starts: tuple[int, ...], gates: int) -> HybridFacts | None:
    """Return the facts of float data with 8-bit weights; each direction's weights start at a place of the inputs."""
    tensors = [_tensor(graph, index) for index in operator.inputs]
    tensors += [None] * (_MOST_INPUTS - len(tensors))
    if tensors[0] is None or not tensors[0].is_float:
        return None
    coupled = {gates > 1 and tensors[start] is None for start in starts}
    if len(coupled) > 1:
        return None
    weights: list[float] = []
    recurrent: list[float] = []
    for start in starts:
        for place, scales in ((start, weights), (start + gates, recurrent)):
            group = tensors[place : place + gates]
            gate_scales = _gates(group, DType.I8, True in coupled) if gates > 1 else _single(group[0])
            if gate_scales is None:
                return None
            scales.extend(gate_scales)
    options = operator.options
    return HybridFacts(
        weights=tuple(weights),
        recurrent=tuple(recurrent),
        asymmetric=options.flag("AsymmetricQuantizeInputs"),
        cell_clip=options.number("CellClip") if gates > 1 else 0.0,
        coupled=True in coupled,
    )


def _single(tensor: LiteTensor | None) -> tuple[float, ...] | None:
    found = _scale_and_zero(tensor, DType.I8)
    return (found[0],) if found is not None and found[1] == 0 else None


def facts_attributes(facts: LstmFacts | HybridFacts | None) -> Mapping[str, object]:
    """Return facts as attributes; none for None."""
    return {} if facts is None else facts.attributes


def _tensor(graph: LiteGraph, index: int) -> LiteTensor | None:
    return graph.tensors[index] if 0 <= index < len(graph.tensors) else None


def _scale_and_zero(tensor: LiteTensor | None, dtype: DType) -> tuple[float, int] | None:
    if tensor is None or tensor.dtype is not dtype or tensor.quant is None or tensor.quant.per_channel:
        return None
    scale = tensor.quant.scale[0]
    return (scale, tensor.quant.zero_point[0]) if 0.0 < scale < math.inf else None


def _gates(tensors: Sequence[LiteTensor | None], dtype: DType, coupled: bool) -> tuple[float, ...] | None:
    """Return the scale of every gate in ONNX's order, or None when one has none; a coupled gate counts as 1."""
    scales: list[float] = []
    for place in _ORDER:
        if coupled and place == 0:
            scales.append(1.0)
            continue
        pair = _scale_and_zero(tensors[place], dtype)
        if pair is None or pair[1] != 0:
            return None
        scales.append(pair[0])
    return tuple(scales)


def _peepholes(tensors: Sequence[LiteTensor | None], coupled: bool) -> tuple[float, ...] | None:
    """Return the scales of the input's, output's and forget gate's, nothing when there are none."""
    if all(item is None for item in tensors):
        return ()
    scales = [1.0 if coupled else None, None, None]
    for place, source in ((0, 0), (1, 2), (2, 1)):
        found = _scale_and_zero(tensors[source], DType.I16)
        if found is not None and found[1] == 0:
            scales[place] = found[0]
    numbers = tuple(item for item in scales if item is not None)
    return numbers if len(numbers) == len(scales) else None


def _exponent(memory: LiteTensor | None) -> int | None:
    """Return the power of two that is the cell's scale."""
    pair = _scale_and_zero(memory, DType.I16)
    if pair is None or pair[1] != 0:
        return None
    exponent = round(math.log2(pair[0]))
    return exponent if abs(pair[0] / 2.0**exponent - 1) < 1e-3 and -15 <= exponent <= -9 else None


def _exact(biases: Sequence[LiteTensor | None]) -> bool:
    for tensor in biases:
        if tensor is not None and len(tensor.data) % 4 == 0:
            values = np.frombuffer(tensor.data, "<i4")
            if values.size and int(np.abs(values.astype(np.int64)).max()) >= _MOST_EXACT:
                return False
    return True
