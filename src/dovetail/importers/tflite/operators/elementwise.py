"""Operators on single elements, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.importers.tflite.layout import TensorForm
from dovetail.importers.tflite.operators.table import Converter, Converters
from dovetail.importers.tflite.site import Site
from dovetail.ir import DType, TensorType
from dovetail.ir.codes import ONNX_CODES

Made = Callable[[Site], dict[str, object]]


def common_form(site: Site, *inputs: int) -> tuple[TensorForm, int]:
    """Return the form in which these inputs can be combined, and the rank of the result.

    Channels first only when every computed input has the full rank or one element.
    """
    rank = max(site.rank(index) for index in inputs)
    form = site.form(*inputs)
    for index in inputs:
        tensor = site.tensor(index)
        single = all(size == 1 for size in tensor.shape)
        if tensor.rank != rank and not single and site.value(index) is None:
            form = TensorForm.LAST
    return form, rank


def spread(site: Site, *inputs: int) -> tuple[list[str], TensorForm]:
    """Return inputs ready to be broadcast against each other."""
    form, rank = common_form(site, *inputs)
    return [site.read_spread(index, form, rank) for index in inputs], form


def _unary(op: str, made: Made | None = None) -> Converter:
    def convert(site: Site) -> None:
        form = site.form(0)
        site.finish(op, (site.read(0, form),), made(site) if made else None, form)

    return convert


def _clip(low: float, high: float) -> Converter:
    def convert(site: Site) -> None:
        form = site.form(0)
        bounds = (site.real(low, "min"), site.real(high, "max"))
        site.finish("Clip", (site.read(0, form), *bounds), None, form)

    return convert


def _binary(op: str) -> Converter:
    def convert(site: Site) -> None:
        names, form = spread(site, 0, 1)
        site.finish(op, names, None, form)

    return convert


def real_pair(site: Site) -> tuple[list[str], TensorForm]:
    """Return both inputs as float (integers stay), ready to be broadcast."""
    if not any(site.tensor(index).is_quantized for index in (0, 1)):
        return spread(site, 0, 1)
    form = TensorForm.LAST if len({site.rank(0), site.rank(1)}) > 1 else site.form(0, 1)
    return [site.read_real(index, form) for index in (0, 1)], form


def _compare(op: str) -> Converter:
    def convert(site: Site) -> None:
        names, form = real_pair(site)
        site.finish(op, names, None, form)

    return convert


def _not_equal(site: Site) -> None:
    names, form = real_pair(site)
    same = site.emit("Equal", names, site.result_type(0, form))
    site.finish("Not", (same,), None, form)


def _rsqrt(site: Site) -> None:
    form = site.form(0)
    x = site.read_real(0, form)
    root = site.emit("Sqrt", (x,), site.float_like(x))
    site.finish_real("Reciprocal", (root,), None, form)


def _square(site: Site) -> None:
    form = site.form(0)
    x = site.read(0, form)
    site.finish("Mul", (x, x), None, form)


def _squared_difference(site: Site) -> None:
    names, form = real_pair(site)
    kind = site.result_type(0, form, real=True)
    difference = site.emit("Sub", names, kind)
    site.finish_real("Mul", (difference, difference), None, form)


def _floor_div(site: Site) -> None:
    """Divide towards minus infinity: ONNX divides integers towards zero, its Mod has the divisor's sign."""
    names, form = real_pair(site)
    kind = site.result_type(0, form, real=True)
    if kind.dtype.is_float:
        site.finish_real("Floor", (site.emit("Div", names, kind),), None, form)
        return
    rest = site.emit("Mod", names, kind)
    whole = site.emit("Sub", (names[0], rest), kind)
    site.finish("Div", (whole, names[1]), None, form)


def _floor_mod(site: Site) -> None:
    names, form = real_pair(site)
    kind = site.result_type(0, form, real=True)
    if not kind.dtype.is_float:
        site.finish("Mod", names, None, form)
        return
    quotient = site.emit("Floor", (site.emit("Div", names, kind),), kind)
    site.finish_real("Sub", (names[0], site.emit("Mul", (quotient, names[1]), kind)), None, form)


