"""Say a single quantised node in the terms of ONNX Runtime's integer kernels, and run it there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import ValueInfoProto, helper, numpy_helper

from dovetail.backends.accumulation import measured_accumulator
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.ir.codes import ONNX_CODES
from dovetail.ir.precision import Precision
from judges.trial import Score, Trial, make_trial, score

JUDGE = "onnxruntime"
_MICROSOFT = "com.microsoft"
_SILENT = 4


@dataclass(frozen=True, slots=True)
class OrtOperator:
    """One node for ONNX Runtime; `inputs` name graph inputs and `constants`, the empty name omits an input."""

    op: str
    inputs: tuple[str, ...]
    constants: Mapping[str, AnyArray]
    domain: str = ""
    attributes: Mapping[str, object] | None = None

    def run(self, graph: Graph, feeds: Sequence[Mapping[str, AnyArray]]) -> list[AnyArray]:
        """Return the first output for every set of inputs; types are those of the Dovetail graph."""
        node = helper.make_node(self.op, self.inputs, graph.outputs, domain=self.domain)
        attributes = self.attributes or {}
        node.attribute.extend(helper.make_attribute(key, attributes[key]) for key in sorted(attributes))
        proto = helper.make_graph(
            [node],
            "judge",
            [_info(name, graph.types[name]) for name in graph.inputs],
            [_info(name, graph.types[name]) for name in graph.outputs],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(_MICROSOFT, 1)]
        model = helper.make_model(proto, opset_imports=opsets, ir_version=10)
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, _SILENT
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [np.asarray(session.run(None, dict(feed))[0]) for feed in feeds]


def _info(name: str, kind: TensorType) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, ONNX_CODES[kind.dtype], kind.shape)


class _Form:
    """Collect the inputs of a QLinear operator."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.node = graph, graph.nodes[0]
        self.inputs: list[str] = []
        self.constants: dict[str, AnyArray] = {}

    def tensor(self, name: str) -> None:
        self.inputs.append(name)
        if name in self.graph.constants:
            self.constants[name] = self.graph.constants[name]

    def parameters(self, name: str) -> None:
        kind = self.graph.types[name]
        assert kind.quant is not None
        scale, zero = np.array(kind.quant.scale, np.float32), np.array(kind.quant.zero_point, kind.dtype.carrier)
        single = kind.quant.axis is None
        self.constants[f"{name}.scale"] = scale.reshape(()) if single else scale
        self.constants[f"{name}.zero"] = zero.reshape(()) if single else zero
        self.inputs += [f"{name}.scale", f"{name}.zero"]

    def data(self, name: str) -> None:
        self.tensor(name)
        self.parameters(name)

    def done(self, op: str, domain: str = "", **attributes: object) -> OrtOperator:
        return OrtOperator(op, tuple(self.inputs), self.constants, domain, attributes or dict(self.node.attributes))


def _qlinear_conv(graph: Graph) -> OrtOperator:
    form = _Form(graph)
    form.data(form.node.inputs[0])
    form.data(form.node.inputs[1])
    form.parameters(form.node.outputs[0])
    if len(form.node.inputs) > 2:
        form.tensor(form.node.inputs[2])
    return form.done("QLinearConv")


def _qlinear_pair(op: str, domain: str) -> Callable[[Graph], OrtOperator]:
    def make(graph: Graph) -> OrtOperator:
        form = _Form(graph)
        form.data(form.node.inputs[0])
        form.data(form.node.inputs[1])
        form.parameters(form.node.outputs[0])
        return form.done(op, domain)

    return make


def _qgemm(graph: Graph) -> OrtOperator:
    """QGemm has its bias between the operands and the output's parameters."""
    form = _Form(graph)
    form.data(form.node.inputs[0])
    form.data(form.node.inputs[1])
    form.tensor(form.node.inputs[2])
    form.parameters(form.node.outputs[0])
    return form.done("QGemm", _MICROSOFT)


def _qlinear_single(op: str, **extra: object) -> Callable[[Graph], OrtOperator]:
    def make(graph: Graph) -> OrtOperator:
        form = _Form(graph)
        form.data(form.node.inputs[0])
        form.parameters(form.node.outputs[0])
        return form.done(op, _MICROSOFT, **{**form.node.attributes, **extra})

    return make


