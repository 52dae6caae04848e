"""Operators that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dovetail.backends.verisilicon.generation import CONVERTING, Generation
from dovetail.backends.verisilicon.lowering import fine
from dovetail.backends.verisilicon.lowering.clamping import is_clamped_apart
from dovetail.backends.verisilicon.lowering.moving import copy
from dovetail.backends.verisilicon.lowering.view import NodeView, is_tiny
from dovetail.backends.verisilicon.program import TensorRole
from dovetail.ir import DType, Quantization, TensorType, dequantize_array, quantize_array

_NEAREST = 128.0
"""By how much steps are made finer at once."""
_LARGEST = 3.0e38
"""As a bound it cuts nothing."""
_REALS = (DType.U8, DType.I8, DType.I16, DType.F32, DType.F16, DType.BF16)


def check_same_kind(view: NodeView, *, outputs: bool = True) -> None:
    """Refuse operands of different element types: the vendor's kernels take them for each other."""
    names = [name for name in view.node.inputs if name]
    if outputs:
        names.extend(name for name in view.node.outputs if name)
    kinds = [view.graph.types[name] for name in names]
    dtypes = {kind.dtype for kind in kinds if kind.holds_reals}
    view.need(len(dtypes) <= 1, f"it mixes {' and '.join(sorted(dtype.value for dtype in dtypes))}")
    for dtype in dtypes:
        view.need(dtype in _REALS, f"it has no {dtype.value} form", always=True)
    for kind in kinds:
        view.need(kind.quant is None or kind.quant.axis is None, "a tensor has a scale per channel")


def aligned(view: NodeView, indices: tuple[int, ...], read: Callable[[int], int] | None = None) -> list[int]:
    """Return operands with the output's rank, so that they broadcast as ONNX says; refuse shapes that do not.

    `read` gives the tensor of an input; the input as it is by default.
    """
    shapes = [view.shape(index) for index in indices]
    try:
        result = np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise view.refuse(f"shapes {' and '.join(str(list(shape)) for shape in shapes)} do not broadcast") from error
    view.expect(result)
    made: list[int] = []
    for index, shape in zip(indices, shapes, strict=True):
        wide = (1,) * (len(result) - len(shape)) + shape
        tensor = (read or view.input)(index)
        made.append(view.reshaped(tensor, wide or (1,)))
    return made


@dataclass(frozen=True, slots=True)
class Unary:
    """Lower an operator of one input; `floats` and `ints` read its parameters."""

    kind: str
    floats: Callable[[NodeView], tuple[float, ...]] = lambda _: ()
    ints: Callable[[NodeView], tuple[int, ...]] = lambda _: ()

    def __call__(self, view: NodeView) -> None:
        """Emit the operator."""
        check_same_kind(view)
        view.need(view.kind(0).holds_reals, "its input is not real")
        view.expect(view.shape(0))
        view.emit(self.kind, (fine.read(view, self.kind),), (view.output(),), self.ints(view), self.floats(view))


_LOST_RATIO = 2.0**15
_LOST_RATIO_OF_BYTES = 2.0**7


@dataclass(frozen=True, slots=True)
class Binary:
    """Lower an operator of two inputs with broadcasting."""

    kind: str
    ints: tuple[int, ...] = ()

    def __call__(self, view: NodeView) -> None:
        """Emit the operator."""
        self.check(view)
        view.emit(self.kind, aligned(view, (0, 1)), (view.output(),), self.ints)

    def check(self, view: NodeView) -> None:
        """Refuse what is not two operands of reals stored alike."""
        check_same_kind(view)
        view.need(len(view.node.inputs) == 2, f"{len(view.node.inputs)} operands (two are possible)")
        view.need(view.kind(0).holds_reals and view.kind(1).holds_reals, "its operands are not real")


@dataclass(frozen=True, slots=True)
class Extreme:
    """Lower the larger or the smaller of two inputs with broadcasting."""

    kind: str

    def __call__(self, view: NodeView) -> None:
        """Emit the operator; of a tensor and itself a copy: the vendor's of one seen with two shapes is garbage."""
        Binary(self.kind).check(view)
        if view.node.inputs[0] == view.node.inputs[1]:
            view.expect(view.shape(0))
            copy(view)
            return
        view.emit(self.kind, aligned(view, (0, 1), lambda index: _near(view, index)), (view.output(),))


