"""Vendor defects that are avoided by keeping tensors in memory; those of one operator are avoided in lowering it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dovetail.backends.verisilicon.generation import NEWEST, Generation
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
_PRODUCTS = _CONVOLUTIONS | {"fully_connected"}
_SHIFTED = _PRODUCTS | {"deconv2d"}
_LAYERS = frozenset({"fully_connected"})
_SUMS = frozenset({"add", "sub"})
_CLAMPS = frozenset({"clip", "relu", "relu6"})
_SLOPES = frozenset({"leaky_relu", "prelu"})
_JOINING = _CLAMPS | _SLOPES
_LOOKED_UP = frozenset(
    {
        *("atan", "celu", "clip", "cos", "elu", "erf", "exp", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu"),
        *("log", "mish", "neg", "prelu", "reciprocal", "rsqrt", "selu", "sigmoid", "sin", "softplus", "softsign"),
        *("sqrt", "swish", "tan", "tanh"),
    }
)
"""What the stream processor has tables of, but for ReLU and Abs."""
_PASSED_BY = frozenset({"data_convert", "pool2d", "reshape", "strided_slice", "transpose"})
_MOVING = frozenset({"concat", "pool2d", "strided_slice", "transpose"})
_TURNED = frozenset({"depth_to_space", "reshape", "space_to_depth", "strided_slice", "transpose"})
_PLANE_AXES = 4
_SCALING = frozenset({"batch_norm", "pool2d", "reduce"})
"""What the array does as a convolution of its own."""


def keep_signed_bytes(
    tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...], part: Part
) -> tuple[ProgramTensor, ...]:
    """Return the tensors with those of signed bytes kept in memory that the compiler would otherwise spoil.

    It turns inner tensors of affine signed bytes into unsigned ones, but custom shader kernels (Max, Div, reductions)
    go on reading them as signed: silent garbage, measured on the SDK of 2025-08. Parts whose array takes unsigned bytes
    only convert every such tensor that the memory holds; one that it does not hold makes v7 parts fail in running, and
    VIP8000's array store 127 throughout where the zero point is negative. A tensor that is not virtual keeps its form.
    Newest parts join a sum with a convolution, and the result is garbage where one before it reads what is kept: such
    sums are kept too, which leaves them alone. Newer parts spoil sums of layers of one row even where nothing is kept
    (V853; T527 and A733 those of two behind ReLUs), and A733 a sigmoid or tanh behind a sum with a convolution that has
    a scale per channel (not other functions).
    """
    spoilt = _spoilt_sizes(tensors, operators, part) | _skipped_bytes(tensors, operators, part)
    spoilt |= _regrouped(tensors, operators) | _moved_products(tensors, operators, part)
    spoilt |= _widened_bytes(tensors, operators)
    spoilt |= _turned_before_slices(tensors, operators)
    signed = {index for index, tensor in enumerate(tensors) if _is_signed_bytes(tensor)}
    inner = {index for index in signed if tensors[index].role is TensorRole.INNER}
    kept = signed - inner | inner & _deep_slices(tensors, operators)
    if part.converts_signed_bytes:
        kept |= inner
    for operator in operators:
        if operator.kind not in _CONVERTED:
            kept |= inner & {*operator.inputs, *operator.outputs}
    if part.generation in NEWEST:
        spoilt |= _turned_factors(tensors, operators)
    if part.generation in (*NEWEST, Generation.STREAM):
        for item in _sums_of_rows(tensors, operators):
            kept |= inner.intersection(item.inputs)
        added = _added_past(tensors, operators)
        spoilt |= added
        kept |= inner & added
    if part.generation is Generation.STREAM:
        past = _read_past(tensors, operators) | _gated_past(tensors, operators) | _clamped_groups(tensors, operators)
        spoilt |= _reshaped_to_layers(tensors, operators) | past
        kept |= inner & past
        kept |= inner & _looked_up_sums(tensors, operators)
    kept |= inner & _converted_products(operators)
    views = _shapes_before_sums(operators)
    while True:
        for view in views:
            kept |= inner.intersection(view.outputs) if view.inputs[0] in kept else set()
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
        replace(tensor, role=TensorRole.EDGE) if index in kept & inner | spoilt else tensor
        for index, tensor in enumerate(tensors)
    )


def _shapes_before_sums(operators: tuple[ProgramOperator, ...]) -> list[ProgramOperator]:
    """Return the changes of shape before sums and products, in order: what is kept is kept with another shape, too."""
    read = {tensor for operator in operators if operator.kind in _ALIKE for tensor in operator.inputs}
    found: list[ProgramOperator] = []
    for operator in reversed(operators):
        if operator.kind == "reshape" and operator.outputs[0] in read:
            read.add(operator.inputs[0])
            found.insert(0, operator)
    return found


def _deep_slices(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return what slices of five axes read and make: of signed bytes inside the graph garbage is found there."""
    return {
        tensor
        for operator in operators
        if operator.kind == "strided_slice" and len(tensors[operator.inputs[0]].shape) > _PLANE_AXES
        for tensor in (operator.inputs[0], operator.outputs[0])
    }


