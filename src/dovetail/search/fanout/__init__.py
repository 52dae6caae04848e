"""Evaluate plans on many workers at once, with the answer of one worker."""

from dovetail.search.fanout.crew import Crew, CrewOptions
from dovetail.search.fanout.desk import FanOut, open_desks
from dovetail.search.fanout.places import Place, dask_place, local_place
from dovetail.search.fanout.task import Executor, Job, Task, Work, run_task

__all__ = [
    "Crew",
    "CrewOptions",
    "Executor",
    "FanOut",
    "Job",
    "Place",
    "Task",
    "Work",
    "dask_place",
    "local_place",
    "open_desks",
    "run_task",
]