def _near(view: NodeView, index: int) -> int:
    """Return an operand with steps that an extreme's kernel compares with those of the output.

    Those that are 65,536 times as large are garbage, on V853, A311D and T527 at every precision; beside a stream
    processor they are right. They are made finer before, which cuts off what the output does not hold.
    """
    kind, made = view.kind(index), view.made()
    if kind.quant is None or made.quant is None or view.draft.part.generation is Generation.STREAM:
        return view.coarse(index)
    tensor, limit = view.input(index), made.quant.scale[0] * _NEAREST * _NEAREST
    if kind.quant.scale[0] <= limit:
        return view.coarse(index)
    while kind.quant is not None and kind.quant.scale[0] > limit:
        kind = replace(kind, quant=Quantization((kind.quant.scale[0] / _NEAREST,), kind.quant.zero_point))
        tensor = _kept(view, tensor, kind)
    tiny = is_tiny(kind, made) and not view.draft.fixed_point
    return _kept(view, tensor, replace(kind, quant=made.quant)) if tiny else tensor


def _kept(view: NodeView, tensor: int, kind: TensorType) -> int:
    """Return a conversion that is kept in memory: the compiler makes one of several."""
    made = view.draft.new(kind, view.node.label, TensorRole.EDGE)
    view.emit("data_convert", (tensor,), (made,))
    return made


def lower_sub(view: NodeView) -> None:
    """Lower Sub; where signed bytes are added elsewhere in the graph, as the addition of what is negated.

    The vendor's array takes a subtraction of signed bytes for an addition of the same tensors that it has met before.
    """
    added = any(
        node.op in ("Add", "Sum") and view.graph.types[node.outputs[0]].dtype is DType.I8 for node in view.graph.nodes
    )
    if view.draft.fixed_point and view.made().dtype is DType.I8:
        Binary("sub").check(view)
        operands = aligned(view, (0, 1), lambda index: _coarser_by_a_bit(view, index) if index else view.input(0))
        view.emit("sub", operands, (view.output(),))
        return
    if not added or view.made().dtype is not DType.I8:
        Binary("sub")(view)
        return
    check_same_kind(view)
    view.need(len(view.node.inputs) == 2 and view.kind(1).quant is not None, "its operands are not quantised")
    view.emit("add", aligned(view, (0, 1), lambda index: _negated(view) if index else view.input(0)), (view.output(),))


def _negated(view: NodeView) -> int:
    """Return the second operand negated without loss: q becomes -1 - q around a mirrored zero point."""
    kind, value = view.kind(1), view.graph.constants.get(view.node.inputs[1])
    assert kind.quant is not None
    mirrored = replace(kind, quant=Quantization(kind.quant.scale, (-1 - kind.quant.zero_point[0],)))
    if value is not None:
        return view.hold((-1 - value.astype(np.int16)).astype(np.int8), mirrored)
    made = view.new(mirrored)
    view.emit("neg", (view.input(1),), (made,))
    return made


def lower_neg(view: NodeView) -> None:
    """Lower Neg; what its table has no room for is multiplied by -1."""
    if not (fine.exceeds_tables(view) or fine.exceeds_floats(view)):
        Unary("neg")(view)
        return
    check_same_kind(view)
    view.expect(view.shape(0))
    fine.negate(view)


def lower_relu(view: NodeView) -> None:
    """Lower Relu, or a Clip that is one; numbers that its floats do not hold are compared with 0."""
    check_same_kind_of(view, (0,))
    view.expect(view.shape(0))
    apart = is_clamped_apart(view)
    if not (fine.exceeds_floats(view) or (apart and fine.exceeds_tables(view))):
        if apart:
            view.emit("clip", (view.input(0),), (view.output(),), (), (0.0, _LARGEST))
        else:
            view.emit("relu", (view.input(0),), (view.output(),))
        return
    quant, made = view.made().quant, view.made()
    assert quant is not None
    fine.clip(view, 0.0, made.dtype.integer_range[1] * quant.scale[0])


def lower_mul(view: NodeView) -> None:
    """Lower Mul; the vendor's compiler has a table of squares for a product of integers with themselves."""
    names = view.node.inputs
    if len(names) == 2 and names[0] == names[1] and view.kind(0).quant is not None:
        Unary("square")(view)
        return
    product = Binary("mul")
    product.check(view)
    view.emit("mul", [fine.spread(view, *both) for both in enumerate(aligned(view, (0, 1)))], (view.output(),))


