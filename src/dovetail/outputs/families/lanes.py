"""Lanes by rows and columns of the picture: which bin of each a lane crosses (Ultra-Fast-Lane-Detection)."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.outputs.ends import End, Ends
from dovetail.outputs.evidence import FAIR, SLIGHT, STRONG, Case, Hypothesis
from dovetail.outputs.families import words
from dovetail.outputs.view import Kind, OutputRole

_MOST_LANES = 8
_FEWEST_BINS = 32
_PAIR = 2


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield the outputs `[bins, rows, lanes]` that are cut from one vector, each with `[2, rows, lanes]` beside it."""
    lists = [end for end in ends.outputs if end.rank == 3 and not end.ragged and not end.integer and _cut(ends, end)]
    bins = [end for end in lists if end.shape[0] >= _FEWEST_BINS and 1 < end.shape[2] <= _MOST_LANES]
    there = [end for end in lists if end.shape[0] == _PAIR and end.shape[1:] in {other.shape[1:] for other in bins}]
    if ends.image is None or not bins:
        return
    case = Case()
    case.add(STRONG, f"'{bins[0].name}' is one vector, cut into {bins[0].shape[0]} bins of {bins[0].shape[1]} rows")
    case.add(FAIR, f"{bins[0].shape[2]} lanes")
    case.when(len(there) == len(bins), STRONG, "as many outputs say whether a lane crosses a row at all")
    case.when(ends.image.cols > ends.image.rows, SLIGHT, "the picture is wider than high")
    named = any(words.named(end, (*words.SEGMENTATION, *words.BOXES)) for end in bins)
    case.when(named and not there, -STRONG, f"'{bins[0].name}' is not named as places are")
    roles = {end.name: OutputRole.POINTS for end in bins} | {end.name: OutputRole.SCORES for end in there}
    yield Hypothesis.of(case, Kind.KEYPOINTS, "lanes by rows", roles)


def _cut(ends: Ends, end: End) -> bool:
    """Tell whether an output is a vector that was reshaped, without a symbol or a picture in between."""
    return ends.flat(end) and end.tail.activations == {""}
