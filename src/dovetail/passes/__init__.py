"""Passes: functions from a Graph to a Graph that computes the same."""

from __future__ import annotations

from dovetail.ir import Graph
from dovetail.passes.activations import FuseHardSwish
from dovetail.passes.affine import FoldAffine, FoldBatchNorm, MatMulToGemm
from dovetail.passes.base import Pass, run_passes
from dovetail.passes.moves import FoldPad, RemoveDeadCode, RemoveNoOps

__all__ = [
    "NORMAL_FORM",
    "FoldAffine",
    "FoldBatchNorm",
    "FoldPad",
    "FuseHardSwish",
    "MatMulToGemm",
    "Pass",
    "RemoveDeadCode",
    "RemoveNoOps",
    "normalize",
    "run_passes",
]

NORMAL_FORM: tuple[Pass, ...] = (
    RemoveDeadCode(),
    RemoveNoOps(),
    FoldPad(),
    FuseHardSwish(),
    MatMulToGemm(),
    FoldBatchNorm(),
    FoldAffine(),
    RemoveDeadCode(),
)


def normalize(graph: Graph) -> Graph:
    """Return the graph in normal form: every foldable node folded, `origin` keeping the nodes that are gone."""
    while True:
        before, graph = graph, run_passes(graph, NORMAL_FORM)
        if graph is before:
            return graph
