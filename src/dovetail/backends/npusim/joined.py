"""Sums that the array computes together with the convolution before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dovetail.backend.arithmetic import Arithmetic
from dovetail.backends.npusim.convolution import Convolution, build_convolution
from dovetail.backends.npusim.kernel import Kernel, NodeContext, Values, given
from dovetail.backends.vip.sums import JoinedSum, joined_sum
from dovetail.ir import AnyArray, Graph


@dataclass(frozen=True, slots=True)
class Joined:
    """Say how a sum runs: its kernel, what that reads, and which tensors nobody makes any more."""

    kernel: Kernel
    inputs: tuple[str, ...]
    unmade: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _JoinedKernel:
    """Run a convolution without storing its result, and add; the other operand is the last input."""

    convolution: Convolution
    joined: JoinedSum

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the stored sum."""
        (steps,) = self.convolution(values[:-1])
        return (self.joined.finish(steps, given(values, len(values) - 1)),)


def joined_kernels(graph: Graph, arithmetic: Arithmetic, threads: int) -> Mapping[str, Joined]:
    """Return the sums that run together with a convolution, by their output."""
    if arithmetic.vip is None:
        return {}
    found: dict[str, Joined] = {}
    for node in graph.nodes:
        joined = joined_sum(graph, node, arithmetic.vip)
        if joined is None:
            continue
        context = NodeContext(graph, joined.convolution, arithmetic, threads)
        convolution = build_convolution(context, joined.made.quant)
        if convolution is not None:
            inputs = (*joined.convolution.inputs, joined.other)
            found[node.outputs[0]] = Joined(_JoinedKernel(convolution, joined), inputs, joined.between)
    return found
