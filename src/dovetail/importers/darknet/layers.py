"""Darknet's layers in ONNX's terms. Layers have no names: they are called by kind and number, such as `conv_3`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dovetail.errors import LoadError
from dovetail.facts.darknet import ANCHORS
from dovetail.importers.darknet.config import Section
from dovetail.importers.darknet.weights import Weights
from dovetail.importers.net import Net
from dovetail.importers.options import LoadOptions
from dovetail.ir import Graph

Shape = tuple[int, int, int]
"""Channels, height, width."""

_MAX_ELEMENTS = 2**28
_EPSILON = 1e-5
"""Darknet divides by sqrt(variance + 1e-5)."""

_ACTIVATIONS: Mapping[str, tuple[str, dict[str, object]]] = {
    "elu": ("Elu", {"alpha": 1.0}),
    "leaky": ("LeakyRelu", {"alpha": 0.1}),
    "logistic": ("Sigmoid", {}),
    "mish": ("Mish", {}),
    "relu": ("Relu", {}),
    "tanh": ("Tanh", {}),
}


@dataclass(slots=True)
class _Builder:
    """What the layers so far have made."""

    net: Net
    weights: Weights
    made: list[tuple[str, Shape]] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)

    @property
    def last(self) -> tuple[str, Shape]:
        return self.made[-1]

    def layer(self, section: Section, offset: int) -> tuple[str, Shape]:
        """Return an earlier layer: negative offsets count back from here, others from the first layer."""
        index = len(self.made) + offset if offset < 0 else offset + 1
        # The network's input is at index 0.
        if not 0 < index < len(self.made):
            raise section.fail(f"it names layer {offset}, which is not before it")
        return self.made[index]

    def keep(self, section: Section, name: str, shape: Shape) -> None:
        if min(shape) < 1 or math.prod(shape) > _MAX_ELEMENTS:
            raise section.fail(f"its result has the size {list(shape)}")
        self.made.append((name, shape))


def build_network(sections: Sequence[Section], weights: Weights, where: str, options: LoadOptions) -> Graph:
    """Return the Graph of a network; raise LoadError naming the layer that has no counterpart."""
    head = sections[0]
    shape = (head.integer("channels", 3), head.integer("height", 0), head.integer("width", 0))
    given_shape = options.shapes.get("data")
    batch = 1
    if given_shape is not None:
        if len(given_shape) != 4:
            raise LoadError(f"{where}: the shape of 'data' has four sizes, not {len(given_shape)}.")
        batch, *sizes = given_shape
        shape = (sizes[0], sizes[1], sizes[2])
    net = Net("darknet", where)
    builder = _Builder(net, weights)
    net.input("data", (batch, *shape))
    builder.keep(head, "data", shape)
    for number, section in enumerate(sections[1:]):
        convert = _LAYERS.get(section.kind)
        if convert is None:
            raise section.fail("this layer has no counterpart in Dovetail", f"Known: {', '.join(sorted(_LAYERS))}.")
        convert(builder, section, f"{_SHORT.get(section.kind, section.kind)}_{number}")
    weights.finish()
    return net.graph(builder.heads or [builder.last[0]], options)


def _activate(builder: _Builder, section: Section, name: str, label: str) -> str:
    kind = section.settings.get("activation", "linear")
    if kind == "linear":
        return name
    if kind == "swish":
        gate = builder.net.add("Sigmoid", (name,), f"{label}/gate", f"{label}/gate")
        return builder.net.add("Mul", (name, gate), f"{label}/swish", f"{label}/swish")
    if kind not in _ACTIVATIONS:
        raise section.fail(f"its activation '{kind}' has no counterpart")
    op, attributes = _ACTIVATIONS[kind]
    return builder.net.add(op, (name,), f"{label}/{kind}", f"{label}/{kind}", attributes)


def _convolution(builder: _Builder, section: Section, label: str) -> None:
    name, (channels, height, width) = builder.last
    filters, size = section.integer("filters", 1), section.integer("size", 1)
    strides = (
        section.integer("stride_y", section.integer("stride", 1)),
        section.integer("stride_x", section.integer("stride", 1)),
    )
    groups, dilation = section.integer("groups", 1), section.integer("dilation", 1)
    if min(filters, size, groups, dilation, *strides) < 1 or channels % groups or filters % groups:
        raise section.fail("its filters, size, stride or groups are impossible")
    pad = section.integer("padding", 0) if not section.integer("pad", 0) else size // 2 * dilation
    net, weights = builder.net, builder.weights
    bias = weights.take((filters,), label)
    normal = [weights.take((filters,), label) for _ in range(3)] if section.integer("batch_normalize", 0) else []
    weight = weights.take((filters, channels // groups, size, size), label)
    inputs = [name, net.real(f"{label}/weight", weight)]
    if not normal:
        inputs.append(net.real(f"{label}/bias", bias))
    attributes = {
        "kernel_shape": (size, size),
        "strides": strides,
        "dilations": (dilation, dilation),
        "pads": (pad,) * 4,
        "group": groups,
    }
    name = net.add("Conv", inputs, label, label, attributes)
    if normal:
        scale, mean, variance = normal
        parts = (("scale", scale), ("shift", bias), ("mean", mean), ("variance", variance))
        stored = [net.real(f"{label}/{what}", value) for what, value in parts]
        name = net.add(
            "BatchNormalization", (name, *stored), f"{label}/normal", f"{label}/normal", {"epsilon": _EPSILON}
        )
    reach = (size - 1) * dilation + 1
    shape = (
        filters,
        (height + 2 * pad - reach) // strides[0] + 1,
        (width + 2 * pad - reach) // strides[1] + 1,
    )
    builder.keep(section, _activate(builder, section, name, label), shape)


def _max_pool(builder: _Builder, section: Section, label: str) -> None:
    """Pool with Darknet's padding: `size - 1` in all, the smaller half in front."""
    name, (channels, height, width) = builder.last
    stride = section.integer("stride", 1)
    size = section.integer("size", stride)
    if min(size, stride) < 1:
        raise section.fail("its size or stride is impossible")
    pad = section.integer("padding", size - 1)
    begin = pad // 2
    rows, columns = ((extent + pad - size) // stride + 1 for extent in (height, width))
    attributes = {
        "kernel_shape": (size, size),
        "strides": (stride, stride),
        "pads": (begin, begin, pad - begin, pad - begin),
    }
    if begin >= size:
        raise section.fail("its padding is wider than its window")
    made = builder.net.add("MaxPool", (name,), label, label, attributes)
    builder.keep(section, made, (channels, rows, columns))


def _average_pool(builder: _Builder, section: Section, label: str) -> None:
    name, (channels, _, _) = builder.last
    builder.keep(section, builder.net.add("GlobalAveragePool", (name,), label, label), (channels, 1, 1))


def _route(builder: _Builder, section: Section, label: str) -> None:
    """Join earlier layers along the channels, or take one of `groups` parts of them."""
    sources = [builder.layer(section, offset) for offset in section.integers("layers")]
    if not sources or len({shape[1:] for _, shape in sources}) != 1:
        raise section.fail("it joins layers of different sizes, or none")
    groups, part = section.integer("groups", 1), section.integer("group_id", 0)
    names: list[str] = []
    channels = 0
    for index, (name, shape) in enumerate(sources):
        if groups < 1 or shape[0] % groups or not 0 <= part < groups:
            raise section.fail("its groups do not divide its channels")
        width = shape[0] // groups
        if groups > 1:
            bounds = [
                builder.net.integers(f"{label}/{what}", (value,))
                for what, value in (("start", part * width), ("end", (part + 1) * width), ("axis", 1))
            ]
            name = builder.net.add("Slice", (name, *bounds), f"{label}/part{index}", f"{label}/part{index}")
        names.append(name)
        channels += width
    made = names[0] if len(names) == 1 else builder.net.add("Concat", names, label, label, {"axis": 1})
    builder.keep(section, made, (channels, *sources[0][1][1:]))


def _shortcut(builder: _Builder, section: Section, label: str) -> None:
    name, shape = builder.last
    for index, offset in enumerate(section.integers("from")):
        other, its = builder.layer(section, offset)
        if its != shape:
            raise section.fail(f"it adds {list(its)} to {list(shape)}")
        name = builder.net.add("Add", (name, other), label if not index else f"{label}/{index}", label)
    builder.keep(section, _activate(builder, section, name, label), shape)


def _upsample(builder: _Builder, section: Section, label: str) -> None:
    name, (channels, height, width) = builder.last
    stride = section.integer("stride", 2)
    if stride < 1 or section.number("scale", 1.0) != 1.0:
        raise section.fail("it scales its values, or reduces its size")
    scales = builder.net.real(f"{label}/scales", np.array([1, 1, stride, stride]))
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    made = builder.net.add("Resize", (name, "", scales), label, label, attributes)
    builder.keep(section, made, (channels, height * stride, width * stride))


def _connected(builder: _Builder, section: Section, label: str) -> None:
    name, shape = builder.last
    outputs, width = section.integer("output", 1), math.prod(shape)
    if section.integer("batch_normalize", 0) or outputs < 1:
        raise section.fail("it normalises its result, or has none")
    bias = builder.weights.take((outputs,), label)
    weight = builder.net.real(f"{label}/weight", builder.weights.take((outputs, width), label))
    flat = builder.net.add("Flatten", (name,), f"{label}/flat", f"{label}/flat", {"axis": 1})
    tensor = builder.net.add(
        "Gemm", (flat, weight, builder.net.real(f"{label}/bias", bias)), label, label, {"transB": 1}
    )
    tensor = _activate(builder, section, tensor, label)
    target = builder.net.integers(f"{label}/shape", (-1, outputs, 1, 1))
    image = builder.net.add("Reshape", (tensor, target), f"{label}/image", f"{label}/image")
    builder.keep(section, image, (outputs, 1, 1))


def _nothing(builder: _Builder, section: Section, label: str) -> None:
    builder.made.append(builder.last)


def _softmax(builder: _Builder, section: Section, label: str) -> None:
    name, shape = builder.last
    if section.integer("groups", 1) != 1:
        raise section.fail("it has groups")
    builder.keep(section, builder.net.add("Softmax", (name,), label, label, {"axis": 1}), shape)


def _yolo(builder: _Builder, section: Section, label: str) -> None:
    """Apply the logistic function to centres, objectness and classes; widths and heights stay as they are."""
    name, shape = builder.last
    classes, masks = section.integer("classes", 20), len(section.integers("mask"))
    anchors = masks or section.integer("num", 1)
    if classes < 1 or anchors < 1 or shape[0] != anchors * (5 + classes):
        raise section.fail(f"{shape[0]} channels are not {anchors} x (5 + {classes})")
    net = builder.net
    pieces: list[str] = []
    parts = [f"{label}/part{index}" for index in range(3 * anchors)]
    net.split(name, parts, f"{label}/split", (2, 2, 1 + classes) * anchors, 1)
    scale = section.number("scale_x_y", 1.0)
    for index in range(anchors):
        centre, size, rest = parts[3 * index : 3 * index + 3]
        centre = net.add("Sigmoid", (centre,), f"{centre}/logistic", f"{centre}/logistic")
        if scale != 1.0:
            grown = net.add("Mul", (centre, net.real(f"{label}/scale", scale)), f"{centre}/grown", f"{centre}/grown")
            shift = net.real(f"{label}/shift", -0.5 * (scale - 1))
            centre = net.add("Add", (grown, shift), f"{centre}/moved", f"{centre}/moved")
        pieces += [centre, size, net.add("Sigmoid", (rest,), f"{rest}/logistic", f"{rest}/logistic")]
    made = net.add("Concat", pieces, label, label, {"axis": 1, ANCHORS: _anchors(section, anchors)})
    builder.heads.append(made)
    builder.keep(section, made, shape)


def _anchors(section: Section, count: int) -> tuple[int, ...]:
    """Return width and height in pixels of every anchor of a layer, one after another; empty where none are listed."""
    listed = section.integers("anchors")
    chosen = section.integers("mask") or tuple(range(count))
    if len(listed) % 2 or any(not 0 <= index < len(listed) // 2 for index in chosen):
        return ()
    return tuple(size for index in chosen for size in listed[2 * index : 2 * index + 2])


_SHORT = {"convolutional": "conv"}
_LAYERS: Mapping[str, Callable[[_Builder, Section, str], None]] = {
    "avgpool": _average_pool,
    "connected": _connected,
    "convolutional": _convolution,
    "cost": _nothing,
    "dropout": _nothing,
    "maxpool": _max_pool,
    "route": _route,
    "shortcut": _shortcut,
    "softmax": _softmax,
    "upsample": _upsample,
    "yolo": _yolo,
}
