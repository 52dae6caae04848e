"""Sums and differences of two byte tensors: in the float adder behind the array, as a convolution, or exact.

Derived on the vendor's simulator from all 65536 pairs of stored values under random scales; equal on every pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from dovetail.backend.arithmetic import Vip
from dovetail.backends.vip.array import OLD, STEPS, held
from dovetail.backends.vip.floats import rounded, single, truncated
from dovetail.backends.vip.scene import NEWEST, Rule, Scene, Values, is_stored, one_sample
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType


class Way(Enum):
    """Name what the vendor's compiler makes of a sum."""

    ADDER = "adder"
    """The second operand joins behind the array's multiplier, in short floats."""
    WEIGHTS = "weights"
    """A convolution of both operands with two byte weights."""
    EXACT = "exact"
    """A shader or the stream processor."""


_WEIGHING = (*OLD, Vip.VIP8000)
"""Parts without the adder: a sum is a convolution."""
_WIDEST_SCALE = 2.0
"""The adder takes operands of at most so many output steps."""
_NEAR, _FAR = 2.0, 20.0
"""Ratios of the operands' scales that make no byte weights any more: where a scale is above 1, and where none is."""
_SIGNED_STEPS = 127
_ADDER_BITS = 10
_STREAM_BITS = 16
_CONSTANT_BITS = 10
"""The second operand's zero point is a constant of the adder with so many significant bits."""
_TINY = 2.0**-6
"""What is smaller only says that something was lost; parts with a stream processor have no such limit."""
_LOST = 2.0**-40
"""Stands for bits that were cut off: more than nothing, less than any step."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """Two operands and an output with their quantisation; `sign` is -1 for a difference."""

    scales: tuple[float, float, float]
    zeros: tuple[int, int, int]
    sign: float
    made: TensorType
    signed: bool
    """The array takes the bytes as they are; at a graph's edges they are turned into unsigned ones first."""

    @property
    def lowest(self) -> int:
        """Return the stored value that the array takes for 0."""
        return 0 if self.signed else self.made.dtype.integer_range[0]

    def finish(self, steps: AnyArray) -> AnyArray:
        """Return stored integers of sums in steps of the output."""
        limits = self.made.dtype.integer_range
        return np.asarray(np.clip(np.rint(steps) + self.zeros[2], *limits).astype(self.made.dtype.carrier))


def sum_rule(scene: Scene) -> Rule | None:
    """Return how a sum of two byte tensors is computed, or None where that is exact."""
    found = _operands(scene)
    if found is None:
        return None
    way = _way(scene, found)
    # Unsigned bytes that the graph takes or gives are a shader's, unless a convolution takes the sum.
    if way is Way.EXACT or (scene.vip in NEWEST and found.made.dtype is DType.U8 and not _inside(scene)):
        return None
    lowest, highest = found.made.dtype.integer_range
    every = np.arange(lowest, highest + 1, dtype=np.float64)
    first, second = every[:, None], every[None, :]
    grid = _weighted(found, first, second, scene.vip) if way is Way.WEIGHTS else _added(found, first, second, scene.vip)
    entries = np.ascontiguousarray(grid).reshape(-1)

    def rule(values: Values) -> AnyArray:
        left, right = values
        assert left is not None
        assert right is not None
        # The place of a value among all of its type: 0 for the lowest.
        high = (left.view(np.uint8) ^ _flip(left)).astype(np.uint16) << np.uint16(8)
        return np.take(entries, high | (right.view(np.uint8) ^ _flip(right)))

    return rule


def _flip(stored: AnyArray) -> np.uint8:
    return np.uint8(0x80 if stored.dtype.kind == "i" else 0)


def _operands(scene: Scene) -> _Sum | None:
    """Return the operands of a sum that no shader computes, or None."""
    dtype, names = scene.made.dtype, scene.node.inputs
    unsigned = dtype is DType.U8 and (scene.vip not in _WEIGHING or _inside(scene))
    if not (unsigned or dtype is DType.I8) or scene.in_fixed_point or len(names) != 2 or names[0] == names[1]:
        return None
    kinds = (scene.kind(0), scene.kind(1))
    if not all(is_stored(kind) and kind.dtype is dtype for kind in kinds) or one_sample(kinds[0]) != one_sample(
        kinds[1]
    ):
        return None
    quants = [kind.quant for kind in (*kinds, scene.made) if kind.quant is not None]
    scales, zeros = [quant.scale[0] for quant in quants], [quant.zero_point[0] for quant in quants]
    sign = -1.0 if scene.node.op == "Sub" else 1.0
    signed = scene.vip in NEWEST and (unsigned or not _at_edge(scene))
    return _Sum((scales[0], scales[1], scales[2]), (zeros[0], zeros[1], zeros[2]), sign, scene.made, signed)


