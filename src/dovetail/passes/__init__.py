"""Passes: functions from a Graph to a Graph that computes the same."""

from __future__ import annotations

from dovetail.ir import Graph
from dovetail.passes.activations import FuseHardSwish
from dovetail.passes.affine import FoldAffine, FoldBatchNorm, MatMulToGemm
from dovetail.passes.base import Pass, run_passes
from dovetail.passes.moves import FoldPad, RemoveDeadCode, RemoveNoOps
from dovetail.passes.options import NORMAL_FORM, PassOptions
from dovetail.passes.pools import WidenPools

__all__ = [
    "NORMAL_FORM",
    "FoldAffine",
    "FoldBatchNorm",
    "FoldPad",
    "FuseHardSwish",
    "MatMulToGemm",
    "Pass",
    "PassOptions",
    "RemoveDeadCode",
    "RemoveNoOps",
    "WidenPools",
    "normalize",
    "run_passes",
]


def normalize(graph: Graph, options: PassOptions | None = None) -> Graph:
    """Return the graph in normal form: every foldable node folded, `origin` keeping the nodes that are gone.

    With options only as far as their passes go. A plan is for one normal form: give all steps the same options.
    """
    passes = NORMAL_FORM if options is None else options.passes
    while True:
        before, graph = graph, run_passes(graph, passes)
        if graph is before:
            return graph
