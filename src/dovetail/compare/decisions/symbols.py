"""Agreement of text: edit distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.compare.decisions.golden import AgainstFloat, Floats
from dovetail.compare.task import Arrays
from dovetail.outputs.decode.symbols import read_symbols
from dovetail.outputs.layouts import SequenceLayout


@dataclass(frozen=True)
class TextAgreement(AgainstFloat):
    """1 less the edit distance from float's text, as a share of the longer of both."""

    layout: SequenceLayout
    name: str = "text"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        real, found = read_symbols(self.layout, labels), read_symbols(self.layout, outputs)
        pairs = zip(real, found, strict=True)
        return np.array([1.0 - edit_distance(a, b) / max(len(a), len(b), 1) for a, b in pairs])


def edit_distance(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many symbols have to be put in, left out or changed (Levenshtein, 1966)."""
    row = steps = np.arange(len(second) + 1)
    others = np.asarray(second, np.int64)
    for number, symbol in enumerate(first, 1):
        # Put in after any shorter beginning of the second: the least of those, less the steps in between.
        best = np.minimum(row[:-1] + (others != symbol), row[1:] + 1)
        row = np.minimum.accumulate(np.concatenate(([number], best)) - steps) + steps
    return int(row[-1])
