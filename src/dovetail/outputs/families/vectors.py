"""Outputs that are one list of numbers: class scores, embeddings, values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.outputs.ends import End, Ends
from dovetail.outputs.evidence import DECISIVE, FAIR, SLIGHT, STRONG, Case, Hypothesis
from dovetail.outputs.families import counts, words
from dovetail.outputs.families.activated import activation_of
from dovetail.outputs.layouts import Activation, ScoresLayout, VectorLayout
from dovetail.outputs.tail import MEANS
from dovetail.outputs.view import Kind, OutputRole

_MOST_VALUES = 8
_PRODUCTS = frozenset({"Gemm", "MatMul", "Conv"})


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield what a list of numbers may be; sizes of 1 beside it do not count."""
    for end in ends.outputs:
        if end.ragged:
            continue
        axis = _axis(end)
        if axis is None:
            continue
        if end.integer:
            yield _label(end)
            continue
        size = end.shape[axis] if end.rank else 1
        yield _classes(ends, end, axis)
        if size >= 16:
            yield _embedding(ends, end, axis)
        if size <= _MOST_VALUES or words.named(end, words.PARAMETERS):
            yield _values(ends, end, axis)


def _axis(end: End) -> int | None:
    """Return the only axis that is larger than 1, the last where there is none, None where there are several.

    It is -1 where there is no axis at all.
    """
    wide = [axis for axis, size in enumerate(end.shape) if size != 1]
    if len(wide) > 1:
        return None
    return wide[0] if wide else end.rank - 1


def _label(end: End) -> Hypothesis:
    case = Case()
    single = int(np.prod(end.shape)) == 1
    case.when("ArgMax" in end.tail.operators, DECISIVE, f"'{end.name}' is made by ArgMax")
    case.when(single, FAIR, f"'{end.name}' holds one whole number")
    case.when(words.named(end, words.CLASSES), STRONG, f"'{end.name}' is named as classes are")
    case.when(words.named(end, words.COUNT), -FAIR, f"'{end.name}' is named as counts are")
    layout = ScoresLayout(end.name, max(end.rank - 1, 0), 0, labels=True)
    return Hypothesis.of(case, Kind.CLASSIFICATION, "class ids", {end.name: OutputRole.CLASSES}, layout)