@dataclass(frozen=True, slots=True)
class LowerComparison:
    """Lower a comparison: its output is a bool."""

    code: int

    def __call__(self, view: NodeView) -> None:
        """Emit the operator."""
        check_same_kind(view, outputs=False)
        view.need(view.made().dtype is DType.BOOL, "its output is not bool")
        view.need(view.kind(0).holds_reals and view.kind(1).holds_reals, "its operands are not real")
        view.emit("compare", aligned(view, (0, 1)), (view.output(),), (self.code,))


@dataclass(frozen=True, slots=True)
class Logical:
    """Lower an operator on bools."""

    code: int

    def __call__(self, view: NodeView) -> None:
        """Emit the operator."""
        for index in (0, 1):
            view.need(view.kind(index).dtype is DType.BOOL, "its operands are not bool")
        view.emit("logical", aligned(view, (0, 1)), (view.output(),), (self.code,))


def lower_not(view: NodeView) -> None:
    """Lower Not."""
    view.need(view.kind(0).dtype is DType.BOOL, "its input is not bool")
    view.expect(view.shape(0))
    view.emit("logical_not", (view.input(0),), (view.output(),))


def lower_where(view: NodeView) -> None:
    """Lower Where; the vendor's select cuts off where it requantises, so its operands are converted before."""
    view.need(view.kind(0).dtype is DType.BOOL, "its condition is not bool")
    check_same_kind(view)
    view.need(view.kind(1).holds_reals, "its operands are not real")

    def read(index: int) -> int:
        return view.stored_as(index, view.made()) if index else view.input(0)

    view.emit("select", aligned(view, (0, 1, 2), read), (view.output(),))


_MIDDLE = 128
"""Between a signed byte and the unsigned one of the same bits in order."""
_EXPONENT_STEPS, _EXPONENT_BITS = 64, 14
"""Steps of an exponent in bytes: their product with the scale is exact, else an odd one is taken for an even one; and
its bits in 16 bits."""
_POWERS = {0.5: "sqrt", 2.0: "square", -1.0: "reciprocal"}


def lower_pow(view: NodeView) -> None:
    """Lower Pow with a constant exponent."""
    check_same_kind_of(view, (0,))
    value, kind = view.constant(1), view.kind(1)
    real = (value if kind.quant is None else dequantize_array(value, kind.quant)).reshape(-1)
    view.need(real.size > 0 and bool((real == real[0]).all()), "its exponents differ")
    view.expect(np.broadcast_shapes(view.shape(0), value.shape))
    view.expect(view.shape(0))
    exponent = float(real[0])
    if exponent == 1.0:
        view.convert(0, view.output(), view.made())
        return
    if exponent in _POWERS:
        function = _POWERS[exponent]
        view.emit(function, (fine.read(view, function),), (view.output(),))
        return
    quant, dtype = view.kind(0).quant, view.kind(0).dtype
    if dtype is not DType.I8:
        power = _exponent(view, exponent, dtype, quantised=quant is not None)
        view.emit("pow", (view.input(0), power), (view.output(),))
        return
    # The vendor's kernel drops the sign of signed bytes: they go through unsigned ones.
    data, power = view.new(_unsigned(view.kind(0))), view.new(_unsigned(view.made()))
    view.emit("data_convert", (view.input(0),), (data,))
    view.emit("pow", (data, _exponent(view, exponent, DType.U8, quantised=True)), (power,))
    view.emit("data_convert", (power,), (view.output(),))


def _exponent(view: NodeView, value: float, dtype: DType, *, quantised: bool) -> int:
    """Return the id of a constant exponent in the element type of the base, as near as that allows."""
    shape = (1,) * max(len(view.shape(0)), 1)
    if not quantised:
        return view.hold(np.full(shape, value, dtype.carrier), TensorType(dtype, shape))
    if dtype is DType.I16:
        # 16 bits have powers of two as scales.
        scale = math.ldexp(1.0, math.frexp(value)[1] - _EXPONENT_BITS)
        quant = Quantization((scale,), (0,))
    else:
        quant = Quantization((abs(value) / _EXPONENT_STEPS,), (_MIDDLE,))
    return view.hold(quantize_array(np.full(shape, value), dtype, quant), TensorType(dtype, shape, quant))


