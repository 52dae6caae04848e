"""Hybrid kernels: float data, integer weights; TFLite quantises the data as it runs.

`x -> q = clip(round(zp + x / s))` with s and zp of each sample (of each row for products), integer accumulation, then
`acc * (s * s_w) + bias`, or `(acc * s_w) * s + bias` for a CONV_2D with a scale for each channel: in float32 the order
tells. Source: AsymmetricQuantizeFloats and SymmetricQuantizeFloats of TFLite's reference kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.importers.tflite.layout import TensorForm
from dovetail.importers.tflite.operators.weights import Kernel, read_bias
from dovetail.importers.tflite.site import Attributes, Site
from dovetail.ir import DType, TensorType


@dataclass(frozen=True, slots=True)
class _Quantized:
    """The centred integers (as floats) and the scale of each sample."""

    steps: str
    scale: str


class _Maths:
    """Write float arithmetic of one operator as nodes."""

    def __init__(self, site: Site, like: str, axes: tuple[int, ...]) -> None:
        self._site = site
        self.whole = site.float_like(like)
        shape = self.whole.shape or ()
        self.rows = TensorType(DType.F32, tuple(1 if axis in axes else size for axis, size in enumerate(shape)))
        self._axes = axes

    def row(self, op: str, *inputs: str) -> str:
        return self._site.emit(op, inputs, self.rows)

    def extreme(self, op: str, x: str) -> str:
        axes = self._site.number(self._axes, "axes")
        return self._site.emit(op, (x, axes), self.rows, {"keepdims": 1})

    def real(self, value: float) -> str:
        return self._site.real(value, "value")

    def choose(self, flag: str, one: str, other: str) -> str:
        return self._site.emit("Where", (flag, one, other), self.rows)

    def test(self, op: str, one: str, other: str) -> str:
        return self._site.emit(op, (one, other), TensorType(DType.BOOL, self.rows.shape))

    def all(self, op: str, *inputs: str) -> str:
        return self._site.emit(op, inputs, self.whole)

    def rounded(self, x: str) -> str:
        """Round, halves away from zero; ONNX's Round takes them to even."""
        grown = self.all("Floor", self.all("Add", self.all("Abs", x), self.real(0.5)))
        return self.all("Mul", self.all("Sign", x), grown)


def run_hybrid(site: Site, kernel: Kernel, op: str, attributes: Attributes) -> None:
    """Add the nodes that compute what TFLite's hybrid kernel computes."""
    form = TensorForm.FIRST if op == "Conv" else TensorForm.LAST
    x = site.read(kernel.data, form) if op == "Conv" else site.read_flat(kernel.data)
    finish_hybrid(site, kernel, op, attributes, x)


def finish_hybrid(site: Site, kernel: Kernel, op: str, attributes: Attributes, x: str) -> None:
    """Add the nodes from named data on; for Gemm the result is reshaped to the output."""
    tensor, stored = site.tensor(kernel.weight), site.value(kernel.weight)
    assert stored is not None
    assert tensor.quant is not None
    if any(tensor.quant.zero_point):
        raise site.fail("its hybrid weight has a zero point", "Load the model with its weights as floats.")
    rank = len(site.scope.types[x].shape or ())
    maths = _Maths(site, x, tuple(range(1, rank)))
    per_channel = tensor.quant.per_channel
    flagged = op == "Gemm" and site.operator.options.flag("AsymmetricQuantizeInputs")
    data = _asymmetric(maths, x) if flagged or (op == "Conv" and per_channel) else _symmetric(maths, x)
    integers = stored.transpose(kernel.order).astype(np.float32)
    weight = site.scope.real(f"{site.scope.prefix}{tensor.name}", integers)
    site.scope.origins[weight] = tensor.name
    channels = (-1,) if op == "Gemm" else (1, -1, *(1,) * (rank - 2))
    factor = site.real(np.asarray(tensor.quant.scale, np.float32).reshape(channels), "weight_scale")
    if op == "Gemm":
        product = TensorType(DType.F32, ((maths.rows.shape or (1,))[0], integers.shape[0]))
    else:
        product = site.result_type(0, TensorForm.FIRST)
    value = site.emit(op, (data.steps, weight), product, attributes)
    if op == "Conv" and per_channel and site.operator.kind != "DEPTHWISE_CONV_2D":
        value = site.emit("Mul", (site.emit("Mul", (value, factor), product), data.scale), product)
    else:
        rows = (maths.rows.shape or (1,))[0]
        both = TensorType(DType.F32, (rows, integers.shape[0] if per_channel else 1, *(1,) * (rank - 2)))
        value = site.emit("Mul", (value, site.emit("Mul", (data.scale, factor), both)), product)
    for bias in read_bias(site, kernel, weight):
        spread = site.real(site.scope.constants[bias].reshape(channels), "bias")
        value = site.emit("Add", (value, spread), product)
    value = site.activated(value)
    if op == "Gemm":
        site.conclude(0, "Reshape", (value, site.number(site.output().shape, "shape")))
    else:
        site.conclude(0, "Identity", (value,), None, TensorForm.FIRST)


