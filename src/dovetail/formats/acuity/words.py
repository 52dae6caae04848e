"""What Acuity calls precisions, and the words that look right and are not."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dovetail.formats.spelling import Side, Vocabulary, Word
from dovetail.ir.precision import Precision

BLOCK = "customized_quantize_layers"

_SPELLINGS: Mapping[Precision, str] = {
    Precision.U8: "asymmetric_affine-u8",
    Precision.I8: "symmetric_affine-i8",
    Precision.I8PC: "perchannel_symmetric_affine-i8",
    Precision.I8DFP: "dynamic_fixed_point-i8",
    Precision.I16: "dynamic_fixed_point-i16",
    Precision.FP16: "float16",
    Precision.BF16: "bfloat16",
    Precision.FP32: "float32",
}
_WORDS = {precision: Word(text, Side.NPU, (precision,)) for precision, text in _SPELLINGS.items()}
_BASES = (Precision.I8PC, Precision.U8, Precision.I8, Precision.I16, Precision.I8DFP, Precision.FP16, Precision.BF16)

VOCABULARY = Vocabulary(tuple(_WORDS[precision] for precision in _BASES), tuple(_WORDS.values()))
"""One word per precision of the NPU. The CPU has none: Acuity makes one binary for the NPU."""

ROUNDED = frozenset(word.text for precision, word in _WORDS.items() if precision is not Precision.FP32)
"""All words but that for float."""

ALIASES: Mapping[str, str] = {
    "dynamic_fixed_point-8": "dynamic_fixed_point-i8",
    "dynamic_fixed_point-16": "dynamic_fixed_point-i16",
    "asymmetric_quantized-u8": "asymmetric_affine-u8",
    "qbfloat16": "bfloat16",
}
"""Older spellings that Acuity still takes."""

_GRAMMAR = re.compile(
    r"float32|float16|bfloat16|qbfloat16"
    r"|(?:asymmetric_affine|symmetric_affine|dynamic_fixed_point|perchannel_symmetric_affine)-[ui](?:4|6|8|12|16)"
    r"|dynamic_fixed_point-(?:8|16)|asymmetric_quantized-u8"
)
_BARE = {
    "int16": "dynamic_fixed_point-i16",
    "int8": "dynamic_fixed_point-i8",
    "uint8": "asymmetric_affine-u8",
    "i16": "dynamic_fixed_point-i16",
    "i8": "dynamic_fixed_point-i8",
    "u8": "asymmetric_affine-u8",
}


def is_word(text: str) -> bool:
    """Tell whether Acuity takes a word."""
    return _GRAMMAR.fullmatch(text) is not None


def meant(text: str) -> str | None:
    """Return the word that was meant by one that Acuity silently ignores, or None."""
    return _BARE.get(text)


def precision_of(text: str) -> Precision | None:
    """Return the precision that a word stands for; None for those that Dovetail has no name for."""
    text = ALIASES.get(text, text)
    if text == "asymmetric_affine-i8":
        # Activations as in i8; with this word the weights are asymmetric too.
        return Precision.I8
    if text == "symmetric_affine-i16":
        return Precision.I16
    return next((precision for precision, word in _SPELLINGS.items() if word == text), None)