def _inside(scene: Scene) -> bool:
    """Tell whether the graph neither takes nor gives an operand."""
    return {*scene.graph.inputs, *scene.graph.outputs}.isdisjoint(scene.node.inputs)


def _at_edge(scene: Scene) -> set[str]:
    """Return which tensors of a node keep their form, as those do that the graph takes or gives."""
    return {*scene.node.inputs, *scene.node.outputs} & (kept_bytes(scene.graph) | {*scene.graph.constants})


_FOLLOWING = frozenset(
    {
        *("Add", "Clip", "Concat", "Conv", "Flatten", "Gemm", "Identity", "LeakyRelu", "MatMul", "Mul", "Pad", "Relu"),
        *("Requantize", "Reshape", "Sigmoid", "Slice", "Squeeze", "Sub", "Sum", "Tanh", "Transpose", "Unsqueeze"),
    }
)
"""Operators that take bytes as the array does; what others touch keeps its form."""
_ALIKE = frozenset({"Add", "Mul", "Sub", "Sum"})
"""Operators of which all tensors keep their form when one does."""


def kept_bytes(graph: Graph) -> set[str]:
    """Return the tensors of signed bytes that are stored as they are, between partitions and inside one."""
    kept = {*graph.inputs, *graph.outputs}
    for node in graph.nodes:
        if node.op not in _FOLLOWING:
            kept |= {*node.inputs, *node.outputs}
    sides = [
        {name for name in (*node.inputs, *node.outputs) if name and name not in graph.constants}
        for node in graph.nodes
        if node.op in _ALIKE and graph.types[node.outputs[0]].dtype is DType.I8
    ]
    while True:
        more = set().union(*(side for side in sides if side & kept)) - kept
        if not more:
            return kept
        kept |= more


def _way(scene: Scene, found: _Sum) -> Way:
    rank = scene.made.rank or 0
    first, second, made = found.scales
    if scene.vip not in _WEIGHING:
        flat = rank < 3 and scene.vip is not Vip.STREAM
        if not flat and float(single(max(first, second) / made)) <= _WIDEST_SCALE:
            return Way.ADDER
    fixed = any(name in scene.graph.constants for name in scene.node.inputs)
    if rank < 4 or fixed or (scene.vip is Vip.STREAM and found.made.dtype is not DType.I8):
        return Way.EXACT
    if scene.vip in NEWEST and 0 < len(_at_edge(scene)) < 3:
        return Way.EXACT
    ratio = max(first, second) / min(first, second)
    return Way.WEIGHTS if ratio < (_NEAR if max(first, second) > 1.0 else _FAR) else Way.EXACT


def _weighted(found: _Sum, first: AnyArray, second: AnyArray, vip: Vip) -> AnyArray:
    """Return the sum as a convolution: what the zero points differ is an integer bias from the unrounded weights."""
    factor = found.sign * found.scales[1] / found.scales[0]
    weights, step = (_signed_weights if found.signed else _byte_weights)((1.0, factor))
    bias = float(np.rint(factor * (found.zeros[0] - found.zeros[1]) / step))
    multiplier = held(step, found.scales[0], found.scales[2], vip)
    total = (first - found.zeros[0]) * weights[0] + (second - found.zeros[0]) * weights[1] + bias
    return found.finish(total * multiplier)


def _byte_weights(weights: Sequence[float]) -> tuple[list[int], float]:
    """Return weights as integers around a zero point, and the size of a step."""
    low, high = min(0.0, *weights), max(0.0, *weights)
    step = float(single((high - low) / STEPS))
    zero = int(np.clip(np.rint(-low / step), 0, STEPS))
    return [int(np.clip(np.rint(weight / step) + zero, 0, STEPS)) - zero for weight in weights], step


def _signed_weights(weights: Sequence[float]) -> tuple[list[int], float]:
    """Return weights as integers of either sign, and the size of a step."""
    step = float(single(max(abs(weight) for weight in weights) / _SIGNED_STEPS))
    return [int(np.rint(weight / step)) for weight in weights], step


def _added(found: _Sum, first: AnyArray, second: AnyArray, vip: Vip) -> AnyArray:
    """Return the sum of stored operands in the adder; the first is centred before it is multiplied."""
    return _joined(found, (first - found.zeros[0]) * (found.scales[0] / found.scales[2]), second, vip)


