"""Read outputs without the model that made them: the size of its picture is told from the grids that they cover."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray
from dovetail.outputs.hints import Hints
from dovetail.outputs.layouts import DenseLayout
from dovetail.outputs.recognise import recognise_arrays
from dovetail.outputs.view import HeadView, Kind

Size = tuple[int, int]
"""Rows and columns of a picture."""

_STEP, _LARGEST = 32, 1536
"""Sides of square inputs are multiples of the coarsest usual stride; none that is published is larger."""
_USUAL_STRIDES: tuple[tuple[int, ...], ...] = ((8, 16, 32), (8, 16, 32, 64), (16, 32))
"""YOLO's and most others'; NanoDet-Plus's and P6 models'; the tiny YOLOs'."""
_USUAL_ANCHORS = (1, 2, 3)
_LIKELY = 0.5
"""Confidence from which a reading is likelier than not."""
_FINEST = {2: 16, 3: 8, 4: 8, 5: 8}
"""The finest stride of detectors with so many grids; one grid may have any."""


def recognise_head(outputs: Mapping[str, AnyArray], kind: Kind, size: Size | None = None) -> HeadView:
    """Return the surest head of a kind in outputs `[N, ...]`; `size` None is not known.

    Boxes of a head that gives shares of the picture are shares where the size is not known. Raises DataError where no
    output is of the kind, and where pictures of several sizes would explain the outputs.
    """
    tried: tuple[Size | None, ...] = (size,) if size is not None else (*dict.fromkeys(_sizes(outputs)), None)
    heads = [(head, item) for item in tried for head in _heads(outputs, kind, item)]
    if not heads:
        hint = (
            "Say the rows and columns of the input: size=(416, 416)."
            if size is None
            else "Give what dovetail.outputs.recognise says of the model: view=..."
        )
        raise DataError(f"{kind.value}: the outputs {', '.join(outputs)} do not look like that.", hint=hint)
    best, _ = max(heads, key=lambda found: found[0].confidence)
    if size is None and isinstance(best.layout, DenseLayout):
        rivals = {item for head, item in heads if isinstance(head.layout, DenseLayout) and head.sure is best.sure}
        if len(rivals) > 1:
            sizes = " and ".join(f"{rows}x{cols}" for rows, cols in sorted(filter(None, rivals)))
            raise DataError(
                f"{kind.value}: inputs of {sizes} would explain the outputs.",
                hint="Say which it is: size=(rows, cols).",
            )
    return best


def _heads(outputs: Mapping[str, AnyArray], kind: Kind, size: Size | None) -> list[HeadView]:
    """Return the heads of a kind: what is seen of itself, else what can be seen by whom the kind is told."""
    seen = [head for head in recognise_arrays(outputs, size).heads if head.kind is kind and head.confidence >= _LIKELY]
    # What the numbers of a box mean is told by the evidence that tells a detector: without it they would be guessed.
    if seen or kind is Kind.DETECTION:
        return seen
    try:
        return [head for head in recognise_arrays(outputs, size, Hints(kind)).heads if head.kind is kind]
    except DataError:
        return []


def _sizes(outputs: Mapping[str, AnyArray]) -> Iterator[Size]:
    """Yield the sizes of pictures whose usual grids the outputs cover, one by one or all in one row."""
    shapes = [values.shape[1:] for values in outputs.values()]
    grids = sorted({grid for shape in shapes if len(shape) >= 3 for grid in _grids(shape)}, reverse=True)
    halving = [grid for grid in grids if (grid[0] * 2, grid[1] * 2) in grids or (grid[0] / 2, grid[1] / 2) in grids]
    finest = _FINEST.get(len(halving))
    if finest is not None:
        yield halving[0][0] * finest, halving[0][1] * finest
    lengths = {max(shape) for shape in shapes if 0 < len(shape) <= 2}
    for side in range(_STEP, _LARGEST + 1, _STEP):
        for strides in _USUAL_STRIDES:
            cells = sum(math.ceil(side / stride) ** 2 for stride in strides)
            if any(cells * anchors in lengths for anchors in _USUAL_ANCHORS):
                yield side, side


def _grids(shape: tuple[int, ...]) -> Iterator[Size]:
    """Yield what may be rows and columns of an output `[C, H, W]`, `[H, W, C]` or one with an axis of anchors."""
    places = ((0, 1), (1, 2)) if len(shape) == 3 else ((0, 1), (1, 2), (2, 3))
    yield from ((shape[row], shape[col]) for row, col in places)
