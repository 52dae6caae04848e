"""Operators along axes: sums, extremes, softmax."""

from __future__ import annotations

from dovetail.importers.tflite.layout import TensorForm, axis_in
from dovetail.importers.tflite.operators.table import Converter, Converters
from dovetail.importers.tflite.site import Site
from dovetail.ir import DType, TensorType
from dovetail.ir.codes import ONNX_CODES


def reducing_form(site: Site, axes: tuple[int, ...], keeps: bool) -> TensorForm:
    """Return the form to reduce in: channels first only where what is left has the same order in both."""
    form = site.form(0)
    if form is TensorForm.LAST or keeps:
        return form
    rank, shape = site.rank(0), site.shape(0)
    left = [axis for axis in range(rank) if axis not in axes and shape[axis] != 1]
    moved = [axis_in(form, axis, rank) for axis in left]
    return form if moved == sorted(moved) else TensorForm.LAST


def _axes(site: Site) -> tuple[int, ...]:
    given = site.known_ints(1, "axes")
    rank = site.rank(0)
    return tuple(dict.fromkeys(site.axis(axis, rank) for axis in given))


def _reduce(op: str, *, reals: bool = False) -> Converter:
    def convert(site: Site) -> None:
        axes, keeps = _axes(site), site.operator.options.flag("KeepDims")
        form = reducing_form(site, axes, keeps)
        rank = site.rank(0)
        moved = tuple(sorted(axis_in(form, axis, rank) for axis in axes))
        if not axes:
            site.finish("Identity", (site.read(0),))
            return
        target = form if keeps else TensorForm.LAST
        finish, read = (site.finish_real, site.read_real) if reals else (site.finish, site.read)
        finish(op, (read(0, form), site.number(moved, "axes")), {"keepdims": int(keeps)}, target)

    return convert


def _arg(op: str) -> Converter:
    def convert(site: Site) -> None:
        (axis,) = _axes(site) or (0,)
        form = reducing_form(site, (axis,), keeps=False)
        attributes = {"axis": axis_in(form, axis, site.rank(0)), "keepdims": 0}
        kind = site.result_type()
        if kind.dtype is DType.I64:
            site.finish(op, (site.read_real(0, form),), attributes)
            return
        wide = site.emit(op, (site.read_real(0, form),), TensorType(DType.I64, kind.shape), attributes)
        site.finish("Cast", (wide,), {"to": ONNX_CODES[kind.dtype]})

    return convert


def _softmax(site: Site) -> None:
    form = site.form(0)
    beta = site.operator.options.number("Beta", 1.0)
    attributes = {"axis": axis_in(form, -1, site.rank(0))}
    if beta in (0.0, 1.0):
        site.finish("Softmax", (site.read(0, form),), attributes, form)
        return
    x = site.read_real(0, form)
    scaled = site.emit("Mul", (x, site.real(beta, "beta")), site.float_like(x))
    site.finish_real("Softmax", (scaled,), attributes, form)


def _log_softmax(site: Site) -> None:
    form = site.form(0)
    site.finish("LogSoftmax", (site.read(0, form),), {"axis": axis_in(form, -1, site.rank(0))}, form)


def _l2_normalization(site: Site) -> None:
    """Divide by the length along the last axis, which is at least 1e-6 under the root."""
    form = site.form(0)
    x = site.read_real(0, form)
    axis = axis_in(form, -1, site.rank(0))
    shape = site.scope.types[x].shape or ()
    rows = TensorType(DType.F32, tuple(1 if place == axis else size for place, size in enumerate(shape)))
    total = site.emit("ReduceSumSquare", (x, site.number((axis,), "axes")), rows, {"keepdims": 1})
    length = site.emit("Max", (site.emit("Sqrt", (total,), rows), site.real(1e-6, "least")), rows)
    site.finish_real("Div", (x, length), None, form)


def _cumsum(site: Site) -> None:
    form = site.form(0)
    (axis,) = site.known_ints(1, "axis")
    moved = axis_in(form, site.axis(axis, site.rank(0)), site.rank(0))
    options = site.operator.options
    attributes = {"exclusive": options.integer("Exclusive"), "reverse": options.integer("Reverse")}
    site.finish_real("CumSum", (site.read_real(0, form), site.number(moved, "axis")), attributes, form)


CONVERTERS: Converters = {
    "ARG_MAX": _arg("ArgMax"),
    "ARG_MIN": _arg("ArgMin"),
    "CUMSUM": _cumsum,
    "L2_NORMALIZATION": _l2_normalization,
    "LOG_SOFTMAX": _log_softmax,
    "MEAN": _reduce("ReduceMean"),
    "REDUCE_ALL": _reduce("ReduceMin"),
    "REDUCE_ANY": _reduce("ReduceMax"),
    "REDUCE_MAX": _reduce("ReduceMax"),
    "REDUCE_MIN": _reduce("ReduceMin"),
    "REDUCE_PROD": _reduce("ReduceProd", reals=True),
    "SOFTMAX": _softmax,
    "SUM": _reduce("ReduceSum"),
}