def is_hybrid_matmul(site: Site) -> bool:
    """Tell whether a BATCH_MATMUL multiplies floats by a constant of 8 bits that has one scale and no zero point."""
    tensor = site.tensor(1)
    if not site.tensor(0).is_float or tensor.dtype is not DType.I8 or tensor.quant is None or site.value(1) is None:
        return False
    return not tensor.quant.per_channel and not any(tensor.quant.zero_point)


def run_hybrid_matmul(site: Site, x: str, order: tuple[int, ...]) -> None:
    """Add the nodes of a hybrid BATCH_MATMUL whose data is named; `order` turns the weight."""
    tensor, stored = site.tensor(1), site.value(1)
    assert stored is not None
    assert tensor.quant is not None
    maths = _Maths(site, x, (len(site.scope.types[x].shape or ()) - 1,))
    data = (_asymmetric if site.operator.options.flag("AsymmetricQuantizeInputs") else _symmetric)(maths, x)
    weight = site.scope.real(f"{site.scope.prefix}{tensor.name}", stored.transpose(order).astype(np.float32))
    site.scope.origins[weight] = tensor.name
    product = site.result_type()
    value = site.emit("MatMul", (data.steps, weight), product)
    factor = maths.row("Mul", data.scale, site.real(tensor.quant.scale[0], "weight_scale"))
    site.conclude(0, "Mul", (value, factor))


def _symmetric(maths: _Maths, x: str) -> _Quantized:
    """Quantise to -127..127 without a zero point; a sample of zeros keeps scale 1."""
    largest = maths.extreme("ReduceMax", maths.all("Abs", x))
    scale = maths.row("Div", largest, maths.real(127.0))
    empty = maths.test("Equal", largest, maths.real(0.0))
    safe = maths.choose(empty, maths.real(1.0), scale)
    # The kernel multiplies by 127 / largest: dividing by the scale would round some values otherwise.
    inverse = maths.row("Div", maths.real(127.0), maths.choose(empty, maths.real(1.0), largest))
    steps = maths.rounded(maths.all("Mul", x, inverse))
    return _Quantized(maths.all("Clip", steps, maths.real(-127.0), maths.real(127.0)), safe)


def _asymmetric(maths: _Maths, x: str) -> _Quantized:
    """Quantise to -128..127; the zero point comes from the end of the range that loses less."""
    zero, low, high = maths.real(0.0), maths.real(-128.0), maths.real(127.0)
    lowest = maths.row("Min", maths.extreme("ReduceMin", x), zero)
    highest = maths.row("Max", maths.extreme("ReduceMax", x), zero)
    scale = maths.row("Div", maths.row("Sub", highest, lowest), maths.real(255.0))
    safe = maths.choose(maths.test("Equal", scale, zero), maths.real(1.0), scale)
    below, above = maths.row("Div", lowest, safe), maths.row("Div", highest, safe)
    loss_below = maths.row("Add", maths.row("Abs", below), maths.real(128.0))
    loss_above = maths.row("Add", maths.row("Abs", above), high)
    choice = maths.choose(
        maths.test("Less", loss_below, loss_above), maths.row("Sub", low, below), maths.row("Sub", high, above)
    )
    away = maths.row("Floor", maths.row("Add", maths.row("Abs", choice), maths.real(0.5)))
    point = maths.row("Clip", maths.row("Mul", maths.row("Sign", choice), away), low, high)
    inverse = maths.row("Div", maths.real(1.0), safe)
    moved = maths.rounded(maths.all("Add", maths.all("Mul", x, inverse), point))
    return _Quantized(maths.all("Sub", maths.all("Clip", moved, low, high), point), safe)
