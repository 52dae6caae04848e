"""AI Edge Quantizer: a recipe, the JSON list that `Quantizer.load_quantization_recipe` takes.

Rules apply to operators by a regular expression over the names of what they make, each followed by ';'.
The last rule that matches counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dovetail.errors import FormatError
from dovetail.formats.binding import Binding, bind_tensors
from dovetail.formats.entries import Entry, EntryFormat
from dovetail.formats.format import WriteRequest
from dovetail.formats.litert.numerics import EDGE_NUMERICS
from dovetail.formats.litert.operators import file_operators
from dovetail.formats.spelling import Side, Spelling, Vocabulary, Word
from dovetail.formats.text import json_bytes, mapping_in, read_json, wrong_shape
from dovetail.formats.words import FLOATS
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision

_FLOAT = Word("no_quantize", Side.EITHER, FLOATS)
_WIDE = Word("a16w8", Side.NPU, (Precision.W8A16,))
_BASE = Word("a8w8", Side.EITHER, (Precision.I8PC, Precision.I8))
_UNIFORM = "min_max_uniform_quantize"


_BYTES = frozenset(
    {"ADD", "AVERAGE_POOL_2D", "BATCH_MATMUL", "BROADCAST_TO", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "DIV"}
    | {"DYNAMIC_UPDATE_SLICE", "FULLY_CONNECTED", "GATHER", "GATHER_ND", "GELU", "HARD_SWISH", "LOGISTIC", "MAXIMUM"}
    | {"MAX_POOL_2D", "MEAN", "MIRROR_PAD", "MUL", "PACK", "PAD", "PADV2", "REDUCE_MIN", "RELU", "RESHAPE"}
    | {"RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "RSQRT", "SELECT", "SELECT_V2", "SLICE", "SOFTMAX"}
    | {"SPACE_TO_DEPTH", "SPLIT", "SQRT", "SQUARED_DIFFERENCE", "STRIDED_SLICE", "SUB", "SUM", "TANH", "TRANSPOSE"}
    | {"TRANSPOSE_CONV", "UNPACK"}
)
"""Operators that the quantiser (0.10) takes in 8 bits, by their names in a file; others it leaves in float."""
_NOT_WIDE = frozenset({"HARD_SWISH", "SPACE_TO_DEPTH", "SQUARED_DIFFERENCE"})
"""Those that it has not in 16 bits: it falls back to the rule before."""


def _bind_listing(graph: Graph, content: bytes, path: str) -> Binding:
    """Bind by the operators of a file, with what the quantiser cannot do to them."""
    operators = file_operators(content, path)
    binding = operators.bind(graph)
    lacks: dict[str, frozenset[str]] = {}
    for name, item in operators.by_name.items():
        if any(operators.tensor(index).is_float for index in item.outputs):
            wide = item.kind in _BYTES and item.kind not in _NOT_WIDE
            words = {_BASE.text: item.kind in _BYTES, _WIDE.text: wide}
            lacks[name] = frozenset(text for text, has in words.items() if not has)
    return replace(binding, lacks=lacks)


def _config(bits: int, *, per_channel: bool) -> dict[str, object]:
    weights = "CHANNELWISE" if per_channel else "TENSORWISE"
    return {
        "activation_tensor_config": {
            "num_bits": bits,
            "symmetric": bits == 16,
            "granularity": "TENSORWISE",
            "dtype": "INT",
        },
        "weight_tensor_config": {"num_bits": 8, "symmetric": True, "granularity": weights, "dtype": "INT"},
        "compute_precision": "INTEGER",
        "explicit_dequantize": False,
        "skip_checks": False,
        "min_weight_elements": 0,
    }


_ENDS = ("INPUT", "OUTPUT")
"""Operations for what goes in and comes out: as floats, or float operators would read rounded inputs."""


def _rule(regex: str, config: dict[str, object] | None, operation: str = "*") -> dict[str, object]:
    if config is None:
        return {"regex": regex, "operation": operation, "algorithm_key": "no_quantize", "op_config": {}}
    return {"regex": regex, "operation": "*", "algorithm_key": _UNIFORM, "op_config": config}


def _encode(spelling: Spelling, request: WriteRequest) -> bytes:
    plan = request.plan
    if not any(plan.placement(node.name).precision.is_quantized for node in request.graph.nodes):
        # With a rule that quantises nothing, the quantiser asks for a calibration that finds nothing.
        return json_bytes([_rule(".*", None)])
    per_channel = spelling.base.precision is not Precision.I8
    rules = [_rule(".*", _config(8, per_channel=per_channel)), *(_rule(".*", None, end) for end in _ENDS)]
    for item, word in spelling.words.items():
        rules.append(_rule(f"^{re.escape(item)};", None if word is _FLOAT else _config(16, per_channel=True)))
    return json_bytes(rules)


def _decode(content: bytes, path: str) -> Sequence[Entry]:
    value = read_json(content, path)
    if not isinstance(value, list):
        raise wrong_shape(path, "a recipe", "a list of rules")
    entries: list[Entry] = []
    for number, item in enumerate(value, 1):
        rule = mapping_in(item, path, f"rule {number}")
        regex, operation = str(rule.get("regex", "")), rule.get("operation")
        if operation in _ENDS:
            continue
        if operation != "*":
            message = f"rule {number} is about the operation {operation}: only '*' is read."
            raise FormatError(message, path=path, line=0, code="UNREAD")
        word = _word(rule, path, number)
        literal = _literal(regex)
        if literal is not None:
            entries.append(Entry(literal, word))
        else:
            entries.append(Entry(regex.replace(";", "$") if regex.endswith(";") else regex, word, pattern=True))
    return entries


def _word(rule: dict[str, object], path: str, number: int) -> str:
    key = rule.get("algorithm_key")
    if key == _FLOAT.text:
        return _FLOAT.text
    config = mapping_in(rule.get("op_config"), path, f"op_config of rule {number}")
    bits = [
        mapping_in(config.get(name), path, f"{name} of rule {number}").get("num_bits")
        for name in ("activation_tensor_config", "weight_tensor_config")
    ]
    return f"a{bits[0]}w{bits[1]}"


def _literal(regex: str) -> str | None:
    """Return the name that an expression written by `re.escape` stands for, or None."""
    if not (regex.startswith("^") and regex.endswith(";")):
        return None
    name = re.sub(r"\\(.)", r"\1", regex[1:-1])
    return name if re.escape(name) == regex[1:-1] else None


FORMAT = EntryFormat(
    name="ai-edge-quantizer",
    title="AI Edge Quantizer: recipe",
    pattern="*recipe*.json",
    granularity="output tensor of an operator",
    vocabulary=Vocabulary((_BASE,), (_FLOAT, _WIDE)),
    bind=bind_tensors,
    bind_listing=_bind_listing,
    listed=".tflite",
    encode=_encode,
    decode=_decode,
    numerics=EDGE_NUMERICS,
)
