"""AIMET and the Qualcomm converters: an encodings file for `--quantization_overrides`.

An activation is listed with its bits and kind; where the plan comes with scales they are written too, else the
converter finds them by calibration.
"""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.formats.binding import bind_tensors
from dovetail.formats.entries import Entry, EntryFormat
from dovetail.formats.format import WriteRequest
from dovetail.formats.spelling import Side, Spelling, Vocabulary, Word
from dovetail.formats.text import json_bytes, mapping_in, read_json, wrong_shape
from dovetail.formats.words import BYTES
from dovetail.ir.precision import Precision
from dovetail.ir.types import TensorType
from dovetail.plan.quantized import QuantizedGraph

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


def _encode(spelling: Spelling, request: WriteRequest) -> bytes:
    activations: dict[str, object] = {}
    for item, word in spelling.words.items():
        bits, kind = _KINDS[word.text]
        encoding: dict[str, object] = {"bitwidth": bits, "dtype": kind}
        if kind == "int":
            encoding |= _scales(request.quantized, item)
        activations[item] = [encoding]
    return json_bytes({"version": "0.6.1", "activation_encodings": activations, "param_encodings": {}})


def _scales(quantized: QuantizedGraph | None, tensor: str) -> dict[str, object]:
    """Return scale, offset and limits in AIMET's terms: real = (q + offset) * scale, with q unsigned."""
    if quantized is None:
        return {}
    graph = quantized.graph
    name = next((one for one in graph.producers if graph.origin_of(one) == tensor), "")
    found: TensorType | None = graph.types.get(name)
    if found is None or found.quant is None:
        return {}
    lowest, highest = found.dtype.integer_range
    scale, zero = found.quant.scale[0], found.quant.zero_point[0]
    return {
        "is_symmetric": str(zero == 0 and lowest < 0),
        "scale": scale,
        "offset": lowest - zero,
        "min": (lowest - zero) * scale,
        "max": (highest - zero) * scale,
    }


def _decode(content: bytes, path: str) -> Sequence[Entry]:
    document = mapping_in(read_json(content, path), path, "an encodings file")
    activations = mapping_in(document.get("activation_encodings", {}), path, "activation_encodings")
    found: list[Entry] = []
    for name, encodings in activations.items():
        if not isinstance(encodings, list) or not encodings:
            raise wrong_shape(path, f"the encoding of '{name}'", "a list with one mapping")
        first = mapping_in(encodings[0], path, f"the encoding of '{name}'")
        kind = (first.get("bitwidth"), first.get("dtype", "int"))
        word = next((word for known, word in _WORD_OF.items() if known == kind), f"{kind[1]}{kind[0]}")
        found.append(Entry(name, word))
    return found


FORMAT = EntryFormat(
    name="aimet",
    title="AIMET / Qualcomm: quantisation overrides",
    pattern="*.encodings",
    granularity="activation tensor",
    vocabulary=Vocabulary((_BASE,), (_INT16, _FLOAT16, _FLOAT32)),
    bind=bind_tensors,
    encode=_encode,
    decode=_decode,
)
