"""RKNN Toolkit 2: the block `custom_quantize_layers` of a `.quantization.cfg`.

The rest of the file is kept byte for byte: the toolkit refuses parameters that were written anew. It also refuses names
that it does not know, and it renames what it rewrites (`x` becomes `x_rs_sw`): with the file of
`hybrid_quantization_step1` as the previous one the names are those of its `quantize_parameters`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from dovetail.errors import FormatError
from dovetail.formats.binding import Binding, Operation, bind_operations, bind_tensors
from dovetail.formats.entries import Entry, EntryFormat
from dovetail.formats.format import WriteRequest
from dovetail.formats.spelling import Side, Spelling, Vocabulary, Word
from dovetail.formats.text import decode, mapping_in
from dovetail.formats.words import BYTES
from dovetail.formats.yaml_text import Document, parse_yaml, quoted
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision

_KEY = "custom_quantize_layers"
_KEY_OF_TOOLKIT_1 = "customized_quantize_layers"
_PARAMETERS = "quantize_parameters"
_BLOCK = re.compile(rf"^{_KEY}:[^\n]*\n(?:[ \t]+[^\n]*\n|[ \t]*\n)*", re.MULTILINE)
_REWRITTEN = re.compile(r"(?:[-_#](?:rs|sw|mm|tp|gather|\d{1,4}))+")
_WORDS = (
    Word("float16", Side.NPU, (Precision.FP16,)),
    Word("int16", Side.NPU, (Precision.I16, Precision.W8A16)),
)


def _encode(spelling: Spelling, request: WriteRequest) -> bytes:
    lines = "".join(f"    {quoted(item)}: {word.text}\n" for item, word in spelling.words.items())
    block = f"{_KEY}:\n{lines}" if lines else f"{_KEY}: {{}}\n"
    if request.previous is None:
        return (block + f"{_PARAMETERS}: {{}}\n").encode()
    # Read it first: it must be what it seems before its text is cut.
    _decode(request.previous, request.path)
    text = decode(request.previous, request.path)
    text = text if text.endswith("\n") else text + "\n"
    return (_BLOCK.sub(lambda _: block, text, count=1) if _BLOCK.search(text) else block + text).encode()


def _decode(content: bytes, path: str) -> Sequence[Entry]:
    document, root = _root(content, path)
    layers = mapping_in(root.get(_KEY) or {}, path, _KEY)
    return [Entry(name, str(word), document.line(_KEY, name)) for name, word in layers.items()]


def _root(content: bytes, path: str) -> tuple[Document, dict[str, object]]:
    document = parse_yaml(content, path)
    root = mapping_in(document.value, path, "a quantisation configuration")
    if _KEY_OF_TOOLKIT_1 in root:
        raise FormatError(
            f"'{_KEY_OF_TOOLKIT_1}' is of RKNN Toolkit 1, which is not read.",
            path=path,
            line=document.line(_KEY_OF_TOOLKIT_1),
            code="TOOLKIT_1",
            hint=f"Toolkit 2 has '{_KEY}'; Toolkit 1 is Acuity's: see the format acuity-quantize.",
        )
    return document, root


def _bind_file(graph: Graph, content: bytes, path: str) -> Binding:
    """Bind by tensors, under the toolkit's names for them if the file lists those."""
    parameters = mapping_in(_root(content, path)[1].get(_PARAMETERS) or {}, path, _PARAMETERS)
    by_tensor = bind_tensors(graph)
    if not parameters:
        return by_tensor
    tensors = by_tensor.nodes_of.keys()
    listed = [Operation(name, "", (), (_tensor(name, tensors),)) for name in parameters]
    found = bind_operations(graph, [item for item in listed if item.outs[0] in tensors])
    return Binding(found.nodes_of, frozenset(parameters))


def _tensor(name: str, tensors: Collection[str]) -> str:
    """Return the tensor of the model that a name of the toolkit stands for, else the name itself."""
    ends = (found.start() for found in re.finditer("[-_#]", name))
    whole = (name[:end] for end in ends if _REWRITTEN.fullmatch(name, end))
    return name if name in tensors else next((one for one in whole if one in tensors), name)


FORMAT = EntryFormat(
    name="rknn",
    title="RKNN Toolkit 2: hybrid list",
    pattern="*.quantization.cfg",
    granularity="output tensor of a layer",
    vocabulary=Vocabulary((Word("int8", Side.NPU, BYTES),), _WORDS),
    bind=bind_tensors,
    bind_file=_bind_file,
    encode=_encode,
    decode=_decode,
)
