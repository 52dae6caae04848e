"""The ranges that AI Edge Quantizer finds, and those that LiteRT's kernels ask for.

Rules of ai-edge-quantizer 0.10: extremes of the samples are averaged, the first sample weighing most (`calibrate` with
its default update, smoothing 0.95); softmax and logistic store 1/256 a step, tanh 1/128; what picks or averages values
keeps the scale of what it reads.
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.formats.numerics import ToolNumerics
from dovetail.ir.graph import Graph
from dovetail.ir.roles import PASS_THROUGH
from dovetail.plan.plan import Plan
from dovetail.quantize import CalibrationOptions, Range, Ranges
from dovetail.quantize.observers import CalibrationMethod, ObserverOptions

_FIXED = {"Softmax": Range(0.0, 255 / 256), "Sigmoid": Range(0.0, 255 / 256), "Tanh": Range(-1.0, 127 / 128)}
"""In 16 bits, one step more is 32768 of them: the difference is 0.4 % of a step."""
_AS_READ = PASS_THROUGH - {"ReduceMax"} | {"AveragePool", "Pad", "Resize"}
_WEIGHT_OF_NEWEST = 0.05


def kernel_ranges(graph: Graph, ranges: Ranges, _plan: Plan | None = None) -> Ranges:
    """Return ranges as kernels ask for them."""
    tensors = dict(ranges.tensors)
    for node in graph.nodes:
        fixed = _FIXED.get(node.op)
        if fixed is not None:
            tensors[node.outputs[0]] = fixed
        elif node.op in _AS_READ and node.inputs[0] in tensors:
            tensors |= {name: tensors[node.inputs[0]] for name in node.outputs if graph.types[name].holds_reals}
    return replace(ranges, method=f"{ranges.method}, LiteRT's kernels", tensors=tensors)


EDGE_NUMERICS = ToolNumerics(
    "reference:tflite",
    kernel_ranges,
    CalibrationOptions(CalibrationMethod.MOVING_AVERAGE, ObserverOptions(momentum=_WEIGHT_OF_NEWEST)),
)
