"""Read and write `.quantize` tables.

YAML or JSON. Keys are kept in their order, unknown ones too. Keys of tensors are `@LID:PORT`; what the keys
`customized_quantize_layers` say is in `words`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from dovetail.errors import FormatError
from dovetail.formats.acuity.words import BLOCK
from dovetail.formats.text import mapping_in
from dovetail.formats.yaml_text import Document, block_text, parse_yaml, quoted, scalar_text

_FIRST_KEYS = ("version", "quantize_parameters", BLOCK, "stable_quantize_tensors")


@dataclass(frozen=True, slots=True)
class TensorParameters:
    """How a tensor is stored; `scale`, `zero_point` and `fl` (fraction bits) are None where the quantiser has none."""

    qtype: str
    quantizer: str
    rounding: str = "rtne"
    quant_range_mode: int = 0
    max_value: float | None = None
    min_value: float | None = None
    scale: float | tuple[float, ...] | None = None
    zero_point: int | None = None
    fl: int | None = None
    channel_dim: int | None = None
    extra: Mapping[str, object] = field(default_factory=dict)
    """Fields that are not known here, kept as they are."""


@dataclass(frozen=True)
class QuantizeTable:
    """A `.quantize` file; `lines` are those of the words, `legacy` tells that their block was not indented."""

    version: int
    parameters: Mapping[str, TensorParameters]
    words: Mapping[str, str]
    rest: Mapping[str, object] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    legacy: bool = False


def tensor_key(lid: str, port: str) -> str:
    """Return the key of a layer's port."""
    return f"@{lid}:{port}"


def split_key(key: str) -> tuple[str, str]:
    """Return the layer and the port of a key; raise ValueError when it is none."""
    lid, sign, port = key.removeprefix("@").rpartition(":")
    if not key.startswith("@") or not sign or not lid or not port:
        raise ValueError(f"'{key}' is no @LAYER:PORT")
    return lid, port


def read_table(content: bytes, path: str) -> QuantizeTable:
    """Return the table in a file; raise FormatError naming the line that is wrong."""
    document = parse_yaml(content, path)
    root = mapping_in(document.value, path, "a quantize table")
    if "quantize_parameters" not in root and BLOCK not in root:
        raise FormatError("no 'quantize_parameters'.", path=path, line=0, code="SHAPE", hint="Is it a .quantize file?")
    raw = mapping_in(root.get("quantize_parameters") or {}, path, "quantize_parameters")
    parameters = {key: _parameters(key, value, document, path) for key, value in raw.items()}
    block = root.get(BLOCK)
    words = {key: str(value) for key, value in mapping_in(block or {}, path, BLOCK).items()}
    lines = {key: document.line(BLOCK, key) for key in words}
    rest = {key: value for key, value in root.items() if key not in _FIRST_KEYS[:3]}
    legacy: dict[str, str] = {}
    if BLOCK in root and block is None:
        # As some vendors print it: the entries stand unindented after the empty key.
        legacy = {key: value for key, value in rest.items() if isinstance(value, str)}
        rest = {key: value for key, value in rest.items() if key not in legacy}
        lines = {key: document.line(key) for key in legacy}
    version = root.get("version", 2)
    if not isinstance(version, int):
        raise FormatError(f"version '{version}'.", path=path, line=document.line("version"), code="SHAPE")
    return QuantizeTable(version, parameters, words | legacy, rest, lines, bool(legacy))


def _parameters(key: str, value: object, document: Document, path: str) -> TensorParameters:
    line = document.line("quantize_parameters", key)
    try:
        split_key(key)
    except ValueError as error:
        raise FormatError(f"{error}.", path=path, line=line, code="KEY") from error
    fields = mapping_in(value, path, f"the parameters of '{key}'")
    known = {name: fields[name] for name in TensorParameters.__slots__ if name in fields and name != "extra"}
    try:
        return TensorParameters(
            qtype=str(known.get("qtype", "")),
            quantizer=str(known.get("quantizer", "")),
            rounding=str(known.get("rounding", "rtne")),
            quant_range_mode=_whole(known.get("quant_range_mode")) or 0,
            max_value=_number(known.get("max_value")),
            min_value=_number(known.get("min_value")),
            scale=_scale(known.get("scale")),
            zero_point=_whole(known.get("zero_point")),
            fl=_whole(known.get("fl")),
            channel_dim=_whole(known.get("channel_dim")),
            extra={name: item for name, item in fields.items() if name not in known},
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"'{key}': {error}.", path=path, line=line, code="NUMBER") from error


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    if not math.isfinite(value):
        raise ValueError(f"{value!r} is not finite")
    return float(value)


def _whole(value: object) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _scale(value: object) -> float | tuple[float, ...] | None:
    if isinstance(value, list):
        return tuple(cast("float", _number(item)) for item in value)
    return _number(value)


def write_table(table: QuantizeTable) -> str:
    """Return a table as Acuity itself writes it; all four keys are there."""
    lines = [f"version: {table.version}\n"]
    lines.append("quantize_parameters:\n" if table.parameters else "quantize_parameters: {}\n")
    for key, item in table.parameters.items():
        lines.append(f"  {quoted(key)}:\n")
        lines.append(block_text(_fields(item), 4))
    lines.append(f"{BLOCK}:\n" if table.words else f"{BLOCK}: {{}}\n")
    lines += [f"  {scalar_text(lid)}: {scalar_text(word)}\n" for lid, word in table.words.items()]
    rest = {"stable_quantize_tensors": {}} | dict(table.rest)
    lines.append(block_text(rest))
    return "".join(lines)


def _fields(item: TensorParameters) -> dict[str, object]:
    """Return the fields that a quantiser has, in the order in which Acuity writes them."""
    float_format = item.quantizer in ("float16", "bfloat16", "float32", "qbfloat16")
    fields: dict[str, object] = {"qtype": item.qtype, "quantizer": item.quantizer}
    if not float_format:
        fields["rounding"] = item.rounding
    fields["quant_range_mode"] = item.quant_range_mode
    scale = list(item.scale) if isinstance(item.scale, tuple) else item.scale
    for name, value in (
        ("max_value", item.max_value),
        ("min_value", item.min_value),
        ("scale", scale),
        ("zero_point", item.zero_point),
        ("fl", item.fl),
        ("channel_dim", item.channel_dim),
    ):
        if value is not None:
            fields[name] = value
    return fields | dict(item.extra)
