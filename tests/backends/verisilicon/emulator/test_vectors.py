"""What the vendor gave for graphs with random scales (`record_vectors.py`): equal, bit by bit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.backend.protocols import CompileOptions
from dovetail.backends.npusim import backend as simulator
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.testing.agreement import load_on

PARTS = ("vsi:a311d", "vsi:imx8mp", "vsi:v853")
BY_NAME = {target.name: target for target in VSI_PROFILES}


ALLOWED = {("Gelu", "i16"): 0.002}
"""Shares that may differ: the driver's error function is not known fully."""
IN_SHADERS = {("LogSoftmax", "i16"): 0.003}
"""A last bit in the shader's logarithm of a sum is not known."""
IN_STREAMS = {
    ("Div", "i16"): 0.2,
    ("Div", "i8"): 0.005,
    ("Div", "u8"): 0.005,
    ("Softmax", "i16"): 0.4,
    ("Softmax", "i8"): 0.01,
    ("Softmax", "u8"): 0.01,
}
"""The last bits of the stream processor's reciprocals are not known."""
Shares = Mapping[tuple[str, str], float]


@cache
def vectors(file: str) -> tuple[list[list[Any]], dict[str, AnyArray]]:
    with np.load(Path(__file__).with_name(file), allow_pickle=False) as held:
        return json.loads(str(held["recipes"])), {name: held[name] for name in held.files if "/" in name}


def kind(entry: list[Any]) -> TensorType:
    dtype, shape, scale, zero = entry
    return TensorType(DType(str(dtype)), tuple(shape), Quantization((float(scale),), (int(zero),)))


def graph_of(recipe: list[Any]) -> Graph:
    op, inputs, output, attributes, *rest = recipe
    parameters: list[list[float]] = rest[0] if rest else []
    names = tuple(f"x{index}" for index in range(len(inputs)))
    types = {name: kind(entry) for name, entry in zip(names, inputs, strict=True)}
    fixed = {key: tuple(value) if isinstance(value, list) else value for key, value in attributes.items()}
    given = [f"c{index}" if values else "" for index, values in enumerate(parameters)]
    constants = {name: np.array(values, np.float32) for name, values in zip(given, parameters, strict=True) if name}
    types |= {name: TensorType(DType.F32, value.shape) for name, value in constants.items()}
    node = Node("node", str(op), (*names, *given), ("y",), fixed)
    return Graph("vector", (node,), names, ("y",), {**types, "y": kind(output)}, constants)


OPERATORS = sorted({str(recipe[0]) for recipe in vectors("vectors.npz")[0]})


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("op", OPERATORS)
def test_equal_to_the_vendors_simulator(op: str, part: str) -> None:
    assert compared_with(op, part, "vectors.npz", ALLOWED) >= 30


SHADED = sorted({str(recipe[0]) for recipe in vectors("shaders.npz")[0]})


@pytest.mark.parametrize("part", ["vsi:s905d3", "vsi:v853", "vsi:t527"])
@pytest.mark.parametrize("op", SHADED)
def test_shaders_compute_16_bits_as_the_vendors_simulator(op: str, part: str) -> None:
    assert compared_with(op, part, "shaders.npz", IN_SHADERS) >= 400


@pytest.mark.parametrize("op", sorted({str(recipe[0]) for recipe in vectors("stream.npz")[0]}))
def test_the_stream_processor_computes_as_the_vendors_simulator(op: str) -> None:
    assert compared_with(op, "vsi:a733", "stream.npz", IN_STREAMS) >= 500


@pytest.mark.parametrize("part", ["vsi:a311d", "vsi:s905d3", "vsi:v853"])
@pytest.mark.parametrize("op", ["Mean", "ReduceL2"])
def test_lengths_and_means_are_made_of_several_operators(op: str, part: str) -> None:
    assert compared_with(op, part, "lengths.npz", {}) >= 1000


def compared_with(op: str, part: str, file: str, shares: Shares) -> int:
    """Compare an operator's recipes with what the vendor gave; return how many elements there were."""
    recipes, arrays = vectors(file)
    compared = 0
    for index, recipe in enumerate(recipes):
        graph = graph_of(recipe)
        if recipe[0] != op:
            continue
        inputs = {name: arrays[f"{index}/{name}"] for name in graph.inputs}
        wanted = arrays[f"{index}/{part}"]
        found = load_on(simulator, graph, BY_NAME[part], CompileOptions()).run(inputs)["y"]
        allowed = shares.get((op, graph.types["y"].dtype.value), 0.0) * wanted.size
        apart = np.abs(found.astype(int) - wanted)
        told = f"{recipe}: {np.count_nonzero(apart)} of {wanted.size} differ, by up to {apart.max()}"
        assert apart.max() <= (4 if allowed else 0), told
        assert np.count_nonzero(apart) <= allowed, told
        compared += wanted.size
    return compared
