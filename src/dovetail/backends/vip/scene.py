"""What a rule sees of a node: its types, its graph and the generation of the engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.backend.arithmetic import Vip
from dovetail.backends.vip.table import Scales, scales_of
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType

Values = Sequence[AnyArray | None]
Rule = Callable[[Values], AnyArray]
"""Takes the stored inputs of a node (None where omitted) and returns its stored output."""

_STORED = (DType.U8, DType.I8, DType.I16)
NEWEST = (Vip.VIP9000, Vip.VIP9000_PLUS)
"""Their tensor processor turns every signed byte into an unsigned one, dynamic fixed point too."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One node with the types around it."""

    graph: Graph
    node: Node
    vip: Vip

    @property
    def made(self) -> TensorType:
        """Return the type of the output."""
        return self.graph.types[self.node.outputs[0]]

    def kind(self, index: int) -> TensorType:
        """Return the type of an input."""
        return self.graph.types[self.node.inputs[index]]

    @property
    def is_quantised(self) -> bool:
        """Tell whether the first input and the output are integers with one scale each."""
        first = 1 if self.node.op == "Where" else 0
        return bool(self.node.inputs[first]) and all(is_stored(kind) for kind in (self.kind(first), self.made))

    @property
    def in_fixed_point(self) -> bool:
        """Tell whether the graph's bytes are in dynamic fixed point: none is then turned into an unsigned one."""
        return _in_fixed_point(self.graph)

    def scales(self, index: int = 0) -> tuple[Scales, int]:
        """Return the scales from an input to the output."""
        fixed = self.vip not in NEWEST and self.in_fixed_point
        scales, back = scales_of(self.kind(index), self.made, fixed_point=fixed)
        by_slope = self.vip is Vip.VIP9000_PLUS
        affine_bytes = self.made.dtype is not DType.I16 and not self.in_fixed_point
        return replace(scales, by_slope=by_slope, saturates=by_slope and affine_bytes), back

    def table(self, results: Callable[[AnyArray, Scales], AnyArray], index: int = 0) -> AnyArray:
        """Return the stored results of all stored values of an input, in the order of their bits."""
        kind = self.kind(index)
        assert kind.quant is not None
        scales, back = self.scales(index)
        codes = np.arange(1 << (8 * kind.dtype.size_bytes), dtype=f"u{kind.dtype.size_bytes}")
        steps = codes.view(kind.dtype.carrier).astype(np.float64) - kind.quant.zero_point[0]
        return (results(steps, scales) + back).astype(self.made.dtype.carrier)


def is_stored(kind: TensorType) -> bool:
    """Tell whether a tensor holds integers of up to 16 bits with one scale."""
    return kind.quant is not None and not kind.quant.per_channel and kind.dtype in _STORED


def one_sample(kind: TensorType) -> tuple[int, ...] | None:
    """Return a shape as the vendor sees it: a symbolic batch is run sample by sample."""
    if not kind.shape:
        return kind.static_shape
    first = kind.shape[0] if isinstance(kind.shape[0], int) else 1
    rest = [size for size in kind.shape[1:] if isinstance(size, int)]
    return (first, *rest) if len(rest) == len(kind.shape) - 1 else None


def _in_fixed_point(graph: Graph) -> bool:
    kinds = [kind for kind in graph.types.values() if kind.quant is not None and kind.dtype in (DType.U8, DType.I8)]
    return all(
        kind.dtype is DType.I8
        and kind.quant is not None
        and all(_is_power(scale) for scale in kind.quant.scale)
        and not any(kind.quant.zero_point)
        for kind in kinds
    )


def _is_power(scale: float) -> bool:
    return float(np.frexp(scale)[0]) == 0.5


_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_OLD = (Vip.V7, Vip.V7_BYTES, Vip.VIP8000)


def product_in_shader(graph: Graph, node: Node, vip: Vip) -> bool:
    """Tell whether a shader computes a product of integers, in float32 and without a multiplier of the array.

    Parts with a stream processor give every product to the array: those of two tensors and padded transposed
    convolutions, too.
    """
    if node.domain or node.op not in _PRODUCTS or len(node.inputs) < 2:
        return False
    data, weight = (graph.types[name] for name in node.inputs[:2])
    if data.quant is None or weight.quant is None or vip is Vip.STREAM:
        return False
    wide = data.dtype is DType.I16
    if node.op == "MatMul" and node.inputs[1] not in graph.constants:
        return wide or vip in (Vip.V7, Vip.V7_BYTES)
    if node.op == "ConvTranspose" and any(node.integers("output_padding")) and _fills(node, weight):
        return True
    return (len(weight.quant.scale) > 1 and vip in _OLD) or (wide and vip is Vip.V7_BYTES)


def _fills(node: Node, weight: TensorType) -> bool:
    """Tell whether a transposed convolution's kernels lie side by side, unpadded: only then is more than they give new.

    Measured on kernels of 2, 3 and 4 with strides of 2 and 3: with output padding just these go to a shader.
    """
    kernel, strides = (weight.shape or ())[2:], node.integers("strides")
    plain = not any(node.integers("pads")) and len(strides) == len(kernel)
    return plain and all(isinstance(size, int) and size % step == 0 for size, step in zip(kernel, strides, strict=True))
