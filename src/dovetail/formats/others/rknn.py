"""RKNN Toolkit 2: the block `custom_quantize_layers` of a `.quantization.cfg`.

The rest of the file is kept byte for byte: the toolkit refuses parameters that were written anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dovetail.formats.binding import bind_tensors
from dovetail.formats.entries import Entry, EntryFormat
from dovetail.formats.format import WriteRequest
from dovetail.formats.spelling import Side, Spelling, Vocabulary, Word
from dovetail.formats.text import decode, mapping_in
from dovetail.formats.words import BYTES
from dovetail.formats.yaml_text import parse_yaml, quoted
from dovetail.ir.precision import Precision

_KEY = "custom_quantize_layers"
_BLOCK = re.compile(rf"^{_KEY}:[^\n]*\n(?:[ \t]+[^\n]*\n|[ \t]*\n)*", re.MULTILINE)
_WORDS = (
    Word("float16", Side.NPU, (Precision.FP16,)),
    Word("float32", Side.NPU, (Precision.FP32,)),
)


def _encode(spelling: Spelling, request: WriteRequest) -> bytes:
    lines = "".join(f"    {quoted(item)}: {word.text}\n" for item, word in spelling.words.items())
    block = f"{_KEY}:\n{lines}" if lines else f"{_KEY}: {{}}\n"
    if request.previous is None:
        return (block + "quantize_parameters: {}\n").encode()
    # Read it first: it must be what it seems before its text is cut.
    _decode(request.previous, request.path)
    text = decode(request.previous, request.path)
    text = text if text.endswith("\n") else text + "\n"
    return (_BLOCK.sub(lambda _: block, text, count=1) if _BLOCK.search(text) else block + text).encode()


def _decode(content: bytes, path: str) -> Sequence[Entry]:
    document = parse_yaml(content, path)
    root = mapping_in(document.value, path, "a quantisation configuration")
    layers = mapping_in(root.get(_KEY) or {}, path, _KEY)
    return [Entry(name, str(word), document.line(_KEY, name)) for name, word in layers.items()]


FORMAT = EntryFormat(
    name="rknn",
    title="RKNN Toolkit 2: hybrid quantisation",
    pattern="*.quantization.cfg",
    granularity="output tensor of a layer",
    vocabulary=Vocabulary((Word("int8", Side.NPU, BYTES),), _WORDS),
    bind=bind_tensors,
    encode=_encode,
    decode=_decode,
)
