"""Build a TFLite flatbuffer with one operator, and run it on TFLite's reference kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from dovetail.ir import AnyArray, DType, Quantization

_TYPES = {
    DType.F32: schema.TensorType.FLOAT32,
    DType.I8: schema.TensorType.INT8,
    DType.U8: schema.TensorType.UINT8,
    DType.I16: schema.TensorType.INT16,
    DType.I32: schema.TensorType.INT32,
    DType.I64: schema.TensorType.INT64,
}


@dataclass(frozen=True, slots=True)
class LiteTensor:
    """Describe a tensor in TFLite's layout; `value` is None where it is computed or fed."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    quant: Quantization | None = None
    value: AnyArray | None = None


@dataclass(frozen=True, slots=True)
class LiteOperator:
    """One TFLite operator: its builtin code, its options and tensors; the first inputs without a value are fed."""

    code: int
    inputs: Sequence[LiteTensor | None]
    output: LiteTensor
    options_type: int = 0
    options: Any = field(default=None)

    def run(self, feeds: Sequence[Sequence[AnyArray]]) -> list[AnyArray]:
        """Return the output for every set of inputs."""
        runner = Interpreter(
            model_content=self.to_bytes(), experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
        )
        runner.allocate_tensors()
        places = [item["index"] for item in runner.get_input_details()]
        found: list[AnyArray] = []
        for values in feeds:
            for place, value in zip(places, values, strict=True):
                runner.set_tensor(place, np.ascontiguousarray(value))
            runner.invoke()
            found.append(np.array(runner.get_tensor(runner.get_output_details()[0]["index"])))
        return found

    def to_bytes(self) -> bytes:
        """Return the model as a flatbuffer."""
        model, graph = schema.ModelT(), schema.SubGraphT()
        empty = schema.BufferT()
        model.buffers, graph.tensors = [empty], []
        tensors = [*(item for item in self.inputs if item is not None), self.output]
        for item in tensors:
            graph.tensors.append(_tensor(item, model.buffers))
        places = {item.name: index for index, item in enumerate(tensors)}
        operator = schema.OperatorT()
        operator.opcodeIndex = 0
        operator.inputs = [-1 if item is None else places[item.name] for item in self.inputs]
        operator.outputs = [places[self.output.name]]
        operator.builtinOptionsType, operator.builtinOptions = self.options_type, self.options
        graph.operators = [operator]
        graph.inputs = [places[item.name] for item in self.inputs if item is not None and item.value is None]
        graph.outputs = operator.outputs
        code = schema.OperatorCodeT()
        code.deprecatedBuiltinCode, code.builtinCode, code.version = min(self.code, 127), self.code, 1
        model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def _tensor(item: LiteTensor, buffers: list[Any]) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.type, tensor.shape, tensor.buffer = item.name, _TYPES[item.dtype], list(item.shape), 0
    if item.value is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(item.value).tobytes(), np.uint8)
        tensor.buffer = len(buffers)
        buffers.append(buffer)
    if item.quant is not None:
        quant = schema.QuantizationParametersT()
        quant.scale = np.array(item.quant.scale, np.float32)
        quant.zeroPoint = np.array(item.quant.zero_point, np.int64)
        quant.quantizedDimension = item.quant.axis or 0
        tensor.quantization = quant
    return tensor
