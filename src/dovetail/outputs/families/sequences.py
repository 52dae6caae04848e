"""Scores of symbols along time: text that is read by CTC or symbol by symbol."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.outputs.ends import End, Ends
from dovetail.outputs.evidence import DECISIVE, FAIR, SLIGHT, STRONG, Case, Hypothesis
from dovetail.outputs.families import counts, words
from dovetail.outputs.layouts import Activation, ScoresLayout, SequenceLayout
from dovetail.outputs.places import grid_level
from dovetail.outputs.view import Kind, OutputRole

_WIDTH_SHARES = (2, 4, 8)
_SMALLEST_ALPHABET = 10
_CORNERS = 8


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield the ways in which an output is a sequence of symbols."""
    for end in ends.outputs:
        if end.ragged or end.integer or end.rank not in (2, 3):
            continue
        axes = [axis for axis, size in enumerate(end.shape) if size != 1]
        if len(axes) == 2:
            for time, classes in (axes, axes[::-1]):
                yield _sequence(ends, end, time, classes)
            if ends.image is None and axes[0] < axes[1]:
                yield from _frames(ends, end, *axes)


def _frames(ends: Ends, end: End, time: int, classes: int) -> Iterator[Hypothesis]:
    """Yield a few classes of every frame of sound: who speaks, whether a word is said, whether anybody speaks."""
    count, applied = end.shape[classes], end.tail.activations
    if not 1 < count < _SMALLEST_ALPHABET or not applied <= {"Sigmoid", "Softmax", "LogSoftmax"} or not applied:
        return
    case = Case()
    names = ", ".join(sorted(applied))
    case.add(STRONG, f"'{end.name}' is a {names} of {count} classes at every step, too few for an alphabet")
    case.when("Softmax" in applied and end.sums_to_one(classes), FAIR, f"'{end.name}' adds up to 1 at every step")
    case.when(_wave(ends), SLIGHT, "sound goes in")
    case.when(words.named(end, words.CLASSIFICATION), FAIR, f"'{end.name}' is named as class scores are")
    same = any(_bare(shape) == _bare(end.shape) for shape in ends.inputs.values())
    case.when(same, -STRONG, f"'{end.name}' is shaped as what goes in")
    independent = applied == {"Sigmoid"}
    activation = (
        Activation.SIGMOID if independent else Activation.SOFTMAX if applied == {"Softmax"} else Activation.NONE
    )
    layout = ScoresLayout(end.name, classes, count, activation, independent=independent)
    yield Hypothesis.of(case, Kind.CLASSIFICATION, "every frame", {end.name: OutputRole.SCORES}, layout)


def _steps_of_scores(ends: Ends, end: End) -> bool:
    """Tell whether sound is judged by a Sigmoid of a few classes at every step."""
    return ends.image is None and end.tail.activations == {"Sigmoid"} and min(_bare(end.shape)) < _SMALLEST_ALPHABET


def _bare(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _sequence(ends: Ends, end: End, time: int, symbols: int) -> Hypothesis:
    case = Case()
    steps, count = end.shape[time], end.shape[symbols]
    image = ends.image
    strip = image is not None and image.cols >= 2 * image.rows
    case.when(strip, FAIR, "the picture is a strip, as lines of text are")
    shares = [share for share in _WIDTH_SHARES if image is not None and abs(steps - image.cols / share) <= 2]
    case.when(bool(shares) and strip, STRONG, f"{steps} steps are a share of the picture's width")
    case.when(image is not None and not strip, -FAIR, "the picture is no strip")
    case.when(end.sums_to_one(symbols), STRONG, f"'{end.name}' adds up to 1 at every step")
    case.when(end.tail.activations <= {"Softmax", "LogSoftmax"}, FAIR, f"'{end.name}' ends in a Softmax")
    case.when(count in counts.SYMBOLS, FAIR, f"{count} symbols, a usual alphabet")
    case.when(count < _SMALLEST_ALPHABET, -STRONG, f"{count} symbols are no alphabet")
    word = image is not None and time < symbols and steps in counts.WORD_LENGTHS and count in counts.SYMBOLS
    case.when(word, FAIR, f"{steps} steps, the most symbols of a word")
    case.when(word and words.named(end, words.SCORES), SLIGHT, f"'{end.name}' is named as scores are")
    case.when(ends.recurrent, FAIR, "recurrent operators read along time")
    case.when(words.named(end, words.TEXT), FAIR, f"'{end.name}' is named as text is")
    case.when(words.named(end, (*words.BOXES, *words.LANDMARKS)), -STRONG, f"'{end.name}' is not named as text is")
    case.when(
        symbols < time and count < steps, SLIGHT if count in counts.SYMBOLS else -SLIGHT, "symbols come before time"
    )
    grid = image is not None and any(
        size == (image.rows, image.cols) or grid_level(*size, image) for size in ((steps, count), (count, steps))
    )
    case.when(grid, -DECISIVE, "both axes are those of a grid over the picture")
    case.when(end.tail.activations == {"LogSoftmax"}, FAIR, f"'{end.name}' holds logarithms, as sequences do")
    joined = len(end.cuts(symbols)) > 1
    case.when(joined, -STRONG, f"'{end.name}' is joined of several parts along its symbols")
    case.when(_steps_of_scores(ends, end), -STRONG, f"'{end.name}' is a Sigmoid of a few classes at every step")
    beside = [other for other in ends.outputs if other.rank == 2 and other.shape == (steps, _CORNERS) and other.in_unit]
    marks = bool(beside) and time < symbols and end.sums_to_one(symbols)
    case.when(marks, STRONG, "another output has four corners for every step, as cells of a table have")
    blank = _blank(end, time, symbols)
    case.when(blank is not None, FAIR, "one symbol, the first or the last, holds most steps")
    case.when(image is None and _wave(ends) and count in counts.SYMBOLS, STRONG, "sound goes in")
    usual = blank if blank is not None else 0
    layout = SequenceLayout(end.name, time, symbols, count, usual)
    return Hypothesis.of(case, Kind.TEXT, "ctc", {end.name: OutputRole.SEQUENCE}, layout)


def _blank(end: End, time: int, symbols: int) -> int | None:
    """Return the symbol that is the best at most steps, where it is the first or the last."""
    scores = np.moveaxis(end.values, (time + 1, symbols + 1), (-2, -1))
    best = scores.argmax(axis=-1).reshape(-1)
    last = end.shape[symbols] - 1
    share = {symbol: float(np.mean(best == symbol)) for symbol in (0, last)}
    likely = max(share, key=lambda symbol: share[symbol])
    return likely if share[likely] > 0.4 else None


def _wave(ends: Ends) -> bool:
    return any(len(shape) in (2, 3) and max(shape) >= 200 for shape in ends.inputs.values())
