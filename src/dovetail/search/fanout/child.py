"""What a child process of `contained` does: `python -m dovetail.search.fanout.child DESCRIPTOR`."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection

from dovetail.search.fanout.task import TaskError, run_task
from dovetail.search.trial import Scores


def serve(pipe: Connection) -> None:
    """Run tasks until the other end is closed."""
    while True:
        try:
            task, work = pipe.recv()
        except (EOFError, OSError):
            return
        answer: Scores | TaskError | None
        try:
            answer = run_task(task, work)
        except Exception as error:  # It is raised at the other end.
            answer = TaskError(type(error).__name__, str(error), isinstance(error, MemoryError))
        pipe.send(answer)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
