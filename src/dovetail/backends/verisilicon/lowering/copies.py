"""Vendor defects that a copy avoids: what has a reader more is neither joined nor only a view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import replace

from dovetail.backends.verisilicon.generation import CONVERTING, NEWEST, Generation
from dovetail.backends.verisilicon.lowering.view import ProgramDraft
from dovetail.backends.verisilicon.program import Code, ProgramOperator, ProgramTensor, Quant, TensorRole

_PRODUCTS = frozenset({"conv2d", "grouped_conv2d", "fully_connected"})
_CONVOLUTIONS = frozenset({"conv2d", "grouped_conv2d"})
_SHIFTED = _PRODUCTS | {"deconv2d"}
_LAYERS = frozenset({"fully_connected"})
_SUMS = frozenset({"add", "sub"})
_EXTREMES = frozenset({"maximum", "minimum"})
_OF_TWO = _SUMS | _EXTREMES | {"mul"}
_CLAMPS = frozenset({"clip", "relu", "relu6"})
_SLOPES = frozenset({"leaky_relu", "prelu"})
_PASSED = frozenset({"clip", "relu", "reshape"})
_VIEWING = _EXTREMES | {"reduce"}
"""What reads its operands through views of them."""
_LOST_BEFORE = {
    "atan": frozenset({"neg", "transpose"}),
    "softplus": frozenset({"clip", "concat", "relu", "reshape"}),
}
"""Functions of products that get lost before some readers, beside a stream processor."""
_LOST_BEFORE_TWO = frozenset({"atan", "celu", "gelu", "neg", "reciprocal", "selu"})
_LOST_BEFORE_EXTREMES = frozenset({"elu", "erf", "mish", "softsign"})
"""Those of 16 bits that get lost before any operator of two tensors, and before an extreme."""
_PLANE_AXES = 4
_LONGEST_ROW = 8191
"""Elements, with pads, of which a convolution that is joined with a sum is right."""
_MOST_AVERAGE = 1
"""Kinds of poolings up to this one are averages."""


def with_own_copies(draft: ProgramDraft, outputs: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Return the outputs, with a copy for each that the program also reads; the draft gets their operators.

    The vendor's compiler joins what makes such a tensor with what reads it, or makes it only a view, and then nothing
    fills the output: a sigmoid and the product that it gates on T527, a slice before a convolution or a concatenation
    on RK1808 and A311D. A copy is a reader more, and what has two is neither joined nor a view. A slice of what is
    transposed is copied as an output, too: compilers end of it, or fill it with something else.
    """
    made = {tensor: index for index, operator in enumerate(draft.operators) for tensor in operator.outputs}
    read = {tensor for operator in draft.operators for tensor in operator.inputs}
    found: list[tuple[str, int]] = []
    for name, tensor in outputs:
        if (tensor not in read and not _is_slice_of_turned(draft, made, tensor)) or tensor not in made:
            found.append((name, tensor))
            continue
        held, node = draft.tensors[tensor], draft.operators[made[tensor]].node
        draft.tensors.append(held)
        draft.tensors[tensor] = replace(held, role=TensorRole.INNER)
        draft.operators.append(ProgramOperator("data_convert", (tensor,), (len(draft.tensors) - 1,), node=node))
        found.append((name, len(draft.tensors) - 1))
    return tuple(found)


