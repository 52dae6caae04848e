"""The float graph on the grid of a plan: from its weights and biases any min-max quantiser derives the plan's integers.

A weight is what its integer stands for, and the extreme one has, to the last bit, the value that gives the plan's
scale. A bias is what its integer stands for: corrections that the plan holds are in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dovetail.errors import QuantizeError
from dovetail.ir.dtypes import AnyArray, DType
from dovetail.ir.graph import Graph, prune
from dovetail.ir.node import Node
from dovetail.ir.precision import NumberFormat
from dovetail.ir.roles import Role, input_roles
from dovetail.ir.types import Quantization, TensorType, quantize_array
from dovetail.plan.quantized import QuantizedGraph
from dovetail.quantize.parameters import choose_weight_quantization

_BIASES = (DType.I32, DType.I64)
_SAME_SCALE = 1e-6
"""Relative: a few units in the last place of float32."""
_TIE = 1e-4
"""Steps; float32 is off by less than a tenth of it."""
_TRIALS = (0, 1, -1, 2, -2, 3, -3)
"""Units in the last place by which an extreme weight is moved until the scale is the plan's."""


@dataclass(frozen=True, slots=True)
class GridConstant:
    """A float constant that stands for integers of a plan."""

    stored: AnyArray
    kind: TensorType
    derivable: bool
    """Minimum and maximum lead back to the integers, and of a weight to a scale at which its bias is the plan's too.

    False where the plan's range is wider than the weights; of a bias where float32 cannot hold it.
    """


@dataclass(frozen=True, slots=True)
class GridGraph:
    """A float graph on the grid of a plan, and what its constants stand for, by name."""

    graph: Graph
    constants: Mapping[str, GridConstant]
    beyond_32_bits: tuple[str, ...] = ()
    """Biases of which an integer needs more, and the weights beside them: a quantiser with biases of 32 bits takes
    coarser scales."""

    @property
    def hidden_scales(self) -> tuple[str, ...]:
        """Return the weights and operands whose scale has to be handed over."""
        return self._underivable(biases=False)

    @property
    def rounded_biases(self) -> tuple[str, ...]:
        """Return the biases whose integers are too large for float32: they are nearly derived."""
        return self._underivable(biases=True)

    def _underivable(self, biases: bool) -> tuple[str, ...]:
        items = self.constants.items()
        return tuple(name for name, item in items if not item.derivable and (item.kind.dtype in _BIASES) == biases)


def grid_graph(graph: Graph, quantized: QuantizedGraph) -> GridGraph:
    """Return the float graph that a quantised graph was made of, with constants on the grid of its plan.

    A constant that is read in several formats becomes one for each. What the plan leaves in float stays.
    """
    draft = _GridDraft(graph, quantized)
    nodes = tuple(draft.node(node) for node in graph.nodes)
    types = dict(graph.types)
    types.update({name: replace(types[draft.sources[name]], quant=None) for name in draft.values})
    on_grid = graph.evolve(nodes=nodes, types=types, constants={**graph.constants, **draft.values})
    return GridGraph(prune(on_grid), draft.constants, tuple(draft.wide))


class _GridDraft:
    """Collect constants on the grid, each once for every format that something reads it in."""

    def __init__(self, graph: Graph, quantized: QuantizedGraph) -> None:
        self.values: dict[str, AnyArray] = {}
        self.constants: dict[str, GridConstant] = {}
        self.sources: dict[str, str] = {}
        self.wide: dict[str, None] = {}
        self._graph, self._quantized = graph, quantized
        self._names: dict[str, str] = {}
        self._derived: dict[str, Quantization] = {}
        self._versions = self._readings()

    def node(self, node: Node) -> Node:
        """Return a node that reads its constants on the grid."""
        placed = self._quantized.graph.node(node.name)
        precision = self._quantized.placements[node.name].precision
        inputs = list(node.inputs)
        for index, role in enumerate(input_roles(self._graph, node)):
            source, version = node.inputs[index], placed.inputs[index]
            if source not in self._graph.constants or self._quantized.graph.types[version].quant is None:
                continue
            inputs[index] = self._name(source, version)
            self.sources[inputs[index]] = source
            if role is Role.BIAS:
                self._add_bias(inputs[index], inputs[1], version, placed.inputs[0])
            else:
                form = precision.weight if role is Role.WEIGHT else precision.activation
                self._add(inputs[index], source, version, form)
        return replace(node, inputs=tuple(inputs))

    def _readings(self) -> dict[str, set[str]]:
        """Return, by constant, the stored versions that nodes read, and itself where it is read as it is."""
        versions: dict[str, set[str]] = {name: {name} for name in self._graph.outputs}
        for node in self._graph.nodes:
            placed = self._quantized.graph.node(node.name)
            for tensor, version in zip(node.inputs, placed.inputs, strict=True):
                versions.setdefault(tensor, set()).add(version)
            for body in node.bodies():
                for tensor in body.captures:
                    versions.setdefault(tensor, set()).add(tensor)
        return versions

    def _name(self, tensor: str, version: str) -> str:
        """Return the name in the float graph: the constant's own where all read the same version."""
        if len(self._versions[tensor]) == 1:
            return tensor
        if version not in self._names:
            name = version
            while name in self._graph.types or name in self._names.values():
                name += "'"
            self._names[version] = name
        return self._names[version]

    def _add(self, name: str, source: str, version: str, form: NumberFormat) -> None:
        """Keep a weight or an operand, once."""
        if name in self._derived:
            return
        stored, kind = self._quantized.graph.constants[version], self._quantized.graph.types[version]
        reading = _Reading(stored, kind, form)
        original = self._graph.constants[source]
        if original.dtype != np.float32:
            raise QuantizeError(
                f"constant '{source}' is {original.dtype}: only float32 holds the grid of a plan.",
                hint="Convert the model to float32.",
            )
        trials = (reading.with_exact_scale(), reading.with_extremes_of(original))
        value = next((item for item in trials if reading.is_derived_from(item)), trials[0])
        self.values[name] = value
        self.constants[name] = GridConstant(stored, kind, reading.is_derived_from(value))
        self._derived[name] = reading.derive(value)

    def _add_bias(self, name: str, weight: str, version: str, data: str) -> None:
        """Keep a bias; a weight whose derived scale would give another one has a hidden scale."""
        stored, kind = self._quantized.graph.constants[version], self._quantized.graph.types[version]
        scale_of_data = self._quantized.graph.types[data].quant
        assert kind.quant is not None
        assert scale_of_data is not None
        scale = kind.quant.scale_array(stored.ndim)
        value = (stored * scale).astype(np.float32)
        self.values[name] = value
        self.constants[name] = GridConstant(stored, kind, _steps_are(value, scale, stored))
        if np.abs(stored.astype(np.float64)).max(initial=0.0) > np.iinfo(np.int32).max:
            self.wide |= {weight: None, name: None}
        derived = np.float32(scale_of_data.scale[0]) * np.asarray(self._derived[weight].scale, np.float32)
        if self.constants[name].derivable and not _steps_are(value, derived, stored):
            self.constants[weight] = replace(self.constants[weight], derivable=False)


