"""TPU-MLIR: the quantisation table of mixed precision.

Each line is an operator and its mode; an operator of an ONNX model is called like its output and its type: `x_Conv`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.errors import FormatError
from dovetail.formats.binding import Binding
from dovetail.formats.entries import Entry, EntryFormat
from dovetail.formats.format import WriteRequest
from dovetail.formats.spelling import Side, Spelling, Vocabulary, Word
from dovetail.formats.text import decode
from dovetail.formats.words import BYTES
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision

_WORDS = (
    Word("F32", Side.NPU, (Precision.FP32,)),
    Word("F16", Side.NPU, (Precision.FP16,)),
    Word("BF16", Side.NPU, (Precision.BF16,)),
)


def _bind(graph: Graph) -> Binding:
    return Binding(
        {
            f"{graph.origin_of(tensor)}_{node.op}": (node.name,)
            for node in graph.nodes
            for tensor in node.outputs[:1]
            if tensor
        }
    )


def _encode(spelling: Spelling, request: WriteRequest) -> bytes:
    for item in spelling.words:
        if any(sign.isspace() for sign in item) or item.startswith("#"):
            raise FormatError(
                f"'{item}' holds a blank or starts with '#'.", path=request.path, line=0, code="NAME", hint="Rename it."
            )
    lines = "".join(f"{item} {word.text}\n" for item, word in spelling.words.items())
    return ("# op_name   quantize_mode\n" + lines).encode()


def _decode(content: bytes, path: str) -> Sequence[Entry]:
    entries: list[Entry] = []
    for number, line in enumerate(decode(content, path).splitlines(), 1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        if len(fields) != 2:
            raise FormatError("an operator and a mode are expected.", path=path, line=number, code="SHAPE")
        entries.append(Entry(fields[0], fields[1], number))
    return entries


FORMAT = EntryFormat(
    name="tpu-mlir",
    title="TPU-MLIR: qtable",
    pattern="*qtable*",
    granularity="operator",
    vocabulary=Vocabulary((Word("INT8", Side.NPU, BYTES),), _WORDS),
    bind=_bind,
    encode=_encode,
    decode=_decode,
)