def _qlinear_concat(graph: Graph) -> OrtOperator:
    form = _Form(graph)
    form.parameters(form.node.outputs[0])
    for name in form.node.inputs:
        form.data(name)
    return form.done("QLinearConcat", _MICROSOFT)


def _boundary(graph: Graph) -> OrtOperator:
    form = _Form(graph)
    form.tensor(form.node.inputs[0])
    form.parameters((form.node.outputs if form.node.op == "QuantizeLinear" else form.node.inputs)[0])
    return form.done(form.node.op)


def _plain(graph: Graph) -> OrtOperator:
    form = _Form(graph)
    for name in form.node.inputs:
        form.tensor(name)
    return form.done(form.node.op)


_FORMS: dict[str, Callable[[Graph], OrtOperator]] = {
    "Add": _qlinear_pair("QLinearAdd", _MICROSOFT),
    "AveragePool": _qlinear_single("QLinearAveragePool"),
    "Concat": _qlinear_concat,
    "Conv": _qlinear_conv,
    "Gemm": _qgemm,
    "GlobalAveragePool": _qlinear_single("QLinearGlobalAveragePool", channels_last=0),
    "LeakyRelu": _qlinear_single("QLinearLeakyRelu"),
    "MatMul": _qlinear_pair("QLinearMatMul", ""),
    "Mul": _qlinear_pair("QLinearMul", _MICROSOFT),
    "Sigmoid": _qlinear_single("QLinearSigmoid"),
    "Softmax": _qlinear_single("QLinearSoftmax", opset=21),
}


def judge_trial(trial: Trial) -> Score:
    """Run a trial on ONNX Runtime's integer kernels; the reference adds products up as they do on this processor."""
    trial = replace(trial, arithmetic=replace(trial.arithmetic, accumulator=measured_accumulator()))
    node = trial.graph.nodes[0]
    boundary = node.op in ("QuantizeLinear", "DequantizeLinear") and len(node.inputs) == 1
    form = _boundary if boundary else _plain if _is_plain(trial.graph) else _FORMS[node.op]
    return score(JUDGE, trial, form(trial.graph).run(trial.graph, trial.inputs))


def _is_plain(graph: Graph) -> bool:
    return graph.nodes[0].op == "MaxPool" or all(kind.quant is None for kind in graph.types.values())


def trials() -> list[Trial]:
    """Return every trial that ONNX Runtime has an integer kernel for."""
    p, made = Precision, list[Trial]()
    for name in ("Conv", "Conv.no_bias", "Conv.stride", "Conv.dilated", "Conv.depthwise", "Conv.grouped", "Conv.1d"):
        made += [make_trial(name, precision) for precision in (p.I8PC, p.U8)]
    for name in ("MatMul", "MatMul.dynamic", "Gemm", "Gemm.transposed"):
        made += [make_trial(name, precision) for precision in (p.I8, p.I8PC, p.U8)]
    names = ("Add", "Mul", "AveragePool", "AveragePool.include_pad", "GlobalAveragePool", "Concat")
    for name in (*names, "LeakyRelu", "Sigmoid", "Softmax", "MaxPool", "MaxPool.padded"):
        made += [make_trial(name, precision) for precision in (p.I8, p.U8)]
    for name in ("QuantizeLinear", "DequantizeLinear"):
        made += [make_trial(name, precision) for precision in (p.I8, p.U8, p.W8A16)]
        made.append(_as_u16(make_trial(name, p.U8)))
    return made + unsigned_data_trials() + explicit_trials()


def unsigned_data_trials() -> list[Trial]:
    """Return trials of unsigned data and signed weights: those that saturate on processors without VNNI."""
    convolutions = ("Conv", "Conv.no_bias", "Conv.stride", "Conv.dilated", "Conv.depthwise", "Conv.grouped", "Conv.1d")
    products = ("MatMul", "MatMul.dynamic", "Gemm", "Gemm.transposed")
    return [_with_unsigned_data(make_trial(name, Precision.I8PC)) for name in (*convolutions, *products)]


