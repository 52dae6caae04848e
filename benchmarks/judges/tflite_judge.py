"""Say a single quantised node in TFLite's terms: layouts `[N, H, W, C]`, weights `[O, H, W, I]`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from dovetail.ir import AnyArray, DType, Graph, Node, Quantization
from dovetail.ir.precision import Precision
from judges.gemmlowp import emulate
from judges.tflite_model import LiteOperator, LiteTensor
from judges.trial import HALF_AWAY, Score, Trial, make_trial, one_scale, output_scale, score, score_values

JUDGE = "tflite-ref"
_CODE = schema.BuiltinOperator
_KIND = schema.BuiltinOptions


@dataclass(frozen=True, slots=True)
class _Site:
    """A node in its graph; `images` says that 4-dimensional data is turned to `[N, H, W, C]`."""

    graph: Graph
    images: bool

    @property
    def node(self) -> Node:
        return self.graph.nodes[0]

    def turn(self, value: AnyArray) -> AnyArray:
        return value.transpose(0, 2, 3, 1) if self.images and value.ndim == 4 else value

    def back(self, value: AnyArray) -> AnyArray:
        return value.transpose(0, 3, 1, 2) if self.images and value.ndim == 4 else value

    def tensor(self, name: str) -> LiteTensor:
        """Return a data tensor or constant in TFLite's layout."""
        kind, value = self.graph.types[name], self.graph.constants.get(name)
        shape = kind.static_shape or ()
        turned = tuple(shape[axis] for axis in (0, 2, 3, 1)) if self.images and len(shape) == 4 else shape
        return LiteTensor(name, kind.dtype, turned, kind.quant, None if value is None else self.turn(value))

    @property
    def output(self) -> LiteTensor:
        return self.tensor(self.node.outputs[0])


def _same(node: Node) -> int:
    """Return TFLite's padding mode; the cases use no other padding than these two."""
    padded = node.text("auto_pad", "NOTSET") == "SAME_UPPER" or any(node.integers("pads"))
    return int(schema.Padding.SAME if padded else schema.Padding.VALID)


def _weight(site: _Site, order: tuple[int, ...], axis: int) -> LiteTensor:
    name = site.node.inputs[1]
    kind, value = site.graph.types[name], site.graph.constants[name].transpose(order)
    assert kind.quant is not None
    quant = Quantization(kind.quant.scale, kind.quant.zero_point, axis if kind.quant.per_channel else None)
    return LiteTensor(name, kind.dtype, value.shape, quant, value)


def _bias(site: _Site) -> LiteTensor:
    """Return the bias; TFLite demands one, so a node without gets zeros."""
    if len(site.node.inputs) > 2:
        return site.tensor(site.node.inputs[2])
    dtype = DType.I64 if site.output.dtype is DType.I16 else DType.I32
    zeros = np.zeros(site.output.shape[-1], dtype.carrier)
    return LiteTensor("bias", dtype, zeros.shape, None, zeros)


def _conv(site: _Site) -> LiteOperator:
    node, data = site.node, site.tensor(site.node.inputs[0])
    strides, dilations = node.integers("strides", (1, 1)), node.integers("dilations", (1, 1))
    depthwise = node.integer("group", 1) > 1
    options = schema.DepthwiseConv2DOptionsT() if depthwise else schema.Conv2DOptionsT()
    options.padding = _same(node)
    options.strideH, options.strideW = strides
    options.dilationHFactor, options.dilationWFactor = dilations
    if depthwise:
        options.depthMultiplier = 1
        weight = _weight(site, (1, 2, 3, 0), 3)
        return LiteOperator(
            _CODE.DEPTHWISE_CONV_2D, (data, weight, _bias(site)), site.output, _KIND.DepthwiseConv2DOptions, options
        )
    weight = _weight(site, (0, 2, 3, 1), 0)
    return LiteOperator(_CODE.CONV_2D, (data, weight, _bias(site)), site.output, _KIND.Conv2DOptions, options)