def _select(site: Site) -> None:
    """Choose by condition; the old form's condition of rank 1 counts rows."""
    rank = max(site.rank(1), site.rank(2))
    if site.operator.kind == "SELECT" and site.rank(0) == 1 and rank > 1:
        condition = site.read(0)
        kind = TensorType(DType.BOOL, (*site.shape(0), *(1,) * (rank - 1)))
        axes = site.number(tuple(range(1, rank)), "axes")
        names = [site.emit("Unsqueeze", (condition, axes), kind), site.read(1), site.read(2)]
        site.finish("Where", names)
        return
    names, form = spread(site, 0, 1, 2)
    site.finish("Where", names, None, form)


def _add_n(site: Site) -> None:
    indices = tuple(range(site.count))
    names, form = spread(site, *indices)
    site.finish("Sum", names, None, form)


def _cast(site: Site) -> None:
    form = site.form(0)
    site.finish("Cast", (site.read(0, form),), {"to": ONNX_CODES[site.result_type().dtype]}, form)


def _zeros_like(site: Site) -> None:
    form = site.form(0)
    kind = site.result_type(0, form)
    x = site.read(0, form)
    shape = site.emit("Shape", (x,), TensorType(DType.I64, (site.rank(0),)))
    if kind.quant is not None:
        raise site.fail("zeros in a quantised tensor are not supported")
    zero = site.scope.store(f"{site.stem}/zero", np.zeros((), kind.dtype.carrier), TensorType(kind.dtype, ()))
    site.finish("Expand", (zero, shape), None, form)


def _right_shift(site: Site) -> None:
    if site.output().dtype in (DType.I8, DType.I16, DType.I32, DType.I64):
        raise site.fail("ONNX shifts only unsigned integers")
    names, form = spread(site, 0, 1)
    site.finish("BitShift", names, {"direction": "RIGHT"}, form)


def _prelu(site: Site) -> None:
    names, form = spread(site, 0, 1)
    site.finish("PRelu", names, None, form)


_UNARY = {
    "ABS": "Abs",
    "CEIL": "Ceil",
    "COS": "Cos",
    "ELU": "Elu",
    "EXP": "Exp",
    "FLOOR": "Floor",
    "HARD_SWISH": "HardSwish",
    "LOG": "Log",
    "LOGICAL_NOT": "Not",
    "LOGISTIC": "Sigmoid",
    "NEG": "Neg",
    "RELU": "Relu",
    "ROUND": "Round",
    "SIGN": "Sign",
    "SIN": "Sin",
    "SQRT": "Sqrt",
    "TANH": "Tanh",
}
_BINARY = {
    "ADD": "Add",
    "BITWISE_XOR": "BitwiseXor",
    "DIV": "Div",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "MUL": "Mul",
    "POW": "Pow",
    "SUB": "Sub",
}
_COMPARE = {
    "EQUAL": "Equal",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
}

CONVERTERS: Converters = {
    **{name: _unary(op) for name, op in _UNARY.items()},
    **{name: _binary(op) for name, op in _BINARY.items()},
    **{name: _compare(op) for name, op in _COMPARE.items()},
    "ADD_N": _add_n,
    "CAST": _cast,
    "FLOOR_DIV": _floor_div,
    "FLOOR_MOD": _floor_mod,
    "GELU": _unary(
        "Gelu", lambda site: {"approximate": "tanh" if site.operator.options.flag("Approximate") else "none"}
    ),
    "LEAKY_RELU": _unary("LeakyRelu", lambda site: {"alpha": site.operator.options.number("Alpha")}),
    "NOT_EQUAL": _not_equal,
    "PRELU": _prelu,
    "RELU6": _clip(0.0, 6.0),
    "RELU_0_TO_1": _clip(0.0, 1.0),
    "RELU_N1_TO_1": _clip(-1.0, 1.0),
    "RIGHT_SHIFT": _right_shift,
    "RSQRT": _rsqrt,
    "SELECT": _select,
    "SELECT_V2": _select,
    "SQUARE": _square,
    "SQUARED_DIFFERENCE": _squared_difference,
    "ZEROS_LIKE": _zeros_like,
}
