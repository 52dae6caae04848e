"""Build TFLite flatbuffers of several operators and subgraphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from dovetail.ir import AnyArray
from judges.tflite_model import LiteTensor, make_tensor


@dataclass(frozen=True, slots=True)
class Step:
    """One operator: its builtin code, names of its inputs and outputs, and its options."""

    code: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options_type: int = 0
    options: Any = field(default=None)
    custom_name: str = ""
    custom_options: bytes = b""


@dataclass(frozen=True, slots=True)
class LiteSubgraph:
    """Tensors, operators and ends of one subgraph."""

    tensors: Sequence[LiteTensor]
    steps: Sequence[Step]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def build_model(graphs: Sequence[LiteSubgraph]) -> bytes:
    """Return the flatbuffer; the first subgraph is the model."""
    model = schema.ModelT()
    model.version, model.buffers, model.operatorCodes, model.subgraphs = 3, [schema.BufferT()], [], []
    codes: dict[tuple[int, str], int] = {}
    for item in graphs:
        graph = schema.SubGraphT()
        graph.name = "main"
        places = {tensor.name: index for index, tensor in enumerate(item.tensors)}
        graph.tensors = [make_tensor(tensor, model.buffers) for tensor in item.tensors]
        graph.inputs, graph.outputs = ([places[name] for name in names] for names in (item.inputs, item.outputs))
        graph.operators = []
        for step in item.steps:
            operator = schema.OperatorT()
            key = (step.code, step.custom_name)
            operator.opcodeIndex = codes.setdefault(key, len(codes))
            operator.inputs = [places[name] for name in step.inputs]
            operator.outputs = [places[name] for name in step.outputs]
            operator.builtinOptionsType, operator.builtinOptions = step.options_type, step.options
            if step.custom_options:
                operator.customOptions = list(step.custom_options)
            graph.operators.append(operator)
        model.subgraphs.append(graph)
    for number, custom in codes:
        code = schema.OperatorCodeT()
        code.deprecatedBuiltinCode, code.builtinCode, code.version = min(number, 127), number, 1
        code.customCode = custom or None
        model.operatorCodes.append(code)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def run_lite(content: bytes, feeds: Sequence[AnyArray]) -> list[AnyArray]:
    """Return the outputs that LiteRT's reference kernels give."""
    runner = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1)
    runner.allocate_tensors()
    for item, value in zip(runner.get_input_details(), feeds, strict=True):
        runner.set_tensor(item["index"], np.ascontiguousarray(value).reshape(value.shape))
    runner.invoke()
    return [np.array(runner.get_tensor(item["index"])) for item in runner.get_output_details()]
