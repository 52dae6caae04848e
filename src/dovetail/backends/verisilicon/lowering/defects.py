"""Vendor defects that are avoided for whole programs; those of one operator are avoided where it is lowered."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dovetail.backends.verisilicon.generation import CONVERTING, NEWEST, OLDEST, Generation
from dovetail.backends.verisilicon.lowering.view import ProgramDraft
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
_MOVING = frozenset({"concat", "pool2d", "strided_slice", "transpose"})
_PASSED = frozenset({"clip", "relu", "reshape"})
_MOST_AVERAGE = 1
"""Kinds of poolings up to this one are averages."""
_SCALING = frozenset({"batch_norm", "pool2d", "reduce"})
"""What the array does as a convolution of its own."""


def with_own_copies(draft: ProgramDraft, outputs: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Return the outputs, with a copy for each that the program also reads; the draft gets their operators.

    The vendor's compiler joins what makes such a tensor with what reads it, or makes it only a view, and then nothing
    fills the output: a sigmoid and the product that it gates on T527, a slice before a convolution or a concatenation
    on RK1808 and A311D. A copy is a reader more, and what has two is neither joined nor a view.
    """
    made = {tensor: index for index, operator in enumerate(draft.operators) for tensor in operator.outputs}
    read = {tensor for operator in draft.operators for tensor in operator.inputs}
    found: list[tuple[str, int]] = []
    for name, tensor in outputs:
        if tensor not in read or tensor not in made:
            found.append((name, tensor))
            continue
        held, node = draft.tensors[tensor], draft.operators[made[tensor]].node
        draft.tensors.append(held)
        draft.tensors[tensor] = replace(held, role=TensorRole.INNER)
        draft.operators.append(ProgramOperator("data_convert", (tensor,), (len(draft.tensors) - 1,), node=node))
        found.append((name, len(draft.tensors) - 1))
    return tuple(found)


def with_copies_of_moved(draft: ProgramDraft) -> None:
    """Copy what a ReLU reads of a transposed product, and a slope of joined ones: else the compiler dies of it.

    Measured on V853, A311D, i.MX 8M Plus and RV1126, of unsigned bytes and of 16 bits; to keep it in memory helps
    signed bytes alone.
    """
    makers = {tensor: operator for operator in draft.operators for tensor in operator.outputs}
    operators: list[ProgramOperator] = []
    for item in draft.operators:
        moved = makers.get(item.inputs[0]) if item.inputs else None
        kinds = _CLAMPS if moved is not None and moved.kind == "transpose" else _SLOPES
        moved = moved if moved is not None and moved.kind in ("concat", "transpose") and item.kind in kinds else None
        if moved is not None and any(source in makers and makers[source].kind in _SHIFTED for source in moved.inputs):
            copy = _copy(draft, operators, item, item.inputs[0])
            item = replace(item, inputs=(copy, *item.inputs[1:]))
        operators.append(item)
    draft.operators[:] = operators


def with_copies_of_pooled(draft: ProgramDraft) -> None:
    """Copy what a clamp reads of a pooled product in unsigned bytes: the compiler joins the two, and loses the result.

    Of a maximum that is where the product is stored as the clamp's result is. Measured on six parts with a convolution,
    a pooling of either kind, a ReLU or a clip of 6, and seven kinds of readers.
    """
    makers = {tensor: operator for operator in draft.operators for tensor in operator.outputs}
    operators: list[ProgramOperator] = []
    for item in draft.operators:
        pooled = makers.get(item.inputs[0]) if item.kind in _CLAMPS else None
        if pooled is not None and pooled.kind == "pool2d" and _is_clamped_before(draft, makers, pooled, item):
            copy = _copy(draft, operators, item, item.inputs[0])
            item = replace(item, inputs=(copy, *item.inputs[1:]))
        operators.append(item)
    draft.operators[:] = operators


def _is_clamped_before(
    draft: ProgramDraft, makers: Mapping[int, ProgramOperator], pooled: ProgramOperator, clamp: ProgramOperator
) -> bool:
    """Tell whether the compiler clamps a product before it is pooled."""
    product = makers.get(pooled.inputs[0])
    stored, result = draft.tensors[pooled.inputs[0]].form, draft.tensors[clamp.outputs[0]].form
    if product is None or product.kind not in _SHIFTED or result.code is not Code.U8:
        return False
    return pooled.ints[0] <= _MOST_AVERAGE or stored == result


