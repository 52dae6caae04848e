"""What the vendor gave on vsi:t527 for conversions of floats: floats of 21 bits, not those of ONNX."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.backend.protocols import CompileOptions
from dovetail.backends.npusim import backend as simulator
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.testing.agreement import load_on

TARGET = next(target for target in VSI_PROFILES if target.name == "vsi:t527")
STORED = [0, 1, 7, 99, 120, 133, 200, 255]
REALS = [-2.8079833984375, -2.78460693359375, -2.6441650390625, -0.49139404296875]
REALS += [0.0, 0.30419921875, 1.871978759765625, 3.15899658203125]
DRAWN = {
    ("i16", 2.0**-13, 0): (
        [1074477346, 1040306283, 1073300912, 1056008312, 3221560695],
        [17820, 1038, 15954, 3862, -17038],
    ),
    ("u8", 0.0234, 120): ([1070214285, 1075020819, 3213379372], [188, 218, 74]),
    ("i8", 0.0234, -8): ([1057409622, 1060550459, 1073843040, 3212351622, 3211566695], [14, 22, 78, -50, -48]),
}
"""Bits of floats for which ONNX gives another integer, and the vendor's."""


def converted(op: str, given: AnyArray, kinds: tuple[TensorType, TensorType]) -> AnyArray:
    graph = Graph("g", (Node("n", op, ("x",), ("y",)),), ("x",), ("y",), dict(zip("xy", kinds, strict=True)))
    return load_on(simulator, graph, TARGET, CompileOptions()).run({"x": given})["y"]


def test_bytes_become_the_vendors_floats() -> None:
    given = np.array([STORED], np.uint8)
    kinds = TensorType(DType.U8, (1, 8), _quant(0.0234, 120)), TensorType(DType.F32, (1, 8))
    assert converted("DequantizeLinear", given, kinds).tolist() == [REALS]
    assert not np.allclose(REALS, (given[0] - 120.0) * 0.0234, rtol=1e-7, atol=0)


@pytest.mark.parametrize(("dtype", "scale", "zero"), DRAWN)
def test_floats_become_the_vendors_integers(dtype: str, scale: float, zero: int) -> None:
    bits, wanted = DRAWN[dtype, scale, zero]
    given = np.array([bits], np.uint32).view(np.float32)
    made = TensorType(DType(dtype), given.shape, _quant(scale, zero))
    found = converted("QuantizeLinear", given, (TensorType(DType.F32, given.shape), made))
    assert found.tolist() == [wanted]
    assert (np.rint(given / np.float32(scale)) + zero != found).all()


def _quant(scale: float, zero: int) -> Quantization:
    return Quantization((float(np.float32(scale)),), (zero,))
