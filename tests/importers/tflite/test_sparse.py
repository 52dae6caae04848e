"""Weights that are stored without their zeros: LiteRT's DENSIFY is the judge."""

from __future__ import annotations

import itertools

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.backends.reference import run_graph
from dovetail.errors import LoadError
from dovetail.importers.tflite import load_tflite
from dovetail.importers.tflite.sparse import Sparsity, SparsityError, StoredDimension
from dovetail.ir import AnyArray, DType
from judges.tflite_model import LiteOperator, LiteTensor, make_tensor


def compressed(dense: AnyArray, order: tuple[int, ...], sparse: tuple[bool, ...]) -> tuple[Sparsity, AnyArray]:
    """Return an array as levels in an order, those of zeros alone left out of the sparse ones, and what is stored."""
    turned = dense.transpose(order)
    prefixes: list[tuple[int, ...]] = [()]
    levels: list[StoredDimension] = []
    for depth, is_sparse in enumerate(sparse):
        size = turned.shape[depth]
        entries = [
            [(*prefix, index) for index in range(size) if not is_sparse or turned[(*prefix, index)].any()]
            for prefix in prefixes
        ]
        prefixes = [item for items in entries for item in items]
        if is_sparse:
            segments = (0, *itertools.accumulate(len(items) for items in entries))
            levels.append(StoredDimension(0, segments, tuple(item[-1] for item in prefixes)))
        else:
            levels.append(StoredDimension(size))
    return Sparsity(order, (), tuple(levels)), np.array([turned[item] for item in prefixes], dense.dtype)


def blocked(dense: AnyArray, block: int, axis: int) -> AnyArray:
    """Return an array with a last dimension that goes through blocks of an axis."""
    shape = (*dense.shape[:axis], dense.shape[axis] // block, block, *dense.shape[axis + 1 :])
    return np.moveaxis(dense.reshape(shape), axis + 1, -1)


def file_of(sparsity: Sparsity, stored: AnyArray, shape: tuple[int, ...]) -> bytes:
    """Return a file that makes a sparse constant whole and adds it to what is fed."""
    x, whole, y = (LiteTensor(name, DType.F32, shape) for name in ("x", "whole", "y"))
    options = schema.BuiltinOptions.AddOptions, schema.AddOptionsT()
    plain = LiteOperator(schema.BuiltinOperator.ADD, (x, whole), y, *options)
    model = schema.ModelT.InitFromPackedBuf(plain.to_bytes(), 0)
    graph = model.subgraphs[0]
    weights = make_tensor(LiteTensor("w", DType.F32, (len(stored),), value=stored), model.buffers)
    weights.shape, weights.sparsity = list(shape), _table(sparsity)
    operator, code = schema.OperatorT(), schema.OperatorCodeT()
    operator.opcodeIndex, operator.inputs, operator.outputs = 1, [len(graph.tensors)], [1]
    code.deprecatedBuiltinCode = code.builtinCode = schema.BuiltinOperator.DENSIFY
    code.version = 1
    graph.tensors.append(weights)
    graph.operators, graph.inputs = [operator, *graph.operators], [0]
    model.operatorCodes.append(code)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _table(sparsity: Sparsity) -> schema.SparsityParametersT:
    table = schema.SparsityParametersT()
    table.traversalOrder, table.blockMap = list(sparsity.order), list(sparsity.blocks)
    table.dimMetadata = []
    for level in sparsity.levels:
        item = schema.DimensionMetadataT()
        item.format, item.denseSize = int(level.is_sparse), level.size
        if level.is_sparse:
            item.arraySegmentsType = item.arrayIndicesType = schema.SparseIndexVector.Int32Vector
            item.arraySegments, item.arrayIndices = schema.Int32VectorT(), schema.Int32VectorT()
            item.arraySegments.values, item.arrayIndices.values = list(level.segments), list(level.indices)
        table.dimMetadata.append(item)
    return table


def litert(content: bytes, fed: AnyArray) -> AnyArray:
    runner = Interpreter(model_content=content, num_threads=1)
    runner.allocate_tensors()
    runner.set_tensor(runner.get_input_details()[0]["index"], fed)
    runner.invoke()
    return np.asarray(runner.get_tensor(runner.get_output_details()[0]["index"]))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([None, 2, 3]))
def test_sparse_weights_are_what_litert_makes_of_them(seed: int, block: int | None) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 4)) * (block or 1), int(rng.integers(1, 7)))
    dense = (rng.normal(size=shape) * (rng.random(shape) < 0.4)).astype(np.float32)
    dense[0, 0] = 1.0
    if block is None:
        order = tuple(int(axis) for axis in rng.permutation(2))
        sparsity, stored = compressed(dense, order, (False, True))
    else:
        sparsity, stored = compressed(blocked(dense, block, 0), (0, 1, 2), (False, True, False))
        sparsity = Sparsity(sparsity.order, (0,), sparsity.levels)
    np.testing.assert_array_equal(sparsity.densified(stored, shape), dense)
    content, fed = file_of(sparsity, stored, shape), rng.normal(size=shape).astype(np.float32)
    graph = load_tflite(content)
    found = run_graph(graph, {graph.inputs[0]: fed})[graph.outputs[0]]
    np.testing.assert_array_equal(found, litert(content, fed))


@pytest.mark.parametrize(
    "sparsity",
    [
        Sparsity((0, 0), (), (StoredDimension(2), StoredDimension(3))),
        Sparsity((0, 1), (), (StoredDimension(2),)),
        Sparsity((0, 1), (), (StoredDimension(2), StoredDimension(3_000_000))),
        Sparsity((0, 1), (), (StoredDimension(2), StoredDimension(0, (0, 1), (0,)))),
        Sparsity((0, 1), (), (StoredDimension(2), StoredDimension(0, (0, 3, 1), (0,)))),
        Sparsity((0, 1), (), (StoredDimension(2), StoredDimension(0, (0, 1, 2), (0, 3)))),
        Sparsity((0, 1), (), (StoredDimension(2), StoredDimension(0, (0, 1, 2), (0, -1)))),
        Sparsity((0, 1, 2), (7,), (StoredDimension(1), StoredDimension(1), StoredDimension(2))),
        Sparsity((0, 1), (), (StoredDimension(1), StoredDimension(1))),
    ],
)
def test_what_does_not_fit_is_refused(sparsity: Sparsity) -> None:
    with pytest.raises(SparsityError):
        sparsity.densified(np.ones(2, np.float32), (2, 3))
    with pytest.raises(LoadError, match=r"tensor 'w'.* damaged"):
        load_tflite(file_of(sparsity, np.ones(2, np.float32), (2, 3)))
