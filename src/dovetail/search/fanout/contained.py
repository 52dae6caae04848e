"""A task in a child process that is killed when it takes too long: for workers that are not ours to kill.

A cluster's worker that hangs in an evaluation would stay busy for ever: nobody can end a thread. So where evaluations
have a limit, the worker leaves them to a child of its own; the child is killed in time, and the worker goes on.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from multiprocessing.connection import Pipe

from dovetail.search.fanout.task import Task, TaskError, Work
from dovetail.search.trial import Scores

_CHILD = "dovetail.search.fanout.child"


class _TaskProcess:
    """One process that runs tasks; not one of multiprocessing: a cluster's workers may be daemons, which have none."""

    def __init__(self) -> None:
        self._pipe, theirs = Pipe()
        command = (sys.executable, "-m", _CHILD, str(theirs.fileno()))
        self._process = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
        theirs.close()

    def run(self, task: Task, work: Work | None, limit_s: float | None) -> Scores | TaskError | None:
        """Return what the task gave or raised; raise TimeoutError or EOFError, and then the process is gone."""
        try:
            self._pipe.send((task, work))
            if not self._pipe.poll(limit_s):
                raise TimeoutError
            answer: Scores | TaskError | None = self._pipe.recv()
        except (TimeoutError, EOFError, OSError):
            self.end()
            raise
        return answer

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()


class _ThreadChild(threading.local):
    """The child of one thread."""

    process: _TaskProcess | None = None


_thread = _ThreadChild()


def run_contained(task: Task, work: Work | None, limit_s: float | None) -> Scores | None:
    """Return the scores, or None when the child of this thread has not been sent the work.

    What takes longer, or takes its process along, scores NaN with the reason; what the task raises is raised here. The
    limit counts from when the child was sent the task: a new one loads Dovetail and the model in it. Without a limit it
    may take for ever.
    """
    child = _thread.process or _TaskProcess()
    _thread.process = None
    try:
        answer = child.run(task, work, limit_s)
    except TimeoutError:
        return Scores.failed(f"took longer than {limit_s:g} s")
    except (EOFError, OSError):
        return Scores.failed("the process that ran it died")
    _thread.process = child
    if isinstance(answer, TaskError):
        raise answer.error()
    return answer
