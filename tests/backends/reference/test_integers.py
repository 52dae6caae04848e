"""Properties of the integer rules; sums are compared with Python's own integers."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.backend.arithmetic import EXACT, Arithmetic, Rounding, Tie, ZeroPointOrder
from dovetail.backends.reference import run_graph
from dovetail.backends.reference.kernels.call import exact_matmul
from dovetail.backends.reference.storing import bf16_of, round_ties
from dovetail.ir import DOVETAIL_DOMAIN, DType, Graph, Node, Quantization, TensorType, dequantize_array, quantize_array
from dovetail.ir.dtypes import round_to_bf16

SCALES = st.floats(2.0**-20, 2.0**10, width=32)
STORED = (DType.U8, DType.I8, DType.I16)


@st.composite
def quantized_types(draw: st.DrawFn) -> TensorType:
    dtype = draw(st.sampled_from(STORED))
    zero = draw(st.integers(*dtype.integer_range)) if dtype is not DType.I16 else 0
    return TensorType(dtype, (1, 2, 3, 4), Quantization((draw(SCALES),), (zero,)))


def _run(node: Node, types: dict[str, TensorType], values: dict[str, np.ndarray], rules: Arithmetic) -> np.ndarray:
    graph = Graph("g", (node,), tuple(values), ("y",), types)
    return run_graph(graph, values, rules)["y"]


def _stored(kind: TensorType, seed: int) -> np.ndarray:
    lowest, highest = kind.dtype.integer_range
    return np.random.default_rng(seed).integers(lowest, highest + 1, kind.static_shape).astype(kind.dtype.carrier)


@given(
    quantized_types(), quantized_types(), st.integers(0, 2**32 - 1), st.sampled_from(list(product(Tie, ZeroPointOrder)))
)
def test_identity_convolution_is_requantize(
    source: TensorType, result: TensorType, seed: int, how: tuple[Tie, ZeroPointOrder]
) -> None:
    rules = Arithmetic(Rounding(*how))
    x = _stored(source, seed)
    weight = np.eye(2, dtype=np.int8).reshape(2, 2, 1, 1)
    ones = TensorType(DType.I8, (2, 2, 1, 1), Quantization((1.0,), (0,)))
    node = Node("n", "Conv", ("x", "w"), ("y",))
    convolved = _run(node, {"x": source, "w": ones, "y": result}, {"x": x, "w": weight}, rules)
    node = Node("n", "Requantize", ("x",), ("y",), domain=DOVETAIL_DOMAIN)
    moved = _run(node, {"x": source, "y": result}, {"x": x}, rules)
    # acc * (s_x / s_y) and (acc * s_x) / s_y may round to different sides of a tie, and nowhere else.
    assert source.quant is not None
    assert result.quant is not None
    ratio = Fraction(source.quant.scale[0]) / Fraction(result.quant.scale[0])
    for a, b, q in zip(convolved.flat, moved.flat, x.flat, strict=True):
        exact = (int(q) - source.quant.zero_point[0]) * ratio
        near_tie = abs(exact % 1 - Fraction(1, 2)) <= abs(exact) * Fraction(1, 2**50)
        assert a == b or (near_tie and abs(int(a) - int(b)) == 1)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 7, 600, 4096]))
def test_sums_at_the_ends_of_int16_are_exact(seed: int, depth: int) -> None:
    """4096 products of 2^30 need 43 bits."""
    draw = np.random.default_rng(seed)
    ends = np.array([-32768, 32767, -32767, 0], np.int64)
    left, right = draw.choice(ends, (2, depth)), draw.choice(ends, (depth, 3))
    found = exact_matmul(left, right)
    for row, column in product(range(2), range(3)):
        assert int(found[row, column]) == sum(int(a) * int(b) for a, b in zip(left[row], right[:, column], strict=True))


def test_products_beyond_float64_are_exact() -> None:
    big = 2**31 - 1
    found = exact_matmul(np.full((1, 2), big), np.full((2, 1), big))
    assert int(found[0, 0]) == 2 * big * big
    with pytest.raises(OverflowError, match="64 bits"):
        exact_matmul(np.full((1, 3), big), np.full((3, 1), big))


@given(st.integers(0, 2**32 - 1), st.sampled_from([None, 16, 24]))
def test_convolution_of_int16_against_python_integers(seed: int, bits: int | None) -> None:
    draw = np.random.default_rng(seed)
    x = draw.choice(np.array([-32768, 32767, 12345]), (1, 512, 1, 1)).astype(np.int16)
    w = draw.choice(np.array([-32768, 32767, -777]), (2, 512, 1, 1)).astype(np.int16)
    bias = draw.integers(-(2**40), 2**40, 2)
    scale = 0.7
    types = {
        "x": TensorType(DType.I16, x.shape, Quantization((2.0**-12,), (0,))),
        "w": TensorType(DType.I16, w.shape, Quantization((2.0**-14,), (0,))),
        "b": TensorType(DType.I64, (2,), Quantization((2.0**-26,), (0,))),
        "y": TensorType(DType.I16, None, Quantization((scale,), (0,))),
    }
    node = Node("n", "Conv", ("x", "w", "b"), ("y",))
    found = _run(node, types, {"x": x, "w": w, "b": bias}, Arithmetic(multiplier_bits=bits))
    exact = 2.0**-26 / scale if bits is None else float(np.float32(2.0**-26) / np.float32(scale))
    mantissa, exponent = math.frexp(exact)
    multiplier = exact if bits is None else math.ldexp(math.floor(math.ldexp(mantissa, bits)), exponent - bits)
    for channel in range(2):
        acc = sum(int(a) * int(b) for a, b in zip(x.flat, w[channel].flat, strict=True)) + int(bias[channel])
        assert int(found[0, channel, 0, 0]) == max(-32768, min(32767, round(acc * multiplier)))


@given(quantized_types())
def test_quantize_after_dequantize_gives_the_stored_value_back(kind: TensorType) -> None:
    assert kind.quant is not None
    lowest, highest = kind.dtype.integer_range
    q = np.arange(lowest, highest + 1).astype(kind.dtype.carrier)
    flat = TensorType(kind.dtype, q.shape, kind.quant)
    real = TensorType(DType.F32, q.shape)
    there = _run(Node("d", "DequantizeLinear", ("x",), ("y",)), {"x": flat, "y": real}, {"x": q}, EXACT)
    back = _run(Node("q", "QuantizeLinear", ("x",), ("y",)), {"x": real, "y": flat}, {"x": there}, EXACT)
    assert np.array_equal(back, q)
    assert np.array_equal(there, dequantize_array(q, kind.quant))
    assert np.array_equal(quantize_array(there, kind.dtype, kind.quant), q)


@given(quantized_types(), st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=30), st.sampled_from(list(Tie)))
def test_rounding_is_monotone(kind: TensorType, reals: list[float], tie: Tie) -> None:
    assert kind.quant is not None
    values = np.sort(np.array(reals, np.float64))
    rounded = round_ties(values, tie)
    assert (np.diff(rounded) >= 0).all()
    assert (np.abs(rounded - values) <= 0.5).all()
    steps = quantize_array(values, kind.dtype, kind.quant).astype(np.int64)
    assert (np.diff(steps) >= 0).all()


def test_ties() -> None:
    values = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999999999999994])
    assert round_ties(values, Tie.EVEN).tolist() == [-2, -2, 0, 0, 2, 2, 0]
    assert round_ties(values, Tie.AWAY).tolist() == [-3, -2, -1, 1, 2, 3, 0]
    assert round_ties(values, Tie.UP).tolist() == [-2, -1, 0, 1, 2, 3, 0]


@pytest.mark.parametrize(("order", "expected"), [(ZeroPointOrder.AFTER, 3), (ZeroPointOrder.BEFORE, 4)])
def test_zero_point_before_or_after_rounding(order: ZeroPointOrder, expected: int) -> None:
    """0.5 + 3: rint(0.5) + 3 is 3, rint(3.5) is 4."""
    kind = TensorType(DType.U8, (1,), Quantization((1.0,), (0,)))
    halved = TensorType(DType.U8, (1,), Quantization((2.0,), (3,)))
    node = Node("n", "Requantize", ("x",), ("y",), domain=DOVETAIL_DOMAIN)
    found = _run(node, {"x": kind, "y": halved}, {"x": np.array([1], np.uint8)}, Arithmetic(Rounding(Tie.EVEN, order)))
    assert found.tolist() == [expected]


def test_average_of_one_scale_hits_ties_exactly() -> None:
    """(1 + 2) / 2 = 1.5 at scale 0.1, which binary fractions cannot hold."""
    kind = TensorType(DType.I8, (1, 1, 1, 2), Quantization((float(np.float32(0.1)),), (0,)))
    result = TensorType(DType.I8, None, kind.quant)
    node = Node("n", "AveragePool", ("x",), ("y",), {"kernel_shape": (1, 2)})
    x = np.array([[[[1, 2]]]], np.int8)
    assert _run(node, {"x": kind, "y": result}, {"x": x}, EXACT).item() == 2
    assert _run(node, {"x": kind, "y": result}, {"x": -x}, Arithmetic(Rounding(Tie.UP))).item() == -1


@given(quantized_types(), st.integers(0, 2**32 - 1))
def test_moving_values_keeps_the_integers(kind: TensorType, seed: int) -> None:
    assert kind.quant is not None
    x = _stored(kind, seed)
    result = TensorType(kind.dtype, None, kind.quant)
    found = _run(
        Node("n", "Transpose", ("x",), ("y",), {"perm": (0, 2, 3, 1)}), {"x": kind, "y": result}, {"x": x}, EXACT
    )
    assert np.array_equal(found, x.transpose(0, 2, 3, 1))
    found = _run(Node("n", "Relu", ("x",), ("y",)), {"x": kind, "y": result}, {"x": x}, EXACT)
    assert np.array_equal(found, np.maximum(x, kind.quant.zero_point[0]))
    pool = Node("n", "MaxPool", ("x",), ("y",), {"kernel_shape": (2, 2), "pads": (1, 1, 1, 1)})
    found = _run(pool, {"x": kind, "y": result}, {"x": x}, EXACT)
    assert np.array_equal(
        found[:, :, 1:-1, 1:-1], np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3)).max((4, 5))
    )


@given(st.floats(width=32, allow_nan=False))
def test_bf16_of_float32_values_equals_bit_rounding(value: float) -> None:
    single = np.array([value], np.float32)
    with np.errstate(over="ignore"):
        assert bf16_of(single.astype(np.float64)).tobytes() == round_to_bf16(single).tobytes()


def test_bf16_rounds_once() -> None:
    """1 + 2^-8 + 2^-40 lies above the tie, but float32 would put it on the tie."""
    assert bf16_of(np.array([1 + 2.0**-8 + 2.0**-40]))[0] == np.float32(1 + 2.0**-7)