def _gemm(site: _Site) -> LiteOperator:
    options = schema.FullyConnectedOptionsT()
    inputs = (site.tensor(site.node.inputs[0]), _weight(site, (0, 1), 0), _bias(site))
    return LiteOperator(_CODE.FULLY_CONNECTED, inputs, site.output, _KIND.FullyConnectedOptions, options)


def _pool(code: int) -> Callable[[_Site], LiteOperator]:
    def make(site: _Site) -> LiteOperator:
        options = schema.Pool2DOptionsT()
        options.padding = _same(site.node)
        options.filterHeight, options.filterWidth = site.node.integers("kernel_shape")
        options.strideH, options.strideW = site.node.integers("strides", (1, 1))
        inputs = (site.tensor(site.node.inputs[0]),)
        return LiteOperator(code, inputs, site.output, _KIND.Pool2DOptions, options)

    return make


def _plain(code: int, kind: int = 0, options: type[Any] | None = None) -> Callable[[_Site], LiteOperator]:
    """Return the form of an operator whose inputs are the node's own."""

    def make(site: _Site) -> LiteOperator:
        inputs = tuple(site.tensor(name) for name in site.node.inputs)
        return LiteOperator(code, inputs, site.output, kind, None if options is None else options())

    return make


def _numbers(name: str, values: AnyArray) -> LiteTensor:
    array = values.astype(np.int32)
    return LiteTensor(name, DType.I32, array.shape, None, array)


def _concat(site: _Site) -> LiteOperator:
    options = schema.ConcatenationOptionsT()
    options.axis = site.node.integer("axis", 0)
    inputs = tuple(site.tensor(name) for name in site.node.inputs)
    return LiteOperator(_CODE.CONCATENATION, inputs, site.output, _KIND.ConcatenationOptions, options)


def _softmax(site: _Site) -> LiteOperator:
    options = schema.SoftmaxOptionsT()
    options.beta = 1.0
    inputs = (site.tensor(site.node.inputs[0]),)
    return LiteOperator(_CODE.SOFTMAX, inputs, site.output, _KIND.SoftmaxOptions, options)


def _leaky(site: _Site) -> LiteOperator:
    options = schema.LeakyReluOptionsT()
    options.alpha = site.node.number("alpha", 0.01)
    inputs = (site.tensor(site.node.inputs[0]),)
    return LiteOperator(_CODE.LEAKY_RELU, inputs, site.output, _KIND.LeakyReluOptions, options)


def _mean(site: _Site) -> LiteOperator:
    options = schema.ReducerOptionsT()
    options.keepDims = bool(site.node.integer("keepdims", 1))
    inputs = (site.tensor(site.node.inputs[0]), _numbers("axes", site.graph.constants[site.node.inputs[1]]))
    return LiteOperator(_CODE.MEAN, inputs, site.output, _KIND.ReducerOptions, options)


def _pad(site: _Site) -> LiteOperator:
    pads = site.graph.constants[site.node.inputs[1]].reshape(2, -1).T
    inputs = (site.tensor(site.node.inputs[0]), _numbers("pads", pads))
    return LiteOperator(_CODE.PAD, inputs, site.output, _KIND.PadOptions, schema.PadOptionsT())


def _reshape(site: _Site) -> LiteOperator:
    shape = np.array(site.output.shape)
    inputs = (site.tensor(site.node.inputs[0]), _numbers("shape", shape))
    return LiteOperator(_CODE.RESHAPE, inputs, site.output, _KIND.ReshapeOptions, schema.ReshapeOptionsT())


def _transpose(site: _Site) -> LiteOperator:
    inputs = (site.tensor(site.node.inputs[0]), _numbers("perm", np.array(site.node.integers("perm"))))
    return LiteOperator(_CODE.TRANSPOSE, inputs, site.output, _KIND.TransposeOptions, schema.TransposeOptionsT())