def _is_slice_of_turned(draft: ProgramDraft, made: Mapping[int, int], tensor: int) -> bool:
    """Tell whether a tensor is a slice of one that a transposition makes."""
    maker = draft.operators[made[tensor]] if tensor in made else None
    source = None if maker is None or maker.kind != "strided_slice" else made.get(maker.inputs[0])
    return source is not None and draft.operators[source].kind == "transpose"


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

    What is added to a convolution, and read by another one with strides and pads, is copied, too.

    Of long rows newer parts join a convolution with the sum, past any copy, and what comes out is garbage; of 16 bits
    it is A733.
    """
    newer = draft.part.generation not in CONVERTING
    joined = (Code.U8, Code.I8, *([Code.I16] if draft.part.generation is Generation.STREAM else ()))
    makers = {tensor: operator for operator in draft.operators for tensor in operator.outputs}
    operators: list[ProgramOperator] = []
    for item in draft.operators:
        inputs = list(item.inputs)
        for place, tensor in enumerate(item.inputs if item.kind in _SUMS else ()):
            held, other = draft.tensors[tensor], item.inputs[1 - place]
            spoilt = _is_added_past(makers, tensor) if newer else _is_added_to_a_part(makers, tensor, other)
            padded = not newer and place == 1 and _is_padded_for_strides(draft, makers, tensor, other)
            spoilt |= _is_misread_slice(draft, makers, tensor, first=item.kind == "sub" and place == 0)
            if newer and held.form.code in joined and _is_of_long_rows(draft, makers, tensor):
                inputs[place] = _multiplied_by_one(draft, operators, item, tensor)
            elif (held.form.code is Code.U8 and spoilt) or (held.form.code in (Code.U8, Code.I8) and padded):
                inputs[place] = _copy(draft, operators, item, tensor)
        operators.append(replace(item, inputs=tuple(inputs)))
    draft.operators[:] = operators


def with_copies_of_concatenations(draft: ProgramDraft) -> None:
    """Copy a concatenation that is transposed for its sums: the compiler joins them, and nothing fills the other one.

    Measured on i.MX 8M Plus, RV1126 and, of 16 bits, V853, with five kinds of convolutions, a ReLU or a pooling behind
    them; where the other operand is no function of a product nothing is lost.
    """
    makers = {tensor: operator for operator in draft.operators for tensor in operator.outputs}
    sources = (_seen_past_shapes(makers, item.inputs[0]) for item in draft.operators if item.kind == "transpose")
    turned = {source.outputs[0] for source in sources if source is not None and source.kind == "concat"}
    _copy_read(draft, _SUMS, turned.__contains__)


def with_copies_of_gates(draft: ProgramDraft) -> None:
    """Copy the sigmoid of a gate for a reduction or an extreme: the vendor's compiler does not count what it views.

    It makes a table of the sigmoid and the product, and nothing fills what is reduced. Measured on V853 and A311D, of
    extremes of two tensors on those, i.MX 8M Plus, STM32MP2 and A733, at 8 and at 16 bits.
    """
    makers = {tensor: operator for operator in draft.operators for tensor in operator.outputs}
    products = [set(operator.inputs) for operator in draft.operators if operator.kind == "mul"]

    def lost(tensor: int) -> bool:
        gate = makers.get(tensor)
        return gate is not None and gate.kind == "sigmoid" and {*gate.inputs, *gate.outputs} in products

    _copy_read(draft, _VIEWING, lost)


def with_copies_of_slices(draft: ProgramDraft) -> None:
    """Copy a slice for a convolution with groups where somebody else sees it with another shape.

    Parts with a stream processor lay the slice out for the convolution, and what is seen is garbage; of signed bytes
    the compiler dies before a product. Measured on A733, of seven convolutions and three precisions: those of each
    channel alone, transposed ones and what else makes the tensor are right.
    """
    if draft.part.generation is not Generation.STREAM:
        return
    sliced = {operator.outputs[0] for operator in draft.operators if operator.kind == "strided_slice"}
    seen = sliced & {operator.inputs[0] for operator in draft.operators if operator.kind == "reshape"}
    _copy_read(draft, ("grouped_conv2d",), seen.__contains__)


def with_copies_of_joined(draft: ProgramDraft) -> None:
    """Copy what newer parts would join an operator of two tensors with, past what lies between them.

    Behind a convolution that is its maximum or absolute, or a clamp of one with groups. Where it loses a function of a
    convolution, a slope or an average, past any copy, a product with one is between. Without a stream processor it is
    in sums of bytes alone. Measured on A733 of 27 functions behind five kinds of products, in sums, differences,
    products and extremes at four precisions, and of two functions before eight other readers; of sums on V853 and T527.
    """
    if draft.part.generation in CONVERTING:
        return
    makers = {tensor: operator for operator in draft.operators for tensor in operator.outputs}
    readers = Counter(tensor for operator in draft.operators for tensor in operator.inputs)
    operators: list[ProgramOperator] = []
    for item in draft.operators:
        inputs = list(item.inputs)
        for place, tensor in enumerate(item.inputs):
            if readers[tensor] > 1 or not _is_joined_by(draft, makers, item, tensor):
                continue
            if _is_joined_past(draft, makers, item, tensor):
                inputs[place] = _copy(draft, operators, item, tensor)
            elif _is_lost(draft, makers, item, tensor):
                inputs[place] = _multiplied_by_one(draft, operators, item, tensor)
        operators.append(replace(item, inputs=tuple(inputs)))
    draft.operators[:] = operators


def _is_joined_by(
    draft: ProgramDraft, makers: Mapping[int, ProgramOperator], reader: ProgramOperator, tensor: int
) -> bool:
    """Tell whether a newer part joins a reader with functions of products in a tensor's type.

    An operator of two tensors it joins where both are of one shape, and neither is a constant; sums with absolutes even
    where they are not.
    """
    operands = [draft.tensors[operand] for operand in reader.inputs if operand >= 0]
    absolute = reader.kind in _SUMS and tensor in makers and makers[tensor].kind == "abs"
    alike = len({operand.shape for operand in operands}) == 1 and not any(operand.data for operand in operands)
    if reader.kind in _OF_TWO and not (alike or absolute):
        return False
    form, stream = draft.tensors[tensor].form, draft.part.generation is Generation.STREAM
    if form.code is Code.I8:
        return form.quant is Quant.FIXED_POINT and (stream or reader.kind in _SUMS)
    if form.code is Code.U8:
        return stream or reader.kind in _SUMS
    return stream and form.code is Code.I16


def _is_joined_past(
    draft: ProgramDraft, makers: Mapping[int, ProgramOperator], reader: ProgramOperator, tensor: int
) -> bool:
    """Tell whether an operator of two tensors would be joined past one, which is a function of a convolution.

    Or it is an average from which another is taken, or a slope of one.
    """
    maker, code = makers.get(tensor), draft.tensors[tensor].form.code
    source = _source_of(makers, maker)
    if code is not Code.U8 and _takes_an_average(makers, reader) and tensor == reader.inputs[0]:
        return _is_average(maker) or draft.part.generation is not Generation.STREAM
    if maker is None or source is None or reader.kind not in _OF_TWO:
        return False
    if _is_average(source):
        return (maker.kind in _SLOPES or maker.kind == "abs") and code is Code.U8 and reader.kind not in _EXTREMES
    if source.kind not in _CONVOLUTIONS:
        return False
    if maker.kind == "pool2d":
        joins = draft.part.generation is not Generation.VIP9000
        return joins and maker.ints[0] > _MOST_AVERAGE and not (reader.kind in _SUMS and code is Code.U8)
    if maker.kind == "abs":
        return code is Code.U8 and reader.kind not in _EXTREMES
    return reader.kind == "mul" and maker.kind in _CLAMPS and source.kind == "grouped_conv2d"


def _takes_an_average(makers: Mapping[int, ProgramOperator], item: ProgramOperator) -> bool:
    """Tell whether an average, or a function of one, is taken from another."""
    if item.kind != "sub" or item.inputs[0] == item.inputs[1]:
        return False
    operands = [makers.get(tensor) for tensor in item.inputs]
    return all(_is_average(maker) or _is_average(_source_of(makers, maker)) for maker in operands)


def _is_lost(draft: ProgramDraft, makers: Mapping[int, ProgramOperator], reader: ProgramOperator, tensor: int) -> bool:
    """Tell whether a function of a product, or an extreme with one that is added, is lost before its reader."""
    maker, code = makers.get(tensor), draft.tensors[tensor].form.code
    if maker is None or draft.part.generation is not Generation.STREAM:
        return False
    if maker.kind in _EXTREMES and reader.kind in _SUMS and code is Code.I16:
        sources = [makers.get(operand) for operand in maker.inputs]
        return any(source is not None and source.kind in _CONVOLUTIONS for source in sources)
    source = _source_of(makers, maker)
    if code is not Code.U8 and _takes_an_average(makers, reader) and tensor == reader.inputs[0]:
        return True
    if source is None or (not _is_average(source) and source.kind not in _CONVOLUTIONS):
        return False
    if reader.kind in _LOST_BEFORE.get(maker.kind, ()):
        return True
    if code is Code.I16 and reader.kind in _OF_TWO:
        return maker.kind in _LOST_BEFORE_TWO or (reader.kind in _EXTREMES and maker.kind in _LOST_BEFORE_EXTREMES)
    if maker.kind == "gelu":
        return reader.kind in (_SUMS | {"mul"} if _is_average(source) else ("mul",))
    return code is Code.U8 and reader.kind in _EXTREMES and maker.kind in _SLOPES


def _source_of(makers: Mapping[int, ProgramOperator], maker: ProgramOperator | None) -> ProgramOperator | None:
    return makers.get(maker.inputs[0]) if maker is not None and maker.inputs else None


def _is_average(maker: ProgramOperator | None) -> bool:
    return maker is not None and maker.kind == "pool2d" and maker.ints[0] <= _MOST_AVERAGE


def _copy_read(draft: ProgramDraft, readers: Container[str], spoilt: Callable[[int], bool]) -> None:
    """Copy what operators of some kinds read, where it is spoilt."""
    operators: list[ProgramOperator] = []
    for item in draft.operators:
        if item.kind in readers:
            inputs = [_copy(draft, operators, item, tensor) if spoilt(tensor) else tensor for tensor in item.inputs]
            item = replace(item, inputs=tuple(inputs))
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
    maker = _seen_past_shapes(makers, tensor)
    convolved = maker is not None and maker.kind in _SHIFTED - _LAYERS
    return convolved and (added.kind == "strided_slice" or added.kind in _SHIFTED - _LAYERS)


def _is_padded_for_strides(draft: ProgramDraft, makers: Mapping[int, ProgramOperator], tensor: int, other: int) -> bool:
    """Tell whether what is added to a convolution is read with pads by a convolution that has strides.

    Older parts' compilers join the sum, and fill the pads of the other convolution with another zero point: 42 % of its
    elements, all at its edges, up to 246 steps. Measured on A311D, RK1808, S905D3 and STM32MP2, of 256 arrangements.
    """
    maker = makers.get(other)
    while maker is not None and maker.kind in _PASSED:
        maker = makers.get(maker.inputs[0])
    if maker is None or maker.kind not in _SHIFTED:
        return False
    readers = [item for item in draft.operators if item.kind in _CONVOLUTIONS and item.inputs[0] == tensor]
    return any(max(item.ints[2:4]) > 1 and any(item.ints[4:8]) for item in readers)


def _is_of_long_rows(draft: ProgramDraft, makers: Mapping[int, ProgramOperator], tensor: int) -> bool:
    """Tell whether a tensor is a convolution over rows of 8,192 elements, pads and all, by more than one column."""
    maker = makers.get(tensor)
    while maker is not None and maker.kind in _PASSED:
        maker = makers.get(maker.inputs[0])
    if maker is None or maker.kind not in _CONVOLUTIONS:
        return False
    columns, (left, right) = maker.ints[0], maker.ints[4:6]
    return columns > 1 and draft.tensors[maker.inputs[0]].shape[0] + left + right > _LONGEST_ROW


def _multiplied_by_one(
    draft: ProgramDraft, operators: list[ProgramOperator], reader: ProgramOperator, tensor: int
) -> int:
    """Add an operator that a shader computes, and that changes nothing, for a reader; return what it makes."""
    held = draft.tensors[tensor]
    assert held.form.code in (Code.U8, Code.I8, Code.I16), "a one of floats has other bits"
    form = replace(held.form, scale=1.0, zero_point=0, fl=0)
    data = (1).to_bytes(form.code.size_bytes, "little")
    one = ProgramTensor(form, (1,) * len(held.shape), TensorRole.CONSTANT, data)
    draft.tensors += [one, replace(held, role=TensorRole.INNER)]
    made = len(draft.tensors) - 1
    operators.append(ProgramOperator("mul", (tensor, made - 1), (made,), node=reader.node))
    return made


def _is_misread_slice(draft: ProgramDraft, makers: Mapping[int, ProgramOperator], tensor: int, *, first: bool) -> bool:
    """Tell whether a sum with what the array makes would read a slice at the wrong places, or past its rounding.

    Newest parts read a part of each plane, or of five axes, as if that were whole, and what something is taken from is
    not rounded where it is a slice of a ReLU; older ones do not round a slice of five axes or of a transposed tensor.
    Measured on V853, T527, A311D, i.MX 8M Plus and RV1126 in unsigned bytes; other types and A733 are right.
    """
    maker, generation = _seen_past_shapes(makers, tensor), draft.part.generation
    if maker is None or maker.kind != "strided_slice" or generation is Generation.STREAM:
        return False
    before, after = (draft.tensors[at].shape for at in (maker.inputs[0], maker.outputs[0]))
    source = makers.get(maker.inputs[0])
    kind = "" if source is None else source.kind
    if generation in NEWEST:
        return len(before) > _PLANE_AXES or before[:2] != after[:2] or (first and kind in _CLAMPS)
    return len(before) > _PLANE_AXES or kind == "transpose"


def _seen_past_shapes(makers: Mapping[int, ProgramOperator], tensor: int) -> ProgramOperator | None:
    """Return what makes a tensor, past changes of shape."""
    maker = makers.get(tensor)
    while maker is not None and maker.kind == "reshape":
        maker = makers.get(maker.inputs[0])
    return maker


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