def _steps_are(value: AnyArray, scale: AnyArray, stored: AnyArray) -> bool:
    return bool(np.array_equal(np.rint(value.astype(np.float64) / scale.astype(np.float64)), stored))


@dataclass(frozen=True, slots=True)
class _Reading:
    """How minimum and maximum are read: stored integers, their type, and the scheme of their number format."""

    stored: AnyArray
    kind: TensorType
    form: NumberFormat

    @property
    def quant(self) -> Quantization:
        """Return the quantisation of the plan."""
        assert self.kind.quant is not None
        return self.kind.quant

    def derive(self, value: AnyArray) -> Quantization:
        """Return the quantisation that minimum and maximum give."""
        if self.quant.axis is None:
            per_tensor = replace(self.form, per_channel=False)
            return choose_weight_quantization(value, per_tensor, -1)
        return choose_weight_quantization(value, self.form, self.quant.axis)

    def is_derived_from(self, value: AnyArray) -> bool:
        """Tell whether a float constant leads back to the integers, and to the scale wherever it is not all 0."""
        derived = self.derive(value)
        rank, zero = self.stored.ndim, self.quant.zero_point_array(self.stored.ndim)
        near = np.isclose(derived.scale_array(rank), self.quant.scale_array(rank), rtol=_SAME_SCALE, atol=0.0)
        integers = quantize_array(value, self.kind.dtype, derived)
        same = np.array_equal(integers, self.stored) and np.all(near | (self.stored == zero))
        return bool(same and self._zero_is_certain(value, derived))

    def _zero_is_certain(self, value: AnyArray, derived: Quantization) -> bool:
        """Tell whether every order of rounding gives the same zero point: it is not half way between two."""
        if self.form.symmetric:
            return True
        steps = -min(float(value.min()), 0.0) / derived.scale[0]
        return abs(steps - math.floor(steps) - 0.5) > _TIE

    def with_exact_scale(self) -> AnyArray:
        """Return what the integers stand for, the extremes moved by units in the last place to give the very scale."""
        rank = self.stored.ndim
        zero, wanted = self.quant.zero_point_array(rank), self.quant.scale_array(rank)
        real: AnyArray = ((self.stored - zero) * wanted).astype(np.float32)
        lowest, highest = self.kind.dtype.integer_range
        if self.form.symmetric:
            extreme = np.abs(self.stored.astype(np.int64)) == highest
        else:
            extreme = self.stored == (highest if highest - zero.item() >= zero.item() - lowest else lowest)
        best = real
        missing = np.ones(wanted.shape, bool)
        for steps in _TRIALS:
            moved = np.where(extreme, (real.view(np.int32) + np.int32(steps)).view(np.float32), real)
            exact = missing & (self.derive(moved).scale_array(rank) == wanted)
            best = np.where(exact, moved, best)
            missing = missing & ~exact
            if not missing.any():
                break
        return best

    def with_extremes_of(self, original: AnyArray) -> AnyArray:
        """Return what the integers stand for, with the largest and smallest values of the constant as it was."""
        rank = self.stored.ndim
        real = ((self.stored - self.quant.zero_point_array(rank)) * self.quant.scale_array(rank)).astype(np.float32)
        others = None
        if self.quant.axis is not None:
            others = tuple(axis for axis in range(rank) if axis != self.quant.axis)
        ends = [find(original, axis=others, keepdims=True) for find in (np.min, np.max)]
        return np.where((original == ends[0]) | (original == ends[1]), original, real)
