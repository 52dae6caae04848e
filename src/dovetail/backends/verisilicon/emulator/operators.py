"""The function of every operator of a program."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.backends.verisilicon.emulator.averages import POOLING
from dovetail.backends.verisilicon.emulator.converting import CONVERTING
from dovetail.backends.verisilicon.emulator.convolving import build_convolution
from dovetail.backends.verisilicon.emulator.elementwise import ELEMENTWISE
from dovetail.backends.verisilicon.emulator.kernel import Kernel
from dovetail.backends.verisilicon.emulator.moving import MOVING
from dovetail.backends.verisilicon.emulator.multiplying import build_fully_connected, build_matmul
from dovetail.backends.verisilicon.emulator.normalising import NORMALISING
from dovetail.backends.verisilicon.emulator.reducing import REDUCING
from dovetail.backends.verisilicon.emulator.resizing import RESIZING
from dovetail.backends.verisilicon.emulator.response import build_response
from dovetail.backends.verisilicon.emulator.sums import build_sum
from dovetail.backends.verisilicon.views import OperatorView
from dovetail.errors import CompileError

OPERATORS: dict[str, Callable[[OperatorView], Kernel]] = {
    **CONVERTING,
    **ELEMENTWISE,
    **MOVING,
    **NORMALISING,
    **POOLING,
    **REDUCING,
    **RESIZING,
    "add": build_sum,
    "lrn": build_response,
    "sub": build_sum,
}
PRODUCTS: dict[str, Callable[[OperatorView, int], Kernel]] = {
    "conv2d": build_convolution,
    "deconv2d": build_convolution,
    "fully_connected": build_fully_connected,
    "grouped_conv2d": build_convolution,
    "matmul": build_matmul,
}
"""Products, which take a number of threads."""


def build_kernel(item: OperatorView, threads: int) -> Kernel:
    """Return what runs an operator; raise CompileError for one that is not emulated."""
    kind = item.operator.kind
    if kind not in OPERATORS and kind not in PRODUCTS:
        raise CompileError(
            f"node '{item.operator.node}': the operator {kind} is not emulated.", hint="Place it on cpu."
        )
    return PRODUCTS[kind](item, threads) if kind in PRODUCTS else OPERATORS[kind](item)
