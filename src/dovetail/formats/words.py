"""Words that several formats share."""

from __future__ import annotations

from dovetail.formats.spelling import Side, Vocabulary, Word
from dovetail.ir.precision import Precision

BYTES = (Precision.I8PC, Precision.I8, Precision.U8)
QUANTISED = Word("int8", Side.EITHER, BYTES)
FLOATS = (Precision.FP32, Precision.FP16, Precision.BF16)


def skip_list(text: str, side: Side = Side.EITHER) -> Vocabulary:
    """Return what a list of exclusions can say: 8 bits, or not quantised."""
    floats = FLOATS if side is Side.EITHER else (Precision.FP32,)
    return Vocabulary(
        (QUANTISED if side is Side.EITHER else Word("int8", Side.NPU, BYTES),), (Word(text, side, floats),)
    )


def two_sides(npu: str, cpu: str) -> Vocabulary:
    """Return what a list of devices can say: who runs a node, in whatever precision."""
    on_cpu = Word(cpu, Side.CPU, tuple(Precision))
    return Vocabulary((Word(npu, Side.NPU, tuple(Precision)), on_cpu), (on_cpu,))
