"""VeriSilicon VIP targets: the rules of each generation of the architecture.

Engines, rounding and multiplier widths were measured operator by operator on the vendor's instruction-level simulator
(the SDKs of 2023-11 and 2025-08), each against float64 arithmetic. Where ties tell rounding modes apart the mode is set
below. Known and not modelled: average pooling and int8 Add of the v7 parts (mixed ties), the tables of Sigmoid and Gelu
(up to 1 LSB) and of 16-bit activations (up to 3 LSB).
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.backend.arithmetic import Arithmetic, Carrier, Rounding, Tie, ZeroPointOrder
from dovetail.backend.constraints import ConstantInputs, MaxRank, RealTensors, StaticShapes
from dovetail.backend.target import Engine, HardwareFacts, OperatorRule
from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.parts import operators as ops
from dovetail.backends.verisilicon.parts.measured import measured_parts
from dovetail.backends.verisilicon.parts.pads import ZeroPadding
from dovetail.backends.verisilicon.parts.part import VsiProfile
from dovetail.backends.verisilicon.parts.powers import ExponentIsWhole
from dovetail.ir.dtypes import DType
from dovetail.ir.precision import Precision

_P = Precision


_PER_TENSOR = frozenset({_P.U8, _P.I8, _P.I8DFP})
_BYTES = _PER_TENSOR | {_P.I8PC}
_INTEGERS = _BYTES | {_P.I16}
_FLOATS = frozenset({_P.FP16, _P.FP32})
_ALL = _INTEGERS | _FLOATS

_FIXED = ConstantInputs((1,))
_MATMUL = frozenset({"MatMul"})


def _matrix_rules(generation: Generation) -> tuple[OperatorRule, ...]:
    newest = generation in (Generation.VIP9000, Generation.VIP9000_PLUS, Generation.STREAM)
    integers = _INTEGERS if newest else _INTEGERS - {_P.I8PC}
    shader = _FLOATS if newest else _FLOATS | {_P.I8PC}
    weighted = ops.CONVOLUTIONS | ops.FULLY_CONNECTED
    return (
        OperatorRule(weighted, integers, Engine.NN, (_FIXED,)),
        OperatorRule(weighted, shader, Engine.SH, (_FIXED,)),
        OperatorRule(_MATMUL, integers, Engine.NN, (_FIXED,)),
        OperatorRule(_MATMUL, _INTEGERS, Engine.NN if newest else Engine.SH),
        OperatorRule(_MATMUL, _FLOATS, Engine.SH),
    )


def _pool_rules(generation: Generation) -> tuple[OperatorRule, ...]:
    maximum = Engine.TP if generation in (Generation.V7, Generation.V7_BYTES) else Engine.NN
    return (
        OperatorRule(frozenset({"MaxPool"}) | ops.GLOBAL_MAX, _INTEGERS, maximum),
        OperatorRule(frozenset({"MaxPool"}) | ops.GLOBAL_MAX, _FLOATS, Engine.SH),
        OperatorRule(frozenset({"AveragePool"}), _BYTES, Engine.NN),
        OperatorRule(frozenset({"AveragePool"}), _FLOATS | {_P.I16}, Engine.SH),
    )


_SIGNED_SUMS = _BYTES - {_P.U8}


def _coarse_lengths(generation: Generation) -> frozenset[Precision]:
    """Return the precisions at which a Euclidean length is far off: measured, 30 and 212 steps of 16 bits.

    The stream processor stores squares of bytes in half precision, too: lengths below 2^-7 come out as nothing, those
    above 2^7 as the largest.
    """
    if generation is Generation.STREAM:
        return _INTEGERS
    return frozenset({_P.I16}) if generation is Generation.VIP9000_PLUS else frozenset()


def _rules(generation: Generation) -> tuple[OperatorRule, ...]:
    return (
        *_matrix_rules(generation),
        *_pool_rules(generation),
        OperatorRule(ops.SUMS, _SIGNED_SUMS, Engine.NN),
        OperatorRule(ops.SUMS, _ALL - _SIGNED_SUMS, Engine.SH),
        OperatorRule(ops.LOOKUPS, _INTEGERS, Engine.TP),
        OperatorRule(ops.LOOKUPS, _FLOATS, Engine.SH),
        OperatorRule(frozenset({"Pad"}), _INTEGERS, Engine.TP, (ZeroPadding(),)),
        OperatorRule(frozenset({"Pad"}), frozenset({_P.FP16}), Engine.TP),
        OperatorRule(frozenset({"Pad"}), frozenset({_P.FP32}), Engine.SH),
        OperatorRule(ops.MOVEMENT - {"Pad"}, _INTEGERS | {_P.FP16}, Engine.TP),
        OperatorRule(ops.MOVEMENT - {"Pad"}, frozenset({_P.FP32}), Engine.SH),
        OperatorRule(frozenset({"Resize"}), _INTEGERS, Engine.TP),
        OperatorRule(frozenset({"Resize"}), _FLOATS, Engine.SH),
        OperatorRule(ops.BOUNDARIES, _ALL, Engine.TP),
        OperatorRule(frozenset({"Pow"}), _BYTES - {_P.I8DFP}, Engine.SH, (ExponentIsWhole(or_never_negative=True),)),
        OperatorRule(frozenset({"Pow"}), _ALL - _BYTES | {_P.I8DFP}, Engine.SH, (ExponentIsWhole(),)),
        OperatorRule((ops.BINARY - {"Pow"}) | ops.UNARY | ops.NORMALISATIONS | ops.REDUCTIONS, _ALL, Engine.SH),
        OperatorRule(frozenset({"ReduceL2"}), _ALL - _coarse_lengths(generation), Engine.SH),
        OperatorRule(ops.GATHERS | {"Trilu"}, _ALL, Engine.SH, (_FIXED,)),
        OperatorRule(ops.CHOICES | ops.REGIONS | ops.COMPARISONS, _ALL, Engine.SH),
    )


_SHADER = Rounding(Tie.EVEN, ZeroPointOrder.BEFORE, Carrier.SINGLE)
"""What a shader stores: computed and moved in float32."""
_STREAMED = Rounding(Tie.EVEN, ZeroPointOrder.AFTER, Carrier.SINGLE)
"""What the stream processor stores: the zero point comes after rounding."""
_ARRAY = Rounding()
_SUMMING = ("Add", "AveragePool", "GlobalAveragePool", "ReduceMean", "Sub", "Sum")
"""Their shaders lose nothing that float64 keeps, with the vendor's order of operations; ours in float32 would."""
_ACCUMULATING = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def _arithmetic(generation: Generation) -> Arithmetic:
    exact: dict[str | tuple[str, DType], Rounding] = dict.fromkeys(_ACCUMULATING, _ARRAY)
    bits = 16 if generation in (Generation.V7, Generation.V7_BYTES) else 24
    default = _STREAMED if generation is Generation.STREAM else _SHADER
    exact |= dict.fromkeys(_SUMMING, replace(default, carrier=Carrier.EXACT))
    return Arithmetic(default, multiplier_bits=bits, by_op=exact)


