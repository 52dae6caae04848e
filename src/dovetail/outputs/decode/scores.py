"""How sure a detector is of every place and class."""

from __future__ import annotations

import numpy as np

from dovetail.outputs.decode.planes import Arrays, Floats, activate, read_part
from dovetail.outputs.layouts import Activation, DenseLayout


def place_scores(layout: DenseLayout, outputs: Arrays, index: int) -> Floats:
    """Return the scores `[P, classes]` of one sample, in 0..1, objectness included and the background left out."""
    arrays = {name: outputs[name][index : index + 1] for name in outputs}
    wanted = Activation.SIGMOID if layout.background is None else Activation.SOFTMAX
    scores: Floats = activate(read_part(layout.scores, arrays), layout.scores.activation, wanted)[0]
    if layout.background is not None:
        scores = np.asarray(np.delete(scores, layout.background, axis=1), np.float64)
    if layout.objectness is None:
        return scores
    part = layout.objectness
    there = activate(read_part(part, arrays), part.activation, Activation.SIGMOID)[0]
    joined = np.asarray(scores * there, np.float64)
    return np.asarray(np.sqrt(np.clip(joined, 0.0, None)), np.float64) if layout.geometric else joined
