"""Q/DQ pairs and integer operators become quantised types; ONNX Runtime on the original is the judge."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper, parser

from dovetail.errors import LoadError
from dovetail.importers import load_onnx
from dovetail.ir import DType, Graph, Quantization
from dovetail.quantize import load_by_rules
from dovetail.testing.running import random_feeds, run_graph, run_model

MICROSOFT = "com.microsoft"


def _model(body: str, opset: int = 21) -> ModelProto:
    model: ModelProto = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}, "{MICROSOFT}": 1]> g {body}')
    return model


def _same(model: ModelProto, feeds: dict[str, np.ndarray] | None = None, steps: float = 0.0) -> Graph:
    """Import; demand the outputs of the original, unoptimised, within `steps` (integer outputs: of 1)."""
    graph = load_onnx(model)
    given = feeds or random_feeds(graph)
    for want, got in zip(run_model(model, given, False), run_graph(graph, given, False), strict=True):
        assert (want.dtype, want.shape) == (got.dtype, got.shape)
        assert np.abs(want.astype(np.float64) - got.astype(np.float64)).max() <= steps
    return graph


def _ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


SCALES = """float s = {0.05}, uint8 z = {128}, float rs = {0.03}, uint8 rz = {7},
            float[2] ws = {0.01, 0.02}, int8[2] wz = {0, 0},
            int8[2,3,1,1] w = {1, -20, 30, 40, 5, -60}, float bs = {0.0005}, int32[2] b = {100, -200}"""


def test_a_convolution_between_pairs_reads_and_writes_integers() -> None:
    graph = _same(
        _model(
            f"""(float[1,3,4,4] x) => (float[1,2,4,4] y) <{SCALES}> {{
              q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)
              wd = DequantizeLinear <axis = 0> (w, ws, wz)  bd = DequantizeLinear(b, bs)
              c = Conv(d, wd, bd)
              r = QuantizeLinear(c, rs, rz)  y = DequantizeLinear(r, rs, rz)
            }}"""
        )
    )
    assert _ops(graph) == ["QuantizeLinear", "Conv", "DequantizeLinear"]
    conv = graph.nodes[1]
    assert conv.inputs == ("q", "w", "b")
    assert conv.outputs == ("r",)
    assert graph.types["w"].quant == Quantization(tuple(float(np.float32(v)) for v in (0.01, 0.02)), (0, 0), 0)
    assert graph.types["b"].dtype is DType.I32
    assert graph.types["r"].quant == Quantization((float(np.float32(0.03)),), (7,))
    assert len(conv.origin) == 5


@pytest.mark.parametrize("clamp", ["Relu(c)", "Clip(c, lo, hi)", "MaxPool <kernel_shape = [2, 2]> (c)", "Transpose(c)"])
def test_a_clamp_or_move_before_the_quantisation_does_not_break_the_fold(clamp: str) -> None:
    size = "3,3" if "Pool" in clamp else "4,4"
    shape = "4,4,2,1" if "Transpose" in clamp else f"1,2,{size}"
    graph = _same(
        _model(
            f"""(float[1,3,4,4] x) => (float[{shape}] y) <{SCALES}, float lo = {{-0.1}}, float hi = {{0.71}}> {{
              q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)
              wd = DequantizeLinear <axis = 0> (w, ws, wz)
              c = Conv(d, wd)  k = {clamp}
              r = QuantizeLinear(k, rs, rz)  y = DequantizeLinear(r, rs, rz)
            }}"""
        )
    )
    assert _ops(graph) == ["QuantizeLinear", "Conv", clamp.split("(")[0].split(" ")[0], "DequantizeLinear"]
    assert all(graph.types[node.outputs[0]].quant for node in graph.nodes[:3])


def test_a_float_operator_between_quantised_ones_keeps_explicit_boundaries() -> None:
    graph = _same(
        _model(
            f"""(float[1,3,4,4] x) => (float[1,2,4,4] y) <{SCALES}> {{
              q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)
              e = Exp(d)  t = QuantizeLinear(e, rs, rz)  u = DequantizeLinear(t, rs, rz)
              wd = DequantizeLinear <axis = 0> (w, ws, wz)  y = Conv(u, wd)
            }}"""
        ),
        steps=1e-5,
    )
    # The last convolution gives float: it takes float in, and its weights become floats.
    assert _ops(graph) == ["QuantizeLinear", "Exp", "DequantizeLinear", "Conv"]
    assert graph.types[graph.nodes[-1].inputs[1]].dtype is DType.F32


def test_different_scales_on_both_sides_of_nothing_are_a_requantize() -> None:
    graph = _same(
        _model(
            f"""(float[4] x) => (float[4] y) <{SCALES}> {{
              q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)
              r = QuantizeLinear(d, rs, rz)  y = DequantizeLinear(r, rs, rz)
            }}"""
        )
    )
    assert [(node.domain, node.op) for node in graph.nodes] == [
        ("", "QuantizeLinear"),
        ("dovetail", "Requantize"),
        ("", "DequantizeLinear"),
    ]


def test_equal_pairs_in_a_row_are_one() -> None:
    graph = _same(
        _model(
            f"""(float[4] x) => (float[4] y, float[4] v) <{SCALES}> {{
              q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)
              r = QuantizeLinear(d, s, z)  y = DequantizeLinear(r, s, z)
              q2 = QuantizeLinear(x, s, z)  v = DequantizeLinear(q2, s, z)
            }}"""
        )
    )
    assert _ops(graph) == ["QuantizeLinear", "DequantizeLinear", "DequantizeLinear"]


def test_moves_of_integers_carry_the_scale() -> None:
    graph = _same(
        _model(
            f"""(uint8[1,2,4,4] x) => (uint8[1,2,4] y, float[1,2,4] f) <{SCALES}, int64[3] t = {{1, 2, 4}}> {{
              m = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
              y = Reshape(m, t)
              f = DequantizeLinear(y, s, z)
            }}"""
        ),
        {"x": np.random.default_rng(0).integers(0, 256, (1, 2, 4, 4)).astype(np.uint8)},
    )
    assert graph.types["x"].quant == graph.types["m"].quant == graph.types["y"].quant
    assert graph.types["x"].quant is not None


@pytest.mark.parametrize(
    "arithmetic",
    ["k = Cast <to = 6> (q)", "a = Add(q, q) k = Cast <to = 6> (a)", "a = Equal(q, z) k = Cast <to = 6> (a)"],
)
def test_arithmetic_on_integers_sees_the_integers(arithmetic: str) -> None:
    body = f"""(float[1,5] x) => (int32[1,5] k, float[1,5] y) <{SCALES}> {{
      q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  {arithmetic}  r = Relu(d)
      p = QuantizeLinear(r, rs, rz)  y = DequantizeLinear(p, rs, rz)
    }}"""
    x = np.array([[-9.0, -0.33, 0.0, 1.77, 99.0]], np.float32)
    graph = _same(_model(body), {"x": x})
    assert graph.types["q"].quant is not None


def test_a_plain_integer_that_is_dequantised_stays_plain() -> None:
    body = f"""(int32[4] x) => (float[4] y, float[4] v) <{SCALES}, int32 k = {{3}}> {{
      m = Mul(x, k)  u = Cast <to = 2> (m)  y = DequantizeLinear(u, s, z)  v = DequantizeLinear(u, rs, rz)
    }}"""
    graph = _same(_model(body), {"x": np.array([0, 1, 40, 80], np.int32)}, steps=1e-6)
    assert graph.types["u"].quant is None
    assert "DequantizeLinear" not in _ops(graph)


def test_integers_that_a_body_captures() -> None:
    body = f"""(float[4] x, bool c) => (float[4] y, float[4] f) <{SCALES}> {{
      q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  r = Relu(d)
      p = QuantizeLinear(r, rs, rz)  f = DequantizeLinear(p, rs, rz)
      y = If (c) <then_branch = t () => (float[4] a) {{ a = DequantizeLinear(q, rs, rz) }},
                  else_branch = e () => (float[4] n) {{ i = Cast <to = 1> (q)  n = Neg(i) }}>
    }}"""
    x = np.array([-9.0, -0.33, 0.0, 1.77], np.float32)
    for condition in (True, False):
        _same(_model(body), {"x": x, "c": np.array(condition)}, steps=1e-6)


def test_pairs_inside_a_body_fold_there() -> None:
    body = f"""(float[4] x, bool c) => (float[4] y) <{SCALES}> {{
      y = If (c) <then_branch = t () => (float[4] a) {{
             q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  r = Relu(d)
             p = QuantizeLinear(r, rs, rz)  a = DequantizeLinear(p, rs, rz) }},
           else_branch = e () => (float[4] n) {{ i = QuantizeLinear(x, s, z) n = DequantizeLinear(i, s, z) }}>
    }}"""
    for condition in (True, False):
        feeds = {"x": np.array([-9.0, -0.33, 0.0, 1.77], np.float32), "c": np.array(condition)}
        graph = _same(_model(body), feeds, steps=1e-6)
    inner = graph.nodes[0].attributes["then_branch"]
    assert isinstance(inner, Graph)
    assert _ops(inner) == ["QuantizeLinear", "Relu", "DequantizeLinear"]


def test_sixteen_bits_and_half_precision_scales() -> None:
    body = """(float16[1,4] x) => (float16[1,4] y) <int16 z = {5}> {
      q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z)
    }"""
    model = _model(body)
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.001, np.float16), "s"))
    graph = load_onnx(model)
    assert graph.types["q"].dtype is DType.I16
    x = np.array([[0.5, -0.25, 1.0, 0.125]], np.float16)
    got = run_graph(graph, {"x": x})[0]
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, x, atol=2e-3)


def test_weights_in_blocks_become_floats() -> None:
    model = _model("(float[1,4] x) => (float[1,2] y) { y = MatMul(x, d) }")
    stored = np.arange(8, dtype=np.int8).reshape(4, 2)
    scale = np.array([[1, 2], [3, 4]], np.float32)
    for name, array in (("w", stored), ("s", scale)):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    model.graph.node.insert(0, helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=2))
    graph = load_onnx(model)
    np.testing.assert_array_equal(graph.constants["d"], stored * np.repeat(scale, 2, axis=0))


def _random_bytes(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


FOREIGN = {
    "QLinearAdd": """(uint8[1,2,3,3] x, uint8[1,2,3,3] v) => (uint8[1,2,3,3] y)
        { y = com.microsoft.QLinearAdd(x, s, z, v, rs, rz, os, oz) }""",
    "QLinearMul": """(uint8[1,2,3,3] x, uint8[1,2,3,3] v) => (uint8[1,2,3,3] y)
        { y = com.microsoft.QLinearMul(x, s, z, v, rs, rz, os, oz) }""",
    "QLinearSigmoid": "(uint8[1,2,3,3] x) => (uint8[1,2,3,3] y) { y = com.microsoft.QLinearSigmoid(x, s, z, os, oz) }",
    "QLinearLeakyRelu": """(uint8[1,2,3,3] x) => (uint8[1,2,3,3] y)
        { y = com.microsoft.QLinearLeakyRelu <alpha = 0.2> (x, s, z, os, oz) }""",
    "QLinearGlobalAveragePool": """(uint8[1,2,3,3] x) => (uint8[1,2,1,1] y)
        { y = com.microsoft.QLinearGlobalAveragePool <channels_last = 0> (x, s, z, os, oz) }""",
    "QLinearAveragePool": """(uint8[1,2,3,3] x) => (uint8[1,2,2,2] y)
        { y = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2]> (x, s, z, os, oz) }""",
    "QLinearConcat": """(uint8[1,2,3,3] x, uint8[1,2,3,3] v) => (uint8[1,4,3,3] y)
        { y = com.microsoft.QLinearConcat <axis = 1> (os, oz, x, s, z, v, rs, rz) }""",
    "QLinearSoftmax": """(uint8[2,5] x) => (uint8[2,5] y)
        { y = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (x, s, z, ss, sz) }""",
    "QLinearWhere": """(uint8[1,2,3,3] x, uint8[1,2,3,3] v) => (uint8[1,2,3,3] y)
        { y = com.microsoft.QLinearWhere(flag, x, s, z, v, rs, rz, os, oz) }""",
    "QGemm": """(uint8[2,3] x) => (uint8[2,2] y)
        { y = com.microsoft.QGemm <alpha = 1.0, transB = 1> (x, s, z, gw, ws, wz, gb, os, oz) }""",
    "QLinearMatMul": """(uint8[2,3] x) => (uint8[2,2] y)
        { y = QLinearMatMul(x, s, z, mw, rs, mz, os, oz) }""",
    "QLinearConv": """(uint8[1,3,4,4] x) => (uint8[1,2,4,4] y)
        { y = QLinearConv(x, s, z, w, ws, wz, os, oz, b) }""",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_integer_operators_become_operators_on_quantised_tensors(name: str) -> None:
    extra = """, float os = {0.04}, uint8 oz = {20}, int8[2,3] gw = {1, -2, 3, -4, 5, -6}, int32[2] gb = {300, -70},
               int8[3,2] mw = {1, -2, 3, -4, 5, -6}, int8 mz = {0}, float ss = {0.00390625}, uint8 sz = {0},
               bool[3] flag = {1, 0, 1}"""
    signature, _, body = FOREIGN[name].partition("{")
    model = _model(f"{signature} <{SCALES}{extra}> {{{body}")
    shape = tuple(dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim)
    # ONNX Runtime rounds these in fixed point or through a table: one step at most from the definition.
    graph = _same(model, {"x": _random_bytes(shape), "v": _random_bytes(shape, 1)}, steps=1)
    assert len(graph.nodes) == 1
    assert graph.nodes[0].op == name.removeprefix("QLinear").removeprefix("Q")
    assert graph.types["x"].quant is not None
    assert graph.types["y"].quant is not None


def test_channels_last_pooling_is_refused() -> None:
    body = f"""(uint8[1,3,3,2] x) => (uint8[1,1,1,2] y) <{SCALES}>
        {{ y = com.microsoft.QLinearGlobalAveragePool <channels_last = 1> (x, s, z, rs, rz) }}"""
    with pytest.raises(LoadError, match="channels come last"):
        load_onnx(_model(body))


def test_softmax_over_many_axes_is_refused() -> None:
    body = f"""(uint8[1,3,3,2] x) => (uint8[1,3,3,2] y) <{SCALES}>
        {{ y = com.microsoft.QLinearSoftmax <axis = 1, opset = 11> (x, s, z, rs, rz) }}"""
    with pytest.raises(LoadError, match="before opset 13"):
        load_onnx(_model(body))


def test_the_nearest_resize_moves_integers() -> None:
    body = f"""(uint8[1,2,3,3] x) => (uint8[1,2,6,6] y) <{SCALES}, float[4] factors = {{1, 1, 2, 2}}> {{
        m = com.microsoft.QLinearSigmoid(x, s, z, rs, rz)
        r = Resize <mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric">
            (m, , factors)
        y = com.microsoft.QLinearLeakyRelu <alpha = 0.2> (r, rs, rz, s, z)
    }}"""
    graph = _same(_model(body), {"x": _random_bytes((1, 2, 3, 3))}, steps=1)
    assert [node.op for node in graph.nodes] == ["Sigmoid", "Resize", "LeakyRelu"]
    assert graph.types["r"].quant == graph.types["m"].quant


def test_dynamic_quantisation_is_spelt_out() -> None:
    body = """(float[2,8] x) => (float[2,3] y) <int8[8,3] w, int8 wz = {3}, float ws = {0.02}> {
      q, s, z = DynamicQuantizeLinear(x)
      i = MatMulInteger(q, w, z, wz)  f = Cast <to = 1> (i)  t = Mul(s, ws)  y = Mul(f, t)
    }"""
    model = _model(body)
    weight = np.random.default_rng(1).integers(-128, 128, (8, 3)).astype(np.int8)
    del model.graph.value_info[:]
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    feeds = {"x": np.random.default_rng(2).standard_normal((2, 8)).astype(np.float32)}
    graph = load_onnx(model)
    assert not any(kind.quant for kind in graph.types.values())
    # Whether sums of bytes saturate depends on the processor: by the rules of this one.
    found = load_by_rules(graph, "reference:ort").run(feeds)["y"]
    np.testing.assert_allclose(found, run_model(model, feeds, False)[0], rtol=0, atol=1e-5)
    # Weights of seven bits cannot saturate.
    model.graph.initializer[-1].CopyFrom(numpy_helper.from_array(weight // 2, "w"))
    _same(model, feeds, steps=1e-5)


def test_convolution_of_integers_is_exact_or_refused() -> None:
    body = """(uint8[1,CH,5,5] x) => (int32[1,2,3,3] y) <uint8 z = {7}> { y = ConvInteger(x, w, z) }"""
    for channels in (4, 400):
        model = _model(body.replace("CH", str(channels)))
        weight = np.random.default_rng(0).integers(-128, 128, (2, channels, 3, 3)).astype(np.int8)
        model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
        if channels == 4:
            _same(model, {"x": _random_bytes((1, channels, 5, 5))})
        else:
            with pytest.raises(LoadError, match="do not fit float32 exactly"):
                load_onnx(model)
