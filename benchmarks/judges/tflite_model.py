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
    DType.F16: schema.TensorType.FLOAT16,
    DType.BOOL: schema.TensorType.BOOL,
    DType.U32: schema.TensorType.UINT32,
    DType.I8: schema.TensorType.INT8,
    DType.U8: schema.TensorType.UINT8,
    DType.I16: schema.TensorType.INT16,
    DType.I32: schema.TensorType.INT32,
    DType.I64: schema.TensorType.INT64,
}


_VERSIONS = (1, 2, 3, 5)


@dataclass(frozen=True, slots=True)
class LiteTensor:
    """Describe a tensor in TFLite's layout; `value` is None where it is computed or fed."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    quant: Quantization | None = None
    value: AnyArray | None = None
    kind: str = ""
    """The file's name of an element type that Dovetail has not: RESOURCE, COMPLEX64."""
    signature: tuple[int, ...] = ()
    """The shape with -1 for sizes that are open."""


@dataclass(frozen=True, slots=True)
class LiteOperator:
    """One TFLite operator: its builtin code, its options and tensors; the first inputs without a value are fed."""

    code: int
    inputs: Sequence[LiteTensor | None]
    output: LiteTensor
    options_type: int = 0
    options: Any = field(default=None)
    more_outputs: Sequence[LiteTensor] = ()
    custom_name: str = ""
    custom_options: bytes = b""
    variables: Sequence[str] = ()
    optimised: bool = False
    intermediates: Sequence[LiteTensor] = ()

    @property
    def outputs(self) -> tuple[LiteTensor, ...]:
        """Return every output."""
        return (self.output, *self.more_outputs)

    def run(self, feeds: Sequence[Sequence[AnyArray]]) -> list[AnyArray]:
        """Return the first output for every set of inputs."""
        return [found[0] for found in self.run_all(feeds)]

    def run_all(self, feeds: Sequence[Sequence[AnyArray]]) -> list[list[AnyArray]]:
        """Return all outputs for every set of inputs."""
        runner = self._runner()
        runner.allocate_tensors()
        places = [item["index"] for item in runner.get_input_details()]
        found: list[list[AnyArray]] = []
        for values in feeds:
            runner.reset_all_variables()
            for place, value in zip(places, values, strict=True):
                runner.set_tensor(place, np.ascontiguousarray(value).reshape(value.shape))
            runner.invoke()
            found.append([np.array(runner.get_tensor(item["index"])) for item in runner.get_output_details()])
        return found

    def _runner(self) -> Any:
        """Return an interpreter with reference kernels; with the optimised ones where there is no other."""
        resolvers = (OpResolverType.BUILTIN_REF, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
        for resolver in resolvers[int(self.optimised) :]:
            for version in _VERSIONS:
                try:
                    return Interpreter(
                        model_content=self.to_bytes(version), experimental_op_resolver_type=resolver, num_threads=1
                    )
                except ValueError as error:
                    problem = error
        raise problem

    def to_bytes(self, version: int = 1) -> bytes:
        """Return the model as a flatbuffer; `version` is the operator's."""
        model, graph = schema.ModelT(), schema.SubGraphT()
        empty = schema.BufferT()
        model.buffers, graph.tensors = [empty], []
        tensors = [*(item for item in self.inputs if item is not None), *self.outputs, *self.intermediates]
        for item in tensors:
            graph.tensors.append(make_tensor(item, model.buffers))
            graph.tensors[-1].isVariable = item.name in self.variables
        places = {item.name: index for index, item in enumerate(tensors)}
        operator = schema.OperatorT()
        operator.opcodeIndex = 0
        operator.inputs = [-1 if item is None else places[item.name] for item in self.inputs]
        operator.outputs = [places[item.name] for item in self.outputs]
        if self.custom_options:
            operator.customOptions = list(self.custom_options)
        if self.intermediates:
            operator.intermediates = [places[item.name] for item in self.intermediates]
        operator.builtinOptionsType, operator.builtinOptions = self.options_type, self.options
        graph.operators = [operator]
        fed = [item for item in self.inputs if item is not None and item.value is None]
        graph.inputs = [places[item.name] for item in fed if item.name not in self.variables]
        graph.outputs = operator.outputs
        code = schema.OperatorCodeT()
        code.deprecatedBuiltinCode, code.builtinCode, code.version = min(self.code, 127), self.code, version
        if self.custom_name:
            code.customCode = self.custom_name
        model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def make_tensor(item: LiteTensor, buffers: list[Any]) -> Any:
    """Return the table of a tensor; its value goes into a new buffer."""
    tensor = schema.TensorT()
    tensor.name, tensor.type, tensor.shape, tensor.buffer = item.name, _TYPES[item.dtype], list(item.shape), 0
    if item.kind:
        tensor.type = getattr(schema.TensorType, item.kind)
    if item.signature:
        tensor.shapeSignature = list(item.signature)
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
