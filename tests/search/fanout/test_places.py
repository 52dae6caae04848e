"""Where tasks run: what a place does when it stops, and how many tasks a cluster's workers can do at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from dovetail.errors import SearchError
from dovetail.search.fanout import Place, local_place
from dovetail.search.fanout.places import _threads


def test_a_place_that_stops_waits_for_nothing_and_begins_nothing_more() -> None:
    executor, go_on = ThreadPoolExecutor(1), Event()
    running, waiting = (executor.submit(go_on.wait) for _ in range(2))
    try:
        Place("here", 1, lambda: executor).stop(executor)
        assert waiting.cancelled()
        assert not running.done()
    finally:
        go_on.set()
    assert running.result()


@pytest.mark.parametrize("workers", [0, -1])
def test_no_workers_can_do_nothing(workers: int) -> None:
    with pytest.raises(SearchError, match=f"^{workers} workers can do nothing"):
        local_place(workers)


def test_one_process_is_a_place() -> None:
    place = local_place(1)
    assert (place.name, place.width, place.kill is None) == ("1 processes", 1, False)


@pytest.mark.parametrize(
    ("demanded", "count"),
    [({}, 7), ({"npu": 1.0}, 3), ({"npu": 2.0}, 1), ({"npu": 0.0}, 7), ({"npu": 1.0, "gb": 8.0}, 1)],
)
def test_workers_do_as_many_tasks_as_they_have_threads_and_resources_for(
    demanded: dict[str, float], count: int
) -> None:
    workers = {
        "a": {"nthreads": 4, "resources": {"npu": 2.0, "gb": 8.0}},
        "b": {"nthreads": 2, "resources": {"npu": 1.5}},
        "c": {},
    }
    assert _threads(workers, demanded) == count
