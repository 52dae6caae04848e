"""Branches overlap, requests follow each other, and the times add up; the devices here only wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pytest
import work

from dovetail.backend.protocols import Blob, ExecutableAbilities
from dovetail.bundle import Bundle
from dovetail.bundle.bundle import CompiledPartition
from dovetail.errors import DeviceError
from dovetail.ir import AnyArray, DType, TensorType
from dovetail.ir.precision import Precision
from dovetail.plan import Placement, Plan
from dovetail.runtime import Guard, Session, SessionOptions
from dovetail.runtime.stage import Stage

KIND = TensorType(DType.F32, (1, 4))
PAUSE_S = 0.03


@dataclass
class Waiting:
    """Wait, then give the sum of the inputs plus one; run by one thread at a time."""

    outputs: tuple[str, ...]
    pause_s: float = PAUSE_S
    fails: bool = False
    spoil: AnyArray | None = None
    meets: threading.Barrier | None = None
    """Met by runs that are under way at the same time; broken, with an error, when the other never comes."""
    busy: threading.Lock = field(default_factory=threading.Lock)
    closed: bool = False

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        assert self.busy.acquire(blocking=False), "two requests at once"
        try:
            time.sleep(self.pause_s)
            if self.meets is not None:
                self.meets.wait(timeout=work.PATIENCE_S)
            if self.fails:
                raise ZeroDivisionError("a defect")
            total = np.asarray(sum(inputs.values()) + np.float32(1))
            return dict.fromkeys((*self.outputs, *taps), total if self.spoil is None else self.spoil)
        finally:
            self.busy.release()

    def abilities(self) -> ExecutableAbilities:
        return ExecutableAbilities()

    def close(self) -> None:
        self.closed = True


def _session(
    *stages: tuple[str, tuple[str, ...], tuple[str, ...]],
    change: Mapping[int, Waiting] | None = None,
    options: SessionOptions | None = None,
) -> Session:
    """Make a session of (device, inputs, outputs); the model reads `x` and gives what the last stage gives."""
    made: list[Stage] = []
    for index, (device, inputs, outputs) in enumerate(stages):
        kinds = dict.fromkeys((*inputs, *outputs), KIND)
        part = CompiledPartition(device, "waiting", "1", Blob("waiting", b""), inputs, outputs, kinds)
        executable = (change or {}).get(index, Waiting(outputs))
        made.append(Stage(index, part, device, executable, part.signature))
    plan = Plan("", Placement("a", Precision.FP32))
    final = stages[-1][2]
    parts = tuple(stage.part for stage in made)
    return Session(Bundle("b", plan, {"x": KIND}, dict.fromkeys(final, KIND), parts, {}), made, options)


CHAIN = (("A", ("x",), ("s",)), ("B", ("s",), ("t",)))
DIAMOND = (("A", ("x",), ("l",)), ("B", ("x",), ("r",)), ("A", ("l", "r"), ("y",)))


def _x(value: float = 0.0) -> dict[str, AnyArray]:
    return {"x": np.full((1, 4), value, np.float32)}


def test_branches_on_two_devices_run_at_the_same_time() -> None:
    both = threading.Barrier(2)
    change = {0: Waiting(("l",), meets=both), 1: Waiting(("r",), meets=both)}
    with _session(*DIAMOND, change=change) as session:
        run = session.run(_x())
    np.testing.assert_array_equal(run.outputs["y"], np.full((1, 4), 3))
    left, right, join = run.timings
    assert join.start_ns >= max(left.start_ns + left.elapsed_ns, right.start_ns + right.elapsed_ns)


def test_overlap_can_be_switched_off() -> None:
    with _session(*DIAMOND, options=SessionOptions(overlap=False)) as session:
        run = session.run(_x())
    assert run.elapsed_ns >= 3 * PAUSE_S * 1e9


@pytest.mark.parametrize("stages", [CHAIN, DIAMOND])
def test_times_add_up(stages: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]) -> None:
    with _session(*stages) as session:
        session.run(_x())
        run = session.run(_x())
    assert run.busy_ns + run.idle_ns == run.elapsed_ns
    assert 0 <= run.idle_ns < run.elapsed_ns
    for item in run.timings:
        assert 0 <= item.start_ns <= item.start_ns + item.elapsed_ns <= run.elapsed_ns
        assert item.compute_ns + item.transfer_ns == item.elapsed_ns


def test_requests_follow_each_other_through_the_stages_in_order() -> None:
    count = 10
    second = threading.Event()

    class First(Waiting):
        def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
            if float(inputs["x"][0, 0]) == 1:
                second.set()
            return super().run(inputs, taps)

    class Last(Waiting):
        def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
            # The first request is not finished before the second has begun.
            assert second.wait(timeout=work.PATIENCE_S)
            return super().run(inputs, taps)

    with _session(*CHAIN, change={0: First(("s",), 0.001), 1: Last(("t",), 0.001)}) as session:
        runs = list(session.run_many(_x(float(index)) for index in range(count)))
    for index, run in enumerate(runs):
        np.testing.assert_array_equal(run.outputs["t"], np.full((1, 4), index + 2))


def test_many_threads_may_run_one_session() -> None:
    found: dict[int, AnyArray] = {}
    with _session(*CHAIN, change={0: Waiting(("s",), 0.001), 1: Waiting(("t",), 0.001)}) as session:

        def call(index: int) -> None:
            found[index] = session.run(_x(float(index))).outputs["t"]

        threads = [threading.Thread(target=call, args=(index,)) for index in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {index: float(value[0, 0]) for index, value in found.items()} == {index: index + 2.0 for index in range(16)}


def test_what_can_run_in_several_threads_does() -> None:
    """Each of the two runs waits in the first partition until the other has come there too."""

    class Together(Waiting):
        def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
            both.wait(timeout=work.PATIENCE_S)
            return {"s": inputs["x"] + np.float32(1)}

        def abilities(self) -> ExecutableAbilities:
            return ExecutableAbilities(concurrent=True)

    both = threading.Barrier(2)
    with _session(*CHAIN, change={0: Together(("s",))}) as session, ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(session.run, [_x(0.0), _x(5.0)]))
    assert [float(run.outputs["t"][0, 0]) for run in runs] == [2.0, 7.0]


@pytest.mark.parametrize("stages", [CHAIN, DIAMOND])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_failure_names_the_partition_and_the_session_goes_on(
    stages: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...], asynchronous: bool
) -> None:
    broken = Waiting(stages[1][2], fails=True)
    with _session(*stages, change={1: broken}) as session:
        with pytest.raises(DeviceError, match=r"partition 1 \(B on B\): ZeroDivisionError: a defect"):
            session.run_async(_x()).result() if asynchronous else session.run(_x())
        broken.fails = False
        assert session.run(_x()).outputs


def test_wrong_inputs_are_told_at_once() -> None:
    with _session(*CHAIN) as session, pytest.raises(DeviceError, match="input 'x' is missing"):
        session.run_async({})


def test_a_reader_who_stops_leaves_nothing_running() -> None:
    with _session(*CHAIN) as session:
        runs: Iterator[object] = session.run_many(_x() for _ in range(100))
        next(runs)
        del runs
    assert all(stage.executable.closed for stage in session._stages)  # type: ignore[attr-defined]


NOT_A_NUMBER = np.full((1, 4), np.nan, np.float32)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (np.zeros((1, 5), np.float32), r"output 's' has shape \[1, 5\], not \[1, 4\]"),
        (np.zeros(4, np.float32), r"output 's' has shape \[4\]"),
        (np.zeros((1, 4), np.float64), "output 's' is float64, not float32"),
        (NOT_A_NUMBER, "output 's' holds NaN, and its inputs are finite"),
        (np.full((1, 4), np.inf, np.float32), "output 's' holds infinity"),
    ],
)
def test_what_a_device_gives_back_is_checked(spoil: AnyArray, says: str) -> None:
    bad = {0: Waiting(("s",), 0.0, spoil=spoil)}
    with _session(*CHAIN, change=bad, options=SessionOptions(Guard.NUMBERS)) as session:
        with pytest.raises(DeviceError, match=r"partition 0 \(A on A\): " + says):
            session.run(_x())
        with pytest.raises(DeviceError, match=r"partition 0"):
            session.run_async(_x()).result()


def test_a_missing_output() -> None:
    silent = {0: Waiting(("other",), 0.0)}
    with _session(*CHAIN, change=silent) as session, pytest.raises(DeviceError, match="output 's' is missing"):
        session.run(_x())


def test_not_a_number_that_came_in_may_go_out() -> None:
    with _session(*CHAIN, options=SessionOptions(Guard.NUMBERS)) as session:
        assert np.isnan(session.run({"x": NOT_A_NUMBER}).outputs["t"]).all()