def _classes(ends: Ends, end: End, axis: int) -> Hypothesis:
    case = Case()
    count = end.shape[axis] if end.rank else 1
    applied = activation_of(end, axis) if end.rank else _of_one(end)
    softmax = count > 1 and end.sums_to_one(axis)
    whole = count == 1 or softmax or not end.tail.activations <= {"Softmax"}
    case.when(end.tail.activations == {"Softmax"} and whole, DECISIVE, f"'{end.name}' ends in a Softmax")
    case.when(not whole, -DECISIVE, f"'{end.name}' ends in a Softmax of parts of it")
    case.when(softmax, STRONG, f"'{end.name}' adds up to 1")
    case.when(end.tail.activations == {"LogSoftmax"}, DECISIVE, f"'{end.name}' ends in a LogSoftmax")
    sigmoid = end.tail.activations <= {"Sigmoid", "HardSigmoid"}
    case.when(sigmoid, STRONG, f"'{end.name}' ends in a Sigmoid")
    case.when(sigmoid and count == 1, SLIGHT, "one score of a yes or no")
    product = _made_by_product(end)
    # What a product with weights gives has no bound: on a few samples it may stay in 0..1 by accident.
    bounded = count == 1 and not sigmoid and applied is Activation.SIGMOID and not (product and _plain(end))
    case.when(bounded, STRONG, f"'{end.name}' is one number that stays in 0..1")
    case.when(count in counts.RARE_CLASSES, STRONG, f"{count} classes, as a public data set has")
    case.when(count in counts.CLASSES, FAIR, f"{count} classes, a usual number")
    case.when(words.named(end, words.CLASSIFICATION), STRONG, f"'{end.name}' is named as class scores are")
    case.when(words.named(end, words.EMBEDDING), -FAIR, f"'{end.name}' is named as embeddings are")
    case.when(count == 1 and words.named(end, words.CLASSIFICATION) and _plain(end), FAIR, "one logit of a yes or no")
    plain = applied is Activation.NONE and product
    case.when(plain and count > 1, FAIR, f"'{end.name}' comes straight from a product with weights, as logits do")
    case.when(_unit_length(end), -DECISIVE, f"'{end.name}' has length 1")
    case.when(end.tail.activations <= {"Tanh", "Relu"}, -STRONG, f"'{end.name}' ends in {_names(end)}")
    # Many numbers that are named as one quantity are scores of its bins.
    few = count <= _MOST_VALUES
    case.when(_quantity(end) and few, -STRONG, f"'{end.name}' is named as a quantity is")
    case.when(_quantity(end) and not few, FAIR, f"'{end.name}' has {count} bins of a quantity")
    # What is as long as embeddings are and as no list of classes has numbers as far apart.
    usual = count in counts.EMBEDDINGS and count not in counts.RARE_CLASSES
    case.when(not usual and _sure(end, axis, applied), FAIR, f"a Softmax of '{end.name}' would be sure of one class")
    taken = counts.EMBEDDINGS | counts.POINT_LISTS | {size for shape in ends.inputs.values() for size in shape}
    other = count > _MOST_VALUES and count not in taken and len(ends.outputs) == 1
    case.when(other and plain, FAIR, f"{count} numbers are too many for quantities, and no usual size of other things")
    case.when(words.named(end, (*words.BOXES, *words.LANDMARKS)), -DECISIVE, f"'{end.name}' is named as places are")
    case.when(_as_goes_in(ends, count), -STRONG, f"'{end.name}' has as many numbers as go in")
    case.when(_read_by_others(ends, end), -STRONG, f"another output is made of '{end.name}'")
    case.when(words.named(end, words.PARAMETERS), -STRONG, f"'{end.name}' is named as parameters are")
    layout = ScoresLayout(end.name, max(axis, 0), count, applied, independent=sigmoid and not softmax)
    family = "probabilities" if applied is Activation.SOFTMAX else "scores" if sigmoid else "logits"
    return Hypothesis.of(case, Kind.CLASSIFICATION, family, {end.name: OutputRole.SCORES}, layout)


def _embedding(ends: Ends, end: End, axis: int) -> Hypothesis:
    case = Case()
    size = end.shape[axis]
    case.when(_unit_length(end), DECISIVE, f"'{end.name}' has length 1")
    norm = bool(end.tail.operators & {"ReduceL2", "LpNormalization"})
    case.when(norm, STRONG, f"'{end.name}' is divided by its length")
    case.when(words.named(end, words.EMBEDDING), STRONG, f"'{end.name}' is named as embeddings are")
    case.when(size in counts.EMBEDDINGS, STRONG, f"{size} numbers, a usual size of embeddings")
    case.when(end.sums_to_one(axis), -DECISIVE, f"'{end.name}' adds up to 1")
    bounded = end.tail.activations <= {"Sigmoid", "Softmax", "LogSoftmax"}
    case.when(bounded, -DECISIVE, f"'{end.name}' ends in {_names(end)}")
    pooled = bool(end.tail.leaves) and all(leaf.arithmetic & MEANS for leaf in end.tail.leaves)
    case.when(pooled, STRONG, f"'{end.name}' is a mean over places")
    case.when("BatchNormalization" in end.tail.operators, FAIR, f"'{end.name}' is normalised")
    case.when(words.named(end, words.CLASSIFICATION), -STRONG, f"'{end.name}' is named as class scores are")
    case.when(_as_goes_in(ends, size), -STRONG, f"'{end.name}' has as many numbers as go in")
    case.when(_read_by_others(ends, end), STRONG, f"another output is made of '{end.name}'")
    layout = VectorLayout(end.name, size)
    return Hypothesis.of(case, Kind.EMBEDDING, "", {end.name: OutputRole.EMBEDDING}, layout)


