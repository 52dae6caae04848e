"""How many more requests a second two stages answer when requests follow each other through them: run by runtime.py.

Wall time, so that both cores are needed, and a busy machine does not have them to give. Every round therefore measures
first what there is to have: `capacity` is what two threads with a plain session each answer beside one of them alone.
The pipeline is printed over all rounds and over those in which the machine gave at least `1.9` cores.
The net is cut where both stages take about as long: the cut is chosen by measuring.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import openvino

from dovetail.ir import AnyArray, Graph
from dovetail.runtime import Session
from runtimes.net import DEVICES, arguments, cut, dovetail_session, hetero, image_for, mobilenet, two_devices

_REQUESTS = 50
"""The first fills the pipeline and the last empties it: few requests would measure that instead of throughput."""
_ENOUGH = 1.9
_SHARES = tuple(index / 20 for index in range(6, 15))


def balanced(graph: Graph, feed: Mapping[str, AnyArray]) -> tuple[float, Session]:
    """Return the share of the work in the first stage, and the session, whose slower stage is fastest."""
    best: tuple[float, float, Session] | None = None
    for share in _SHARES:
        session = dovetail_session(cut(graph, (share,), DEVICES)[1])
        runs = [session.run(feed) for _ in range(15)]
        slower = max(min(run.timings[index].elapsed_ns for run in runs) for index in (0, 1))
        if best is None or slower < best[0]:
            best = slower, share, session
    assert best is not None
    return best[1:]


def _wall(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def capacity(sessions: Sequence[Session], feed: Mapping[str, AnyArray]) -> float:
    """Return how many cores' work two threads got done."""

    def work(session: Session) -> None:
        for _ in range(_REQUESTS):
            session.run(feed)

    def together() -> None:
        threads = [threading.Thread(target=work, args=(session,)) for session in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return len(sessions) * _wall(lambda: work(sessions[0])) / _wall(together)


def ours(session: Session, feed: Mapping[str, AnyArray]) -> float:
    """Return the ratio of requests a second: several under way against one by one."""
    alone = _wall(lambda: [session.run(feed) for _ in range(_REQUESTS)])
    return alone / _wall(lambda: list(session.run_many(feed for _ in range(_REQUESTS))))


def theirs(compiled: openvino.CompiledModel, image: AnyArray) -> Callable[[], float]:
    """Return the same for HETERO, whose asynchronous requests follow each other through its parts."""
    queue = openvino.AsyncInferQueue(compiled, 3)
    request = compiled.create_infer_request()

    def many() -> None:
        for _ in range(_REQUESTS):
            queue.start_async({0: image}, share_inputs=True)
        queue.wait_all()

    def ratio() -> float:
        alone = _wall(lambda: [request.infer({0: image}, share_inputs=True) for _ in range(_REQUESTS)])
        return alone / _wall(many)

    return ratio


def main() -> None:
    """Print the table."""
    options = arguments(__doc__).parse_args()
    two_devices()
    graph, image = mobilenet(options.side), image_for(options.side)
    feed = {graph.inputs[0]: image}
    share, session = balanced(graph, feed)
    plan, _ = cut(graph, (share,), DEVICES)
    hetero_ratio = theirs(hetero(graph, plan), image)
    plain = [dovetail_session(cut(graph, (), DEVICES)[1]) for _ in range(2)]
    rounds: list[tuple[float, float, float]] = []
    for _ in range(max(5, options.rounds // 3)):
        rounds.append((capacity(plain, feed), ours(session, feed), hetero_ratio()))
    good = [item for item in rounds if item[0] >= _ENOUGH]
    print(f"the first stage has {share:.0%} of the work; {len(rounds)} rounds of {_REQUESTS} requests")
    print(f"{'':24} {'best':>6} {'median':>7} {f'median of the {len(good)} rounds with {_ENOUGH} cores':>44}")
    for column, name in enumerate(("capacity", "Dovetail", "HETERO")):
        found = [item[column] for item in rounds]
        middle = statistics.median(item[column] for item in good) if good else None
        text = "none" if middle is None else f"{middle:.2f}"
        print(f"{name:24} {max(found):6.2f} {statistics.median(found):7.2f} {text:>44}")


if __name__ == "__main__":
    main()
