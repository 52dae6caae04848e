"""Record what the vendor's simulator gives for small graphs with random scales: the vectors beside this file.

Run `python record_vectors.py NAME` here for `vectors`, `shaders`, `stream` and `lengths`; it needs
VeriSilicon's SDK and about five minutes. None of these graphs is one of the operator cases.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dovetail.backends.verisilicon.driver.bench import GraphBench
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.sdk import find_verisilicon

PARTS = ("vsi:a311d", "vsi:imx8mp", "vsi:v853")
SHADER_PARTS = ("vsi:s905d3", "vsi:v853", "vsi:t527")
STREAM_PARTS = ("vsi:a733",)
LENGTH_PARTS = ("vsi:a311d", "vsi:s905d3", "vsi:v853")
_UNARY = ("Abs", "Celu", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Neg", "Relu", "Selu")
UNARY = (*_UNARY, "Sigmoid", "Softsign", "Tanh", "Atan", "Identity")
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Recipe:
    """Describe one graph of one node: its inputs and output as (type, shape, scale, zero point)."""

    op: str
    inputs: tuple[tuple[str, tuple[int, ...], float, int], ...]
    output: tuple[str, tuple[int, ...], float, int]
    attributes: Mapping[str, object] = field(default_factory=dict)
    parameters: tuple[list[float], ...] = ()
    """Constant inputs of float32; an empty one is left out."""

    def graph(self) -> Graph:
        """Return the graph; inputs are `x0, x1`, the output is `y`."""
        names = tuple(f"x{index}" for index in range(len(self.inputs)))
        types = {name: _type(*entry) for name, entry in zip(names, self.inputs, strict=True)}
        fixed = {key: tuple(value) if isinstance(value, list) else value for key, value in self.attributes.items()}
        given = [f"c{index}" if values else "" for index, values in enumerate(self.parameters)]
        constants = {
            name: np.array(values, np.float32) for name, values in zip(given, self.parameters, strict=True) if name
        }
        types |= {name: TensorType(DType.F32, value.shape) for name, value in constants.items()}
        node = Node("node", self.op, (*names, *given), ("y",), fixed)
        return Graph("vector", (node,), names, ("y",), {**types, "y": _type(*self.output)}, constants)


def _type(dtype: str, shape: tuple[int, ...], scale: float, zero: int) -> TensorType:
    return TensorType(DType(dtype), tuple(shape), Quantization((scale,), (zero,)))


def _single(value: float) -> float:
    return float(np.float32(value))


def recipes(random: np.random.Generator) -> Iterator[Recipe]:
    """Yield graphs with random scales."""
    for _ in range(_ROUNDS):
        for op in UNARY:
            scales = [_single(random.uniform(0.005, 0.05)), _single(random.uniform(0.004, 0.03))]
            zeros = [int(random.integers(0, 256)) for _ in range(2)]
            shape = (1, 1, 16, 16)
            yield Recipe(op, (("u8", shape, scales[0], zeros[0]),), ("u8", shape, scales[1], zeros[1]))
            yield Recipe(op, (("i8", shape, scales[0], zeros[0] - 128),), ("i8", shape, scales[1], zeros[1] - 128))
            powers = [2.0 ** -int(random.integers(10, 15)), 2.0 ** -int(random.integers(10, 16))]
            yield Recipe(op, (("i16", (1, 2, 16, 16), powers[0], 0),), ("i16", (1, 2, 16, 16), powers[1], 0))
        yield from _windows(random)
        yield from _sums(random)


def _windows(random: np.random.Generator) -> Iterator[Recipe]:
    kernels = (
        ((2, 2), (2, 2)),
        ((3, 3), (1, 1)),
        ((3, 2), (2, 2)),
        ((4, 4), (4, 4)),
        ((2, 3), (2, 3)),
        ((5, 5), (2, 2)),
    )
    for kernel, strides in kernels:
        sizes = tuple((12 - kernel[axis]) // strides[axis] + 1 for axis in range(2))
        scale = _single(random.uniform(0.01, 0.1))
        given = {"kernel_shape": list(kernel), "strides": list(strides)}
        for made in (scale, _single(scale / 2), _single(scale * random.uniform(0.4, 1.2))):
            zeros = [int(random.integers(60, 200)) for _ in range(2)]
            yield Recipe(
                "AveragePool", (("u8", (1, 3, 12, 12), scale, zeros[0]),), ("u8", (1, 3, *sizes), made, zeros[1]), given
            )
        yield Recipe(
            "AveragePool", (("i16", (1, 3, 12, 12), 2.0**-12, 0),), ("i16", (1, 3, *sizes), 2.0**-12, 0), given
        )
    for size in (7, 11, 12, 15, 16):
        shape = (1, 3, size, size)
        yield Recipe("GlobalAveragePool", (("i16", shape, 2.0**-12, 0),), ("i16", (1, 3, 1, 1), 2.0**-13, 0))
    given_lrn = {"size": 5, "alpha": 0.02, "beta": 0.75, "bias": 1.0}
    yield Recipe("LRN", (("i16", (1, 6, 8, 8), 2.0**-12, 0),), ("i16", (1, 6, 8, 8), 2.0**-12, 0), given_lrn)
    yield Recipe("LRN", (("u8", (1, 6, 8, 8), 0.03, 120),), ("u8", (1, 6, 8, 8), 0.025, 110), given_lrn)


def _sums(random: np.random.Generator) -> Iterator[Recipe]:
    shape = (1, 4, 12, 12)
    for op in ("Add", "Sub", "Mul"):
        for dtype, low in (("u8", 0), ("i8", -128)):
            scales = [_single(random.uniform(0.01, 0.05)) for _ in range(2)] + [_single(random.uniform(0.03, 0.08))]
            zeros = [int(random.integers(40, 216)) + low for _ in range(3)]
            inputs = tuple((dtype, shape, scale, zero) for scale, zero in zip(scales[:2], zeros[:2], strict=True))
            yield Recipe(op, inputs, (dtype, shape, scales[2], zeros[2]))


def shader_recipes(random: np.random.Generator) -> Iterator[Recipe]:
    """Yield graphs of 16 bits that shaders compute."""
    for op in ("Cos", "Exp", "Sin", "Softplus"):
        yield Recipe(op, (("i16", (1, 2, 16, 16), 2.0**-12, 0),), ("i16", (1, 2, 16, 16), 2.0**-14, 0))
    for shape in ((1, 5, 7, 30), (2, 3, 5, 13)):
        scale = 2.0 ** -int(random.integers(11, 14))
        data = (("i16", shape, scale, 0),)
        for axis in (1, 3):
            for op, step in (("Softmax", 2.0**-15), ("LogSoftmax", 2.0**-11), ("LpNormalization", 2.0**-15)):
                yield Recipe(op, data, ("i16", shape, step, 0), {"axis": axis})
        made = ("i16", shape, 2.0**-12, 0)
        channels = [
            list(map(_single, random.uniform(ends[0], ends[1], shape[1]))) for ends in ((0.5, 1.5), (-1, 1), (-1, 1))
        ]
        channels.append(list(map(_single, random.uniform(0.3, 2.0, shape[1]))))
        yield Recipe("BatchNormalization", data, made, {}, tuple(channels))
        yield Recipe("InstanceNormalization", data, made, {}, tuple(channels[:2]))
        rows = [list(map(_single, random.uniform(ends[0], ends[1], shape[3]))) for ends in ((0.5, 1.5), (-1, 1))]
        yield Recipe("LayerNormalization", data, made, {"axis": -1}, tuple(rows))
        sizes = (*shape[:2], shape[2] * 3, shape[3] + 9)
        factors = [size / old + 1e-6 for size, old in zip(sizes, shape, strict=True)]
        yield Recipe("Resize", data, ("i16", sizes, scale, 0), {"mode": "linear"}, ([], factors))
        small = (("i8", shape, 2.0**-5, 0),)
        yield Recipe("Resize", small, ("i8", sizes, 2.0**-5, 0), {"mode": "linear"}, ([], factors))


_BYTE_TABLES = ("Elu", "Gelu", "HardSwish", "Mish", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh")


def stream_recipes(random: np.random.Generator) -> Iterator[Recipe]:
    """Yield graphs that only a part with a stream processor computes in its own way."""
    for op in _BYTE_TABLES:
        scales = [_single(random.uniform(0.005, 0.05)), _single(random.uniform(0.004, 0.03))]
        zeros = [int(random.integers(0, 256)) for _ in range(2)]
        shape = (1, 1, 16, 16)
        yield Recipe(op, (("u8", shape, scales[0], zeros[0]),), ("u8", shape, scales[1], zeros[1]))
        yield Recipe(op, (("i8", shape, scales[0], zeros[0] - 128),), ("i8", shape, scales[1], zeros[1] - 128))
        yield Recipe(op, (("i16", (1, 2, 16, 16), 2.0**-12, 0),), ("i16", (1, 2, 16, 16), 2.0**-13, 0))
    for dtype, made, zero in (("u8", 0.004, 0), ("i8", 2.0**-7, 0), ("i16", 2.0**-15, 0)):
        scale = 2.0**-12 if dtype == "i16" else _single(random.uniform(0.02, 0.05))
        shape = (1, 6, 16, 10)
        data = (dtype, shape, scale, zero)
        for axis in (1, 3):
            yield Recipe("Softmax", (data,), (dtype, shape, _single(made), zero), {"axis": axis})
        yield Recipe("Div", (data, (dtype, shape, scale, zero)), (dtype, shape, 2.0**-6 if zero else scale, zero))
    given_lrn = {"size": 3, "alpha": 0.03, "beta": 0.75, "bias": 1.0}
    for dtype, scale in (("i8", 2.0**-4), ("i16", 2.0**-12)):
        yield Recipe("LRN", ((dtype, (1, 6, 16, 16), scale, 0),), (dtype, (1, 6, 16, 16), scale, 0), given_lrn)
    yield from _means(random)


def length_recipes(random: np.random.Generator) -> Iterator[Recipe]:
    """Yield lengths and means, which are made of several operators."""
    yield from _means(random)
    for rows in ((3, 20, 9, 8), (2, 30, 11, 17)):
        for dtype, scale, zeros in (
            ("u8", _single(random.uniform(0.01, 0.04)), (int(random.integers(90, 160)), 0)),
            ("i8", _single(random.uniform(0.01, 0.04)), (int(random.integers(-30, 30)), -128)),
            ("i8", 2.0**-5, (0, 0)),
            ("i16", 2.0**-13, (0, 0)),
        ):
            for axes in ([3], [2, 3]):
                kept = [1 if axis in axes else size for axis, size in enumerate(rows)]
                made = scale * 16 if dtype == "i16" else _single(scale * (8.0 if scale == 2.0**-5 else 5.0))
                yield Recipe(
                    "ReduceL2",
                    ((dtype, rows, scale, zeros[0]),),
                    (dtype, tuple(kept), made, zeros[1]),
                    {"axes": axes, "keepdims": 1},
                )


def _means(random: np.random.Generator) -> Iterator[Recipe]:
    shape = (1, 4, 12, 12)
    for dtype, low in (("u8", 0), ("i8", -128)):
        scales = [_single(random.uniform(0.01, 0.05)) for _ in range(2)] + [_single(random.uniform(0.02, 0.05))]
        zeros = [int(random.integers(40, 216)) + low for _ in range(3)]
        inputs = tuple((dtype, shape, scale, zero) for scale, zero in zip(scales[:2], zeros[:2], strict=True))
        yield Recipe("Mean", inputs, (dtype, shape, scales[2], zeros[2]))


SETS: dict[str, tuple[Callable[[np.random.Generator], Iterator[Recipe]], tuple[str, ...]]] = {
    "vectors": (recipes, PARTS),
    "shaders": (shader_recipes, SHADER_PARTS),
    "stream": (stream_recipes, STREAM_PARTS),
    "lengths": (length_recipes, LENGTH_PARTS),
}
"""The graphs of a file and the parts that they run on."""


def samples(recipe: Recipe, random: np.random.Generator) -> dict[str, AnyArray]:
    """Return all stored values where the input has room for them, else random ones."""
    made: dict[str, AnyArray] = {}
    for index, (dtype, shape, _, _) in enumerate(recipe.inputs):
        kind = DType(dtype)
        low, high = kind.integer_range
        size = int(np.prod(shape))
        whole = np.arange(low, high + 1) if size == high - low + 1 else random.integers(low, high + 1, size)
        made[f"x{index}"] = whole.astype(kind.carrier).reshape(shape)
    return made


def main() -> None:
    """Record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=SETS)
    given = parser.parse_args()
    found = find_verisilicon()
    if not found.usable:
        sys.exit(f"{found.reason}: run 'dovetail sdk install verisilicon'")
    random = np.random.default_rng(2026)
    drawn, parts = SETS[given.name]
    wanted = [(recipe, samples(recipe, random)) for recipe in drawn(random)]
    arrays: dict[str, AnyArray] = {}
    for index, (_, sample) in enumerate(wanted):
        arrays.update({f"{index}/{name}": value for name, value in sample.items()})
    for name in parts:
        target = next(one for one in VSI_PROFILES if one.name == name)
        part = part_of(target)
        with GraphBench(part.sdk_name, Settings(found.folder)) as bench:
            for index, (recipe, sample) in enumerate(wanted):
                graph = recipe.graph()
                # These run in a process of their own: the vendor library mixes sums of signed bytes up, and responses.
                fresh = recipe.op in ("Add", "LRN", "Mean", "Sub")
                result = bench.measure(lower_graph(graph, part), (sample,), {"y": graph.types["y"]}, fresh=fresh)
                arrays[f"{index}/{name}"] = result.results[0]["y"]
    text = json.dumps([[item.op, item.inputs, item.output, item.attributes, item.parameters] for item, _ in wanted])
    np.savez_compressed(
        Path(__file__).with_name(f"{given.name}.npz"),
        **{"recipes": np.array(text), **arrays},  # type: ignore[arg-type]
    )


if __name__ == "__main__":
    main()
