"""What is seen of a model's inputs and outputs before anything is concluded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.outputs.tail import Leaf, Tail, trace_tail

Shape = tuple[int, ...]
Run = Mapping[str, AnyArray]
"""The outputs of one sample by name, as the model gives them."""

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_UNIT_SLACK = 1e-3
_PICTURE_CHANNELS = (1, 3, 4)
_FEWEST_FEATURES, _SMALLEST_PLANE = 8, 32


@dataclass(frozen=True, slots=True)
class ImageInput:
    """An input that looks like a picture."""

    name: str
    rows: int
    cols: int
    channels: int
    channels_last: bool
    plane: bool = False
    """It holds features of a plane and not colours: a scene from above, or what an encoder made of a picture."""


@dataclass(frozen=True)
class End:
    """One output: its shape without the batch, its values on the samples, and what made it."""

    name: str
    shape: Shape
    """Of one sample; 0 where the size differs from sample to sample."""
    values: AnyArray
    """`[N, *shape]`, padded with NaN where sizes differ."""
    tail: Tail
    batched: bool
    """The model's own output has a batch axis in front of `shape`."""

    @cached_property
    def words(self) -> frozenset[str]:
        """Return the words of the name, in small letters."""
        return frozenset(word.lower() for word in _WORD.findall(self.name))

    @cached_property
    def label(self) -> str:
        """Return the name in small letters."""
        return self.name.lower()

    @property
    def rank(self) -> int:
        """Return the number of axes, the batch excepted."""
        return len(self.shape)

    @property
    def ragged(self) -> bool:
        """Tell whether the size differs from sample to sample."""
        return 0 in self.shape

    @cached_property
    def finite(self) -> AnyArray:
        """Return the finite values, flat, as floating-point numbers; a view where all of them are."""
        values = self.values if self.values.dtype.kind == "f" else self.values.astype(np.float64)
        flat, are = values.reshape(-1), np.isfinite(values).reshape(-1)
        return flat if are.all() else flat[are]

    @cached_property
    def low(self) -> float:
        """Return the smallest value, 0 where there is none."""
        return float(self.finite.min(initial=np.inf)) if self.finite.size else 0.0

    @cached_property
    def high(self) -> float:
        """Return the largest value, 0 where there is none."""
        return float(self.finite.max(initial=-np.inf)) if self.finite.size else 0.0

    @property
    def in_unit(self) -> bool:
        """Tell whether all values are within 0 and 1."""
        return self.low >= -_UNIT_SLACK and self.high <= 1 + _UNIT_SLACK

    @property
    def whole(self) -> bool:
        """Tell whether all values are whole numbers."""
        return self.values.dtype.kind in "iub" or bool(np.equal(self.finite, np.rint(self.finite)).all())

    @property
    def integer(self) -> bool:
        """Tell whether the element type is an integer or a truth value."""
        return self.values.dtype.kind in "iub"

    def sums_to_one(self, axis: int) -> bool:
        """Tell whether entries are not negative and add up to 1 along an axis of the shape, as after a Softmax."""
        if self.shape[axis] < 2 or self.low < -_UNIT_SLACK or not self.in_unit:
            return False
        sums = np.asarray(self.values, np.float64).sum(axis=axis + 1)
        return bool(np.abs(sums[np.isfinite(sums)] - 1.0).max(initial=0.0) < 1e-2)

    def activations(self, axis: int, start: int = 0, stop: int | None = None) -> frozenset[str]:
        """Return the activations nearest to some entries of an axis, the empty one included."""
        end = self.shape[axis] if stop is None else stop
        place = axis + self.batched
        found: set[str] = set()
        for low, high, leaves in self.tail.segments(place, self.shape[axis]):
            if low < end and high > start:
                found.update(leaf.activation for leaf in leaves)
        return frozenset(found)

    def cuts(self, axis: int) -> tuple[int, ...]:
        """Return the sizes of the stretches that Concats have put together along an axis."""
        return tuple(stop - start for start, stop, _ in self.tail.segments(axis + self.batched, self.shape[axis]))

    def decoded(self, axis: int, start: int, stop: int) -> bool:
        """Tell whether arithmetic lies between the weights and some entries of an axis."""
        place = axis + self.batched
        return any(
            leaf.arithmetic
            for low, high, leaves in self.tail.segments(place, self.shape[axis])
            if low < stop and high > start
            for leaf in leaves
        )


