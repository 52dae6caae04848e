"""Scores of a run: metrics over what came out, sample by sample, without a float model beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dovetail.errors import DataError

if TYPE_CHECKING:
    from dovetail.compare import TaskMetric
    from dovetail.data.sample import Sample
    from dovetail.ir import AnyArray
    from dovetail.report import Table


class RunScores:
    """Metrics of a run; outputs are kept only where one is asked for.

    Raises DataError for a metric that compares with float's outputs, which a run alone does not have.
    """

    def __init__(self, names: Sequence[str]) -> None:
        from dovetail.compare import load_metric
        from dovetail.compare.decisions import DECISIONS
        from dovetail.compare.task import Reference

        self._metrics: dict[str, TaskMetric] = {}
        for name in dict.fromkeys(names):
            metric = None if name == DECISIONS else load_metric(name, (DECISIONS,))
            if metric is None or metric.reference is not Reference.LABELS:
                raise DataError(
                    f"metric '{name}' compares with the float model, which a run alone does not have.",
                    hint="Use 'dovetail compare MODEL BUNDLE'.",
                    option="metric",
                )
            self._metrics[name] = metric
        self._outputs: dict[str, list[AnyArray]] = {}
        self._labels: dict[str, list[AnyArray]] = {}

    def add(self, outputs: Mapping[str, AnyArray], sample: Sample) -> None:
        """Take the outputs of one sample."""
        if not self._metrics:
            return
        for name, array in outputs.items():
            self._outputs.setdefault(name, []).append(array)
        for name, array in sample.labels.items():
            self._labels.setdefault(name, []).append(array)

    def document(self) -> dict[str, float]:
        """Return the scores by metric; raise DataError where labels do not fit."""
        import numpy as np

        from dovetail.compare import stack_samples

        if not self._metrics:
            return {}
        outputs = {name: stack_samples(name, arrays) for name, arrays in self._outputs.items()}
        labels = {name: np.stack(arrays) for name, arrays in self._labels.items()}
        return {name: metric.score(outputs, labels) for name, metric in self._metrics.items()}

    def higher_is_better(self, metric: str) -> bool:
        """Tell which way a metric is good."""
        return self._metrics[metric].higher_is_better


def scores_table(scores: Mapping[str, float]) -> Table:
    """Return scores as a table."""
    from dovetail.report.figures import number_text
    from dovetail.report.page import Table, flexible, right

    rows = tuple((name, number_text(score, 4)) for name, score in scores.items())
    return Table("Scores", (flexible("metric"), right("score")), rows)