def _turned_before_slices(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return the transposed tensors of five axes that a slice reads: the compiler ends where it turns the slice."""
    turned = {operator.outputs[0] for operator in operators if operator.kind == "transpose"}
    deep = _deep_slices(tensors, operators)
    return {index for index in turned & deep if tensors[index].role is TensorRole.INNER}


def _turned_factors(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return the transposed tensors of 16 bits that a product of two reads.

    The compiler turns such a factor in the product's own shader, which reads it wrongly: measured on V853 and T527.
    """
    turned = {operator.outputs[0] for operator in operators if operator.kind == "transpose"}
    read = {tensor for operator in operators if operator.kind == "matmul" for tensor in operator.inputs}
    return {
        index
        for index in turned & read
        if tensors[index].role is TensorRole.INNER and tensors[index].form.code is Code.I16
    }


def _spoilt_sizes(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...], part: Part) -> set[int]:
    """Return the unsigned bytes inside the graph that Abs or a slope reads: newer parts join it with what made them.

    Abs is garbage then, behind a convolution and an average, and a slope behind an average or a scale per channel is
    multiplied in the array. Measured on V853 and A733; signed bytes and A311D are right.
    """
    if part.generation not in (*NEWEST, Generation.STREAM):
        return set()
    makers = {tensor: operator.kind for operator in operators for tensor in operator.outputs}
    read = {
        operator.inputs[0]
        for operator in operators
        if operator.kind == "abs" or (operator.kind in _SLOPES and makers.get(operator.inputs[0]) in _SCALING)
    }
    forms = ((index, tensors[index]) for index in read)
    return {
        index
        for index, tensor in forms
        if tensor.role is TensorRole.INNER and tensor.form.code is Code.U8 and tensor.form.quant is Quant.AFFINE
    }


def _skipped_bytes(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...], part: Part) -> set[int]:
    """Return the bytes between two conversions that are only seen with another shape, or copied, meanwhile.

    The compiler joins the conversions past a reshape or a copy and skips what is between, its rounding and its ends:
    measured on V853, A311D and i.MX 8M Plus, from 16 bits to 8 and back. Beside a stream processor it does so past what
    is turned, too, and a slice behind that is garbage: all of 16 pairs of neighbours on A733. So are 16 bits that are
    made coarser at once.
    """
    passed = _TURNED if part.generation is Generation.STREAM else frozenset({"reshape"})
    makers = {tensor: operator for operator in operators for tensor in operator.outputs}

    def is_passed(maker: ProgramOperator) -> bool:
        copied = tensors[maker.inputs[0]].form == tensors[maker.outputs[0]].form
        return maker.kind in passed or (maker.kind == "data_convert" and copied)

    found: set[int] = set()
    for item in operators:
        maker = makers.get(item.inputs[0]) if item.kind == "data_convert" else None
        while maker is not None and is_passed(maker):
            maker = makers.get(maker.inputs[0])
        if maker is None or maker.kind != "data_convert":
            continue
        if maker.outputs[0] != item.inputs[0] or tensors[maker.outputs[0]].form.code is Code.I16:
            found.add(maker.outputs[0])
    return {tensor for tensor in found if tensors[tensor].role is TensorRole.INNER}


