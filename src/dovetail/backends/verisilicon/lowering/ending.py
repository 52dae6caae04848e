"""Functions that have other forms for numbers in fixed point beyond the floats of the tensor processor."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.backends.verisilicon.lowering import fine
from dovetail.backends.verisilicon.lowering.elementwise import Unary, alpha, check_same_kind
from dovetail.backends.verisilicon.lowering.view import NodeView


def lower_abs(view: NodeView) -> None:
    """Lower Abs; numbers that its floats do not hold are multiplied by -1."""
    if not fine.exceeds_floats(view):
        Unary("abs")(view)
        return
    check_same_kind(view)
    view.expect(view.shape(0))
    fine.absolute(view)


def lower_leaky_relu(view: NodeView) -> None:
    """Lower LeakyRelu; numbers that its floats do not hold are multiplied and compared."""
    slope = view.node.number("alpha", 0.01)
    if not (0.0 <= slope <= 1.0 and fine.exceeds_floats(view)):
        Unary("leaky_relu", alpha(0.01))(view)
        return
    check_same_kind(view)
    view.expect(view.shape(0))
    fine.leaky(view, slope)


def lower_hard_swish(view: NodeView) -> None:
    """Lower HardSwish; numbers that its floats do not hold are multiplied with a hard sigmoid."""
    if not fine.exceeds_floats(view):
        Unary("hard_swish")(view)
        return
    check_same_kind(view)
    view.expect(view.shape(0))
    fine.hard_swish(view)


ENDING: dict[str, Callable[[NodeView], None]] = {
    "Abs": lower_abs,
    "HardSwish": lower_hard_swish,
    "LeakyRelu": lower_leaky_relu,
}
"""Operators of this module by their ONNX names."""
