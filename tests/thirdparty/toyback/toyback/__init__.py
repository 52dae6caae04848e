"""A backend that runs Relu and Add at float32 and u8: what a third party has to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dovetail.backend.arithmetic import EXACT
from dovetail.backend.constraints import RealTensors
from dovetail.backend.protocols import (
    Backend,
    BackendAbilities,
    Blob,
    CompileOptions,
    Device,
    Executable,
    ExecutableAbilities,
    Signature,
)
from dovetail.backend.target import Engine, OperatorRule, Target, TargetProfile
from dovetail.errors import BundleError, CompileError, DeviceError
from dovetail.ir import (
    AnyArray,
    DType,
    Graph,
    Node,
    TensorType,
    dequantize_array,
    graph_from_bytes,
    graph_to_bytes,
    quantize_array,
)
from dovetail.ir.precision import Precision

_OPERATORS: dict[str, Callable[..., AnyArray]] = {"Relu": lambda x: np.maximum(x, 0), "Add": np.add}
_PRECISIONS = (Precision.U8, Precision.FP32)

TARGET = TargetProfile(
    name="toy:one",
    title="A toy",
    precisions=_PRECISIONS,
    rules=(OperatorRule(frozenset(_OPERATORS), frozenset(_PRECISIONS), Engine.CPU, (RealTensors(),)),),
    arithmetic=EXACT,
)


class ToyBackend:
    name = "toyback"
    version = "1.0"

    def targets(self) -> Sequence[Target]:
        return (TARGET,)

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        for node in graph.nodes:
            if not any(target.verdict(graph, node, precision).supported for precision in _PRECISIONS):
                raise CompileError(f"{node.label}: {target.name} has no such operator.")
        return Blob("toy", graph_to_bytes(graph))

    def devices(self) -> Sequence[Device]:
        return (ToyDevice(),)

    def abilities(self) -> BackendAbilities:
        return BackendAbilities()


class ToyDevice:
    name = "toy"

    def accepts(self, target: str) -> bool:
        return target == TARGET.name

    def load(self, blob: Blob, signature: Signature) -> Executable:
        if blob.format != "toy":
            raise DeviceError(f"toy: cannot load a blob of format '{blob.format}'.")
        try:
            graph = graph_from_bytes(blob.payload)
        except BundleError as error:
            raise DeviceError(f"toy: {error}") from error
        if set(graph.inputs) != set(signature.inputs) or set(graph.outputs) != set(signature.outputs):
            raise DeviceError("toy: the blob has other inputs or outputs.")
        return ToyExecutable(graph)


class ToyExecutable:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        graph = self._graph
        if set(inputs) != set(graph.inputs):
            raise DeviceError(f"toy: the inputs are {', '.join(graph.inputs)}.")
        values = {**graph.constants, **inputs}
        for name in graph.inputs:
            _check(name, values[name], graph.types[name])
        for node in graph.nodes:
            values[node.outputs[0]] = _run(graph, node, [values[name] for name in node.inputs])
        missing = [tap for tap in taps if tap not in values]
        if missing:
            raise DeviceError(f"toy: there is no tensor '{missing[0]}'.")
        return {name: values[name] for name in (*graph.outputs, *taps)}

    def close(self) -> None:
        pass

    def abilities(self) -> ExecutableAbilities:
        return ExecutableAbilities()


def _run(graph: Graph, node: Node, values: list[AnyArray]) -> AnyArray:
    kinds = [graph.types[name] for name in node.inputs]
    reals = [
        value if kind.quant is None else dequantize_array(value, kind.quant)
        for value, kind in zip(values, kinds, strict=True)
    ]
    result = np.asarray(_OPERATORS[node.op](*reals))
    output = graph.types[node.outputs[0]]
    return result if output.quant is None else quantize_array(result, DType.U8, output.quant)


def _check(name: str, value: object, kind: TensorType) -> None:
    if not isinstance(value, np.ndarray) or value.dtype != kind.dtype.carrier:
        raise DeviceError(f"toy: input '{name}' must hold {kind.dtype.carrier}.")
    wanted = kind.shape or ()
    fits = len(wanted) == value.ndim and all(
        size == dim or not isinstance(dim, int) for size, dim in zip(value.shape, wanted, strict=True)
    )
    if not fits:
        raise DeviceError(f"toy: input '{name}' has shape {list(value.shape)}.")


backend: Backend = ToyBackend()