def with_copies_of_added(draft: ProgramDraft) -> None:
    """Copy what a sum of unsigned bytes reads of a pooling, or of a clamped convolution seen with another shape.

    Newer parts join the sum with either past that: what is between is not rounded, even where it is kept. Measured on
    V853, T527 and A733. In older ones it is a convolution seen with another shape that is added to a convolution, of
    which their compiler does not end, or to a slice, which gets other bytes: on A311D, i.MX 8M Plus and RV1126.
    """
    newer = draft.part.generation not in CONVERTING
    makers = {tensor: operator for operator in draft.operators for tensor in operator.outputs}
    operators: list[ProgramOperator] = []
    for item in draft.operators:
        inputs = list(item.inputs)
        for place, tensor in enumerate(item.inputs if item.kind in _SUMS else ()):
            held, other = draft.tensors[tensor], item.inputs[1 - place]
            spoilt = _is_added_past(makers, tensor) if newer else _is_added_to_a_part(makers, tensor, other)
            if held.form.code is Code.U8 and spoilt:
                inputs[place] = _copy(draft, operators, item, tensor)
        operators.append(replace(item, inputs=tuple(inputs)))
    draft.operators[:] = operators


def with_copies_of_gates(draft: ProgramDraft) -> None:
    """Copy the sigmoid of a gate for a reduction: the vendor's compiler does not count a view as a reader.

    It makes a table of the sigmoid and the product, and nothing fills what is reduced. Measured on V853 and A311D.
    """
    makers = {tensor: operator for operator in draft.operators for tensor in operator.outputs}
    products = [set(operator.inputs) for operator in draft.operators if operator.kind == "mul"]
    operators: list[ProgramOperator] = []
    for item in draft.operators:
        gate = makers.get(item.inputs[0]) if item.kind == "reduce" else None
        if gate is not None and gate.kind == "sigmoid" and {*gate.inputs, *gate.outputs} in products:
            copy = _copy(draft, operators, item, item.inputs[0])
            item = replace(item, inputs=(copy, *item.inputs[1:]))
        operators.append(item)
    draft.operators[:] = operators


def _copy(draft: ProgramDraft, operators: list[ProgramOperator], reader: ProgramOperator, tensor: int) -> int:
    """Add an operator that copies a tensor for a reader; return the copy."""
    draft.tensors.append(replace(draft.tensors[tensor], role=TensorRole.INNER))
    copy = len(draft.tensors) - 1
    operators.append(ProgramOperator("data_convert", (tensor,), (copy,), node=reader.node))
    return copy


def _is_added_to_a_part(makers: Mapping[int, ProgramOperator], tensor: int, other: int) -> bool:
    """Tell whether a tensor is a convolution seen with another shape, and the other one a convolution or a slice."""
    maker, added = makers.get(tensor), makers.get(other)
    if maker is None or maker.kind != "reshape" or added is None:
        return False
    while maker is not None and maker.kind == "reshape":
        maker = makers.get(maker.inputs[0])
    convolved = maker is not None and maker.kind in _SHIFTED - _LAYERS
    return convolved and (added.kind == "strided_slice" or added.kind in _SHIFTED - _LAYERS)


def _is_added_past(makers: Mapping[int, ProgramOperator], tensor: int) -> bool:
    """Tell whether a tensor is pooled, or a convolution with a ReLU that is seen with another shape."""
    passed, maker = set[str](), makers.get(tensor)
    while maker is not None and maker.kind in _PASSED:
        passed.add(maker.kind)
        maker = makers.get(maker.inputs[0])
    convolved = maker is not None and maker.kind in _SHIFTED - _LAYERS
    return maker is not None and (maker.kind == "pool2d" or (convolved and passed > {"reshape"}))


