"""Vendor defects that are avoided for whole programs; those of one operator are avoided where it is lowered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dovetail.backends.verisilicon.generation import NEWEST
from dovetail.backends.verisilicon.part import Part
from dovetail.backends.verisilicon.program import Code, ProgramOperator, ProgramTensor, Quant, TensorRole

_CONVERTED = frozenset(
    {
        "add",
        "concat",
        "conv2d",
        "data_convert",
        "fully_connected",
        "grouped_conv2d",
        "leaky_relu",
        "mul",
        "pad",
        "relu",
        "relu6",
        "reshape",
        "sigmoid",
        "strided_slice",
        "sub",
        "tanh",
        "transpose",
    }
)
"""Operators that follow when the compiler stores signed bytes as unsigned ones inside the graph.

Softmax and poolings follow only as long as they need not be written as a binary network.
"""


_ALIKE = frozenset({"add", "mul", "sub"})
"""Operators whose tensors must all be signed or all unsigned: mixed ones are left to a CPU that a board lacks."""


_CONVOLUTIONS = frozenset({"conv2d", "grouped_conv2d"})
_SUMS = frozenset({"add", "sub"})


def keep_signed_bytes(
    tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...], part: Part
) -> tuple[ProgramTensor, ...]:
    """Return the tensors with those of signed bytes kept in memory that the compiler would otherwise spoil.

    It turns inner tensors of affine signed bytes into unsigned ones, but custom shader kernels (Max, Div, reductions)
    go on reading them as signed: silent garbage, measured on the SDK of 2025-08. Parts whose array takes unsigned bytes
    only convert every such tensor that the memory holds; one that it does not hold makes v7 parts fail in running, and
    VIP8000's array store 127 throughout where the zero point is negative. A tensor that is not virtual keeps its form.
    Newest parts join a sum with a convolution, and the result is garbage where one before it reads what is kept: such
    sums are kept too, which leaves them alone.
    """
    signed = {index for index, tensor in enumerate(tensors) if _is_signed_bytes(tensor)}
    inner = {index for index in signed if tensors[index].role is TensorRole.INNER}
    kept = signed - inner
    if part.converts_signed_bytes:
        kept |= inner
    for operator in operators:
        if operator.kind not in _CONVERTED:
            kept |= inner & {*operator.inputs, *operator.outputs}
    while True:
        mixed = [
            sides & inner - kept
            for operator in operators
            if operator.kind in _ALIKE and (sides := {*operator.inputs, *operator.outputs}) & kept
        ]
        if part.generation in NEWEST:
            mixed += [inner.intersection(item.outputs) - kept for item in _spoilt_sums(operators, kept)]
        if not any(mixed):
            break
        kept = kept.union(*mixed)
    return tuple(
        replace(tensor, role=TensorRole.EDGE) if index in kept & inner else tensor
        for index, tensor in enumerate(tensors)
    )


def _spoilt_sums(operators: tuple[ProgramOperator, ...], kept: set[int]) -> Iterator[ProgramOperator]:
    """Yield the sums behind a convolution, or its ReLU, that reads what is kept."""
    makers = {tensor: operator for operator in operators for tensor in operator.outputs}
    for item in operators:
        for tensor in item.inputs if item.kind in _SUMS else ():
            maker = makers.get(tensor)
            if maker is not None and maker.kind == "relu":
                maker = makers.get(maker.inputs[0])
            if maker is not None and maker.kind in _CONVOLUTIONS and maker.inputs[0] in kept:
                yield item


def _is_signed_bytes(tensor: ProgramTensor) -> bool:
    return tensor.form.code is Code.I8 and tensor.form.quant is Quant.AFFINE