def _values(ends: Ends, end: End, axis: int) -> Hypothesis:
    case = Case()
    size = end.shape[axis] if end.rank else 1
    activations = end.tail.activations
    case.when(_quantity(end), DECISIVE, f"'{end.name}' is named as a quantity is")
    alone = size == 1 and activations == {""}
    case.when(alone and not end.in_unit, DECISIVE, f"'{end.name}' is one number without a bound")
    case.when(alone and end.in_unit, FAIR, f"'{end.name}' is one number")
    case.when(1 < size <= 6 and activations == {""}, FAIR, f"'{end.name}' is {size} numbers without a bound")
    spread = [other for other in ends.outputs if other.shape == end.shape and words.named(other, words.DEVIATION)]
    case.when(bool(spread), DECISIVE, "as many numbers are named as deviations are")
    case.when(words.named(end, words.PARAMETERS), DECISIVE, f"'{end.name}' is named as parameters are")
    case.when(activations <= {"Tanh"} and activations != {""}, STRONG, f"'{end.name}' ends in a Tanh")
    case.when(activations <= {"Relu", "Softplus", "Exp"} and activations != {""}, STRONG, f"'{end.name}' is positive")
    case.when(activations <= {"Sigmoid"}, SLIGHT, f"'{end.name}' ends in a Sigmoid")
    case.when(words.named(end, words.BOXES), FAIR, f"'{end.name}' is named as boxes are")
    case.when(
        not _quantity(end) and words.named(end, words.CLASSIFICATION),
        -STRONG,
        f"'{end.name}' is named as class scores are",
    )
    case.when(size > 1 and end.sums_to_one(axis), -DECISIVE, f"'{end.name}' adds up to 1")
    layout = VectorLayout(end.name, size)
    return Hypothesis.of(case, Kind.REGRESSION, "values", {end.name: OutputRole.VALUES}, layout)


def _quantity(end: End) -> bool:
    """Tell whether an output is named as a quantity is, and not as scores of its classes are.

    What is predicted may be either.
    """
    scores = set(words.CLASSIFICATION) - {"prediction", "predictions"}
    return words.named(end, words.REGRESSION) and not words.named(end, scores)


def _sure(end: End, axis: int, applied: Activation) -> bool:
    """Tell whether logits are far enough apart for probabilities to be sure, which unbounded numbers seldom are."""
    if applied is not Activation.NONE or not end.rank or end.shape[axis] < 3:
        return False
    scores = np.moveaxis(np.asarray(end.values, np.float64), axis + 1, -1).reshape(len(end.values), -1)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return float(np.mean(powers.max(axis=1) / powers.sum(axis=1))) > 0.5


def _as_goes_in(ends: Ends, size: int) -> bool:
    """Tell whether a list of so many numbers goes in."""
    return size >= 16 and (size,) in [tuple(item for item in shape if item != 1) for shape in ends.inputs.values()]


def _of_one(end: End) -> Activation:
    """Return what has been applied to an output of one number without an axis."""
    bounded = end.in_unit and not end.integer and not (_plain(end) and _made_by_product(end))
    return Activation.SIGMOID if bounded else Activation.NONE


def _plain(end: End) -> bool:
    """Tell whether no activation is applied, as far as the graph shows it."""
    return end.tail.activations == {""}


def _read_by_others(ends: Ends, end: End) -> bool:
    """Tell whether a product with weights makes another output of this one, as a classifier does of an embedding."""
    if ends.graph is None:
        return False
    own = {leaf.tensor for leaf in end.tail.leaves} | {end.name}
    makers = (
        ends.graph.producers.get(leaf.tensor)
        for other in ends.outputs
        if other is not end
        for leaf in other.tail.leaves
    )
    return any(maker is not None and maker.op in _PRODUCTS and not own.isdisjoint(maker.inputs) for maker in makers)


def _made_by_product(end: End) -> bool:
    return bool(end.tail.leaves) and all(leaf.maker in _PRODUCTS for leaf in end.tail.leaves)


def _unit_length(end: End) -> bool:
    """Tell whether every sample is a vector of length 1, and not the certainty of one class."""
    rows = np.asarray(end.values, np.float64).reshape(len(end.values), -1)
    lengths = np.sqrt(np.square(rows).sum(axis=1))
    signs = float(rows.min()) < 0
    return rows.shape[1] >= 16 and signs and bool(np.abs(lengths - 1).max(initial=0.0) < 1e-2)


def _names(end: End) -> str:
    return ", ".join(sorted(end.tail.activations - {""}))
