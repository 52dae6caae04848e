"""Graphs as TFLite models.

TFLite computes images `[N, H, W, C]`: a tensor of four dimensions exists in the order of the graph, in that of TFLite,
or in both, and a Transpose is written where an order is missing. Convolutions in a row need none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from dovetail.errors import CompileError
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType

_FORTH, _BACK = (0, 2, 3, 1), (0, 3, 1, 2)
_TYPES = {
    DType.F32: schema.TensorType.FLOAT32,
    DType.I8: schema.TensorType.INT8,
    DType.U8: schema.TensorType.UINT8,
    DType.I32: schema.TensorType.INT32,
    DType.I64: schema.TensorType.INT64,
}
_PLAIN = {
    "Relu": "RELU",
    "Sigmoid": "LOGISTIC",
    "Tanh": "TANH",
    "QuantizeLinear": "QUANTIZE",
    "DequantizeLinear": "DEQUANTIZE",
}
_PAIRS = {"Add": ("ADD", "Add"), "Sub": ("SUB", "Sub"), "Mul": ("MUL", "Mul")}


def to_tflite(graph: Graph) -> bytes:
    """Return the graph as a TFLite model whose inputs and outputs stand in the graph's order; raise CompileError."""
    return _Writer(graph).write()


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.part = schema.SubGraphT()
        self.part.tensors, self.part.operators = [], []
        empty = schema.BufferT()
        self.buffers = [empty]
        self.codes: dict[str, int] = {}
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}

    def write(self) -> bytes:
        """Write everything."""
        graph = self.graph
        self.part.inputs = [self.declare(name) for name in graph.inputs]
        for node in graph.nodes:
            self.node(node)
        self.part.outputs = [self.in_order(name) for name in graph.outputs]
        model = schema.ModelT()
        model.version, model.description = 3, "dovetail"
        model.subgraphs, model.buffers = [self.part], self.buffers
        model.operatorCodes = [self.code(name) for name in self.codes]
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def code(self, name: str) -> schema.OperatorCodeT:
        """Return an operator code."""
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), _VERSIONS.get(name, 1)
        return code

    def add(self, name: str, inputs: Sequence[int], output: int, options: object = None) -> int:
        """Append an operator."""
        operator = schema.OperatorT()
        operator.opcodeIndex = self.codes.setdefault(name, len(self.codes))
        operator.inputs, operator.outputs = list(inputs), [output]
        if options is not None:
            kind = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType, operator.builtinOptions = getattr(schema.BuiltinOptions, kind), options
        self.part.operators.append(operator)
        return output

    def tensor(self, name: str, kind: TensorType, value: AnyArray | None = None, axis: int | None = None) -> int:
        """Append a tensor; `axis` is where its channels are, for scales of their own."""
        if kind.dtype not in _TYPES or kind.static_shape is None:
            raise CompileError(f"tensor '{name}': {kind.dtype.value} of such a shape is no tensor of TFLite's.")
        tensor = schema.TensorT()
        tensor.name, tensor.type, tensor.shape = name.encode(), _TYPES[kind.dtype], list(kind.static_shape)
        if value is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
            tensor.buffer = len(self.buffers)
            self.buffers.append(buffer)
        else:
            tensor.buffer = 0
        if kind.quant is not None:
            quant = schema.QuantizationParametersT()
            quant.scale, quant.zeroPoint = list(kind.quant.scale), list(kind.quant.zero_point)
            quant.quantizedDimension = axis if axis is not None and kind.quant.axis is not None else 0
            tensor.quantization = quant
        self.part.tensors.append(tensor)
        return len(self.part.tensors) - 1

    def declare(self, name: str, *, last: bool = False) -> int:
        """Return a fresh tensor for a tensor of the graph, in one of the two orders."""
        kind = self.graph.types[name]
        shape = kind.static_shape or ()
        if last:
            kind = TensorType(kind.dtype, tuple(shape[axis] for axis in _FORTH), kind.quant)
        index = self.tensor(f"{name}/nhwc" if last else name, kind)
        (self.last if last else self.first)[name] = index
        return index

    def in_order(self, name: str) -> int:
        """Return the tensor in the order of the graph."""
        if name not in self.first:
            if name in self.graph.constants:
                self.first[name] = self.tensor(name, self.graph.types[name], self.graph.constants[name])
            else:
                source = self.last[name]
                self.add("TRANSPOSE", [source, self.numbers(_BACK)], self.declare(name), schema.TransposeOptionsT())
        return self.first[name]

    def channels_last(self, name: str) -> int:
        """Return the tensor in the order of TFLite."""
        if name not in self.last:
            source = self.in_order(name)
            made = self.declare(name, last=True)
            self.add("TRANSPOSE", [source, self.numbers(_FORTH)], made, schema.TransposeOptionsT())
        return self.last[name]

    def numbers(self, values: Sequence[int] | AnyArray) -> int:
        """Return a constant of int32 numbers."""
        array = np.asarray(values, np.int32)
        return self.tensor(f"numbers{len(self.buffers)}", TensorType(DType.I32, array.shape), array)

    def node(self, node: Node) -> None:
        """Append what computes a node."""
        if node.op in _PLAIN:
            place = self.keeps_order(node.inputs[:1])
            self.add(_PLAIN[node.op], [place(node.inputs[0])], self.declare(node.outputs[0], last=self.is_last(place)))
        elif node.op in _PAIRS:
            name, options = _PAIRS[node.op]
            shapes = {self.graph.types[item].static_shape for item in node.inputs}
            place = self.keeps_order(node.inputs) if len(shapes) == 1 else self.in_order
            inputs = [place(item) for item in node.inputs]
            self.add(
                name,
                inputs,
                self.declare(node.outputs[0], last=self.is_last(place)),
                getattr(schema, options + "OptionsT")(),
            )
        elif node.op in _BUILDERS:
            _BUILDERS[node.op](self, node)
        else:
            raise CompileError(f"{node.label}: the writer of TFLite models does not know it.", hint="Place it on cpu.")

    def keeps_order(self, names: Sequence[str]) -> Callable[[str], int]:
        """Return how to read tensors so that nothing is transposed, where one of them is channels-last already."""
        return self.channels_last if any(name in self.last for name in names) else self.in_order

    def is_last(self, place: Callable[[str], int]) -> bool:
        """Tell which order a way of reading gives."""
        return place == self.channels_last


