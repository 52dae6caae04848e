"""What the vendor gave for graphs with random scales (`tests/backends/vip/record_vectors.py`): equal, bit by bit."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dovetail.backend.profiles import VSI_PROFILES
from dovetail.backend.protocols import CompileOptions
from dovetail.backends.npusim import backend as simulator
from dovetail.backends.reference import backend as reference
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.testing.agreement import load_on

PARTS = ("vsi:a311d", "vsi:imx8mp", "vsi:v853")
BY_NAME = {target.name: target for target in VSI_PROFILES}


ALLOWED = {("Gelu", "i16"): 0.002, ("Identity", "i8"): 0.005, ("LogSoftmax", "i16"): 0.003}
"""Shares that may differ: the driver's error function, old parts' copies of signed bytes, and a last bit in the
shader's logarithm of a sum are not known fully."""


@cache
def vectors(file: str = "vectors.npz") -> tuple[list[list[object]], dict[str, AnyArray]]:
    with np.load(Path(__file__).with_name(file), allow_pickle=False) as held:
        return json.loads(str(held["recipes"])), {name: held[name] for name in held.files if "/" in name}


def kind(entry: list[object]) -> TensorType:
    dtype, shape, scale, zero = entry
    return TensorType(DType(str(dtype)), tuple(shape), Quantization((float(scale),), (int(zero),)))  # type: ignore[arg-type]


def graph_of(recipe: list[object]) -> Graph:
    op, inputs, output, attributes, *rest = recipe
    parameters: list[list[float]] = rest[0] if rest else []  # type: ignore[assignment]
    names = tuple(f"x{index}" for index in range(len(inputs)))  # type: ignore[arg-type]
    types = {name: kind(entry) for name, entry in zip(names, inputs, strict=True)}  # type: ignore[call-overload]
    fixed = {key: tuple(value) if isinstance(value, list) else value for key, value in attributes.items()}  # type: ignore[attr-defined]
    given = [f"c{index}" if values else "" for index, values in enumerate(parameters)]
    constants = {name: np.array(values, np.float32) for name, values in zip(given, parameters, strict=True) if name}
    types |= {name: TensorType(DType.F32, value.shape) for name, value in constants.items()}
    node = Node("node", str(op), (*names, *given), ("y",), fixed)
    return Graph("vector", (node,), names, ("y",), {**types, "y": kind(output)}, constants)  # type: ignore[arg-type]


OPERATORS = sorted({str(recipe[0]) for recipe in vectors()[0]})


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("op", OPERATORS)
def test_equal_to_the_vendors_simulator(op: str, part: str) -> None:
    assert compared_with(op, part, *vectors()) >= 30


SHADED = sorted({str(recipe[0]) for recipe in vectors("shaders.npz")[0]})


@pytest.mark.parametrize("part", ["vsi:s905d3", "vsi:v853", "vsi:t527"])
@pytest.mark.parametrize("op", SHADED)
def test_shaders_compute_16_bits_as_the_vendors_simulator(op: str, part: str) -> None:
    assert compared_with(op, part, *vectors("shaders.npz")) >= 400


def compared_with(op: str, part: str, recipes: list[list[object]], arrays: dict[str, AnyArray]) -> int:
    """Compare an operator's recipes with what the vendor gave; return how many elements there were."""
    compared = 0
    for index, recipe in enumerate(recipes):
        graph = graph_of(recipe)
        if recipe[0] != op:
            continue
        inputs = {name: arrays[f"{index}/{name}"] for name in graph.inputs}
        wanted = arrays[f"{index}/{part}"]
        for backend in (reference, simulator):
            found = load_on(backend, graph, BY_NAME[part], CompileOptions()).run(inputs)["y"]
            allowed = ALLOWED.get((op, graph.types["y"].dtype.value), 0.0) * wanted.size
            assert np.count_nonzero(found != wanted) <= allowed, (
                f"{backend.name} {recipe}: {np.count_nonzero(found != wanted)} of {wanted.size} differ, "
                f"by up to {np.abs(found.astype(int) - wanted).max()}"
            )
        compared += wanted.size
    return compared
