"""A class, or a value, for every pixel; text regions of a DB head among them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.outputs.decode.masks import text_regions
from dovetail.outputs.ends import End, Ends
from dovetail.outputs.evidence import DECISIVE, FAIR, SLIGHT, STRONG, Case, Hypothesis
from dovetail.outputs.families import counts, words
from dovetail.outputs.families.activated import activation_of, background_index
from dovetail.outputs.families.maps import Map, maps_of
from dovetail.outputs.layouts import Activation, MaskLayout, SignalLayout
from dovetail.outputs.view import Kind, OutputRole

_NEAR = 1e-2
_SMALLEST_SCENE = 64
_COARSE = 8
_MOSTLY = 0.8
"""Share of the cells in which a detector of cells sees nothing, at least."""
_UNDECIDED = (0.1, 0.9)
"""A score between these is not sure one way or the other."""
_COVERED = (0.05, 0.95)
"""Shares of the picture that what is masked covers, as a rule."""
_TEXT_THRESHOLD = 0.3
"""What counts as text in a DB head's map, by the method's published code."""


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield the ways in which an output is a map of classes, of text, or of values."""
    image = ends.image
    if image is None:
        yield from _scenes(ends)
        return
    for end in ends.outputs:
        for found in maps_of(end, image):
            if end.integer or (found.channels == 1 and end.whole and "ArgMax" in end.tail.operators):
                yield _ids(found)
                continue
            yield _mask(ends, found)
            if _marks(found):
                yield _centroids(found)
            if found.channels == 1:
                yield _text(found)
            yield _picture(ends, found)


def _scenes(ends: Ends) -> Iterator[Hypothesis]:
    """Yield the maps of a scene that several cameras see: no grid of theirs."""
    cameras = any(len(shape) == 5 and shape[2] in (1, 3) and min(shape[3:]) >= 32 for shape in ends.inputs.values())
    for end in ends.outputs if cameras else ():
        if end.rank == 3 and not end.ragged and not end.integer and min(end.shape[1:]) >= _SMALLEST_SCENE:
            yield _mask(ends, Map(end, end.shape[1], end.shape[2], end.shape[0], 0, 4.0))


def _ids(found: Map) -> Hypothesis:
    end = found.end
    case = Case()
    case.when("ArgMax" in end.tail.operators, DECISIVE, f"'{end.name}' is made by ArgMax over a map")
    case.when(found.channels == 1, STRONG, f"'{end.name}' holds a whole number a cell")
    case.when(words.named(end, words.SEGMENTATION), FAIR, f"'{end.name}' is named as masks are")
    layout = MaskLayout(end.name, found.channel_axis if found.channels > 1 else None, int(end.high) + 1, labels=True)
    return Hypothesis.of(case, Kind.SEGMENTATION, "class ids", {end.name: OutputRole.MASK}, layout)


