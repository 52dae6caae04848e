"""Find a task metric by name, or in a user's Python file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from dovetail.compare.classification import Top1Agreement, TopK
from dovetail.compare.decisions.noise import AnyNoise
from dovetail.compare.localisation import COCO_IOUS, BoxIou, DetectionAp, MeanIou
from dovetail.compare.task import Arrays, Reference, TaskMetric, callable_metric
from dovetail.errors import DataError, suggestion

TASK_METRICS: Mapping[str, TaskMetric] = {
    metric.name: metric
    for metric in (
        TopK("top1", 1),
        TopK("top5", 5),
        DetectionAp("ap50"),
        DetectionAp("map", COCO_IOUS),
        MeanIou(),
        BoxIou(),
        Top1Agreement(),
        AnyNoise(),
    )
}


def load_metric(name: str, others: Sequence[str] = ()) -> TaskMetric:
    """Return a registered metric, or the one at `path/to/file.py:object`; `others` are known to the caller.

    The file is executed with all the rights of this process: load only your own. The object is a TaskMetric
    or a function `(outputs, labels) -> float | [N]`.
    Raises DataError.
    """
    if name in TASK_METRICS:
        return TASK_METRICS[name]
    file, separator, attribute = name.rpartition(":")
    if not separator or not file.endswith(".py"):
        hint = f"{suggestion(name, (*TASK_METRICS, *others))} Or write path/to/file.py:function for your own."
        raise DataError(f"metric '{name}' is not known.", hint=hint, option="metric")
    path = Path(file)
    if not path.is_file():
        raise DataError(f"metric {name!r}: no file {file}.")
    return FileMetric(path.read_bytes(), str(path), attribute)


class FileMetric:
    """Show what a user's file defines as a TaskMetric; it is sent to other processes as the file's text."""

    def __init__(self, source: bytes, file: str, attribute: str) -> None:
        self._arguments = source, file, attribute
        self._metric = _metric(source, file, attribute)

    def __reduce__(self) -> tuple[type[FileMetric], tuple[bytes, str, str]]:
        return FileMetric, self._arguments

    @property
    def name(self) -> str:
        return self._metric.name

    @property
    def higher_is_better(self) -> bool:
        return self._metric.higher_is_better

    @property
    def reference(self) -> Reference:
        return self._metric.reference

    def per_sample(self, outputs: Arrays, labels: Arrays) -> NDArray[np.float64] | None:
        return self._metric.per_sample(outputs, labels)

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        return self._metric.score(outputs, labels)


def _metric(source: bytes, file: str, attribute: str) -> TaskMetric:
    name = f"{file}:{attribute}"
    module = ModuleType(f"dovetail_user_metric_{Path(file).stem}")
    module.__file__ = file
    try:
        exec(compile(source, file, "exec"), module.__dict__)
    except Exception as error:  # a user's file may raise anything
        raise DataError(f"metric {name!r}: {file}: {type(error).__name__}: {error}.") from error
    if not hasattr(module, attribute):
        raise DataError(f"metric {name!r}: {file} has no {attribute!r}.")
    metric = getattr(module, attribute)
    if isinstance(metric, TaskMetric) and not isinstance(metric, type):
        return metric
    if not callable(metric) or isinstance(metric, type):
        raise DataError(f"metric {name!r}: {attribute!r} is neither a function nor a metric.")
    return callable_metric(metric, attribute)
