"""Poolings over windows of one or two axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.lowering.accumulating import read_window
from dovetail.backends.verisilicon.lowering.elementwise import check_same_kind_of
from dovetail.backends.verisilicon.lowering.moving import BYTES
from dovetail.backends.verisilicon.lowering.slicing import emit_slice
from dovetail.backends.verisilicon.lowering.view import NodeView
from dovetail.backends.verisilicon.windows import PlaneWindow
from dovetail.ir import DType

_AVERAGE, _AVERAGE_WITH_PAD, _MAXIMUM = 0, 1, 2
_DOWN = 0
"""How a pooling rounds its sizes: the vendor's other way has windows that start in the padding behind."""
_ARRAY_STRIDES = ((1, 1), (2, 2))
"""Of averages that count their padding on the array."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Lower MaxPool or AveragePool over one or two axes."""

    maximum: bool

    def __call__(self, view: NodeView) -> None:
        """Emit the operator."""
        view.need(len([name for name in view.node.outputs if name]) == 1, "its indices are asked for")
        check_same_kind_of(view, (0,))
        node, sizes = view.node, view.shape(0)
        window = read_window(view, node.integers("kernel_shape"), sizes[2:], pooled=True)
        view.need(window.dilations == (1, 1), f"dilations {list(window.dilations)} of a pooling (1 is possible)")
        view.need(not node.integer("storage_order", 0), "storage_order=1")
        flat = len(sizes) == 3
        plane = (1, sizes[2]) if flat else sizes[2:]
        counted = bool(node.integer("count_include_pad", 0))
        ceil = bool(node.integer("ceil_mode", 0))
        # What hangs over the padded edge would be counted as if it were padding; in ONNX it never is.
        both = ceil and counted and not self.maximum
        view.need(not both, "ceil_mode with count_include_pad (either alone is possible)")
        if ceil or not (self.maximum or counted):
            window = window.fitted(plane, ceil=ceil)
        result = window.outputs(plane)
        view.expect((*sizes[:2], *(result[1:] if flat else result)))
        if window.kernel == (1, 1):
            # The vendor's largest of single values with a stride is garbage, and their average ends compilers.
            steps = (1, 1, *window.strides[2 - len(sizes) :])
            emit_slice(view, [range(0, size, step) for size, step in zip(sizes, steps, strict=True)])
            return
        line = (plane[0] == 1 and window.kernel == (1, 3)) or (plane[1] == 1 and window.kernel == (3, 1))
        view.need(
            not (self.maximum and line and view.draft.part.generation is Generation.STREAM),
            "the largest of three along a single row ends the compiler",
        )
        how = _MAXIMUM if self.maximum else _AVERAGE_WITH_PAD if counted else _AVERAGE
        if not self.maximum and view.kind(0).dtype in BYTES:
            window = _along_line(window, plane)
        data, out = view.input(0), view.output()
        if flat:
            data = view.reshaped(data, (*sizes[:2], *plane))
            out = view.new(replace(view.made(), shape=(*sizes[:2], *result)))
        elif how == _AVERAGE_WITH_PAD and any(map(any, window.paddings)):
            _average_with_padding(view, window)
            return
        view.emit("pool2d", (data,), (out,), (how, *window.parameters, _DOWN))
        if flat:
            view.emit("reshape", (out,), (view.output(),), tuple(reversed(view.made_shape())))


def _along_line(window: PlaneWindow, plane: tuple[int, ...]) -> PlaneWindow:
    """Return the window of an average over a single row or column without a stride across it.

    One of pairs with a stride of 2 along both axes ends the vendor's compiler (SIGSEGV) at 8 bits: measured on V853,
    RV1126 and i.MX 8M Plus, with every window of up to 3 elements; over a column, where padding makes the pairs.
    """
    if window.kernel != (1, 2) or window.strides != (2, 2) or 1 not in plane:
        return window
    fitted = window.fitted(plane, ceil=False)
    return replace(fitted, strides=(1, 2) if plane[0] == 1 else (2, 1))


def _average_with_padding(view: NodeView, window: PlaneWindow) -> None:
    """Emit an average that counts its padding."""
    steps, plane = 1, view.shape(0)[2:]
    view.need(plane != (1, 1), "the average of a single value and its padding ends the compiler")
    high, wide = plane
    reason = f"a window of {high}x{wide} over {high}x{wide} and padding is taken for the mean without it"
    view.need(window.kernel != plane, reason)
    if window.strides == (2, 2) and _wide_by_shader(view):
        # With steps of 2 along both axes that shader knows no padding: every second of all averages is right.
        window, steps = replace(window, strides=(1, 1)), 2
    data = view.input(0)
    if _skips_rows(view, window.fitted(plane, ceil=False)):
        data, window = _with_padding(view, window)
        plane = view.draft.tensors[data].shape[1::-1]
    made, shape = window.outputs(plane), view.made_shape()
    whole = steps == 1 and made == shape[2:]
    out = view.output() if whole else view.new(replace(view.made(), shape=(*shape[:2], *made)))
    view.emit("pool2d", (data,), (out,), (_AVERAGE_WITH_PAD, *window.parameters, _DOWN))
    if not whole:
        columns, rows = (min(steps * count, size) for count, size in zip(shape[:1:-1], made[::-1], strict=True))
        ints = (0, 0, 0, 0, columns, rows, *shape[1::-1], steps, steps, 1, 1)
        view.emit("strided_slice", (out,), (view.output(),), ints)


def _wide_by_shader(view: NodeView) -> bool:
    return view.kind(0).dtype is DType.I16 and view.draft.part.generation is Generation.V7_BYTES


def _skips_rows(view: NodeView, window: PlaneWindow) -> bool:
    """Return whether a shader would not count rows of padding: in fixed point, of a single row or without columns.

    Measured on V853, A311D, i.MX 8M Plus, RV1126, T527, A733 and S905D3.
    """
    rows, columns = window.paddings
    on_array = window.strides in _ARRAY_STRIDES and not _wide_by_shader(view)
    found = view.shape(0)[2] == 1 or not any(columns)
    return found and any(rows) and not on_array and (view.kind(0).dtype is DType.I16 or view.draft.fixed_point)


def _with_padding(view: NodeView, window: PlaneWindow) -> tuple[int, PlaneWindow]:
    """Return the tensor with its padding, and the window without.

    The compiler takes a padding of rows alone back into the window, so that columns of one more average come with it.
    """
    (top, bottom), (left, right) = window.paddings
    sizes = view.shape(0)
    if window.kernel[1] > 1 and not left:
        right = max(right, window.outputs(sizes[2:])[1] * window.strides[1] + window.kernel[1] - sizes[3])
    held = view.new(replace(view.kind(0), shape=(*sizes[:2], top + sizes[2] + bottom, left + sizes[3] + right)))
    view.emit("pad", (view.input(0),), (held,), (0, left, top, 0, 0, right, bottom, 0, 0), (0.0,))
    return held, replace(window, paddings=((0, 0), (0, 0)))


POOLING: dict[str, Callable[[NodeView], None]] = {"AveragePool": Pool(maximum=False), "MaxPool": Pool(maximum=True)}
"""Lowerings of this module by operator."""
