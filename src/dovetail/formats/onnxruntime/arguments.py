"""The arguments of `onnxruntime.quantization.quantize_static` that make it quantise as a plan says, as JSON.

Nodes that stay float are in `nodes_to_exclude`; a node at 16 bits has its output, its weight, and its own copy of its
inputs, at 16 bits by `TensorQuantOverrides`, with the plan's scales where ranges are known. Clips stay: 16 bits are
symmetric and would cut nothing off. Types are spelled as `QuantType` names; `quantizer_arguments` turns them
into values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dovetail.errors import FormatError
from dovetail.formats.binding import Binding, bind_sources
from dovetail.formats.entries import Entry
from dovetail.formats.format import WriteRequest
from dovetail.formats.onnxruntime.constants import WIDE_PRECISIONS
from dovetail.formats.onnxruntime.quantiser import (
    BASE,
    EXCLUDED,
    WIDE,
    QuantiserFormat,
    bind_quantiser,
)
from dovetail.formats.onnxruntime.ranges import QUANTISER_NUMERICS
from dovetail.formats.onnxruntime.scales import made_as, read_type, stored_as, stored_entries
from dovetail.formats.spelling import Side, Spelling, Vocabulary, Word
from dovetail.formats.text import json_bytes, mapping_in, read_json, texts_in, wrong_shape
from dovetail.formats.words import BYTES, FLOATS
from dovetail.ir.dtypes import DType
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.ir.roles import CLAMPS, Role, input_roles
from dovetail.ir.types import TensorType
from dovetail.plan.quantized import QuantizedGraph

if TYPE_CHECKING:
    from typing import Any

_FLOAT = Word(EXCLUDED, Side.EITHER, FLOATS)
_WIDE = Word(WIDE, Side.EITHER, WIDE_PRECISIONS)
_BASE = Word(BASE, Side.EITHER, BYTES)
_ACTIVATIONS = {Precision.U8: "QUInt8", Precision.I8: "QInt8", Precision.I8PC: "QInt8"}
_WIDE_TYPE = "QInt16"
_WIDE_TYPES = ("QInt16", "QUInt16")
_NARROW_TYPES = ("QInt8", "QUInt8")
_TENSOR = "tensor "
"""Begins the items of a file that are tensors: a node may have the same name."""


def _encode(spelling: Spelling, request: WriteRequest) -> bytes:
    precision = spelling.base.precision
    words = {item: word for item, word in spelling.words.items() if not item.startswith(_TENSOR)}
    excluded = [item for item, word in words.items() if word is _FLOAT]
    wide = [item for item, word in words.items() if word is _WIDE]
    activations = _ACTIVATIONS[precision]
    entries = _Overrides(request.graph, request.quantized, set(wide), set(excluded), activations)
    overrides = entries.activations()
    other = {item for item in wide if spelling.placements[item].precision.weight != precision.weight}
    overrides.update(entries.constants({item: spelling.placements[item].precision for item in other}))
    arguments = {
        "activation_type": activations,
        "weight_type": "QUInt8" if precision is Precision.U8 else "QInt8",
        "per_channel": precision is Precision.I8PC,
        "op_types_to_quantize": _types(request.graph, set(excluded)),
        "nodes_to_exclude": excluded,
        "extra_options": {
            # Without it nothing that only moves values at the start of the network is stored.
            "ForceQuantizeNoInputCheck": True,
            "QDQKeepRemovableActivations": True,
            "ActivationSymmetric": False,
            "WeightSymmetric": precision is not Precision.U8,
            "TensorQuantOverrides": overrides,
        },
    }
    return json_bytes(arguments)


def _types(graph: Graph, excluded: set[str]) -> list[str]:
    """Return the operators that are quantised: of some the quantiser must be told."""
    reals = (node for node in graph.nodes if any(graph.types[name].holds_reals for name in node.outputs if name))
    return sorted({node.op for node in reals if not _in(node, excluded)})


@dataclass(frozen=True, slots=True)
class _Overrides:
    """What is said of tensors: those of 16 bits have the plan's scale where that is known, else are symmetric."""

    graph: Graph
    quantized: QuantizedGraph | None
    wide: set[str]
    excluded: set[str]
    narrow: str

    def activations(self) -> dict[str, list[dict[str, object]]]:
        """Return the tensors around 16-bit nodes: what these make has 16 bits, what they read is converted."""
        graph, wide = self.graph, self.wide
        overrides: dict[str, list[dict[str, object]]] = {}
        for node in graph.nodes:
            is_wide = _in(node, wide)
            for tensor in node.outputs if is_wide else ():
                if tensor and graph.types[tensor].holds_reals:
                    overrides[graph.origin_of(tensor)] = [self._wide(tensor)]
            for tensor in node.inputs if is_wide else ():
                source = graph.producers.get(tensor)
                if tensor in graph.constants or not graph.types[tensor].holds_reals or _in(source, wide):
                    continue
                if source is None or _in(source, self.excluded):
                    # Nothing stored it before: to 8 bits first would lose what 16 bits keep.
                    overrides[graph.origin_of(tensor)] = [self._wide(tensor)]
                else:
                    users = [one for one in graph.consumers[tensor] if _in(one, wide)]
                    convert = {**self._form(tensor), "recv_nodes": _names(users)}
                    overrides[graph.origin_of(tensor)] = [{**self._bytes(tensor), "convert": convert}]
        return {**dict(self._clamped()), **overrides}

    def _clamped(self) -> Iterator[tuple[str, list[dict[str, object]]]]:
        """Yield outputs of the network that a clamp alone reads: the quantiser gives them the range of its result."""
        for tensor in self.graph.outputs:
            kind = None if self.quantized is None else made_as(self.graph, self.quantized, tensor)
            if kind is not None and self._is_clamped(tensor):
                yield self.graph.origin_of(tensor), stored_entries(kind)

    def constants(self, precisions: Mapping[str, Precision]) -> Iterator[tuple[str, list[dict[str, object]]]]:
        """Yield the constants of 16 bits, operands of wide nodes, and the weights of nodes that have others.

        `precisions` are those of the nodes with other weights than most have, by the name in the file.
        """
        graph = self.graph
        for node in graph.nodes:
            other = next((precisions[origin] for origin in node.origin if origin in precisions), None)
            for position, (tensor, role) in enumerate(zip(node.inputs, input_roles(graph, node), strict=True)):
                if tensor not in graph.constants:
                    continue
                kind = None if self.quantized is None else read_type(self.quantized, node, position)
                if role is Role.WEIGHT and other is not None:
                    yield graph.origin_of(tensor), _weights(kind, other)
                elif role is Role.DATA and _in(node, self.wide):
                    yield graph.origin_of(tensor), [_sixteen(kind)]

    def _wide(self, tensor: str) -> dict[str, object]:
        narrow = [reader for reader in self.graph.consumers.get(tensor, ()) if not self._is_elsewhere(reader)]
        entry = self._form(tensor)
        if narrow:
            entry["convert"] = {**self._bytes(tensor), "recv_nodes": _names(narrow)}
        return entry

    def _bytes(self, tensor: str) -> dict[str, object]:
        """Return the 8 bits of a tensor that is stored in 16, too, with their scale where a clamp alone reads it.

        The quantiser gives such a tensor the range of the clamp's result.
        """
        dtype = DType.U8 if self.narrow == _ACTIVATIONS[Precision.U8] else DType.I8
        if self.quantized is None or not self._is_clamped(tensor):
            return {"quant_type": self.narrow}
        kind = stored_as(self.graph, self.quantized, tensor, dtype)
        return {"quant_type": self.narrow} if kind is None else stored_entries(kind)[0]

    def _is_clamped(self, tensor: str) -> bool:
        readers = self.graph.consumers.get(tensor, ())
        return len(readers) == 1 and readers[0].op in CLAMPS

    def _is_elsewhere(self, node: Node) -> bool:
        return _in(node, self.wide | self.excluded)

    def _form(self, tensor: str) -> dict[str, object]:
        return _sixteen(None if self.quantized is None else stored_as(self.graph, self.quantized, tensor, DType.I16))


