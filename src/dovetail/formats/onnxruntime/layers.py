"""An ONNX model whose nodes say where they go (`layer_ann`), and the session setting that reads it.

The setting is a preference: ONNX Runtime may place nodes elsewhere, so compare its report (`check_assignment`).
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx import ModelProto

from dovetail.errors import FormatError
from dovetail.formats.binding import Binding, bind_sources
from dovetail.formats.entries import placement_of
from dovetail.formats.format import Diagnostic, ReadRequest, WriteRequest, Written, lint_by_reading
from dovetail.formats.onnxruntime.model_file import read_model
from dovetail.formats.spelling import Vocabulary, read_plan, spell
from dovetail.formats.words import two_sides
from dovetail.ir.graph import Graph
from dovetail.plan.plan import Override, Plan

KEY = "layer_ann"
SETTING = "session.layer_assignment_settings"
_WORDS = two_sides("npu", "cpu")
_NPU, _CPU = _WORDS.base


@dataclass(frozen=True, slots=True)
class LayerFormat:
    """Annotate the user's own ONNX file."""

    name: str = "onnxruntime-layers"
    title: str = "ONNX Runtime: annotations"
    pattern: str = "*.onnx"
    granularity: str = "node of the ONNX file"
    vocabulary: Vocabulary = _WORDS
    needs: str = "the ONNX file"

    def write(self, request: WriteRequest) -> Written:
        """Return the annotated model, and the value of the session setting beside it."""
        if request.listing is None:
            raise FormatError(
                "the ONNX file is needed beside the plan.", path=request.path, line=0, code="LISTING", option="listing"
            )
        model = read_model(request.listing, request.path)
        binding = bind_model(request.graph, model)
        spelling = spell(request.plan, request.graph, binding, self.vocabulary)
        base = spelling.base_word.text
        for node in model.graph.node:
            word = spelling.words.get(node.name)
            annotate(node.metadata_props, KEY, base if word is None else word.text)
        return Written(model.SerializeToString(), {"settings": b"npu(=npu);cpu(=cpu)\n"})

    def read(self, content: bytes, request: ReadRequest) -> Plan:
        """Return the plan that the annotations say; nodes without one have the base."""
        model = read_model(content, request.path)
        binding = bind_model(request.graph, model)
        overrides: dict[str, Override] = {}
        for node in model.graph.node:
            value = next((entry.value for entry in node.metadata_props if entry.key == KEY), "")
            if value == _CPU.text and node.name in binding.nodes_of:
                overrides[node.name] = Override(placement_of(_CPU, request), f"{request.path}: {KEY}")
            elif value not in ("", _NPU.text, _CPU.text):
                message = f"node '{node.name}' has the annotation '{value}'."
                hint = "Known: npu, cpu."
                raise FormatError(message, path=request.path, line=0, code="UNKNOWN_WORD", hint=hint)
        if not any(entry.key == KEY for node in model.graph.node for entry in node.metadata_props):
            raise FormatError("no node has an annotation.", path=request.path, line=0, code="NO_ANNOTATION")
        return read_plan(request.graph, binding, request.base, overrides)

    def lint(self, content: bytes, request: ReadRequest) -> tuple[Diagnostic, ...]:
        """Return what is wrong in the file."""
        return lint_by_reading(self, content, request)


def bind_model(graph: Graph, model: ModelProto) -> Binding:
    """Bind the nodes of an ONNX file by name; raise FormatError where a node has none."""
    binding = bind_sources(graph)
    names = {node.name for node in model.graph.node}
    missing = [node for node in graph.nodes if not any(origin in names for origin in node.origin)]
    if missing:
        raise FormatError(
            f"{missing[0].label} is not in the ONNX file by name.",
            path=graph.name,
            line=0,
            code="UNKNOWN_NAME",
            hint="Name the nodes of the file, and give the file that the plan was made for.",
        )
    return Binding({item: nodes for item, nodes in binding.nodes_of.items() if item in names}, frozenset(names))


def annotate(properties: object, key: str, value: str) -> None:
    """Set one entry of a metadata list."""
    entries = properties
    for entry in entries:  # type: ignore[attr-defined]
        if entry.key == key:
            entry.value = value
            return
    entries.add(key=key, value=value)  # type: ignore[attr-defined]


FORMAT = LayerFormat()
