"""Metrics in the text form of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dovetail.serve.model import ServedModel

METRICS_TYPE = CONTENT_TYPE_LATEST


class _ModelCollector(Collector):
    """The statistics of models as metrics."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self._models = models

    def collect(self) -> Iterator[Metric]:
        """Yield a metric of each kind, with a value for every model."""
        ended = CounterMetricFamily(
            "dovetail_requests", "Requests to run a model, by how they ended.", labels=("model", "result")
        )
        seconds = CounterMetricFamily(
            "dovetail_request_seconds", "Where the time of answered requests went.", labels=("model", "part")
        )
        runs = CounterMetricFamily(
            "dovetail_runs", "Runs of a model: each answers one request or more.", labels=("model",)
        )
        waiting = GaugeMetricFamily("dovetail_requests_waiting", "Requests under way.", labels=("model",))
        for model in self._models:
            known = model.statistics
            with known.lock:
                counts = (
                    ("success", known.success.count),
                    ("failure", known.fail.count),
                    ("refused", known.refused),
                    ("dropped", known.dropped),
                )
                for result, count in counts:
                    ended.add_metric((model.name, result), count)
                for part, duration in known.parts.items():
                    seconds.add_metric((model.name, part), duration.total_ns / 1e9)
                runs.add_metric((model.name,), known.executions)
            waiting.add_metric((model.name,), model.waiting)
        yield from (ended, seconds, runs, waiting)


def metrics_text(models: Sequence[ServedModel]) -> bytes:
    """Return the metrics of all models."""
    registry = CollectorRegistry()
    registry.register(_ModelCollector(models))
    text: bytes = generate_latest(registry)
    return text