def _sixteen(kind: TensorType | None) -> dict[str, object]:
    """Return 16 bits with the scale of a type that has one, else with one that is symmetric."""
    if kind is None or kind.dtype is not DType.I16 or kind.quant is None or kind.quant.per_channel:
        return {"quant_type": _WIDE_TYPE, "symmetric": True}
    return {"quant_type": _WIDE_TYPE, "scale": kind.quant.scale[0], "zero_point": kind.quant.zero_point[0]}


def _weights(kind: TensorType | None, precision: Precision) -> list[dict[str, object]]:
    """Return what is said of a weight with the numbers of a type that has them, else of the precision's own."""
    if kind is not None and kind.quant is not None:
        return stored_entries(kind)
    return [{"quant_type": _WIDE_TYPE if precision is Precision.I16 else "QInt8", "symmetric": True}]


def _in(node: Node | None, names: set[str]) -> bool:
    return node is not None and any(origin in names for origin in node.origin)


def _names(nodes: Sequence[Node]) -> list[str]:
    return [origin for node in nodes for origin in node.origin]


def _decode(content: bytes, path: str) -> Sequence[Entry]:
    document = mapping_in(read_json(content, path), path, "the arguments")
    entries = [Entry(name, _FLOAT.text) for name in texts_in(document.get("nodes_to_exclude", []), path, "nodes")]
    options = mapping_in(document.get("extra_options", {}), path, "extra_options")
    overrides = mapping_in(options.get("TensorQuantOverrides", {}), path, "TensorQuantOverrides")
    for tensor, value in overrides.items():
        if not isinstance(value, list) or not value:
            raise wrong_shape(path, f"the override of '{tensor}'", "a list of mappings")
        entry = mapping_in(value[0], path, f"the override of '{tensor}'")
        convert = mapping_in(entry.get("convert", {}), path, f"'convert' of '{tensor}'")
        entries.append(Entry(_TENSOR + tensor, _word(entry, tensor, path)))
        readers = texts_in(convert.get("recv_nodes", []), path, f"'recv_nodes' of '{tensor}'")
        entries += [Entry(reader, _word(convert, tensor, path)) for reader in readers]
    return list(dict.fromkeys(entries))