_VERSIONS = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4, "ADD": 2, "MAX_POOL_2D": 2, "RELU": 2}


def _conv(writer: _Writer, node: Node) -> None:
    graph = writer.graph
    weight, kind = graph.constants[node.inputs[1]], graph.types[node.inputs[1]]
    deep = node.integer("group", 1) != 1
    # One filter for each channel: [1, H, W, C]; else [O, H, W, I].
    value = weight.transpose(1, 2, 3, 0) if deep and weight.shape[1] == 1 else weight.transpose(_FORTH)
    axis = 3 if deep else 0
    weights = writer.tensor(node.inputs[1], TensorType(kind.dtype, value.shape, kind.quant), value, axis)
    source = _padded(writer, node)
    if len(node.inputs) > 2 and node.inputs[2]:
        name = node.inputs[2]
        bias = writer.tensor(name, graph.types[name], graph.constants[name], 0)
    else:
        data = graph.types[node.inputs[0]].quant
        plain = np.zeros(weight.shape[0], np.float32 if data is None else np.int32)
        bias = writer.tensor(f"{node.name}/bias", TensorType(DType.of(plain.dtype), plain.shape), plain)
    options = schema.DepthwiseConv2DOptionsT() if deep else schema.Conv2DOptionsT()
    options.padding = schema.Padding.VALID
    options.strideH, options.strideW = node.integers("strides", (1, 1))
    options.dilationHFactor, options.dilationWFactor = node.integers("dilations", (1, 1))
    if deep:
        options.depthMultiplier = value.shape[3] // (graph.types[node.inputs[0]].static_shape or (0, 1))[1]
    name = "DEPTHWISE_CONV_2D" if deep else "CONV_2D"
    writer.add(name, [source, weights, bias], writer.declare(node.outputs[0], last=True), options)