def _unsigned(kind: TensorType) -> TensorType:
    """Return a type of signed bytes as one of unsigned bytes with the same reals."""
    assert kind.quant is not None
    return replace(kind, dtype=DType.U8, quant=Quantization(kind.quant.scale, (kind.quant.zero_point[0] + _MIDDLE,)))


def lower_sum(view: NodeView) -> None:
    """Lower Sum of one or two operands; more would be rounded in between."""
    if len(view.node.inputs) == 1:
        check_same_kind(view)
        view.expect(view.shape(0))
        view.convert(0, view.output(), view.made())
        return
    lower_add(view)


def lower_add(view: NodeView) -> None:
    """Lower Add; the vendor's compiler adds a single number to the bias of a product before it."""
    Binary("add").check(view)
    operands = aligned(view, (0, 1), lambda index: _coarser_by_a_bit(view, index))
    terms = [fine.spread(view, *both, fixed=False) for both in enumerate(operands)]
    view.emit("add", terms, (view.output(),))


def _coarser_by_a_bit(view: NodeView, index: int) -> int:
    """Return an operand of a sum, with steps twice as large where the other's are 2^15 times as large, or 2^7 of bytes.

    The array's weight of the other would be 1.0 with as many bits behind the point: it is taken for -1. Measured of 16
    bits on V853, A311D, i.MX 8M Plus and STM32MP2; with 2^14 and 2^16 the sums are right. Of bytes in fixed point it is
    the six older parts.
    """
    kind, other = view.kind(index), view.kind(1 - index)
    if kind.quant is None or other.quant is None:
        return view.input(index)
    fixed_bytes = kind.dtype is DType.I8 and view.draft.fixed_point and view.draft.part.generation in CONVERTING
    lost = _LOST_RATIO if kind.dtype is DType.I16 else _LOST_RATIO_OF_BYTES if fixed_bytes else 0.0
    if other.quant.scale[0] / kind.quant.scale[0] != lost:
        return view.input(index)
    return view.stored_as(index, replace(kind, quant=Quantization((2 * kind.quant.scale[0],), (0,))))


def _bound(view: NodeView, index: int, default: float) -> float:
    if not view.has(index):
        return default
    value, kind = view.constant(index), view.kind(index)
    view.need(value.size == 1, "a bound is not a scalar")
    real = value if kind.quant is None else dequantize_array(value, kind.quant)
    return float(real.reshape(-1)[0])


def lower_clip(view: NodeView) -> None:
    """Lower Clip; bounds that the output cannot hold are moved to what it holds."""
    check_same_kind_of(view, (0,))
    view.expect(view.shape(0))
    low, high = _bound(view, 1, -math.inf), _bound(view, 2, math.inf)
    view.need(not (math.isnan(low) or math.isnan(high)), "a bound is not a number")
    low = min(low, high)
    quant, made = view.made().quant, view.made()
    if quant is not None:
        scale, zero = float(quant.scale[0]), quant.zero_point[0]
        first, last = (((edge - zero) * scale) for edge in made.dtype.integer_range)
        low, high = (min(max(bound, first), last) for bound in (low, high))
        # The bounds are values of the output: the nearest stored integer, ties to even.
        low, high = (float(np.rint(bound / scale)) * scale for bound in (low, high))
        if (low, high) == (0.0, 0.0 + float(np.rint(last / scale)) * scale):
            # Nothing of what the output holds is cut at the top: a plain Relu, which the compiler fuses.
            lower_relu(view)
            return
    if fine.exceeds_tables(view) or fine.exceeds_floats(view):
        fine.clip(view, low, high)
        return
    largest = 65504.0 if made.dtype is DType.F16 else _LARGEST
    low, high = max(low, -largest), min(high, largest)
    view.emit("clip", (view.input(0),), (view.output(),), (), (low, high))


def check_same_kind_of(view: NodeView, indices: tuple[int, ...]) -> None:
    """Refuse when some inputs and the outputs have different element types."""
    dtypes = {view.kind(index).dtype for index in indices} | {view.made(i).dtype for i in range(len(view.node.outputs))}
    view.need(len(dtypes) == 1, f"it mixes {' and '.join(sorted(dtype.value for dtype in dtypes))}")
    view.need(all(view.kind(index).holds_reals for index in indices), "its input is not real")
    view.need(dtypes <= set(_REALS), "it has no form of this element type", always=True)


