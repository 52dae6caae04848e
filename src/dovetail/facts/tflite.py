"""What TFLite says of recurrent nodes that ONNX has no attribute for: only its own rules read these facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.ir.node import Node

_SCALES, _ZEROS, _CELL, _CLIP, _COUPLED = (
    f"tflite.{name}" for name in ("scales", "zero_points", "cell_exponent", "cell_clip", "coupled")
)
_WEIGHTS, _RECURRENT, _ASYMMETRIC = (f"tflite.{name}" for name in ("weight_scales", "recurrent_scales", "asymmetric"))
_GATES = 4


@dataclass(frozen=True, slots=True)
class LstmFacts:
    """How TFLite stores what an LSTM computes with, in 8 bits and 16 for the cell.

    The node itself works on reals: its data and weights are multiples of these scales. `data`, `state` and `hidden` are
    a scale and a zero point; `weights`, `recurrent` and `biases` have a scale for each gate in ONNX's order (input,
    output, forget, cell), `peepholes` for the first three or none. The cell has scale `2^cell_exponent`; `coupled`
    means that the input gate is what the forget gate leaves.
    """

    data: tuple[float, int]
    state: tuple[float, int]
    hidden: tuple[float, int]
    weights: tuple[float, ...]
    recurrent: tuple[float, ...]
    biases: tuple[float, ...]
    peepholes: tuple[float, ...] = ()
    cell_exponent: int = -12
    cell_clip: float = 0.0
    coupled: bool = False

    @property
    def attributes(self) -> Mapping[str, object]:
        """Return the facts as attributes of a node."""
        ends = (self.data, self.state, self.hidden)
        scales = (*(scale for scale, _ in ends), *self.weights, *self.recurrent, *self.biases, *self.peepholes)
        return {
            _SCALES: scales,
            _ZEROS: tuple(zero for _, zero in ends),
            _CELL: self.cell_exponent,
            _CLIP: self.cell_clip,
            _COUPLED: int(self.coupled),
        }


def lstm_facts(node: Node) -> LstmFacts | None:
    """Return the facts of an LSTM, or None when it has none; raise ValueError when they are damaged."""
    scales, zeros = node.attributes.get(_SCALES), node.integers(_ZEROS)
    if scales is None:
        return None
    if not isinstance(scales, tuple) or len(scales) not in (15, 18) or len(zeros) != 3:
        raise ValueError("the facts about its integers are damaged")
    numbers = tuple(float(item) for item in scales)
    data, state, hidden = zip(numbers[:3], zeros, strict=True)
    weights, recurrent, biases = (numbers[start : start + _GATES] for start in (3, 7, 11))
    return LstmFacts(
        data=data,
        state=state,
        hidden=hidden,
        weights=weights,
        recurrent=recurrent,
        biases=biases,
        peepholes=numbers[15:],
        cell_exponent=node.integer(_CELL, -12),
        cell_clip=node.number(_CLIP, 0.0),
        coupled=bool(node.integer(_COUPLED, 0)),
    )


@dataclass(frozen=True, slots=True)
class HybridFacts:
    """How TFLite stores the weights of a recurrent node whose data is float and quantised as it runs.

    `weights` and `recurrent` have a scale for each gate, in ONNX's order, one direction after the other; `asymmetric`
    data has a zero point.
    """

    weights: tuple[float, ...]
    recurrent: tuple[float, ...]
    asymmetric: bool = False
    cell_clip: float = 0.0
    coupled: bool = False

    @property
    def attributes(self) -> Mapping[str, object]:
        """Return the facts as attributes of a node."""
        return {
            _WEIGHTS: self.weights,
            _RECURRENT: self.recurrent,
            _ASYMMETRIC: int(self.asymmetric),
            _CLIP: self.cell_clip,
            _COUPLED: int(self.coupled),
        }


def hybrid_facts(node: Node) -> HybridFacts | None:
    """Return the facts of a hybrid recurrent node, or None; raise ValueError when they are damaged."""
    weights, recurrent = node.attributes.get(_WEIGHTS), node.attributes.get(_RECURRENT)
    if weights is None:
        return None
    gates = (_GATES if node.op == "LSTM" else 1) * (2 if node.text("direction", "forward") == "bidirectional" else 1)
    if not isinstance(weights, tuple) or not isinstance(recurrent, tuple) or {len(weights), len(recurrent)} != {gates}:
        raise ValueError("the facts about its weights are damaged")
    return HybridFacts(
        weights=tuple(float(item) for item in weights),
        recurrent=tuple(float(item) for item in recurrent),
        asymmetric=bool(node.integer(_ASYMMETRIC, 0)),
        cell_clip=node.number(_CLIP, 0.0),
        coupled=bool(node.integer(_COUPLED, 0)),
    )