_PRECISIONS = (_P.U8, _P.I8, _P.I8PC, _P.I8DFP, _P.I16, _P.FP16, _P.FP32)


def generation_profile(name: str, title: str, generation: Generation, hardware: HardwareFacts) -> VsiProfile:
    """Return the profile of a part from the rules of its generation and what probing it gave."""
    measured = measured_parts().get(hardware.sdk_name)
    return VsiProfile(
        name=name,
        title=title,
        generation=generation,
        precisions=_ordered(generation),
        rules=_rules(generation),
        arithmetic=_arithmetic(generation),
        always=(RealTensors(), StaticShapes(), MaxRank(6)),
        hardware=hardware,
        refusals=ops.REFUSALS,
        precision_refusals={
            _P.W8A16: "the compiler refuses 16-bit activations with 8-bit weights; use i16",
            _P.BF16: "the driver interface has no bfloat16; use fp16",
        },
        engines=measured.engines if measured else {},
        measured_refusals=measured.refused if measured else {},
    )


def _ordered(generation: Generation) -> tuple[Precision, ...]:
    if generation in (Generation.VIP9000, Generation.VIP9000_PLUS, Generation.STREAM):
        return _PRECISIONS
    # Per-channel convolutions run on the shaders there: dearer than 16 bits on the array.
    late = (_P.I8PC, _P.FP16, _P.FP32)
    return (*(one for one in _PRECISIONS if one not in late), *late)