def _with_unsigned_data(trial: Trial) -> Trial:
    """Return a trial of i8 with the first input and the output as the u8 that stand for the same reals."""
    graph, kinds = trial.graph, dict(trial.graph.types)
    data = graph.nodes[0].inputs[0]
    for name in (data, graph.outputs[0]):
        quant = kinds[name].quant
        assert quant is not None
        kinds[name] = TensorType(DType.U8, kinds[name].shape, Quantization(quant.scale, (quant.zero_point[0] + 128,)))
    feeds = tuple({**feed, data: (feed[data].astype(np.int16) + 128).astype(np.uint8)} for feed in trial.inputs)
    return replace(trial, name=f"{trial.name}.u8data", graph=graph.evolve(types=kinds), inputs=feeds)


def _as_u16(trial: Trial) -> Trial:
    """Return a boundary of u8 as one of u16, with the same range."""
    kinds = dict(trial.graph.types)
    for name, kind in trial.graph.types.items():
        if kind.quant is not None:
            quant = Quantization((kind.quant.scale[0] / 256,), (kind.quant.zero_point[0] * 257,))
            kinds[name] = TensorType(DType.U16, kind.shape, quant)
    feeds = tuple(
        {name: value.astype(np.uint16) * 257 if value.dtype == np.uint8 else value for name, value in feed.items()}
        for feed in trial.inputs
    )
    return replace(trial, name=f"{trial.name}.u16", graph=trial.graph.evolve(types=kinds), inputs=feeds)


def explicit_trials() -> list[Trial]:
    """Return trials of ONNX's explicit integer operators, whose parameters are inputs."""
    draw = np.random.default_rng(11)

    def ints(dtype: type[np.integer[Any]], *shape: int) -> AnyArray:
        info = np.iinfo(dtype)
        return np.asarray(draw.integers(info.min, info.max + 1, shape)).astype(dtype)

    u8, i8, f32 = np.uint8, np.int8, np.float32
    x, w = ints(u8, 2, 4, 20, 20), ints(i8, 6, 4, 3, 3)
    a, b = ints(u8, 3, 40, 24), ints(i8, 24, 30)
    real = draw.uniform(-5, 9, (8, 30, 4)).astype(f32)
    channel = np.array([0.01, 0.2, 0.05, 0.003, 0.7, 0.1], f32)
    zeros = np.zeros(6, np.int8)
    return [
        _explicit("ConvInteger", DType.I32, x, w, u8(7), i8(-3)),
        _explicit("MatMulInteger", DType.I32, a, b, u8(130), i8(0)),
        _explicit("QLinearConv", DType.U8, x, f32(0.02), u8(120), w, channel / 40, zeros, f32(0.05), u8(99)),
        _explicit("QLinearMatMul", DType.U8, a, f32(0.02), u8(120), b, f32(0.004), i8(0), f32(0.07), u8(3)),
        _explicit("DynamicQuantizeLinear", DType.U8, real),
        _explicit("QuantizeLinear", DType.I8, real, channel[:4], np.array([3, -9, 0, 127], np.int8), axis=2),
        _explicit("QuantizeLinear", DType.U16, real, f32(0.001), np.uint16(40000)),
        _explicit("DequantizeLinear", DType.F32, w, channel, np.array([1, -1, 0, 5, 9, -128], np.int8), axis=0),
    ]


def _explicit(op: str, output: DType, *values: object, **attributes: object) -> Trial:
    arrays = {f"x{index}": np.asarray(value) for index, value in enumerate(values)}
    types = {name: TensorType(DType.of(value.dtype), tuple(value.shape)) for name, value in arrays.items()}
    data, names = {"x0": arrays["x0"]}, tuple(arrays)
    outputs = ("y0", "scale", "zero") if op == "DynamicQuantizeLinear" else ("y0",)
    types |= {"y0": TensorType(output, None)}
    if len(outputs) > 1:
        types |= {"scale": TensorType(DType.F32, ()), "zero": TensorType(DType.U8, ())}
    node = Node("node", op, names, outputs, attributes)
    constants = {name: value for name, value in arrays.items() if name != "x0"}
    graph = Graph(op, (node,), ("x0",), outputs, types, constants)
    precision = {DType.U8: Precision.U8, DType.I8: Precision.I8}.get(types["x0"].dtype, Precision.FP32)
    axis = f".axis{attributes['axis']}" if "axis" in attributes else ""
    return Trial(f"{op}.operator{axis}.{output.value}", precision, graph, (data,))
