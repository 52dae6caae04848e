"""Rewrites: parts of a float network written otherwise for a processor that refuses them or is slow at them.

Unlike the normal form they are no matter of course: each is tried, proved and priced before it is taken.
"""

from __future__ import annotations

from dovetail.passes.rewrites.base import Rewrite
from dovetail.passes.rewrites.convolutions import ConvOverTwoAxes, FillShortKernels, MatMulAsConv
from dovetail.passes.rewrites.large import SplitLargeKernels, StackLargeKernels
from dovetail.passes.rewrites.moves import FewerAxes, TransposeLater
from dovetail.passes.rewrites.recurrent import UnrollRecurrent
from dovetail.passes.rewrites.resizing import ResizeAsDeconv
from dovetail.passes.rewrites.strides import FoldStrides
from dovetail.passes.rewrites.values import DivAsMul, PoolInTwoSteps, SoftmaxOverLast

__all__ = ["REWRITES", "Rewrite"]

REWRITES: tuple[Rewrite, ...] = (
    UnrollRecurrent(),
    FoldStrides(),
    StackLargeKernels(),
    SplitLargeKernels(),
    MatMulAsConv(),
    FewerAxes(),
    TransposeLater(),
    ConvOverTwoAxes(),
    FillShortKernels(),
    ResizeAsDeconv(),
    DivAsMul(),
    SoftmaxOverLast(),
    PoolInTwoSteps(),
)
