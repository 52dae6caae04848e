"""Random operators that work element by element, along axes or over all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from dovetail.ir import DType
from dovetail.testing.operator_case import Data, Exactly, Fixed, Omitted, Operand, OperatorCase
from dovetail.testing.wild.values import Draw, integers, number

Drawing = Callable[[Draw], OperatorCase]


def _plain(draw: Draw) -> OperatorCase:
    return draw.case(draw.data(draw.shape()))


def _ranged(low: float, high: float) -> Drawing:
    return lambda draw: draw.case(Data(draw.shape(), low, high))


def _alpha(*names: str) -> Drawing:
    def drawing(draw: Draw) -> OperatorCase:
        given = {name: draw.real(0.01, 2.0) for name in names if draw.chance(0.6)}
        return draw.case(draw.data(draw.shape()), **given)

    return drawing


def _pair(draw: Draw) -> tuple[Operand, Operand]:
    """Return two operands that broadcast, at most one of them a constant."""
    shape = draw.shape()
    sides = (shape, draw.broadcast(shape))
    if draw.chance(0.3):
        sides = (sides[1], sides[0])
    fixed = draw.pick(0, 1, None, None)
    first, second = (draw.fixed(side) if fixed == place else draw.data(side) for place, side in enumerate(sides))
    return first, second


def _binary(draw: Draw) -> OperatorCase:
    return draw.case(*_pair(draw))


def _many(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    others = [draw.data(draw.broadcast(shape)) for _ in range(draw.pick(0, 1, 1, 2))]
    return draw.case(draw.data(shape), *others)


def _division(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    attributes = {"fmod": draw.pick(1, 1, 0)} if draw.op == "Mod" else {}
    return draw.case(draw.data(shape), Data(draw.broadcast(shape), 0.5, 4.0), **attributes)


def _power(draw: Draw) -> OperatorCase:
    exponent = draw.pick(0.0, 1.0, 2.0, 3.0, -1.0, 0.5, 0.3, 1.7, -2.0)
    return draw.case(Data(draw.shape(), 0.1, 4.0), number(exponent))


def _prelu(draw: Draw) -> OperatorCase:
    shape = draw.shape((2, 3, 4, 4, 5))
    ones = (1,) * (len(shape) - 2)
    return draw.case(draw.data(shape), draw.fixed(draw.pick((shape[1], *ones), (), (1,), shape[1:], (shape[-1],))))


def _clip(draw: Draw) -> OperatorCase:
    low, high = sorted((draw.real(-4.0, 4.0), draw.real(-4.0, 6.0)))
    bounds = draw.pick((), (number(low),), (number(low), number(high)), (Omitted(), number(high)), (number(0.0),))
    return draw.case(draw.data(draw.shape()), *bounds)


def _threshold(draw: Draw) -> OperatorCase:
    return draw.case(draw.data(draw.shape()), alpha=draw.pick(0.0, 1.0, -2.0, 50.0, draw.real(0.0, 3.0)))


def _shrink(draw: Draw) -> OperatorCase:
    bias = draw.pick(0.0, 0.0, 0.5)
    return draw.case(draw.data(draw.shape()), lambd=draw.pick(0.5, 0.0, 70.0, -1.0), bias=bias)


def _gelu(draw: Draw) -> OperatorCase:
    return draw.case(draw.data(draw.shape()), approximate=draw.pick("none", "tanh"))


def _comparison(draw: Draw) -> OperatorCase:
    return replace(draw.case(*_pair(draw)), outputs=(DType.BOOL,))


def _where(draw: Draw) -> OperatorCase:
    shape = draw.shape((1, 2, 3, 4))
    mask = draw.broadcast(shape)
    truths = tuple(bool(value) for value in draw.rng.integers(0, 2, math.prod(mask)))
    return draw.case(Exactly(truths, DType.BOOL, mask), draw.operand(shape), draw.data(draw.broadcast(shape)))


def _trilu(draw: Draw) -> OperatorCase:
    given = (Exactly((draw.whole(-3, 3),), shape=()),) if draw.chance(0.5) else ()
    return draw.case(draw.data(draw.shape((2, 3, 4))), *given, upper=draw.pick(0, 1))


def _along(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    return draw.case(draw.data(shape), **({"axis": draw.axis(len(shape))} if draw.chance(0.8) else {}))


def _lp_norm(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    return draw.case(Data(shape, 0.2, 3.0), axis=draw.axis(len(shape)), p=draw.pick(2, 2, 1))


def _reduction(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    count = draw.whole(0, len(shape))
    places = draw.rng.permutation(len(shape))[:count]
    axes = [int(place) - (len(shape) if draw.chance(0.3) else 0) for place in places]
    attributes: dict[str, object] = {"keepdims": draw.pick(0, 1)}
    if draw.chance(0.1):
        attributes["noop_with_empty_axes"] = 1
    data = Data(shape, 0.5, 1.1) if draw.op == "ReduceProd" else draw.data(shape)
    return draw.case(data, *((integers(*axes),) if axes else ()), **attributes)


def _batch_norm(draw: Draw) -> OperatorCase:
    shape = draw.shape((2, 3, 4, 4, 5))
    size = (shape[1],)
    return draw.case(draw.data(shape), *(draw.fixed(size) for _ in range(3)), Fixed(size, 0.1, 2.0), epsilon=1e-3)


def _instance_norm(draw: Draw) -> OperatorCase:
    shape = draw.shape((3, 4, 4, 5))
    return draw.case(draw.data(shape), draw.fixed(shape[1:2]), draw.fixed(shape[1:2]))


def _group_norm(draw: Draw) -> OperatorCase:
    shape = draw.shape((3, 4, 4))
    groups = draw.pick(*(count for count in range(1, shape[1] + 1) if shape[1] % count == 0))
    even = draw.chance(0.5)
    scale: Operand = Fixed(shape[1:2], 0.5, 0.5) if even else draw.fixed(shape[1:2])
    return draw.case(draw.data(shape), scale, Fixed(shape[1:2], 0.1, 0.1), num_groups=groups)


def _layer_norm(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    axis = draw.pick(-1, -1, draw.axis(len(shape)))
    kept = shape[axis:]
    bias = (draw.fixed(kept),) if draw.chance(0.7) else ()
    return draw.case(draw.data(shape), draw.fixed(kept), *bias, axis=axis)


def _lrn(draw: Draw) -> OperatorCase:
    shape = draw.shape((3, 4, 4, 4, 5))
    return draw.case(draw.data(shape), size=draw.pick(1, 2, 3, 5), alpha=draw.real(1e-4, 0.1), bias=draw.pick(1.0, 2.0))


def _pooled(draw: Draw) -> OperatorCase:
    return draw.case(draw.data(draw.shape((3, 4, 4, 4, 5))))


def _arg(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    case = draw.case(draw.data(shape), axis=draw.axis(len(shape)), keepdims=draw.pick(0, 1))
    return replace(case, outputs=(DType.I64,))


def _cumsum(draw: Draw) -> OperatorCase:
    shape = draw.shape()
    axis = Exactly((draw.axis(len(shape)),), shape=())
    return draw.case(draw.data(shape), axis, exclusive=draw.pick(0, 1), reverse=draw.pick(0, 1))


_PLAIN = ("Abs", "Atan", "Ceil", "Cos", "Erf", "Exp", "Floor", "HardSwish", "Mish", "Neg", "Relu", "Round", "Sigmoid")
_MORE = ("Sign", "Sin", "Softplus", "Softsign", "Tan", "Tanh", "QuantizeLinear", "DequantizeLinear", "Requantize")

ELEMENTWISE: dict[str, Drawing] = {
    **dict.fromkeys((*_PLAIN, *_MORE), _plain),
    **dict.fromkeys(("Log", "Sqrt", "Reciprocal"), _ranged(0.2, 4.0)),
    **dict.fromkeys(("Celu", "Elu", "LeakyRelu"), _alpha("alpha")),
    **dict.fromkeys(("Add", "Max", "Min", "Mul", "Sub"), _binary),
    **dict.fromkeys(("Mean", "Sum"), _many),
    **dict.fromkeys(("Div", "Mod"), _division),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), _comparison),
    **dict.fromkeys(("LogSoftmax", "Softmax"), _along),
    **dict.fromkeys(("ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"), _reduction),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), _pooled),
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
    "Acosh": _ranged(1.1, 9.0),
    "Atanh": _ranged(-0.9, 0.9),
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "CumSum": _cumsum,
    "Gelu": _gelu,
    "GroupNormalization": _group_norm,
    "HardSigmoid": _alpha("alpha", "beta"),
    "InstanceNormalization": _instance_norm,
    "LRN": _lrn,
    "LayerNormalization": _layer_norm,
    "LpNormalization": _lp_norm,
    "PRelu": _prelu,
    "Pow": _power,
    "Selu": _alpha("alpha", "gamma"),
    "Shrink": _shrink,
    "ThresholdedRelu": _threshold,
    "Trilu": _trilu,
    "Where": _where,
}
