"""The ranges that ONNX Runtime's quantiser finds.

Rules of `onnxruntime/quantization` 1.31: extremes of a model that is not optimised, run sample by sample; a softmax
spans 0 to 1 (`base_quantizer.py`, `adjust_tensor_ranges`), and what averages or resizes keeps the scale of what it
reads, as what moves it does (`registry.py`, `operators/direct_q8.py`).
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.formats.numerics import ToolNumerics
from dovetail.formats.words import BYTES
from dovetail.ir.graph import Graph
from dovetail.plan.plan import Plan
from dovetail.quantize import CalibrationOptions, Range, Ranges

_SOFTMAX = Range(0.0, 1.0)
_AS_READ = frozenset(
    {
        *("AveragePool", "Flatten", "Gather", "GatherElements", "MaxPool", "Reshape"),
        *("Resize", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"),
    }
)


def quantiser_ranges(graph: Graph, ranges: Ranges, plan: Plan | None = None) -> Ranges:
    """Return ranges as the quantiser adjusts them: of nodes at 8 bits, or of all where no plan is known."""
    tensors = dict(ranges.tensors)
    for node in graph.nodes:
        precision = None if plan is None else plan.placement(node.name).precision
        if precision is not None and precision not in BYTES:
            continue
        if node.op == "Softmax":
            tensors[node.outputs[0]] = _SOFTMAX
        elif node.op in _AS_READ and node.inputs[0] in tensors:
            tensors |= dict.fromkeys((name for name in node.outputs if name in tensors), tensors[node.inputs[0]])
    return replace(ranges, method=f"{ranges.method}, ONNX Runtime's quantiser", tensors=tensors)


QUANTISER_NUMERICS = ToolNumerics("cpu", quantiser_ranges, CalibrationOptions(as_written=True))
