"""Networks in which something can be written otherwise, drawn from a seed: a convolution, the pattern, another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dovetail.ir import AnyArray


class _Sketch:
    """A chain of nodes whose tensor has a shape, `[1, C, H, W]` or as it was left."""

    def __init__(self, rng: np.random.Generator, channels: int, height: int, width: int) -> None:
        self.rng = rng
        self.shape: tuple[int, ...] = (1, channels, height, width)
        self.first = self.shape
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, AnyArray] = {}
        self.tensor = "x"

    def add(self, op: str, shape: tuple[int, ...], constants: tuple[AnyArray, ...] = (), **attributes: object) -> None:
        """Put an operator behind what there is."""
        name = f"n{len(self.nodes)}"
        names = [f"{name}.{index}" for index, _ in enumerate(constants)]
        self.constants |= dict(zip(names, constants, strict=True))
        self.nodes.append(helper.make_node(op, [self.tensor, *names], [name], name, **attributes))
        self.tensor, self.shape = name, shape

    def conv(self, channels: int, kernel: tuple[int, int], stride: int = 1, depthwise: bool = False) -> None:
        """Put a convolution, padded to keep the size, and a Relu behind what there is."""
        before = self.shape[1]
        pads = [(size - 1) // 2 for size in kernel]
        ends = [size - 1 - pad for size, pad in zip(kernel, pads, strict=True)]
        weight = self.rng.normal(size=(channels, 1 if depthwise else before, *kernel)) / np.sqrt(
            np.prod(kernel) * before
        )
        sizes = tuple((size - 1) // stride + 1 for size in self.shape[2:])
        self.add(
            "Conv",
            (1, channels, *sizes),
            (weight.astype(np.float32),),
            pads=pads + ends,
            strides=[stride, stride],
            group=before if depthwise else 1,
        )
        self.add("Relu", self.shape)

    def reshape(self, *shape: int) -> None:
        """Put a Reshape behind what there is."""
        self.add("Reshape", shape, (np.array(shape, np.int64),))

    def transpose(self, *order: int) -> None:
        """Put a Transpose behind what there is."""
        self.add("Transpose", tuple(self.shape[axis] for axis in order), perm=list(order))

    def model(self, *, check: bool = True) -> onnx.ModelProto:
        """Return the network as a model; what is added to it later is not checked."""
        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(self.first))],
            [helper.make_tensor_value_info(self.tensor, TensorProto.FLOAT, list(self.shape))],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        if check:
            onnx.checker.check_model(made, full_check=True)
        return made


def _any(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


def _picture(rng: np.random.Generator) -> _Sketch:
    sketch = _Sketch(rng, 3, 8 * _any(rng, 4, 16), 8 * _any(rng, 4, 16))
    sketch.conv(8 * _any(rng, 1, 8), (3, 3), 2)
    return sketch


def _sound(rng: np.random.Generator) -> onnx.ModelProto:
    sketch = _Sketch(rng, 1, 1, 500 * _any(rng, 4, 32))
    sketch.conv(8 * _any(rng, 1, 8), (1, _any(rng, 16, 400)))
    sketch.conv(8 * _any(rng, 1, 8), (1, 3))
    return sketch.model()


def _wide_depthwise(rng: np.random.Generator) -> onnx.ModelProto:
    sketch = _picture(rng)
    size = 2 * _any(rng, 8, 15) + 1
    sketch.conv(sketch.shape[1], (size, size), depthwise=True)
    sketch.conv(8 * _any(rng, 1, 8), (1, 1))
    return sketch.model()


def _windows(rng: np.random.Generator) -> onnx.ModelProto:
    """Return channels and pixels shuffled through seven axes."""
    sketch = _picture(rng)
    before = sketch.shape
    _, channels, height, width = before
    sketch.reshape(1, 2, channels // 2, 2, height // 2, 2, width // 2)
    sketch.transpose(0, 3, 1, 5, 2, 4, 6)
    sketch.reshape(1, channels * 4, height // 2, width // 2)
    sketch.conv(8 * _any(rng, 1, 8), (1, 1))
    return sketch.model()


def _stacked(rng: np.random.Generator) -> onnx.ModelProto:
    """Return a product of every head's tokens with weights of its own."""
    sketch = _picture(rng)
    _, channels, height, width = sketch.shape
    sketch.reshape(1, channels // 4, 4, height * width)
    sketch.transpose(0, 1, 3, 2)
    made = 4 * _any(rng, 1, 4)
    weight = rng.normal(size=(channels // 4, 4, made)).astype(np.float32)
    sketch.add("MatMul", (*sketch.shape[:3], made), (weight,))
    sketch.add("Relu", sketch.shape)
    return sketch.model()


def _there_and_back(rng: np.random.Generator) -> onnx.ModelProto:
    sketch = _picture(rng)
    sketch.transpose(0, 2, 3, 1)
    sketch.add("HardSwish", sketch.shape)
    sketch.transpose(0, 3, 1, 2)
    sketch.conv(8 * _any(rng, 1, 8), (1, 1))
    return sketch.model()


def _skipping(rng: np.random.Generator) -> onnx.ModelProto:
    sketch = _picture(rng)
    sketch.conv(8 * _any(rng, 1, 8), (1, 1), _any(rng, 2, 3))
    return sketch.model()


def _scaled_attention(rng: np.random.Generator) -> onnx.ModelProto:
    """Return a division and a softmax over channels."""
    sketch = _picture(rng)
    sketch.add("Relu", sketch.shape)
    sketch.add("Div", sketch.shape, (np.array([float(rng.uniform(1, 30))], np.float32),))
    sketch.add("Softmax", sketch.shape, axis=1)
    return sketch.model()


def _strided_sound(rng: np.random.Generator) -> onnx.ModelProto:
    """Return a kernel as long as two of its strides, as in a Fourier transform of overlapping frames."""
    stride = 16 * _any(rng, 2, 12)
    sketch = _Sketch(rng, 1, 1, stride * _any(rng, 8, 64))
    channels = 8 * _any(rng, 2, 16)
    weight = rng.normal(size=(channels, 1, 1, 2 * stride)) / np.sqrt(2 * stride)
    count = sketch.shape[3] // stride - 1
    sketch.add("Conv", (1, channels, 1, count), (weight.astype(np.float32),), strides=[1, stride])
    sketch.add("Relu", sketch.shape)
    sketch.conv(8 * _any(rng, 1, 8), (1, 3))
    return sketch.model()


def recurrent(rng: np.random.Generator, asked: str | None = None, *, state: bool = False) -> onnx.ModelProto:
    """Return a convolution whose columns an LSTM or a GRU reads, or the operator that is asked for.

    `state` has it begin with what comes in, and gives out what it ends with.
    """
    sketch = _Sketch(rng, 8 * _any(rng, 1, 8), 1, _any(rng, 1, 24))
    sketch.conv(16 * _any(rng, 1, 8), (1, 3))
    _, channels, _, steps = sketch.shape
    sketch.reshape(1, channels, steps)
    sketch.transpose(2, 0, 1)
    hidden = 16 * _any(rng, 1, 8)
    op = ("LSTM", "GRU")[_any(rng, 0, 1)] if asked is None else asked
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    shapes = ((1, gates * hidden, channels), (1, gates * hidden, hidden), (1, 2 * gates * hidden))
    weights = tuple((rng.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32) for shape in shapes)
    sketch.add(op, (steps, 1, 1, hidden), weights, hidden_size=hidden)
    cell = sketch.nodes[-1]
    kept = ["h", "c"][: 2 if op == "LSTM" else 1] if state else []
    if kept:
        cell.input.extend(["", *kept])
        cell.output.extend(f"{name}_next" for name in kept)
    sketch.reshape(steps, hidden)
    sketch.add("Tanh", sketch.shape)
    model = sketch.model(check=not kept)
    for name in kept:
        row = [1, 1, hidden]
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, row))
        model.graph.output.append(helper.make_tensor_value_info(f"{name}_next", TensorProto.FLOAT, row))
    onnx.checker.check_model(model, full_check=True)
    return model


def _doubled(rng: np.random.Generator) -> onnx.ModelProto:
    """Return a plane made twice or four times as large, by values or lines."""
    sketch = _picture(rng)
    by = 2 * _any(rng, 1, 2)
    _, channels, height, width = sketch.shape
    mode = ("nearest", "linear")[_any(rng, 0, 1)]
    sketch.nodes.append(
        helper.make_node(
            "Resize",
            [sketch.tensor, "", "larger"],
            ["larger.y"],
            "larger",
            mode=mode,
            coordinate_transformation_mode="half_pixel",
        )
    )
    sketch.constants["larger"] = np.array([1, 1, by, by], np.float32)
    sketch.tensor, sketch.shape = "larger.y", (1, channels, height * by, width * by)
    sketch.conv(8 * _any(rng, 1, 8), (1, 1))
    return sketch.model()


def _pooled(rng: np.random.Generator) -> onnx.ModelProto:
    sketch = _picture(rng)
    sketch.add("GlobalAveragePool", (*sketch.shape[:2], 1, 1))
    return sketch.model()


FAMILIES: Mapping[str, Callable[[np.random.Generator], onnx.ModelProto]] = {
    "sound: kernels of 16 to 400": _sound,
    "depthwise kernels of 17 to 31": _wide_depthwise,
    "shuffles through seven axes": _windows,
    "a product a head": _stacked,
    "transposes around HardSwish": _there_and_back,
    "1x1 at stride 2 or 3": _skipping,
    "a division, a softmax of channels": _scaled_attention,
    "pools of whole pictures": _pooled,
    "sound: kernels of two strides": _strided_sound,
    "LSTM and GRU of 1 to 24 steps": recurrent,
    "planes made larger": _doubled,
}
