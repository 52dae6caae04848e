"""What a CPU with ONNX Runtime runs."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.backend.arithmetic import EXACT, Arithmetic
from dovetail.backend.constraints import RealTensors
from dovetail.backend.target import Engine, TargetVerdict
from dovetail.ir import DOVETAIL_DOMAIN, Graph, Node
from dovetail.ir.precision import Precision
from dovetail.ir.roles import CONTROL_FLOW

_P = Precision
_REFUSED: dict[Precision, str] = {
    _P.I16: "ONNX Runtime has no 16-bit integer kernels",
    _P.W8A16: "ONNX Runtime has no 16-bit integer kernels",
    _P.FP16: "ONNX Runtime has no 16-bit float kernels for CPUs; fp32 is as fast",
    _P.BF16: "ONNX Runtime has no 16-bit float kernels for CPUs; fp32 is as fast",
    _P.I8DFP: "dynamic fixed point is a format of NPUs; use i8",
}


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """Run every ONNX operator at float32, and operators on reals at 8 bits.

    Operators without an integer kernel run at 8 bits too: in float between DequantizeLinear and QuantizeLinear.
    """

    name: str = "cpu"
    title: str = "CPU (ONNX Runtime)"
    precisions: tuple[Precision, ...] = (_P.U8, _P.I8, _P.I8PC, _P.FP32)
    arithmetic: Arithmetic = EXACT
    mark: str = ""

    def verdict(self, graph: Graph, node: Node, precision: Precision) -> TargetVerdict:
        """Say whether the CPU runs the node at the precision."""
        reason = self._refusal(graph, node, precision)
        return TargetVerdict(node.name, node.op, self.name, precision, None if reason else Engine.CPU, reason)

    def _refusal(self, graph: Graph, node: Node, precision: Precision) -> str:
        if precision not in self.precisions:
            return _REFUSED.get(precision, f"the target has no precision {precision.value}")
        if node.domain not in ("", DOVETAIL_DOMAIN):
            return f"ONNX Runtime has no operator {node.domain}::{node.op}"
        if precision is Precision.FP32:
            return ""
        if node.op in CONTROL_FLOW:
            return "control flow runs only at fp32"
        return RealTensors().refusal(graph, node) or ""


CPU = CpuTarget()
"""The target `cpu`."""
