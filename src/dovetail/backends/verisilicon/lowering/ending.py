"""Functions that have other forms where the vendor's own would not do.

For numbers in fixed point beyond the floats of the tensor processor, and for single signed bytes in a binary network.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from dovetail.backends.verisilicon.generation import NEWEST
from dovetail.backends.verisilicon.lowering import fine
from dovetail.backends.verisilicon.lowering.elementwise import Unary, check_same_kind
from dovetail.backends.verisilicon.lowering.slopes import lower_leaky_relu
from dovetail.backends.verisilicon.lowering.view import NodeView
from dovetail.ir import DType, Quantization, TensorType

_HALF = 128
"""What a signed byte gets added to be stored as an unsigned one."""


def lower_abs(view: NodeView) -> None:
    """Lower Abs; numbers that its floats do not hold are multiplied by -1."""
    if not fine.exceeds_floats(view):
        Unary("abs")(view)
        return
    check_same_kind(view)
    view.expect(view.shape(0))
    fine.absolute(view)


def lower_hard_swish(view: NodeView) -> None:
    """Lower HardSwish; numbers that its floats do not hold are multiplied with a hard sigmoid."""
    if not fine.exceeds_floats(view):
        Unary("hard_swish")(view)
        return
    check_same_kind(view)
    view.expect(view.shape(0))
    fine.hard_swish(view)


@dataclass(frozen=True, slots=True)
class Saturating:
    """Lower a sigmoid or a tanh; a single signed byte, such as the score of two classes, is an unsigned one for it.

    The vendor's compiler runs the shader of a single signed byte that is computed, and writes no binary network with
    it: measured on V853 and T527, by their SDK 6.57.1. A graph's input does, and so do unsigned bytes, fixed point, two
    elements and other functions.
    """

    kind: str

    def __call__(self, view: NodeView) -> None:
        """Emit the operator."""
        data, made = view.kind(0), view.made()
        lost = (
            view.draft.part.generation in NEWEST
            and data.dtype is made.dtype is DType.I8
            and math.prod(view.shape(0)) == 1
            and view.node.inputs[0] not in view.graph.inputs
        )
        if not lost or view.draft.fixed_point or data.quant is None or made.quant is None:
            Unary(self.kind)(view)
            return
        view.expect(view.shape(0))
        read, held = view.new(_unsigned(data, data.quant)), view.new(_unsigned(made, made.quant))
        view.emit("data_convert", (view.input(0),), (read,))
        view.emit(self.kind, (read,), (held,))
        view.emit("data_convert", (held,), (view.output(),))


def _unsigned(kind: TensorType, quant: Quantization) -> TensorType:
    return replace(kind, dtype=DType.U8, quant=Quantization(quant.scale, (quant.zero_point[0] + _HALF,)))


ENDING: dict[str, Callable[[NodeView], None]] = {
    "Abs": lower_abs,
    "HardSwish": lower_hard_swish,
    "LeakyRelu": lower_leaky_relu,
    "Sigmoid": Saturating("sigmoid"),
    "Tanh": Saturating("tanh"),
}
"""Operators of this module by their ONNX names."""
