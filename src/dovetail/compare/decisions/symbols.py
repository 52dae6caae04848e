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
    row = list(range(len(second) + 1))
    for i, left in enumerate(first, 1):
        above, row[0] = row[0], i
        for j, right in enumerate(second, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (left != right))
    return row[-1]