def _read_past(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return what is read past by the compiler: fixed point that is read twice, and bytes that a slope makes.

    It joins those with the convolution before them: on A733 squares at 16 bits are up to 30 steps off, and half of the
    bytes behind a slope that are looked up in a table, or read twice, up to 250. Operands of two tensors, signed bytes
    that are read twice, and a ReLU right behind a slope are right. It looks through changes of shape, poolings, slices
    and copies, and through poolings and transpositions of the convolution itself, too: bytes are up to five steps off
    then, 16 bits up to eleven.
    """
    makers = {tensor: operator for operator in operators for tensor in operator.outputs}
    found: set[int] = set()
    for item in operators:
        alone = item.kind == "square" or (item.kind in _ALIKE and item.inputs[0] == item.inputs[1])
        clamped = item.kind in _CLAMPS and item.kind not in _LOOKED_UP
        if not (alone or clamped or item.kind in _LOOKED_UP) or item.inputs[0] not in makers:
            continue
        held, maker = tensors[item.inputs[0]], makers[item.inputs[0]]
        moved = False
        while maker.kind in _PASSED_BY and maker.inputs[0] in makers:
            moved = moved or maker.kind in ("pool2d", "transpose")
            maker = makers[maker.inputs[0]]
        slope, moved = maker.kind in _SLOPES, moved and maker.kind in _SHIFTED | _SLOPES
        if held.form.code is Code.U8:
            past = moved or (slope and not clamped)
        elif _is_signed_bytes(held):
            past = (moved or (slope and not clamped)) and not alone
        else:
            past = alone or moved
        if past:
            found.add(item.inputs[0])
    return {tensor for tensor in found if tensors[tensor].role is TensorRole.INNER}


def _clamped_groups(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return the clamped grouped convolutions that a difference reads: on A733 what is taken is not rounded else."""
    grouped = {item.outputs[0] for item in operators if item.kind == "grouped_conv2d"}
    clamped = {item.outputs[0] for item in operators if item.kind in _CLAMPS and item.inputs[0] in grouped}
    read = {tensor for item in operators if item.kind == "sub" for tensor in item.inputs}
    return {tensor for tensor in clamped & read if tensors[tensor].role is TensorRole.INNER}


def _gated_past(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return the sigmoids of something else that a product of two tensors of one shape reads past.

    On A733 they are not rounded before it: up to a quarter of the values are a step off at 8 bits, and half up to 26 at
    16. A gate that is broadcast is right, and one of its own input is one table.
    """
    makers = {tensor: operator for operator in operators for tensor in operator.outputs}

    def source(tensor: int) -> int:
        while tensor in makers and makers[tensor].kind == "reshape":
            tensor = makers[tensor].inputs[0]
        return tensor

    found: set[int] = set()
    for item in operators:
        if item.kind != "mul" or len({tensors[tensor].shape for tensor in item.inputs}) > 1:
            continue
        for tensor, other in (item.inputs, item.inputs[::-1]):
            gate = makers.get(source(tensor))
            if gate is not None and gate.kind == "sigmoid" and source(gate.inputs[0]) != source(other):
                found.add(tensor)
    return {tensor for tensor in found if tensors[tensor].role is TensorRole.INNER}


def _reshaped_to_layers(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return affine signed bytes seen with another shape that are made 16 bits for a layer.

    Of several rows all but the first are garbage else: five of five shapes on A733, and none without the view.
    """
    makers = {tensor: operator for operator in operators for tensor in operator.outputs}
    views = {
        item.outputs[0] for item in operators if item.kind == "reshape" and _is_signed_bytes(tensors[item.outputs[0]])
    }
    found: set[int] = set()
    for layer in operators:
        maker = makers.get(layer.inputs[0]) if layer.kind == "fully_connected" else None
        while maker is not None and maker.kind == "reshape":
            maker = makers.get(maker.inputs[0])
        if maker is not None and maker.kind == "data_convert":
            found.add(maker.inputs[0])
    return {tensor for tensor in found & views if tensors[tensor].role is TensorRole.INNER}


def _widened_bytes(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return the bytes in fixed point that a conversion to 16 bits reads of a product, an average or a ReLU behind one.

    The array would store 16 bits at once, and the rounding to bytes and their ends be skipped: measured on V853, i.MX
    8M Plus, A733 and STM32MP2 behind convolutions of every kind, layers of one row and averages; other bytes are right.
    A311D is, too, where keeping them costs a copy.
    """
    return {
        tensor
        for item in operators
        if item.kind == "data_convert" and tensors[item.outputs[0]].form.code is Code.I16
        for tensor in item.inputs
        if tensors[tensor].role is TensorRole.INNER
        and tensors[tensor].form.code is Code.I8
        and tensors[tensor].form.quant is Quant.FIXED_POINT
    }


def _regrouped(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return what a convolution of groups reads of another one with another number of groups.

    It is garbage on every part and at every precision unless it is kept in memory: measured on V853, A311D and i.MX 8M
    Plus. Equal numbers are right, and so is whatever else is between.
    """
    makers = {tensor: operator for operator in operators for tensor in operator.outputs}
    found: set[int] = set()
    for item in operators:
        maker = makers.get(item.inputs[0]) if item.kind == "grouped_conv2d" else None
        while maker is not None and maker.kind == "reshape":
            maker = makers.get(maker.inputs[0])
        if maker is not None and maker.kind == "grouped_conv2d" and maker.groups != item.groups:
            found |= {maker.outputs[0], item.inputs[0]}
    return {tensor for tensor in found if tensors[tensor].role is TensorRole.INNER}


def _moved_products(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...], part: Part) -> set[int]:
    """Return what is moved, or pooled, of a convolution and read by what the compiler would join with that.

    It puts a slope, a ReLU or a single number behind the convolution and the movement after it, and a constant that is
    added to what is seen with another shape, where nothing else reads that: the rounding between is skipped, and some
    are garbage; measured on V853, A311D, i.MX 8M Plus and RV1126, of bytes. What is kept is computed as it stands. On
    A733 it does so past a conversion of what it turns, too.
    """
    makers = {tensor: operator for operator in operators for tensor in operator.outputs}
    converted = part.generation is Generation.STREAM
    readers = Counter(tensor for operator in operators for tensor in set(operator.inputs))
    found: set[int] = set()
    for item in operators:
        single = item.kind == "mul" and any(math.prod(tensors[tensor].shape) == 1 for tensor in item.inputs)
        added = item.kind == "add" and any(tensors[tensor].role is TensorRole.CONSTANT for tensor in item.inputs)
        moving = _MOVING if single or item.kind in _JOINING else frozenset({"reshape"} if added else ())
        for tensor in item.inputs:
            maker = makers.get(tensor)
            sources = () if maker is None or maker.kind not in moving or readers[tensor] > 1 else maker.inputs
            if any(_maker(makers, source, converted=converted) in _SHIFTED - _LAYERS for source in sources):
                found |= {tensor, *sources} if added else {tensor}
    return {tensor for tensor in found if tensors[tensor].role is TensorRole.INNER}


def _maker(makers: Mapping[int, ProgramOperator], tensor: int, *, converted: bool) -> str:
    """Return the kind of what makes a tensor, or with `converted` what it is converted from."""
    maker = makers.get(tensor)
    if converted and maker is not None and maker.kind == "data_convert":
        maker = makers.get(maker.inputs[0])
    return "" if maker is None else maker.kind


def _added_past(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return the bytes that sums read of convolutions that are pooled, or only seen with another shape.

    Newer parts join the sum with the convolution past that: what is between is not rounded, and of sums of two such it
    is garbage. A copy is joined as well. Measured on V853, T527 and A733.
    """
    makers = {tensor: operator for operator in operators for tensor in operator.outputs}
    readers = Counter(tensor for operator in operators for tensor in set(operator.inputs))
    found: set[int] = set()
    for item in operators:
        for tensor in item.inputs if item.kind in _SUMS else ():
            maker, between = makers.get(tensor), {tensor}
            while maker is not None and maker.kind in ("pool2d", "reshape") and readers[maker.outputs[0]] == 1:
                between |= {*maker.inputs, *maker.outputs}
                maker = makers.get(maker.inputs[0])
            if len(between) > 1 and maker is not None and maker.kind in _SHIFTED - _LAYERS:
                found |= between
    return {tensor for tensor in found if tensors[tensor].role is TensorRole.INNER}


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


def _sums_of_rows(
    tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]
) -> Iterator[ProgramOperator]:
    """Yield the sums of what comes from a product of one row, perhaps clamped or seen with another shape."""
    makers = {tensor: operator for operator in operators for tensor in operator.outputs}
    for item in operators:
        for tensor in item.inputs if item.kind in _SUMS else ():
            maker = makers.get(tensor)
            while maker is not None and maker.kind in ("relu", "reshape"):
                maker = makers.get(maker.inputs[0])
            if maker is None or maker.kind not in _PRODUCTS:
                continue
            shape = tensors[maker.outputs[0]].shape
            if math.prod(shape) == max(shape):
                yield item


def _converted_products(operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return the products that are converted: taken for unsigned bytes, they are off by a step at times."""
    made = {item.outputs[0] for item in operators if item.kind == "mul"}
    return {item.inputs[0] for item in operators if item.kind == "data_convert"} & made


def _looked_up_sums(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return the sums behind products with a scale per channel that a sigmoid or a tanh reads."""
    makers = {tensor: operator for operator in operators for tensor in operator.outputs}
    found: set[int] = set()
    for item in operators:
        maker = makers.get(item.inputs[0]) if item.kind in ("sigmoid", "tanh") else None
        for tensor in maker.inputs if maker is not None and maker.kind in _SUMS else ():
            product = makers.get(tensor)
            while product is not None and product.kind in ("relu", "reshape"):
                product = makers.get(product.inputs[0])
            if product is not None and product.kind in _PRODUCTS and tensors[product.inputs[1]].form.scales:
                found.add(item.inputs[0])
    return found


def _is_signed_bytes(tensor: ProgramTensor) -> bool:
    return tensor.form.code is Code.I8 and tensor.form.quant is Quant.AFFINE
