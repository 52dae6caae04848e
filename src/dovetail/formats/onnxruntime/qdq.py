"""The plan as one standard ONNX file with Quantize/Dequantize pairs: what every toolchain reads."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import DovetailError, FormatError
from dovetail.exporters import to_onnx
from dovetail.formats.binding import bind_tensors
from dovetail.formats.entries import placement_of
from dovetail.formats.format import Diagnostic, ReadRequest, WriteRequest, Written, lint_by_reading
from dovetail.formats.onnxruntime.model_file import read_model
from dovetail.formats.spelling import Side, Vocabulary, Word, read_plan, spell
from dovetail.formats.words import FLOATS
from dovetail.importers import load_onnx
from dovetail.ir import DType, Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.ir.roles import weight_layout
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override, Plan

_QUANTISED = (
    Word("u8", Side.EITHER, (Precision.U8,)),
    Word("i8", Side.EITHER, (Precision.I8, Precision.I8DFP)),
    Word("i8pc", Side.EITHER, (Precision.I8PC,)),
    Word("i16", Side.EITHER, (Precision.I16, Precision.W8A16)),
)
_FLOAT = Word("float", Side.EITHER, FLOATS)
WORDS = Vocabulary(_QUANTISED, (*_QUANTISED, _FLOAT))


@dataclass(frozen=True, slots=True)
class QdqFormat:
    """Write through the exporter, read through the importer."""

    name: str = "onnx-qdq"
    title: str = "ONNX: Q/DQ pairs"
    pattern: str = "*.onnx"
    granularity: str = "node"
    vocabulary: Vocabulary = WORDS
    needs: str = ""

    def write(self, request: WriteRequest) -> Written:
        """Return the model; raise FormatError when the scales are missing."""
        if request.quantized is None:
            hint = "Calibrate the model (dovetail calibrate), and give its ranges; tune leaves them beside the plan."
            raise FormatError(
                "a Q/DQ file holds scales.", path=request.path, line=0, code="RANGES", hint=hint, option="ranges"
            )
        spell(request.plan, request.graph, bind_tensors(request.graph), self.vocabulary)
        content: bytes = to_onnx(request.quantized.graph).SerializeToString()
        return Written(content)

    def read(self, content: bytes, request: ReadRequest) -> Plan:
        """Return the plan that the types of the tensors say; float nodes go where exceptions go."""
        read_model(content, request.path)
        try:
            graph = load_onnx(content)
        except DovetailError as error:
            message = error.message
            raise FormatError(message, path=request.path, line=0, code="NOT_ONNX", hint=error.hint) from error
        overrides: dict[str, Override] = {}
        for node in request.graph.nodes:
            tensor = node.outputs[0]
            source = request.graph.origin_of(tensor)
            placement = _placement(graph, source, request)
            if placement is None:
                raise FormatError(
                    f"{node.label}: its output '{source}' is not in the file.",
                    path=request.path,
                    line=0,
                    code="UNKNOWN_NAME",
                    hint="Is it the same model?",
                )
            overrides[source] = Override(placement, f"{request.path}: type of '{source}'")
        return read_plan(request.graph, bind_tensors(request.graph), request.base, overrides)

    def lint(self, content: bytes, request: ReadRequest) -> tuple[Diagnostic, ...]:
        """Return what is wrong in the file."""
        return lint_by_reading(self, content, request)


def _placement(graph: Graph, tensor: str, request: ReadRequest) -> Placement | None:
    node = graph.producers.get(tensor)
    if node is None:
        return None
    if node.op == "DequantizeLinear" and node.inputs[0] in graph.producers:
        # A graph output in float: the node before the boundary says how it computes.
        node, tensor = graph.producers[node.inputs[0]], node.inputs[0]
    kind = graph.types[tensor]
    if kind.quant is None:
        return placement_of(_FLOAT, request) if kind.holds_reals else request.base
    return Placement(request.base.target, _precision(graph, node, kind.dtype, request.base.precision))


def _precision(graph: Graph, node: Node, dtype: DType, base: Precision) -> Precision:
    if dtype is DType.U8:
        return Precision.U8
    layout = weight_layout(graph, node)
    weight = None if layout is None else graph.types[node.inputs[layout.weight]]
    if dtype is DType.I8:
        if weight is None or weight.quant is None:
            return base if base.activation.dtype is DType.I8 else Precision.I8
        return Precision.I8PC if weight.quant.per_channel else Precision.I8
    if weight is not None and weight.dtype is DType.I8:
        return Precision.W8A16
    return base if base.activation.dtype is DType.I16 else Precision.I16


FORMAT = QdqFormat()
