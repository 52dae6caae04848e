"""A metric that waits: an evaluation on a board is mostly that."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.compare.task import Arrays, Reference, TaskMetric


class Waiting:
    """Score as another metric does, after a while."""

    def __init__(self, metric: TaskMetric, wait_s: float) -> None:
        self._metric, self._wait_s = metric, wait_s
        self.name = f"{metric.name}, after {wait_s:g} s"
        self.higher_is_better = metric.higher_is_better
        self.reference: Reference = metric.reference

    def per_sample(self, outputs: Arrays, labels: Arrays) -> NDArray[np.float64] | None:
        """Return the scores of the samples."""
        time.sleep(self._wait_s)
        return self._metric.per_sample(outputs, labels)

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        """Return the score of the set."""
        time.sleep(self._wait_s)
        found: Any = self._metric.score(outputs, labels)
        return float(found)
