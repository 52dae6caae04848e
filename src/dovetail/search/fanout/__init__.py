"""Evaluate plans on many workers at once, with the answer of one worker."""

from dovetail.search.fanout.dispatch import FanOut, open_channels
from dovetail.search.fanout.places import Place, dask_place, local_place
from dovetail.search.fanout.pool import PoolOptions, WorkerPool
from dovetail.search.fanout.task import Executor, Measure, Query, Task, Work, run_task

__all__ = [
    "Executor",
    "FanOut",
    "Measure",
    "Place",
    "PoolOptions",
    "Query",
    "Task",
    "Work",
    "WorkerPool",
    "dask_place",
    "local_place",
    "open_channels",
    "run_task",
]
