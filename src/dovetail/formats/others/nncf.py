"""NNCF: the arguments of `nncf.IgnoredScope`, as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from google.protobuf.message import DecodeError
from onnx import ModelProto

from dovetail.errors import FormatError
from dovetail.formats.binding import Binding, bind_sources
from dovetail.formats.entries import Entry, EntryFormat
from dovetail.formats.format import WriteRequest, Written
from dovetail.formats.own_model import write_own
from dovetail.formats.spelling import Spelling
from dovetail.formats.text import json_bytes, mapping_in, read_json, texts_in
from dovetail.formats.words import QUANTISED, skip_list
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.roles import CLAMPS, PASS_THROUGH

_WORD = "ignored"
_UNREAD = ("types", "subgraphs")


def _encode(spelling: Spelling, _request: WriteRequest) -> bytes:
    return json_bytes({"names": list(spelling.words)})


def _decode(content: bytes, path: str) -> Sequence[Entry]:
    document = mapping_in(read_json(content, path), path, "an ignored scope")
    for key in _UNREAD:
        if document.get(key):
            raise FormatError(
                f"'{key}' is not read.", path=path, line=0, code="UNREAD", hint="List names or patterns instead."
            )
    names = texts_in(document.get("names", []), path, "names")
    patterns = texts_in(document.get("patterns", []), path, "patterns")
    # NNCF matches patterns from the start of a name to its end.
    return [Entry(name, _WORD) for name in names] + [
        Entry(f"^(?:{pattern})$", _WORD, pattern=True) for pattern in patterns
    ]


_LEFT = frozenset(
    {"Softmax", "LogSoftmax", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Erf", "Gelu", "HardSwish", "HardSigmoid"}
    | {"LeakyRelu", "PRelu", "Elu", "Selu", "Mish", "Softplus", "Softsign", "Abs", "Neg", "Sin", "Cos", "Reciprocal"}
    | {"ReduceSum", "ReduceMin", "ReduceProd", "ReduceL2", "ArgMax", "TopK", "Floor", "Ceil", "Round", "Sign"}
)
"""Operators of ONNX before which NNCF (3.4) never rounds: those of OpenVINO that they become are in no list of its
`openvino/graph/metatypes/groups.py`."""


_NORMALISATION = "BatchNormalization"
_JOINS = frozenset({"Concat", "Pad"})
_ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div"})
"""Operators that NNCF joins to what is before them where they compute with one tensor alone: it rounds nothing
between the two (`openvino/hardware/fused_patterns.py`), and what it does depends on what is before and after."""


def _bind(graph: Graph) -> Binding:
    """Bind the nodes of the source file; before some nothing is rounded, and clamps go with what they clamp."""
    binding = bind_sources(graph)
    left = {node.name for node in graph.nodes if not node.domain and node.op in _LEFT}
    doubtful = {
        node.name for node in graph.nodes if not node.domain and node.op in _ARITHMETIC and len(_data(graph, node)) < 2
    }
    alike: list[tuple[str, ...]] = []
    for node in graph.nodes:
        if node.op in CLAMPS and not node.domain:
            makers = list(_makers(graph, node.inputs[0]))
            names = [maker.name for maker in makers if maker is not None]
            if len(names) < len(makers) or not (left | doubtful).isdisjoint(names):
                # NNCF rounds behind a clamp, and there only for what computes in bytes.
                doubtful.add(node.name)
            else:
                alike.append((*names, node.name))
    bytes_ = frozenset({QUANTISED.text})
    lacks = {item: bytes_ for item, nodes in binding.nodes_of.items() if not left.isdisjoint(nodes)}
    doubts = {item: bytes_ for item, nodes in binding.nodes_of.items() if not doubtful.isdisjoint(nodes)}
    return replace(binding, lacks=lacks, doubts=doubts, alike=tuple(alike))


def _data(graph: Graph, node: Node) -> set[str]:
    return {tensor for tensor in node.inputs if tensor and tensor not in graph.constants}


def _makers(graph: Graph, tensor: str) -> Iterator[Node | None]:
    """Yield the nodes whose numbers a tensor has, and those that move them; None for an input of the graph.

    Where one that only moves is left in float, such as a pooling, nothing is rounded behind it either.
    """
    waiting, seen = [tensor], set()
    while waiting:
        name = waiting.pop()
        node = graph.producers.get(name)
        if name in seen or name in graph.constants:
            continue
        seen.add(name)
        if node is None:
            yield None
            continue
        yield node
        if node.op in PASS_THROUGH or node.op in _JOINS:
            waiting += node.inputs if node.op == "Concat" else node.inputs[:1]


@dataclass(frozen=True)
class NncfFormat(EntryFormat):
    """The scope, with the model that it is for where the user's file has batch normalisations behind convolutions.

    OpenVINO's reading of an ONNX file keeps them apart: NNCF rounds between the two, weights without the factors of
    the normalisation, and corrects no bias.
    """

    def write(self, request: WriteRequest) -> Written:
        """Return the scope; raise InexpressiblePlan where it cannot say what the plan says."""
        why = "" if request.model is None else _normalised_apart(request.model, request.graph)
        if not why:
            return EntryFormat.write(self, request)
        note = f"the scope is for the model beside it, not for the one given: {why}"
        return write_own(partial(EntryFormat.write, self), request, note)


def _normalised_apart(content: bytes, graph: Graph) -> str:
    """Return which node has a batch normalisation of its own in a file, in words; an empty text where none has."""
    try:
        model = ModelProto.FromString(content)
    except DecodeError:
        return ""
    made = {output for node in model.graph.node if node.op_type == _NORMALISATION for output in node.output}
    for node in graph.nodes:
        if node.op != _NORMALISATION and any(graph.origin_of(output) in made for output in node.outputs if output):
            return f"{node.label} has a batch normalisation behind it there"
    return ""


FORMAT = NncfFormat(
    name="nncf",
    title="NNCF: ignored scope",
    pattern="*ignored_scope*.json",
    granularity="node of the ONNX file",
    vocabulary=skip_list(_WORD),
    bind=_bind,
    encode=_encode,
    decode=_decode,
)