def _joined(found: _Sum, steps: AnyArray, second: AnyArray, vip: Vip) -> AnyArray:
    """Return the sum of three terms in short floats: steps of the output, and the second operand with its zero point.

    The second operand is multiplied as it is stored, so its zero point is a term of its own.
    """
    scale = found.scales[1] / found.scales[2]
    term = found.sign * (second - found.lowest) * scale
    constant = np.asarray(-found.sign * rounded(np.asarray((found.zeros[1] - found.lowest) * scale), _CONSTANT_BITS))
    if vip is Vip.STREAM:
        return found.finish(_plus(_plus(steps, term, _STREAM_BITS, 0.0), constant, _STREAM_BITS, 0.0))
    return found.finish(_plus(_plus(steps, constant, _ADDER_BITS, _TINY), term, _ADDER_BITS, _TINY))


@dataclass(frozen=True, slots=True)
class JoinedSum:
    """A sum that the compiler joins to the convolution before it: one operand is never stored.

    The accumulators are scaled to steps of the sum's output, limited to what the operand could hold, and added.
    """

    convolution: Node
    between: tuple[str, ...]
    """Tensors that are not made: the convolution's output, and its ReLU's."""
    other: str
    made: TensorType
    limits: tuple[float, float]
    parts: _Sum
    vip: Vip

    def finish(self, steps: AnyArray, other: AnyArray) -> AnyArray:
        """Return the stored sum of a convolution in steps of the output, and the stored other operand."""
        return _joined(self.parts, np.clip(steps, *self.limits), other.astype(np.float64), self.vip)


def joined_sum(graph: Graph, node: Node, vip: Vip) -> JoinedSum | None:
    """Return a sum that is computed with the convolution of an operand, or None; of two the earlier convolution."""
    if vip not in NEWEST or node.domain or node.op not in ("Add", "Sum") or len(node.outputs) != 1:
        return None
    scene = Scene(graph, node, vip)
    found = _operands(scene) if scene.is_quantised else None
    if found is None or not found.signed or _way(scene, found) is not Way.ADDER:
        return None
    chains = [(_made_by_convolution(graph, name), index) for index, name in enumerate(node.inputs)]
    joined = [(chain, index) for chain, index in chains if chain is not None]
    if not joined:
        return None
    chain, index = min(joined, key=lambda item: graph.nodes.index(item[0][0]))
    order = (index, 1 - index)
    scales = (*(found.scales[at] for at in order), found.scales[2])
    zeros = (*(found.zeros[at] for at in order), found.zeros[2])
    parts = replace(found, scales=(scales[0], scales[1], scales[2]), zeros=(zeros[0], zeros[1], zeros[2]))
    limits = [(edge - zeros[0]) * scales[0] / scales[2] for edge in found.made.dtype.integer_range]
    if len(chain) > 1:
        limits[0] = max(limits[0], 0.0)
    between = tuple(step.outputs[0] for step in chain)
    return JoinedSum(chain[0], between, node.inputs[1 - index], found.made, (limits[0], limits[1]), parts, vip)


def _made_by_convolution(graph: Graph, name: str) -> tuple[Node, ...] | None:
    """Return the convolution, and its ReLU, that make a tensor for one reader only."""
    chain: list[Node] = []
    while True:
        maker = graph.producers.get(name)
        if maker is None or len(graph.consumers.get(name, ())) != 1 or name in graph.outputs:
            return None
        chain.insert(0, maker)
        if maker.domain or maker.op not in ("Conv", "Relu") or len(chain) > 2:
            return None
        if maker.op == "Conv":
            return tuple(chain)
        name = maker.inputs[0]


def _plus(one: AnyArray, other: AnyArray, bits: int, tiny: float) -> AnyArray:
    """Add floats cut to some significant bits; what is cut off only leaves a trace, which breaks ties.

    A zero leaves the other operand whole. The smaller of two operands of unlike signs borrows one of its own last
    places when it was cut.
    """
    one, other = np.broadcast_arrays(one, other)
    swapped = np.abs(one) < np.abs(other)
    large, small = np.where(swapped, other, one), np.where(swapped, one, other)
    high, low = np.abs(large), np.abs(small)
    kept_high, kept_low = truncated(high, bits), truncated(low, bits)
    cut_low = kept_low != low
    trace = np.where(cut_low | (kept_high != high), _LOST, 0.0)
    place = np.ldexp(1.0, np.frexp(low)[1] - bits)
    apart = kept_high - kept_low - np.where(cut_low, place, 0.0)
    total = np.where(large * small < 0, apart, kept_high + kept_low) + trace
    total = np.where(low < tiny, kept_high + _LOST, total)
    return np.where(small == 0, large, np.sign(large) * total)