def _mask(ends: Ends, found: Map) -> Hypothesis:
    end, axis = found.end, found.channel_axis
    case = Case()
    many = found.channels > 1
    softmax = many and axis is not None and end.sums_to_one(axis)
    case.when(found.activations == {"Softmax"} and softmax, DECISIVE, f"'{end.name}' is a Softmax at every cell")
    case.when(softmax, STRONG, f"'{end.name}' adds up to 1 at every cell")
    case.when(found.full, STRONG, f"'{end.name}' has a value for every pixel")
    case.when(end.tail.resized, STRONG, f"'{end.name}' is resized at the end")
    case.when(not many and found.activations <= {"Sigmoid"}, STRONG, f"'{end.name}' is one score a cell")
    case.when(not many and _covers(found), FAIR, "a good part of the pictures is surely in, and the rest surely out")
    case.when(many and found.channels in counts.MASKS, SLIGHT, f"{found.channels} classes, a usual number")
    case.when(2 <= found.stride <= 8 and many, SLIGHT, f"a map of stride {found.stride:g}")
    case.when(found.stride >= 16, -FAIR, f"a map as coarse as stride {found.stride:g}")
    case.when(_marks(found), -FAIR, "a Softmax of a coarse map, which masks are resized before")
    plane = ends.image is not None and ends.image.plane
    case.when(found.stride < 1 and not plane, -DECISIVE, f"'{end.name}' is larger than the picture")
    case.when(words.named(end, words.SEGMENTATION), STRONG, f"'{end.name}' is named as masks are")
    case.when(words.named(end, (*words.HEATMAP, *words.BOXES)), -FAIR, f"'{end.name}' is not named as masks are")
    case.when(words.named(end, words.REGRESSION), -STRONG, f"'{end.name}' is named as a quantity is")
    # Logits of what is rare may be below 0 everywhere.
    signed = end.low < 0
    case.when(not many and found.activations == {""} and not signed, -FAIR, f"'{end.name}' has no bound")
    colour = ends.image is not None and found.full and found.channels == ends.image.channels > 1 and not softmax
    case.when(colour, -FAIR, "as many channels as the picture that goes in")
    case.when(many and found.activations == {"Clip"}, -STRONG, f"'{end.name}' is clamped")
    pictures = ends.pictures > 1 and found.channels == 2 and not softmax
    case.when(pictures, -FAIR, "two numbers a cell, of a pair of pictures")
    case.when(found.activations <= {"Relu", "Tanh", "Exp"}, -STRONG, f"'{end.name}' ends in no activation of scores")
    alike = sum(other.shape == end.shape for other in ends.outputs)
    case.when(len(ends.outputs) - alike > 2, -FAIR, "it is one output of many")
    applied = activation_of(end, axis) if axis is not None else activation_of(end, 0)
    if applied is Activation.SOFTMAX and not softmax:
        applied = Activation.NONE
    layout = MaskLayout(end.name, axis if many else None, found.channels if many else 2, applied)
    return Hypothesis.of(case, Kind.SEGMENTATION, "scores" if many else "one mask", {end.name: OutputRole.MASK}, layout)


def _covers(found: Map) -> bool:
    """Tell whether scores in 0..1 are sure of most cells, and of both sides: of what is masked and of what is not."""
    values = np.asarray(found.end.values, np.float64)
    if found.activations != {"Sigmoid"} or not values.size:
        return False
    low, high = _UNDECIDED
    unsure = float(np.mean((values > low) & (values < high)))
    covered = float(np.mean(values >= high))
    return unsure < 1 - _MOSTLY and _COVERED[0] <= covered <= _COVERED[1]


def _marks(found: Map) -> bool:
    """Tell whether a map is a Softmax of a few classes at every coarse cell, with no Resize after it."""
    axis = found.channel_axis
    exclusive = axis is not None and found.activations == {"Softmax"} and found.end.sums_to_one(axis)
    return exclusive and found.stride >= _COARSE and not found.end.tail.resized


def _centroids(found: Map) -> Hypothesis:
    """Return objects as marked cells of a coarse grid (FOMO): masks are drawn finer, and made large before a Softmax.

    The layout is that of a mask: what differs is which cells are marked.
    """
    end, axis = found.end, found.channel_axis or 0
    case = Case()
    case.add(DECISIVE, f"'{end.name}' is a Softmax at every cell")
    case.add(STRONG, f"'{end.name}' adds up to 1 at every cell")
    case.add(FAIR, f"a grid as coarse as stride {found.stride:g}, not resized")
    best = np.asarray(end.values, np.float64).argmax(axis=axis + 1)
    rare = float(np.mean(best == background_index(end, axis))) > _MOSTLY
    case.when(rare, FAIR, "one class, the first or the last, holds nearly all cells, as what is nothing does")
    case.when(words.named(end, words.SEGMENTATION), -STRONG, f"'{end.name}' is named as masks are")
    layout = MaskLayout(end.name, axis, found.channels, Activation.SOFTMAX)
    return Hypothesis.of(case, Kind.DETECTION, "marked cells", {end.name: OutputRole.MASK}, layout)


def _text(found: Map) -> Hypothesis:
    """Return a DB head: two transposed convolutions in a row, and a Sigmoid."""
    end = found.end
    case = Case()
    upwards = {leaf.maker for leaf in end.tail.leaves} == {"ConvTranspose"}
    bounded = found.activations == {"Sigmoid"}
    case.when(bounded and upwards, STRONG, f"'{end.name}' is the Sigmoid of a transposed convolution")
    case.when(not (bounded and upwards), -FAIR, f"'{end.name}' is no Sigmoid of a transposed convolution")
    case.when(found.full and bounded, STRONG, f"'{end.name}' has one score for every pixel")
    case.when(words.named(end, words.TEXT), STRONG, f"'{end.name}' is named as text is")
    twice = "ConvTranspose" in end.tail.earlier
    case.when(bounded and upwards and twice, STRONG, "two transposed convolutions lead to it")
    case.when(bounded and upwards and not twice, -FAIR, "one transposed convolution leads to it, not two")
    layout = MaskLayout(end.name, None, 2, Activation.SIGMOID, threshold=_TEXT_THRESHOLD)
    case.when(bounded and _lines(layout, end), FAIR, f"'{end.name}' marks several regions that are wider than high")
    return Hypothesis.of(case, Kind.TEXT_REGIONS, "db", {end.name: OutputRole.MASK}, layout)