@dataclass(frozen=True)
class Ends:
    """All that is seen of a model from outside, and of its tails."""

    graph: Graph | None
    """None where only arrays are there."""
    outputs: tuple[End, ...]
    inputs: Mapping[str, Shape]
    """The shapes of one sample, the batch included."""

    @cached_property
    def image(self) -> ImageInput | None:
        """Return the input that looks like a picture, that with the most channels of several of one size, or None."""
        found = _images(self.inputs) or _planes(self.inputs)
        one_size = len({(image.rows, image.cols) for image in found}) == 1
        return max(found, key=lambda image: image.channels) if one_size else None

    @cached_property
    def pictures(self) -> int:
        """Return how many inputs look like pictures."""
        return len(_images(self.inputs))

    @cached_property
    def recurrent(self) -> bool:
        """Tell whether the graph holds recurrent operators, in bodies too."""
        return self.count("LSTM", "GRU", "RNN", "Loop", "Scan") > 0

    def flat(self, end: End) -> bool:
        """Tell whether an output is made of one vector, as after a mean over the picture; an open batch counts as 1."""
        shapes = [() if self.graph is None else self.graph.types[leaf.tensor].shape for leaf in end.tail.leaves]
        return bool(shapes) and all(shape and _is_vector(shape) for shape in shapes)

    def count(self, *operators: str) -> int:
        """Return how many nodes of some kinds there are."""
        return 0 if self.graph is None else sum(node.op in operators for node in self.graph.nodes)


def _is_vector(shape: Sequence[int | str | None]) -> bool:
    """Tell whether one axis at most is longer than 1: an open one behind the first may be."""
    batch = shape[0] if isinstance(shape[0], int) else 1
    return sum(size != 1 for size in (batch, *shape[1:])) <= 1


def observe(graph: Graph, runs: Sequence[Run], inputs: Mapping[str, Shape]) -> Ends:
    """Return what is seen of a model that has been run on samples.

    `runs` are the float outputs of each sample as the model gives them, `inputs` the shapes of one sample. Raises
    DataError where there is no sample, or where an output is missing.
    """
    if not runs:
        raise DataError("outputs: no sample was run.", hint="Give at least one sample.")
    batches = {shape[0] for shape in inputs.values() if len(shape) > 1}
    batch = next(iter(batches)) if len(batches) == 1 else 1
    return Ends(graph, tuple(_end(graph, name, runs, batch) for name in graph.outputs), dict(inputs))


def bare_ends(outputs: Mapping[str, AnyArray], image: tuple[int, int] | None) -> Ends:
    """Return what is seen of outputs `[N, ...]` alone, of a model whose picture has that many rows and columns.

    Where `image` is None nothing is known of what goes in.
    """
    # Without a graph no activation is seen; a tail without leaves would be within any set of activations.
    ends = tuple(
        End(name, values.shape[1:], values, Tail((Leaf({}, "", name),), frozenset()), False)
        for name, values in outputs.items()
    )
    return Ends(None, ends, {} if image is None else {"image": (1, 3, *image)})


def stack_runs(runs: Sequence[Run], batch: int = 1) -> dict[str, AnyArray]:
    """Return the outputs of samples as `[N, ...]`, without the batch axis, padded with NaN where sizes differ."""
    return {name: _stacked([np.asarray(run[name]) for run in runs], batch)[0] for name in runs[0]}


