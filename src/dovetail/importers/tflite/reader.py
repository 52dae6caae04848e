"""Read a TFLite flatbuffer into plain values."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dovetail.errors import LoadError
from dovetail.importers.options import LoadOptions
from dovetail.importers.tflite.model import LiteGraph, LiteModel, LiteOperator, LiteTensor, Options
from dovetail.importers.tflite.sparse import Sparsity, StoredDimension
from dovetail.importers.tflite.verify import verify_flatbuffer
from dovetail.ir import DType, Quantization

_TYPES = {
    "FLOAT32": DType.F32,
    "FLOAT16": DType.F16,
    "FLOAT64": DType.F64,
    "BFLOAT16": DType.BF16,
    "INT4": DType.I8,
    "INT8": DType.I8,
    "UINT8": DType.U8,
    "INT16": DType.I16,
    "UINT16": DType.U16,
    "INT32": DType.I32,
    "UINT32": DType.U32,
    "INT64": DType.I64,
    "UINT64": DType.U64,
    "BOOL": DType.BOOL,
}
_QUANTIZED = (DType.I8, DType.U8, DType.I16, DType.I32, DType.I64)
_CUSTOM = 32
_PLACEHOLDER = 127
"""What the old 8-bit code field holds for operators beyond its range."""
_MAX_DIM = 2**31 - 1


def read_model(source: Path | bytes, options: LoadOptions) -> LiteModel:
    """Return what a file says; raise LoadError where it is damaged or too large."""
    data, where = _read(source, options)
    schema = _schema()
    names = _constants(schema.BuiltinOptions)
    verify_flatbuffer(data, where, names)
    try:
        return _model(schema, data, where)
    except (struct.error, ValueError, IndexError, KeyError, TypeError, OverflowError, UnicodeDecodeError) as error:
        detail = " ".join(str(error).split())[:120]
        raise LoadError(f"{where}: damaged: {detail}.", hint="Copy or export the model again.") from error


def _schema() -> ModuleType:
    try:
        import tflite
    except ImportError as error:
        raise LoadError(
            "TFLite models need the packages 'tflite' and 'flatbuffers'.", hint="pip install 'dovetail[tflite]'"
        ) from error
    module: ModuleType = tflite
    return module


def _read(source: Path | bytes, options: LoadOptions) -> tuple[bytes, str]:
    if isinstance(source, bytes):
        return source, "model"
    try:
        size = source.stat().st_size
        if size > options.max_file_bytes:
            raise LoadError(f"{source}: {size} bytes are more than the allowed {options.max_file_bytes}.")
        return source.read_bytes(), str(source)
    except OSError as error:
        raise LoadError(f"{source}: cannot be read: {error.strerror}.", hint="Check the path.") from error


def _constants(kind: type) -> dict[int, str]:
    return {value: name for name, value in vars(kind).items() if isinstance(value, int)}


def _model(schema: ModuleType, data: bytes, where: str) -> LiteModel:
    model = schema.Model.GetRootAs(data, 0)
    reader = _Reader(schema, model, data, where)
    graphs = tuple(reader.graph(model.Subgraphs(index)) for index in range(model.SubgraphsLength()))
    return LiteModel(where, len(data), graphs)


class _Reader:
    """Read the tables of one file."""

    def __init__(self, schema: ModuleType, model: Any, data: bytes, where: str) -> None:
        self._schema = schema
        self._model = model
        self._view = memoryview(data)
        self._where = where
        self._operators = _constants(schema.BuiltinOperator)
        self._options = _constants(schema.BuiltinOptions)
        self._types = _constants(schema.TensorType)
        self._codes = [self._code(model.OperatorCodes(index)) for index in range(model.OperatorCodesLength())]

    def graph(self, graph: Any) -> LiteGraph:
        name = (graph.Name() or b"").decode() or "main"
        taken: set[str] = set()
        tensors = tuple(self._tensor(graph.Tensors(index), index, taken) for index in range(graph.TensorsLength()))
        operators = tuple(self._operator(graph.Operators(index)) for index in range(graph.OperatorsLength()))
        inputs, outputs = (_indices(graph, kind) for kind in ("Inputs", "Outputs"))
        return LiteGraph(name, tensors, inputs, outputs, operators)

    def _code(self, code: Any) -> tuple[str, bool]:
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        if code.BuiltinCode() and code.DeprecatedBuiltinCode() != _PLACEHOLDER:
            number = code.BuiltinCode()
        if number == _CUSTOM:
            return (code.CustomCode() or b"").decode() or "custom", True
        return self._operators.get(number, f"BUILTIN_{number}"), False

    def _operator(self, operator: Any) -> LiteOperator:
        kind, custom = self._codes[operator.OpcodeIndex()]
        options = operator.BuiltinOptions()
        table = None
        name = self._options.get(operator.BuiltinOptionsType(), "")
        if options is not None and hasattr(self._schema, name):
            table = getattr(self._schema, name)()
            table.Init(options.Bytes, options.Pos)
        extra = b"" if operator.CustomOptionsIsNone() else operator.CustomOptionsAsNumpy().tobytes()
        inputs, outputs, between = (_indices(operator, kind) for kind in ("Inputs", "Outputs", "Intermediates"))
        return LiteOperator(kind, custom, inputs, outputs, Options(table), extra, between)

    def _tensor(self, tensor: Any, index: int, taken: set[str]) -> LiteTensor:
        given = (tensor.Name() or b"").decode()
        name = given or f"tensor_{index}"
        if name in taken:
            name = f"{name}#{index}"
        taken.add(name)
        label = f"tensor '{name}'"
        shape = _shape(tensor, self._where, label)
        source_type = self._types.get(tensor.Type(), f"type {tensor.Type()}")
        dtype = _TYPES.get(source_type)
        quant = self._quantization(tensor, shape, dtype, label)
        signature = tuple(int(tensor.ShapeSignature(index)) for index in range(tensor.ShapeSignatureLength()))
        return LiteTensor(name, source_type, dtype, shape, quant, self._data(tensor), self._sparsity(tensor), signature)

    def _sparsity(self, tensor: Any) -> Sparsity | None:
        table = tensor.Sparsity()
        if table is None:
            return None
        levels = [self._level(table.DimMetadata(index)) for index in range(table.DimMetadataLength())]
        return Sparsity(_integers(table, "TraversalOrder"), _integers(table, "BlockMap"), tuple(levels))

    def _level(self, level: Any) -> StoredDimension:
        if level.Format() == self._schema.DimensionType.DENSE:
            return StoredDimension(int(level.DenseSize()))
        kinds = _constants(self._schema.SparseIndexVector)
        lists = []
        for part in ("ArraySegments", "ArrayIndices"):
            table = getattr(self._schema, kinds[getattr(level, f"{part}Type")()])()
            table.Init(getattr(level, part)().Bytes, getattr(level, part)().Pos)
            lists.append(_integers(table, "Values"))
        return StoredDimension(0, *lists)

    def _data(self, tensor: Any) -> bytes | memoryview:
        buffer = self._model.Buffers(tensor.Buffer())
        if not tensor.Buffer() or buffer.DataIsNone() or not buffer.DataLength():
            return b""
        # A view, not a copy: weights stay where the file's bytes are.
        start = buffer._tab.Vector(buffer._tab.Offset(4))
        return self._view[start : start + buffer.DataLength()]

    def _quantization(
        self, tensor: Any, shape: tuple[int, ...], dtype: DType | None, label: str
    ) -> Quantization | None:
        table = tensor.Quantization()
        if table is None or not table.ScaleLength() or dtype not in _QUANTIZED:
            return None
        scale = tuple(float(table.Scale(index)) for index in range(table.ScaleLength()))
        zero = tuple(int(table.ZeroPoint(index)) for index in range(table.ZeroPointLength())) or (0,) * len(scale)
        if len(zero) == 1:
            zero = zero * len(scale)
        if len(zero) != len(scale):
            raise LoadError(f"{self._where}: {label} has {len(scale)} scales and {len(zero)} zero points.")
        if dtype not in (DType.I32, DType.I64) and not all(math.isfinite(item) and item > 0 for item in scale):
            if all(item == 0 for item in scale):
                return None
            raise LoadError(f"{self._where}: {label} has a scale that is not a positive number.", source_node=label)
        axis = int(table.QuantizedDimension()) if len(scale) > 1 else None
        if axis is not None and not (0 <= axis < len(shape) and shape[axis] == len(scale)):
            raise LoadError(
                f"{self._where}: {label} of shape {list(shape)} has {len(scale)} scales along axis {axis}.",
                source_node=label,
            )
        return Quantization(scale, zero, axis)


def _shape(tensor: Any, where: str, label: str) -> tuple[int, ...]:
    shape = tuple(int(tensor.Shape(index)) for index in range(tensor.ShapeLength()))
    if any(not 0 <= size <= _MAX_DIM for size in shape) or len(shape) > 16:
        raise LoadError(f"{where}: {label} has the impossible shape {list(shape)[:20]}.", source_node=label)
    return shape


def _integers(table: Any, kind: str) -> tuple[int, ...]:
    """Return a list that may be long."""
    return tuple(int(item) for item in np.asarray(getattr(table, f"{kind}AsNumpy")()).reshape(-1))


def _indices(table: Any, kind: str) -> tuple[int, ...]:
    item = getattr(table, kind)
    return tuple(int(item(index)) for index in range(getattr(table, f"{kind}Length")()))