def _lines(layout: MaskLayout, end: End) -> bool:
    """Tell whether most pictures have several regions, most of them wide, as lines of text are."""
    found = text_regions(layout, {end.name: end.values})
    sizes = np.concatenate([item.boxes[:, 2:] - item.boxes[:, :2] for item in found])
    several = float(np.median([len(item.scores) for item in found])) >= 3
    return several and float(np.mean(sizes[:, 0] > sizes[:, 1])) > 0.5


def _unit_vectors(found: Map) -> bool:
    """Tell whether the values of every cell are a vector of length 1 with signs."""
    values = np.asarray(found.end.values, np.float64)
    lengths = np.sqrt(np.square(values).sum(axis=(found.channel_axis or 0) + 1))
    return found.end.low < 0 and float(np.abs(lengths - 1).max(initial=0.0)) < _NEAR


def _picture(ends: Ends, found: Map) -> Hypothesis:
    """Return a picture or a map of values: super-resolution, denoising, depth."""
    end = found.end
    case = Case()
    plane = ends.image is not None and ends.image.plane
    case.when(found.stride < 1 and not plane, DECISIVE, f"'{end.name}' is larger than the picture")
    colour = found.channels == 3 and found.full
    case.when(colour and not end.sums_to_one(found.channel_axis or 0), STRONG, f"'{end.name}' is shaped as a picture")
    added = any(leaf.tensor in ends.inputs for leaf in end.tail.leaves)
    case.when(added and found.full, STRONG, f"'{end.name}' adds to the picture that goes in")
    # Whatever has a few values for every pixel is shaped as scores of a few classes are: neither is sure by that.
    few = 2 <= found.channels <= 4 and not end.sums_to_one(found.channel_axis or 0)
    case.when(few and found.full and not colour, STRONG, f"'{end.name}' has {found.channels} values for every pixel")
    case.when(few and end.tail.resized, FAIR, f"'{end.name}' is resized at the end")
    lengths = few and _unit_vectors(found)
    case.when(lengths, DECISIVE, f"'{end.name}' is a direction at every cell")
    vectors = ends.pictures > 1 and found.channels == 2 and found.activations == {""}
    case.when(vectors, STRONG, f"'{end.name}' has two numbers without a bound a cell, of a pair of pictures")
    unbounded = found.channels == 1 and found.activations <= {"", "Relu", "Softplus", "Exp", "Clip", "Tanh"}
    # Scores of a mask before their Sigmoid have both signs; so may values have.
    signed = unbounded and found.activations == {""} and end.low < 0 < end.high
    beside = any(other.rank < 2 or other.shape.count(1) >= other.rank - 1 for other in ends.outputs)
    weight = FAIR if signed and beside else STRONG if signed else DECISIVE
    case.when(unbounded and found.full, weight, f"'{end.name}' is one value without a bound for every pixel")
    case.when(unbounded and not found.full, FAIR, f"'{end.name}' is one value without a bound a cell")
    case.when(words.named(end, words.REGRESSION), DECISIVE, f"'{end.name}' is named as a quantity is")
    case.when(words.named(end, words.SEGMENTATION), -STRONG, f"'{end.name}' is named as masks are")
    case.when(found.activations <= {"Softmax"}, -DECISIVE, f"'{end.name}' ends in a Softmax")
    case.when(found.activations <= {"Tanh", "Clip"} and found.channels == 3, FAIR, f"'{end.name}' is clamped")
    case.when(found.channels > 4, -STRONG, f"{found.channels} channels")
    layout = SignalLayout(end.name, channel_axis=found.channel_axis if found.channels > 1 else None)
    return Hypothesis.of(case, Kind.REGRESSION, "map", {end.name: OutputRole.VALUES}, layout)