def lower_convert(view: NodeView) -> None:
    """Lower QuantizeLinear, DequantizeLinear, Requantize and Cast between reals."""
    data, made = view.kind(0), view.made()
    view.expect(view.shape(0))
    for kind in (data, made):
        view.need(kind.holds_reals, f"it converts {kind.dtype.value} values, not reals")
        view.need(kind.dtype in _REALS, f"it has no {kind.dtype.value} form", always=True)
        view.need(kind.quant is None or kind.quant.axis is None, "a tensor has a scale per channel")
    view.convert(0, view.output(), made)


_CASTABLE = (DType.BOOL, DType.F32, DType.F16, DType.I32, DType.I64, DType.U8)
"""What the vendor's cast takes and gives, where it is not quantised."""


def lower_cast(view: NodeView) -> None:
    """Lower Cast: between reals, and from and to truths and integers, of which quantised ones go through float32."""
    data, made = view.kind(0), view.made()
    if data.holds_reals and made.holds_reals:
        lower_convert(view)
        return
    view.expect(view.shape(0))
    for kind in (data, made):
        told = f"from {data.dtype.value} to {made.dtype.value}"
        view.need(kind.quant is not None or kind.dtype in _CASTABLE, told)
    source = view.input(0)
    if data.quant is not None:
        source = view.new(TensorType(DType.F32, data.shape))
        view.emit("data_convert", (view.input(0),), (source,))
    if made.quant is None:
        view.emit("cast", (source,), (view.output(),))
        return
    held = view.new(TensorType(DType.F32, data.shape))
    view.emit("cast", (source,), (held,))
    view.emit("data_convert", (held,), (view.output(),))


def alpha(default: float) -> Callable[[NodeView], tuple[float, ...]]:
    """Return what reads the attribute of that name."""
    return lambda view: (view.node.number("alpha", default),)


def _gelu(view: NodeView) -> tuple[int, ...]:
    return (1 if view.node.text("approximate", "none") == "tanh" else 0,)


def _selu(view: NodeView) -> tuple[float, ...]:
    return (view.node.number("alpha", 1.6732632), view.node.number("gamma", 1.0507010))


def _hard_sigmoid(view: NodeView) -> tuple[float, ...]:
    return (view.node.number("alpha", 0.2), view.node.number("beta", 0.5))


UNARY: dict[str, Callable[[NodeView], None]] = {
    "Acosh": Unary("acosh"),
    "Atan": Unary("atan"),
    "Atanh": Unary("atanh"),
    "Ceil": Unary("ceil"),
    "Celu": Unary("celu", alpha(1.0)),
    "Cos": Unary("cos"),
    "Elu": Unary("elu", alpha(1.0)),
    "Erf": Unary("erf"),
    "Exp": Unary("exp"),
    "Floor": Unary("floor"),
    "Gelu": Unary("gelu", ints=_gelu),
    "HardSigmoid": Unary("hard_sigmoid", _hard_sigmoid),
    "Log": Unary("log"),
    "Mish": Unary("mish"),
    "Neg": lower_neg,
    "Reciprocal": Unary("reciprocal"),
    "Relu": lower_relu,
    "Round": Unary("round"),
    "Selu": Unary("selu", _selu),
    "Sign": Unary("sign"),
    "Sin": Unary("sin"),
    "Softplus": Unary("softplus"),
    "Softsign": Unary("softsign"),
    "Sqrt": Unary("sqrt"),
    "Tan": Unary("tan"),
}

BINARY: dict[str, Callable[[NodeView], None]] = {
    "Add": lower_add,
    "Div": Binary("div"),
    "Max": Extreme("maximum"),
    "Min": Extreme("minimum"),
}

COMPARISONS: dict[str, LowerComparison | Logical] = {
    "Greater": LowerComparison(0),
    "GreaterOrEqual": LowerComparison(1),
    "Less": LowerComparison(2),
    "LessOrEqual": LowerComparison(3),
    "Equal": LowerComparison(5),
    "And": Logical(0),
    "Or": Logical(1),
    "Xor": Logical(2),
}
