"""Zeros around what is padded already."""

from __future__ import annotations

from dataclasses import replace

from dovetail.backends.verisilicon.lowering.view import NodeView
from dovetail.backends.verisilicon.windows import PlaneWindow
from dovetail.ir import TensorType

_ZEROS = 0


def pad_apart(view: NodeView, data: int, plane: TensorType, window: PlaneWindow) -> tuple[int, PlaneWindow]:
    """Return the input of a convolution and its window; behind a Pad of zeros it is padded by an operator of its own.

    `plane` is the type of `data`, seen with four axes. The vendor's compiler joins such a Pad with the convolution and
    loses its own zeros: garbage at 8 and at 16 bits, measured on V853, A311D and i.MX 8M Plus. Two Pads are right, and
    so are a Pad of another value, and one of edges or reflections.
    """
    if not any(map(any, window.paddings)) or not _is_padded(view, data):
        return data, window
    (top, bottom), (left, right) = window.paddings
    batch, channels, height, width = plane.static_shape or ()
    made = view.new(replace(plane, shape=(batch, channels, height + top + bottom, width + left + right)))
    view.emit("pad", (data,), (made,), (_ZEROS, left, top, 0, 0, right, bottom, 0, 0), (0.0,))
    return made, replace(window, paddings=((0, 0), (0, 0)))


def _is_padded(view: NodeView, data: int) -> bool:
    """Tell whether zeros were put around a tensor, perhaps before it was seen with another shape."""
    makers = {tensor: operator for operator in view.draft.operators for tensor in operator.outputs}
    maker = makers.get(data)
    while maker is not None and maker.kind == "reshape":
        maker = makers.get(maker.inputs[0])
    return maker is not None and maker.kind == "pad" and maker.ints[0] == _ZEROS and not any(maker.floats)