def _end(graph: Graph, name: str, runs: Sequence[Run], batch: int) -> End:
    missing = [number for number, run in enumerate(runs) if name not in run]
    if missing:
        raise DataError(f"output '{name}' is missing in run {missing[0]}.")
    arrays = [np.asarray(run[name]) for run in runs]
    values, batched, shape = _stacked(arrays, batch)
    return End(name, shape, values, trace_tail(graph, name, arrays[0].shape), batched)


def _stacked(arrays: Sequence[AnyArray], batch: int) -> tuple[AnyArray, bool, Shape]:
    """Return values `[N, ...]`, whether a batch axis was taken off, and the shape of a sample; 0 where it differs."""
    batched = all(array.ndim > 0 and array.shape[0] == batch for array in arrays)
    if batched and batch == 1:
        arrays = [array[0] for array in arrays]
    shapes = {array.shape for array in arrays}
    if len(shapes) == 1:
        shape = arrays[0].shape[1:] if batched and batch != 1 else arrays[0].shape
        return (np.concatenate(arrays) if batched and batch != 1 else np.stack(arrays)), batched, shape
    if len({array.ndim for array in arrays}) != 1:
        raise DataError("outputs: the number of axes differs from sample to sample.")
    sizes = np.array([array.shape for array in arrays])
    padded = np.full((len(arrays), *sizes.max(axis=0)), np.nan)
    for place, array in zip(padded, arrays, strict=True):
        place[tuple(slice(size) for size in array.shape)] = array
    same = (sizes == sizes[0]).all(axis=0)
    return padded, batched, tuple(int(size) if one else 0 for size, one in zip(sizes[0], same, strict=True))


def image_of(graph: Graph) -> ImageInput | None:
    """Return the only input of a graph that looks like a picture, or None; symbolic sizes count as 1."""
    found = images_of(graph)
    return found[0] if len(found) == 1 else None


def images_of(graph: Graph) -> list[ImageInput]:
    """Return the inputs of a graph that look like pictures; symbolic sizes count as 1."""
    shapes = {name: graph.types[name].shape or () for name in graph.inputs}
    return _images({name: tuple(dim if isinstance(dim, int) else 1 for dim in shapes[name]) for name in shapes})


def open_image_of(graph: Graph, side: int) -> tuple[str, Shape] | None:
    """Return the input that would look like a picture if its open rows and columns were `side`, and its shape then."""
    for name in graph.inputs:
        shape = graph.types[name].shape or ()
        space = [size for size in shape[1:] if not isinstance(size, int)]
        if len(shape) == 4 and space and (shape[1] in _PICTURE_CHANNELS or shape[3] in _PICTURE_CHANNELS):
            batch = shape[0] if isinstance(shape[0], int) else 1
            return name, (batch, *(size if isinstance(size, int) else side for size in shape[1:]))
    return None


def _images(shapes: Mapping[str, Shape]) -> list[ImageInput]:
    return [image for name, shape in shapes.items() if (image := _image(name, shape)) is not None]


def _planes(shapes: Mapping[str, Shape]) -> list[ImageInput]:
    """Return the first input if it holds several features for every cell of a plane, as no sound does."""
    name, shape = next(iter(shapes.items()), ("", ()))
    fits = len(shape) == 4 and shape[1] >= _FEWEST_FEATURES and min(shape[2:]) >= _SMALLEST_PLANE
    return [ImageInput(name, shape[2], shape[3], shape[1], False, plane=True)] if fits else []


def _image(name: str, shape: Shape) -> ImageInput | None:
    """Return a picture of 1, 3 or 4 channels with sides of at least 16, or None."""
    if len(shape) != 4:
        return None
    if shape[1] in _PICTURE_CHANNELS and min(shape[2:]) >= 16:
        return ImageInput(name, shape[2], shape[3], shape[1], False)
    if shape[3] in _PICTURE_CHANNELS and min(shape[1:3]) >= 16:
        return ImageInput(name, shape[1], shape[2], shape[3], True)
    return None
