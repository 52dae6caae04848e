"""Features of every token or cell: hidden states of transformers, maps of descriptors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.outputs.ends import End, Ends
from dovetail.outputs.evidence import DECISIVE, FAIR, STRONG, Case, Hypothesis
from dovetail.outputs.families import counts, words
from dovetail.outputs.families.maps import maps_of
from dovetail.outputs.layouts import VectorLayout
from dovetail.outputs.view import Kind, OutputRole

_NORMALISED = frozenset({"LayerNormalization", "RMSNormalization", "SkipLayerNormalization"})
_IN_STEPS = frozenset({"ReduceMean", "Sqrt", "Div"})
"""What older exporters write for a LayerNormalization."""
_NEAR = 1e-2


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield the ways in which an output holds features of every place."""
    image = ends.image
    for end in ends.outputs:
        if end.integer or end.ragged:
            continue
        wide = [axis for axis, size in enumerate(end.shape) if size != 1]
        if len(wide) == 2:
            yield _features(end, wide[1], "every token")
        elif len(wide) == 3 and image is not None:
            for found in maps_of(end, image):
                if found.channel_axis is not None and found.stride >= 4:
                    yield _features(end, found.channel_axis, "every cell")


def _features(end: End, axis: int, where: str) -> Hypothesis:
    case = Case()
    size = end.shape[axis]
    leaves = end.tail.leaves
    normalised = bool(leaves) and all(leaf.maker in _NORMALISED for leaf in leaves)
    case.when(normalised or end.tail.operators >= _IN_STEPS, STRONG, f"'{end.name}' ends in a normalisation of {where}")
    case.when(size in counts.EMBEDDINGS, FAIR, f"{size} numbers for {where}, a usual size of features")
    case.when(words.named(end, ("logits",)), -STRONG, f"'{end.name}' is named as scores are")
    case.when(size < min(counts.EMBEDDINGS), -STRONG, f"{size} numbers are no features")
    case.when(words.named(end, (*words.EMBEDDING, *words.HIDDEN)), STRONG, f"'{end.name}' is named as features are")
    case.when(_unit(end, axis), DECISIVE, f"'{end.name}' has length 1 at {where}")
    bounded = end.tail.activations <= {"Sigmoid", "Softmax", "LogSoftmax", "HardSigmoid"}
    case.when(bounded, -DECISIVE, f"'{end.name}' ends in an activation of scores")
    others = (*words.BOXES, *words.SCORES, *words.SEGMENTATION, *words.HEATMAP)
    case.when(words.named(end, others), -STRONG, f"'{end.name}' is not named as features are")
    layout = VectorLayout(end.name, int(np.prod(end.shape)))
    return Hypothesis.of(case, Kind.EMBEDDING, f"features of {where}", {end.name: OutputRole.EMBEDDING}, layout)


def _unit(end: End, axis: int) -> bool:
    """Tell whether every place has a vector of length 1 with numbers of both signs."""
    if end.shape[axis] < 16 or end.low >= 0:
        return False
    squares = (np.square(np.asarray(value, np.float64)).sum(axis=axis) for value in end.values)
    return all(float(np.abs(np.sqrt(square) - 1).max(initial=0.0)) < _NEAR for square in squares)