def with_coarse_results(draft: ProgramDraft) -> None:
    """Let the array of v7 parts store 16 bits no finer than its sums, and convert what has to be finer.

    Sums that are shifted to the left become the least number where they are negative: measured on A311D with shifts of
    1 to 8, every one. The conversion loses nothing.
    """
    if draft.part.generation is not Generation.V7:
        return
    operators: list[ProgramOperator] = []
    for item in draft.operators:
        operators.append(item)
        if item.kind not in _SHIFTED:
            continue
        (out,), tensors = item.outputs, draft.tensors
        bits, form = sum(tensors[tensor].form.fl for tensor in item.inputs[:2]), tensors[out].form
        if form.code is Code.I16 and form.quant is Quant.FIXED_POINT and form.fl > bits:
            tensors.append(replace(tensors[out], form=replace(form, fl=bits), role=TensorRole.EDGE))
            operators[-1] = replace(item, outputs=(len(tensors) - 1,))
            operators.append(ProgramOperator("data_convert", (len(tensors) - 1,), (out,), node=item.node))
    draft.operators[:] = operators


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
    spoilt = _spoilt_sizes(tensors, operators, part) | _skipped_bytes(tensors, operators)
    spoilt |= _regrouped(tensors, operators) | _moved_products(tensors, operators)
    if part.generation not in OLDEST:
        spoilt |= _widened_bytes(tensors, operators)
    signed = {index for index, tensor in enumerate(tensors) if _is_signed_bytes(tensor)}
    inner = {index for index in signed if tensors[index].role is TensorRole.INNER}
    kept = signed - inner
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
        kept |= inner & _looked_up_sums(tensors, operators)
    kept |= inner & _converted_products(operators)
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
        replace(tensor, role=TensorRole.EDGE) if index in kept & inner | spoilt else tensor
        for index, tensor in enumerate(tensors)
    )


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


def _skipped_bytes(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return the bytes between two conversions that are only seen with another shape, or copied, meanwhile.

    The compiler joins the conversions past a reshape or a copy and skips what is between, its rounding and its ends:
    measured on V853, A311D and i.MX 8M Plus, from 16 bits to 8 and back.
    """
    makers = {tensor: operator for operator in operators for tensor in operator.outputs}

    def is_passed(maker: ProgramOperator) -> bool:
        copied = tensors[maker.inputs[0]].form == tensors[maker.outputs[0]].form
        return maker.kind == "reshape" or (maker.kind == "data_convert" and copied)

    found: set[int] = set()
    for item in operators:
        maker = makers.get(item.inputs[0]) if item.kind == "data_convert" else None
        while maker is not None and is_passed(maker):
            maker = makers.get(maker.inputs[0])
        if maker is not None and maker.kind == "data_convert" and maker.outputs[0] != item.inputs[0]:
            found.add(maker.outputs[0])
    return {tensor for tensor in found if tensors[tensor].role is TensorRole.INNER}


def _widened_bytes(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return the bytes in fixed point that a conversion to 16 bits reads of a product, an average or a ReLU behind one.

    The array would store 16 bits at once, and the rounding to bytes and their ends be skipped: measured on V853, i.MX
    8M Plus and A733 behind convolutions of every kind, layers of one row and averages; other bytes and A311D are right.
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


def _moved_products(tensors: tuple[ProgramTensor, ...], operators: tuple[ProgramOperator, ...]) -> set[int]:
    """Return what is moved, or pooled, of a convolution and read by what the compiler would join with that.

    It puts a slope, a ReLU or a single number behind the convolution and the movement after it, and a constant that is
    added to what is seen with another shape, where nothing else reads that: the rounding between is skipped, and some
    are garbage; measured on V853, A311D, i.MX 8M Plus and RV1126, of bytes. What is kept is computed as it stands.
    """
    makers = {tensor: operator for operator in operators for tensor in operator.outputs}
    readers = Counter(tensor for operator in operators for tensor in set(operator.inputs))
    found: set[int] = set()
    for item in operators:
        single = item.kind == "mul" and any(math.prod(tensors[tensor].shape) == 1 for tensor in item.inputs)
        added = item.kind == "add" and any(tensors[tensor].role is TensorRole.CONSTANT for tensor in item.inputs)
        moving = _MOVING if single or item.kind in _JOINING else frozenset({"reshape"} if added else ())
        for tensor in item.inputs:
            maker = makers.get(tensor)
            sources = () if maker is None or maker.kind not in moving or readers[tensor] > 1 else maker.inputs
            if any(source in makers and makers[source].kind in _SHIFTED - _LAYERS for source in sources):
                found |= {tensor, *sources} if added else {tensor}
    return {tensor for tensor in found if tensors[tensor].role is TensorRole.INNER}


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