def _word(entry: Mapping[str, object], tensor: str, path: str) -> str:
    """Return what an override makes of the node that makes a tensor, or of one that reads it."""
    kind = entry.get("quant_type")
    if kind not in (None, *_NARROW_TYPES, *_WIDE_TYPES):
        raise FormatError(f"'{kind}' of '{tensor}' is not read.", path=path, line=0, code="UNKNOWN_WORD")
    return _WIDE.text if kind in _WIDE_TYPES else _BASE.text


def _bind_names(graph: Graph, _content: bytes, _path: str) -> Binding:
    """Bind the nodes of the source file, and its tensors under their names with a prefix."""
    tensors: dict[str, tuple[str, ...]] = {}
    for tensor in graph.types:
        producer = graph.producers.get(tensor)
        tensors[_TENSOR + graph.origin_of(tensor)] = () if producer is None else (producer.name,)
    return Binding({**tensors, **bind_sources(graph).nodes_of})


def quantizer_arguments(content: bytes, path: str = "file") -> Mapping[str, Any]:
    """Return keyword arguments for `quantize_static`, with its own types."""
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    document = mapping_in(read_json(content, path), path, "the arguments")
    try:
        value: dict[str, Any] = _with_types(document, QuantType.from_string)
    except ValueError as error:
        raise FormatError(f"{error}.", path=path, line=0, code="UNKNOWN_WORD") from error
    if "op_types_to_quantize" in value:
        # The file may have operators that a graph in normal form has not.
        value["op_types_to_quantize"] = sorted({*value["op_types_to_quantize"], *QDQRegistry, *QLinearOpsRegistry})
    return value


def _with_types(value: Any, make: Any) -> Any:
    if isinstance(value, dict):
        typed = ("quant_type", "activation_type", "weight_type")
        typed_values = {key: make(item) if key in typed else _with_types(item, make) for key, item in value.items()}
        if "recv_nodes" in typed_values:
            # The quantiser computes with it as a set, which JSON lacks.
            typed_values["recv_nodes"] = set(typed_values["recv_nodes"])
        # It takes scalars for arrays.
        for key, kind in (("scale", np.float32), ("zero_point", np.int64)):
            if key in typed_values:
                typed_values[key] = np.array(typed_values[key], kind)
        return typed_values
    return [_with_types(item, make) for item in value] if isinstance(value, list) else value


FORMAT = QuantiserFormat(
    name="onnxruntime",
    title="ONNX Runtime: quantiser",
    pattern="*quantize_static*.json",
    granularity="node of the ONNX file",
    vocabulary=Vocabulary((_BASE,), (_FLOAT, _WIDE)),
    bind=bind_quantiser,
    bind_file=_bind_names,
    encode=_encode,
    decode=_decode,
    numerics=QUANTISER_NUMERICS,
)
