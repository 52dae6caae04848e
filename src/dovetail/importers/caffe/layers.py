"""Caffe's layers in ONNX's terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.errors import LoadError
from dovetail.importers.caffe.text import Message
from dovetail.importers.net import Net
from dovetail.ir import AnyArray

Attributes = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class CaffeLayer:
    """One layer: its parameters, the tensors that it reads and makes, and its trained blobs."""

    net: Net
    message: Message
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    blobs: tuple[AnyArray, ...]

    def fail(self, why: str) -> LoadError:
        """Return the error that refuses this layer."""
        kind = self.message.text("type")
        return LoadError(f"{self.message.place}: layer '{self.name}' ({kind}): {why}.", source_node=self.name)

    @property
    def x(self) -> str:
        """Return the first input; raise LoadError when there is none."""
        if not self.inputs or not self.outputs:
            raise self.fail("it has no bottom or no top")
        return self.inputs[0]

    def blob(self, index: int) -> AnyArray:
        """Return a trained blob; raise LoadError when the .caffemodel has none of that name."""
        if index >= len(self.blobs):
            raise self.fail(f"the .caffemodel holds {len(self.blobs)} blobs for it, number {index} is missing")
        return self.blobs[index]

    def between(self, what: str, op: str, inputs: Sequence[str], attributes: Attributes | None = None) -> str:
        """Add a node whose result only this layer reads."""
        return self.net.add(op, inputs, self.net.fresh(f"{self.name}/{what}"), f"{self.name}/{what}", attributes)

    def finish(self, op: str, inputs: Sequence[str], attributes: Attributes | None = None) -> None:
        """Add the node that makes the first top."""
        if not self.outputs:
            raise self.fail("it has no top")
        self.net.add(op, inputs, self.outputs[0], self.name, attributes)

    def real(self, what: str, value: AnyArray | float) -> str:
        """Store float32 numbers."""
        return self.net.real(f"{self.name}/{what}", value)

    def integers(self, what: str, values: Sequence[int]) -> str:
        """Store int64 numbers."""
        return self.net.integers(f"{self.name}/{what}", values)


Convert = Callable[[CaffeLayer], None]


def _pair(layer: CaffeLayer, message: Message, plain: str, stem: str, default: int) -> tuple[int, int]:
    """Return height and width of a setting: `stem_h` and `stem_w`, or one or two values of the plain field."""
    given = message.integers(plain) or [default]
    height = message.integer(f"{stem}_h", given[0])
    width = message.integer(f"{stem}_w", given[-1])
    if min(height, width) < 0 or (default and min(height, width) < 1):
        raise layer.fail(f"its {plain} is {height}x{width}")
    return height, width


def _window(layer: CaffeLayer, message: Message) -> dict[str, object]:
    height, width = _pair(layer, message, "pad", "pad", 0)
    return {
        "kernel_shape": _pair(layer, message, "kernel_size", "kernel", 1),
        "strides": _pair(layer, message, "stride", "stride", 1),
        "pads": (height, width, height, width),
    }


def _convolution(op: str) -> Convert:
    def convert(layer: CaffeLayer) -> None:
        message = layer.message.message("convolution_param")
        attributes = _window(layer, message)
        dilation = message.integers("dilation") or [1]
        attributes["dilations"] = (dilation[0], dilation[-1])
        attributes["group"] = message.integer("group", 1)
        weight = layer.blob(0)
        if weight.ndim != 4 or weight.shape[2:] != attributes["kernel_shape"] or min(dilation) < 1:
            raise layer.fail(f"its weight {list(weight.shape)} does not fit its kernel")
        inputs = [layer.x, layer.real("weight", weight)]
        if message.flag("bias_term", True):
            inputs.append(layer.real("bias", layer.blob(1).reshape(-1)))
        layer.finish(op, inputs, attributes)

    return convert


def _pooling(layer: CaffeLayer) -> None:
    """Pool; Caffe rounds sizes up and counts padding in averages."""
    message = layer.message.message("pooling_param")
    kind = message.text("pool", "MAX")
    if kind not in ("MAX", "AVE", "0", "1"):
        raise layer.fail(f"pool {kind} is random")
    largest = kind in ("MAX", "0")
    if message.flag("global_pooling", False):
        layer.finish("GlobalMaxPool" if largest else "GlobalAveragePool", (layer.x,))
        return
    attributes = _window(layer, message)
    attributes["ceil_mode"] = int(message.text("round_mode", "CEIL") in ("CEIL", "0"))
    if not largest:
        attributes["count_include_pad"] = 1
    layer.finish("MaxPool" if largest else "AveragePool", (layer.x,), attributes)


def _inner_product(layer: CaffeLayer) -> None:
    message = layer.message.message("inner_product_param")
    weight = layer.blob(0)
    weight = weight.reshape(weight.shape[-2:]) if weight.ndim == 4 else weight
    if weight.ndim != 2 or message.integer("axis", 1) != 1:
        raise layer.fail(f"its weight {list(weight.shape)} or axis is not supported")
    flat = layer.between("flat", "Flatten", (layer.x,), {"axis": 1})
    inputs = [flat, layer.real("weight", weight)]
    if message.flag("bias_term", True):
        inputs.append(layer.real("bias", layer.blob(1).reshape(-1)))
    layer.finish("Gemm", inputs, {"transB": int(not message.flag("transpose", False))})


def _relu(layer: CaffeLayer) -> None:
    slope = layer.message.message("relu_param").number("negative_slope", 0.0)
    if slope:
        layer.finish("LeakyRelu", (layer.x,), {"alpha": slope})
    else:
        layer.finish("Relu", (layer.x,))


def _p_relu(layer: CaffeLayer) -> None:
    slope = layer.blob(0).reshape(-1)
    layer.finish("PRelu", (layer.x, layer.real("slope", slope.reshape(-1, 1, 1))))


def _unary(op: str) -> Convert:
    return lambda layer: layer.finish(op, (layer.x,))


def _elu(layer: CaffeLayer) -> None:
    layer.finish("Elu", (layer.x,), {"alpha": layer.message.message("elu_param").number("alpha", 1.0)})


def _power(layer: CaffeLayer) -> None:
    """Compute `(shift + scale * x) ^ power`."""
    message = layer.message.message("power_param")
    power, scale, shift = (message.number(name, value) for name, value in (("power", 1), ("scale", 1), ("shift", 0)))
    name = layer.between("scaled", "Mul", (layer.x, layer.real("scale", scale)))
    if power == 1.0:
        layer.finish("Add", (name, layer.real("shift", shift)))
        return
    name = layer.between("shifted", "Add", (name, layer.real("shift", shift)))
    layer.finish("Pow", (name, layer.real("power", power)))


def _softmax(layer: CaffeLayer) -> None:
    layer.finish("Softmax", (layer.x,), {"axis": layer.message.message("softmax_param").integer("axis", 1)})


def _concat(layer: CaffeLayer) -> None:
    message = layer.message.message("concat_param")
    layer.finish("Concat", layer.inputs, {"axis": message.integer("axis", message.integer("concat_dim", 1))})


def _eltwise(layer: CaffeLayer) -> None:
    message = layer.message.message("eltwise_param")
    kind = {"0": "PROD", "1": "SUM", "2": "MAX"}.get(message.text("operation", "SUM"), message.text("operation", "SUM"))
    weights = message.texts("coeff")
    names = list(layer.inputs)
    if kind not in ("PROD", "SUM", "MAX") or len(names) < 2 or (weights and len(weights) != len(names)):
        raise layer.fail(f"operation {kind} over {len(names)} bottoms is not supported")
    for index, weight in enumerate(weights):
        if kind == "SUM" and float(weight) != 1.0:
            names[index] = layer.between(f"scaled{index}", "Mul", (names[index], layer.real("scale", float(weight))))
    op = {"PROD": "Mul", "SUM": "Add", "MAX": "Max"}[kind]
    for index, name in enumerate(names[1:-1]):
        names[0] = layer.between(f"part{index}", op, (names[0], name))
    layer.finish(op, (names[0], names[-1]))


def _flatten(layer: CaffeLayer) -> None:
    message = layer.message.message("flatten_param")
    if message.integer("axis", 1) != 1 or message.integer("end_axis", -1) != -1:
        raise layer.fail("it flattens only some axes")
    layer.finish("Flatten", (layer.x,), {"axis": 1})


def _reshape(layer: CaffeLayer) -> None:
    """Reshape; 0 copies a size and -1 stands for the rest, as in ONNX."""
    message = layer.message.message("reshape_param")
    if message.integer("axis", 0) or message.integer("num_axes", -1) != -1:
        raise layer.fail("it reshapes only some axes")
    layer.finish("Reshape", (layer.x, layer.integers("shape", message.message("shape").integers("dim"))))


def _permute(layer: CaffeLayer) -> None:
    order = tuple(layer.message.message("permute_param").integers("order"))
    if sorted(order) != list(range(len(order))):
        raise layer.fail(f"its order {list(order)} is no permutation")
    layer.finish("Transpose", (layer.x,), {"perm": order})


def _slice(layer: CaffeLayer) -> None:
    message = layer.message.message("slice_param")
    axis = message.integer("axis", message.integer("slice_dim", 1))
    points = message.integers("slice_point")
    if len(points) != len(layer.outputs) - 1 or points != sorted(points):
        raise layer.fail("its points do not fit its tops")
    bounds = [0, *points, 2**31 - 1]
    for index, output in enumerate(layer.outputs):
        values = (("start", bounds[index]), ("end", bounds[index + 1]), ("axis", axis))
        names = [layer.integers(what, (value,)) for what, value in values]
        layer.net.add("Slice", (layer.x, *names), output, f"{layer.name}/{index}" if index else layer.name)


def _copies(layer: CaffeLayer) -> None:
    for index, output in enumerate(layer.outputs):
        layer.net.add("Identity", (layer.x,), output, f"{layer.name}/{index}" if index else layer.name)


def _batch_norm(layer: CaffeLayer) -> None:
    """Normalise with stored statistics: blob 2 is the factor that both must be divided by."""
    factor = float(layer.blob(2).reshape(-1)[0]) if layer.blob(2).size else 0.0
    mean, variance = (layer.blob(index).reshape(-1) * (1 / factor if factor else 0.0) for index in (0, 1))
    epsilon = layer.message.message("batch_norm_param").number("eps", 1e-5)
    ones, zeros = np.ones_like(mean), np.zeros_like(mean)
    parts = (("scale", ones), ("shift", zeros), ("mean", mean), ("variance", variance))
    names = [layer.real(what, value) for what, value in parts]
    layer.finish("BatchNormalization", (layer.x, *names), {"epsilon": epsilon})


def _scale(layer: CaffeLayer) -> None:
    message = layer.message.message("scale_param")
    if len(layer.inputs) > 1 or message.integer("axis", 1) != 1:
        raise layer.fail("it scales by another layer, or along another axis")
    factor = layer.real("factor", layer.blob(0).reshape(-1, 1, 1))
    if not message.flag("bias_term", False):
        layer.finish("Mul", (layer.x, factor))
        return
    scaled = layer.between("scaled", "Mul", (layer.x, factor))
    layer.finish("Add", (scaled, layer.real("shift", layer.blob(1).reshape(-1, 1, 1))))


def _bias(layer: CaffeLayer) -> None:
    layer.finish("Add", (layer.x, layer.real("shift", layer.blob(0).reshape(-1, 1, 1))))


def _lrn(layer: CaffeLayer) -> None:
    message = layer.message.message("lrn_param")
    if message.text("norm_region", "ACROSS_CHANNELS") not in ("ACROSS_CHANNELS", "0"):
        raise layer.fail("it normalises within channels")
    attributes = {
        "size": message.integer("local_size", 5),
        "alpha": message.number("alpha", 1.0),
        "beta": message.number("beta", 0.75),
        "bias": message.number("k", 1.0),
    }
    layer.finish("LRN", (layer.x,), attributes)


LAYERS: Mapping[str, Convert] = {
    "AbsVal": _unary("Abs"),
    "BNLL": _unary("Softplus"),
    "BatchNorm": _batch_norm,
    "Bias": _bias,
    "Concat": _concat,
    "Convolution": _convolution("Conv"),
    "ConvolutionDepthwise": _convolution("Conv"),
    "Deconvolution": _convolution("ConvTranspose"),
    "Dropout": _copies,
    "ELU": _elu,
    "Eltwise": _eltwise,
    "Flatten": _flatten,
    "InnerProduct": _inner_product,
    "LRN": _lrn,
    "PReLU": _p_relu,
    "Permute": _permute,
    "Pooling": _pooling,
    "Power": _power,
    "ReLU": _relu,
    "Reshape": _reshape,
    "Scale": _scale,
    "Sigmoid": _unary("Sigmoid"),
    "Slice": _slice,
    "Softmax": _softmax,
    "Split": _copies,
    "TanH": _unary("Tanh"),
}
"""Layers by Caffe's names."""
