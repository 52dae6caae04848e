"""Top-1 where a sample accepts several classes: what the collection's photos are labelled with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def top1(outputs: Mapping[str, np.ndarray[Any, Any]], labels: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    """Return `[N]`: whether the best class of the only output is among `accepted` `[N, classes]`."""
    (scores,) = outputs.values()
    best = scores.reshape(len(scores), -1).argmax(axis=1)
    return (labels["accepted"] == best[:, None]).any(axis=1).astype(np.float64)
