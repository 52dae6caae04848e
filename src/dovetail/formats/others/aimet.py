"""AIMET and the Qualcomm converters: an encodings file, version 0.6.1.

With the scales of a plan (`--ranges`) every tensor is listed: `load_encodings_to_sim` turns off the quantisers that a
file leaves out. Without them only the exceptions are listed, with their bits and kind: enough for the converters'
`--quantization_overrides`, which calibrate the rest, but AIMET wants a scale for every integer. Versions 1.0.0 and
2.0.0 are read too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from dovetail.errors import FormatError
from dovetail.formats.binding import Binding, bind_tensors
from dovetail.formats.entries import Entry, EntryFormat
from dovetail.formats.format import WriteRequest
from dovetail.formats.spelling import Side, Spelling, Vocabulary, Word
from dovetail.formats.text import json_bytes, mapping_in, read_json, wrong_shape
from dovetail.formats.words import BYTES
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision
from dovetail.ir.roles import weight_layout
from dovetail.ir.types import TensorType
from dovetail.plan.quantized import QuantizedGraph

VERSION = "0.6.1"
_INT16 = Word("int16", Side.NPU, (Precision.W8A16, Precision.I16))
_FLOAT16 = Word("float16", Side.NPU, (Precision.FP16,))
_FLOAT32 = Word("float32", Side.EITHER, (Precision.FP32,))
_BASE = Word("int8", Side.NPU, BYTES)
_KINDS = {
    _BASE.text: (8, "int"),
    _INT16.text: (16, "int"),
    _FLOAT16.text: (16, "float"),
    _FLOAT32.text: (32, "float"),
}
_WORD_OF = {kind: word for word, kind in _KINDS.items()}
_DTYPE = re.compile(r"u?(int|float)(\d{1,2})")


def _encode(spelling: Spelling, request: WriteRequest) -> bytes:
    if request.version not in ("", VERSION):
        hint = f"The toolchains that read later versions read {VERSION} too."
        message = f"version '{request.version}' is not written."
        raise FormatError(message, path=request.path, line=0, code="VERSION", hint=hint)
    listed: dict[str, object] = {item: [_kind(word.text)] for item, word in spelling.words.items()}
    weights: dict[str, object] = {}
    if request.quantized is not None:
        listed = {**_activations(request.quantized), **_floats(listed)}
        weights = _constants(request.quantized)
    return json_bytes({"version": VERSION, "activation_encodings": listed, "param_encodings": weights})


def _kind(word: str) -> dict[str, object]:
    bits, kind = _KINDS[word]
    return {"bitwidth": bits, "dtype": kind}


def _floats(listed: Mapping[str, object]) -> dict[str, object]:
    floats = ([_kind(_FLOAT16.text)], [_kind(_FLOAT32.text)])
    return {item: entry for item, entry in listed.items() if entry in floats}


def _activations(quantized: QuantizedGraph) -> dict[str, object]:
    """Return the encodings of what nodes make, and of the model's inputs, by the names of the source file."""
    graph = quantized.graph
    encodings: dict[str, object] = {}
    for node in graph.nodes:
        for tensor in node.outputs:
            source = graph.origin_of(tensor)
            # What converts at a border stands for the tensor that it converts; only a model's input has no other maker.
            own = node.name not in quantized.boundaries or graph.origin_of(node.inputs[0]) in graph.inputs
            encoding = encoding_of(graph.types[tensor]) if tensor and own else None
            if encoding is not None:
                encodings.setdefault(source, encoding)
    return encodings


def _constants(quantized: QuantizedGraph) -> dict[str, object]:
    """Return the encodings of weights and constant operands; those of biases follow from them."""
    graph = quantized.graph
    layouts = [(node, weight_layout(graph, node)) for node in graph.nodes]
    biases = {
        node.inputs[layout.bias]
        for node, layout in layouts
        if layout is not None and layout.bias is not None and layout.bias < len(node.inputs)
    }
    encodings: dict[str, object] = {}
    for name in graph.constants:
        encoding = None if name in biases else encoding_of(graph.types[name])
        if encoding is not None:
            encodings.setdefault(graph.origin_of(name), encoding)
    return encodings


def encoding_of(kind: TensorType) -> list[dict[str, object]] | None:
    """Return a tensor's encoding, one mapping for every channel; None when it is not quantised.

    real = (q + offset) * scale with q unsigned. Source: AIMET's quantization_encoding_specification, version 0.6.1.
    """
    if kind.quant is None:
        return None
    lowest, highest = kind.dtype.integer_range
    zeros = kind.quant.zero_point
    pairs = zip(kind.quant.scale, zeros if len(zeros) > 1 else zeros * len(kind.quant.scale), strict=True)
    return [
        {
            "bitwidth": 8 * kind.dtype.size_bytes,
            "dtype": "int",
            "is_symmetric": str(lowest < 0 and not any(zeros)),
            "max": (highest - zero) * scale,
            "min": (lowest - zero) * scale,
            "offset": lowest - zero,
            "scale": scale,
        }
        for scale, zero in pairs
    ]


def _decode(content: bytes, path: str) -> Sequence[Entry]:
    document = mapping_in(read_json(content, path), path, "an encodings file")
    entries: list[Entry] = []
    for name, encoding in _listed(document, path):
        bits, kind = encoding.get("bitwidth", encoding.get("bw")), str(encoding.get("dtype", "int")).lower()
        dtype = _DTYPE.fullmatch(str(encoding.get("output_dtype", "")))
        if dtype is not None:
            bits, kind = int(dtype[2]), dtype[1]
        word = next((word for known, word in _WORD_OF.items() if known == (bits, kind)), f"{kind}{bits}")
        entries.append(Entry(name, word))
    return entries


def _listed(document: dict[str, object], path: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the activations: a mapping in version 0.6.1, a list in 1.0.0, among the weights in 2.0.0."""
    key = "encodings" if "encodings" in document else "activation_encodings"
    listed = document.get(key, {})
    if isinstance(listed, list):
        for number, item in enumerate(listed, 1):
            encoding = mapping_in(item, path, f"entry {number} of {key}")
            name = encoding.get("name")
            if not isinstance(name, str):
                raise wrong_shape(path, f"'name' of entry {number} of {key}", "the name of a tensor")
            yield name, encoding
        return
    for name, encodings in mapping_in(listed, path, key).items():
        if not isinstance(encodings, list) or not encodings:
            raise wrong_shape(path, f"the encoding of '{name}'", "a list with one mapping for every channel")
        yield name, mapping_in(encodings[0], path, f"the encoding of '{name}'")


def _bind(graph: Graph) -> Binding:
    """Bind by tensors; inputs and weights have encodings too, and no node to place."""
    others = (*graph.inputs, *graph.constants)
    return Binding(bind_tensors(graph).nodes_of, frozenset(graph.origin_of(name) for name in others))


FORMAT = EntryFormat(
    name="aimet",
    title="AIMET / Qualcomm: encodings",
    pattern="*.encodings",
    granularity="activation tensor",
    vocabulary=Vocabulary((_BASE,), (_INT16, _FLOAT16, _FLOAT32)),
    bind=_bind,
    encode=_encode,
    decode=_decode,
)