_FORMS: dict[str, Callable[[_Site], LiteOperator]] = {
    "Add": _plain(_CODE.ADD, _KIND.AddOptions, schema.AddOptionsT),
    "AveragePool": _pool(_CODE.AVERAGE_POOL_2D),
    "Concat": _concat,
    "Conv": _conv,
    "Gemm": _gemm,
    "HardSwish": _plain(_CODE.HARD_SWISH),
    "LeakyRelu": _leaky,
    "Max": _plain(_CODE.MAXIMUM, _KIND.MaximumMinimumOptions, schema.MaximumMinimumOptionsT),
    "MaxPool": _pool(_CODE.MAX_POOL_2D),
    "Mul": _plain(_CODE.MUL, _KIND.MulOptions, schema.MulOptionsT),
    "Pad": _pad,
    "QuantizeLinear": _plain(_CODE.QUANTIZE),
    "DequantizeLinear": _plain(_CODE.DEQUANTIZE),
    "ReduceMean": _mean,
    "Relu": _plain(_CODE.RELU),
    "Requantize": _plain(_CODE.QUANTIZE),
    "Reshape": _reshape,
    "Sigmoid": _plain(_CODE.LOGISTIC),
    "Softmax": _softmax,
    "Sub": _plain(_CODE.SUB, _KIND.SubOptions, schema.SubOptionsT),
    "Tanh": _plain(_CODE.TANH),
    "Transpose": _transpose,
}
_IMAGE_OPS = frozenset({"AveragePool", "Conv", "MaxPool"})


def judge_trial(trial: Trial) -> Score:
    """Compare the reference with TFLite's reference kernels."""
    return score(JUDGE, trial, _run(trial))


def judge_accumulators(trial: Trial) -> Score:
    """Compare the reference's accumulators, rounded as TFLite rounds, with TFLite's reference kernels."""
    return score_values(JUDGE, f"{trial.label} gemmlowp", _run(trial), emulate(trial))


def _run(trial: Trial) -> list[AnyArray]:
    op = trial.graph.nodes[0].op
    site = _Site(trial.graph, op in _IMAGE_OPS)
    feeds = [[site.turn(feed[name]) for name in trial.graph.inputs] for feed in trial.inputs]
    return [site.back(value) for value in _FORMS[op](site).run(feeds)]


_P = Precision
_CONVOLUTIONS = ("Conv.no_bias", "Conv.pointwise", "Conv.dilated", "Conv.same_upper", "Conv.depthwise")


def rounded_twice() -> list[Trial]:
    """Return the trials of kernels that round an accumulator with gemmlowp's multipliers."""
    made = [make_trial(name, precision) for name in _CONVOLUTIONS for precision in (_P.I8PC, _P.U8, _P.W8A16)]
    return made + [make_trial("Mul", precision) for precision in (_P.I8, _P.U8)]


def trials() -> list[Trial]:
    """Return every trial that TFLite's integer kernels can express."""
    made = [*rounded_twice(), make_trial("Mul", _P.W8A16)]
    made += [make_trial("Gemm.transposed", precision) for precision in (_P.I8, _P.I8PC, _P.U8, _P.W8A16)]
    both, all_three = (_P.I8, _P.U8), (_P.I8, _P.U8, _P.W8A16)
    for name in ("Add", "Sub", "Add.broadcast", "MaxPool", "Requantize", "QuantizeLinear", "DequantizeLinear"):
        made += [make_trial(name, precision) for precision in all_three]
    for precision in all_three:
        made.append(make_trial("AveragePool.same_scale", precision))
        made.append(make_trial("AveragePool.same_scale", precision, HALF_AWAY))
    for name in ("Max", "Concat"):
        made += [one_scale(make_trial(name, precision)) for precision in both]
    elementwise = ("Relu", "Relu.same_scale", "LeakyRelu", "HardSwish")
    for name in (*elementwise, "ReduceMean", "ReduceMean.channels", "Pad", "Reshape", "Transpose"):
        made.append(make_trial(name, _P.I8))
    made.append(output_scale(make_trial("Sigmoid.wide", _P.I8), 1 / 256, -128))
    made.append(output_scale(make_trial("Tanh", _P.I8), 1 / 128, 0))
    made.append(output_scale(make_trial("Softmax", _P.I8), 1 / 256, -128))
    return made
