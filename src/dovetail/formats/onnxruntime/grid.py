"""A float model on the grid of a plan: what any toolchain that takes minimum and maximum quantises to its integers.

Every node says its precision in an entry of its metadata, which other programs skip. Beside the model lie the arguments
of ONNX Runtime's `quantize_static`, with the scale of every activation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx import ModelProto

from dovetail.errors import FormatError, QuantizeError
from dovetail.exporters import to_onnx
from dovetail.formats.binding import Binding
from dovetail.formats.entries import placement_of
from dovetail.formats.format import Diagnostic, ReadRequest, WriteRequest, Written, lint_by_reading
from dovetail.formats.onnxruntime.layers import annotate
from dovetail.formats.onnxruntime.model_file import read_model
from dovetail.formats.onnxruntime.qdq import WORDS
from dovetail.formats.onnxruntime.scales import static_arguments
from dovetail.formats.spelling import Vocabulary, read_plan, spell
from dovetail.ir.graph import Graph
from dovetail.plan.plan import Override, Plan
from dovetail.quantize.grid import GridGraph, grid_graph

KEY = "dovetail_precision"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class GridFormat:
    """Write weights and biases as the reals that the plan's integers stand for."""

    name: str = "onnx-grid"
    title: str = "ONNX: float on the grid"
    pattern: str = "*.onnx"
    granularity: str = "node"
    vocabulary: Vocabulary = WORDS
    needs: str = ""

    def write(self, request: WriteRequest) -> Written:
        """Return the model; raise FormatError when the scales are missing or the model is not float32."""
        if request.quantized is None:
            hint = "Calibrate the model (dovetail calibrate), and give its ranges; tune leaves them beside the plan."
            raise FormatError(
                "a grid is made of scales.", path=request.path, line=0, code="RANGES", hint=hint, option="ranges"
            )
        spelling = spell(request.plan, request.graph, _bind_nodes(request.graph), self.vocabulary)
        try:
            grid = grid_graph(request.graph, request.quantized)
        except QuantizeError as error:
            raise FormatError(error.message, path=request.path, line=0, code="FLOAT32", hint=error.hint) from error
        model = to_onnx(grid.graph)
        for node in model.graph.node:
            word = spelling.words.get(node.name, spelling.base_word)
            annotate(node.metadata_props, KEY, word.text)
        arguments = static_arguments(grid, request.quantized, spelling.base.precision)
        return Written(model.SerializeToString(), {"quantize_static": arguments}, _notes(grid))

    def read(self, content: bytes, request: ReadRequest) -> Plan:
        """Return the plan that the metadata of the nodes says."""
        model = read_model(content, request.path)
        binding = _bind_nodes(request.graph)
        _require_all(model, request)
        words = {word.text: word for word in self.vocabulary.exceptions}
        overrides: dict[str, Override] = {}
        for node in model.graph.node:
            text = next((entry.value for entry in node.metadata_props if entry.key == KEY), None)
            if text is None or text not in words:
                message = f"node '{node.name}' " + (f"has no entry '{KEY}'" if text is None else f"says '{text}'")
                hint = f"Known: {', '.join(words)}."
                raise FormatError(f"{message}.", path=request.path, line=0, code="UNKNOWN_WORD", hint=hint)
            if node.name in binding.nodes_of:
                placement = request.base if words[text].takes(request.base) else placement_of(words[text], request)
                overrides[node.name] = Override(placement, f"{request.path}: {KEY}")
        return read_plan(request.graph, binding, request.base, overrides)

    def lint(self, content: bytes, request: ReadRequest) -> tuple[Diagnostic, ...]:
        """Return what is wrong in the file."""
        return lint_by_reading(self, content, request)


def _bind_nodes(graph: Graph) -> Binding:
    return Binding({node.name: (node.name,) for node in graph.nodes})


def _require_all(model: ModelProto, request: ReadRequest) -> None:
    """Raise FormatError when a node of the graph is not in the file."""
    names = {node.name for node in model.graph.node}
    missing = next((node for node in request.graph.nodes if node.name not in names), None)
    if missing is not None:
        message = f"{missing.label} is not in the file."
        raise FormatError(message, path=request.path, line=0, code="UNKNOWN_NAME", hint="Is it the same model?")


def _notes(grid: GridGraph) -> tuple[str, ...]:
    """Return which constants need more than their minimum and maximum, and which biases are not exact."""
    notes = {
        "do not show their scale by minimum and maximum: hand over the scales that lie beside the model":
            grid.hidden_scales,
        "are too large for float32 and come out a few steps off": grid.rounded_biases,
        "need more than 32 bits, or a bias of theirs does: the quantiser takes coarser weights": grid.beyond_32_bits,
    }  # fmt: skip
    return tuple(f"{_shown(names)} {note}." for note, names in notes.items() if names)


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:_SHOWN]) + more


FORMAT = GridFormat()