def _padded(writer: _Writer, node: Node) -> int:
    source = writer.channels_last(node.inputs[0])
    top, left, bottom, right = node.integers("pads", (0,) * 4)
    if not any((top, left, bottom, right)):
        return source
    kind = writer.graph.types[node.inputs[0]]
    batch, channels, height, width = kind.static_shape or (0,) * 4
    shape = (batch, height + top + bottom, width + left + right, channels)
    made = writer.tensor(f"{node.name}/padded", TensorType(kind.dtype, shape, kind.quant))
    sizes = writer.numbers(np.array([[0, 0], [top, bottom], [left, right], [0, 0]]))
    return writer.add("PAD", [source, sizes], made, schema.PadOptionsT())


def _pool(writer: _Writer, node: Node) -> None:
    options = schema.Pool2DOptionsT()
    options.padding = schema.Padding.VALID
    options.filterHeight, options.filterWidth = node.integers("kernel_shape", (1, 1))
    options.strideH, options.strideW = node.integers("strides", (1, 1))
    name = "MAX_POOL_2D" if node.op == "MaxPool" else "AVERAGE_POOL_2D"
    source = writer.channels_last(node.inputs[0])
    writer.add(name, [source], writer.declare(node.outputs[0], last=True), options)


def _mean(writer: _Writer, node: Node) -> None:
    options = schema.ReducerOptionsT()
    options.keepDims = True
    inputs = [writer.channels_last(node.inputs[0]), writer.numbers((1, 2))]
    writer.add("MEAN", inputs, writer.declare(node.outputs[0], last=True), options)


def _gemm(writer: _Writer, node: Node) -> None:
    graph = writer.graph
    value, kind = graph.constants[node.inputs[1]], graph.types[node.inputs[1]]
    value = value if node.integer("transB", 0) else value.T
    weights = writer.tensor(node.inputs[1], TensorType(kind.dtype, value.shape, kind.quant), value, 0)
    inputs = [writer.in_order(node.inputs[0]), weights]
    inputs.append(writer.in_order(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else -1)
    writer.add("FULLY_CONNECTED", inputs, writer.declare(node.outputs[0]), schema.FullyConnectedOptionsT())


def _reshape(writer: _Writer, node: Node) -> None:
    shape = writer.graph.types[node.outputs[0]].static_shape or ()
    inputs = [writer.in_order(node.inputs[0]), writer.numbers(shape)]
    options = schema.ReshapeOptionsT()
    options.newShape = list(shape)
    writer.add("RESHAPE", inputs, writer.declare(node.outputs[0]), options)


def _transpose(writer: _Writer, node: Node) -> None:
    rank = writer.graph.types[node.inputs[0]].rank or 0
    order = node.integers("perm", tuple(reversed(range(rank))))
    inputs = [writer.in_order(node.inputs[0]), writer.numbers(order)]
    writer.add("TRANSPOSE", inputs, writer.declare(node.outputs[0]), schema.TransposeOptionsT())


def _softmax(writer: _Writer, node: Node) -> None:
    options = schema.SoftmaxOptionsT()
    options.beta = 1.0
    writer.add("SOFTMAX", [writer.in_order(node.inputs[0])], writer.declare(node.outputs[0]), options)


def _concat(writer: _Writer, node: Node) -> None:
    rank = writer.graph.types[node.inputs[0]].rank or 1
    options = schema.ConcatenationOptionsT()
    options.axis = node.integer("axis", 0) % rank
    inputs = [writer.in_order(name) for name in node.inputs]
    writer.add("CONCATENATION", inputs, writer.declare(node.outputs[0]), options)


_BUILDERS: dict[str, Callable[[_Writer, Node], None]] = {
    "AveragePool": _pool,
    "Concat": _concat,
    "Conv": _conv,
    "Gemm": _gemm,
    "GlobalAveragePool": _mean,
    "MaxPool": _pool,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Transpose": _transpose,
}
