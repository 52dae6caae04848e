"""What an OpenVINO device runs: it is asked about every node."""

from __future__ import annotations

from dataclasses import dataclass, field

from dovetail.backend.arithmetic import EXACT, Arithmetic
from dovetail.backend.constraints import RealTensors
from dovetail.backend.target import Engine, TargetVerdict
from dovetail.backends.openvino.core import DeviceFacts, core, reason
from dovetail.backends.single_node import node_graph, node_key
from dovetail.errors import DovetailError
from dovetail.exporters.onnx import to_onnx
from dovetail.ir import DOVETAIL_DOMAIN, DType, Graph, Node
from dovetail.ir.precision import Precision
from dovetail.ir.roles import CONTROL_FLOW

_P = Precision
_BY_CAPABILITY = (("INT8", (_P.U8, _P.I8, _P.I8PC)), ("FP16", (_P.FP16,)), ("FP32", (_P.FP32,)))
_UNKNOWN_TYPES = (DType.F64, DType.U64, DType.BF16, DType.I16, DType.U16)
"""Types that the plug-ins narrow or lack; a node that computes one of them would change silently."""


def offered_precisions(facts: DeviceFacts) -> tuple[Precision, ...]:
    """Return the precisions that the device says it is good at, cheapest first."""
    found = tuple(item for name, items in _BY_CAPABILITY if name in facts.capabilities for item in items)
    return found or (_P.FP16,)


@dataclass(frozen=True, slots=True)
class OpenVinoTarget:
    """Run what the device's `query_model` claims; operators without an 8-bit kernel run between Q/DQ, in float."""

    facts: DeviceFacts
    precisions: tuple[Precision, ...]
    arithmetic: Arithmetic = EXACT
    _asked: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Return `openvino:` and OpenVINO's name of the device."""
        return f"openvino:{self.facts.name}"

    @property
    def title(self) -> str:
        """Return what the device calls itself."""
        return f"{self.facts.title} (OpenVINO)"

    @property
    def mark(self) -> str:
        """Return what changes with hardware and driver."""
        return self.facts.mark

    def verdict(self, graph: Graph, node: Node, precision: Precision) -> TargetVerdict:
        """Say whether the device runs the node at the precision."""
        refusal = self._refusal(graph, node, precision)
        engine = None if refusal else Engine.CPU if self.facts.is_cpu else Engine.NN
        return TargetVerdict(node.name, node.op, self.name, precision, engine, refusal)

    def _refusal(self, graph: Graph, node: Node, precision: Precision) -> str:
        if precision not in self.precisions:
            known = ", ".join(item.value for item in self.precisions)
            return f"the device has no precision {precision.value} (it has {known})"
        if node.domain not in ("", DOVETAIL_DOMAIN):
            return f"OpenVINO has no operator {node.domain}::{node.op}"
        for name in (*node.inputs, *node.outputs):
            if name and graph.types[name].quant is None and graph.types[name].dtype in _UNKNOWN_TYPES:
                return f"'{name}' holds {graph.types[name].dtype.value}, which OpenVINO would compute in another type"
        if precision.is_quantized:
            if node.op in CONTROL_FLOW:
                return "control flow runs only in float"
            refusal = RealTensors().refusal(graph, node)
            if refusal is not None:
                return refusal
        return self._ask(graph, node)

    def _ask(self, graph: Graph, node: Node) -> str:
        """Return why the device does not claim the node alone in float32; nodes that are alike are asked once."""
        alone = node_graph(graph, node)
        key = node_key(alone)
        if key not in self._asked:
            self._asked[key] = _query(alone, self.facts.name)
        return self._asked[key]


def _query(alone: Graph, device: str) -> str:
    try:
        model = core().read_model(to_onnx(alone).SerializeToString())
        claimed = core().query_model(model, device)
        types = {op.get_friendly_name(): op.get_type_name() for op in model.get_ordered_ops()}
    except DovetailError as error:
        return error.message.rstrip(".")
    except Exception as error:
        return f"OpenVINO refuses it: {reason(error)}"
    left = sorted({kind for name, kind in types.items() if name not in claimed and kind != "Constant"})
    return f"the device does not claim {', '.join(left)}" if left else ""
