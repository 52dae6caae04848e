"""Find a task metric by name, or in a user's Python file."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Mapping
from pathlib import Path

from dovetail.compare.classification import Top1Agreement, TopK, WorstSliceSqnr
from dovetail.compare.localisation import COCO_IOUS, BoxIou, DetectionAp, MeanIou
from dovetail.compare.task import TaskMetric, callable_metric
from dovetail.errors import DataError

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
        WorstSliceSqnr(),
    )
}


def load_metric(name: str) -> TaskMetric:
    """Return a registered metric, or the one at `path/to/file.py:object`.

    The file is executed with all the rights of this process: load only your own. The object is a TaskMetric
    or a function `(outputs, labels) -> float | [N]`.
    Raises DataError.
    """
    if name in TASK_METRICS:
        return TASK_METRICS[name]
    file, separator, attribute = name.rpartition(":")
    if not separator or not file.endswith(".py"):
        near = difflib.get_close_matches(name, TASK_METRICS, n=1)
        raise DataError(
            f"metric {name!r} is not known; known are {', '.join(TASK_METRICS)}.",
            hint=f"Did you mean {near[0]!r}?" if near else "Write path/to/file.py:function for your own.",
        )
    path = Path(file)
    if not path.is_file():
        raise DataError(f"metric {name!r}: no file {file}.")
    found = _load(path, name, attribute)
    if isinstance(found, TaskMetric) and not isinstance(found, type):
        return found
    if not callable(found) or isinstance(found, type):
        raise DataError(f"metric {name!r}: {attribute!r} is neither a function nor a metric.")
    return callable_metric(found, attribute)


def _load(path: Path, name: str, attribute: str) -> object:
    spec = importlib.util.spec_from_file_location(f"dovetail_user_metric_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise DataError(f"metric {name!r}: {path} cannot be loaded.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a user's file may raise anything
        raise DataError(f"metric {name!r}: {path}: {type(error).__name__}: {error}.") from error
    if not hasattr(module, attribute):
        raise DataError(f"metric {name!r}: {path} has no {attribute!r}.")
    return getattr(module, attribute)
