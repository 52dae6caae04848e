"""A session: a bundle loaded on devices, ready to run."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from dovetail.backend.protocols import Executable, OperatorTime
from dovetail.backend.registry import backend, find_device, find_target
from dovetail.bundle.bundle import Bundle, CompiledPartition
from dovetail.errors import BundleError, DeviceError
from dovetail.ir.dtypes import AnyArray
from dovetail.runtime.checks import Guard, check_inputs, fits, known_of
from dovetail.runtime.engine import StageScheduler
from dovetail.runtime.lane import Lane, Request, layout_of, routes_of
from dovetail.runtime.memory import ProcessMemory, memory_now, memory_peak, reset_peak
from dovetail.runtime.profiling import PartitionAccount, ProfileOptions, RunProfile
from dovetail.runtime.record import Run
from dovetail.runtime.stage import Stage, flow_of
from dovetail.runtime.step import run_stage

if TYPE_CHECKING:
    from concurrent.futures import Future

    from dovetail.backend.containment import WorkerLimits


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How a session runs: what is checked, and how many requests are under way in `run_many` (0: a sensible count).

    `overlap` lets partitions of one request that wait for nothing of each other run at the same time. With `limits`,
    devices whose backend does not say that they are safe run in worker processes, bounded so: a crash or a hang is then
    a DeviceLost instead of the end of this process.
    """

    guard: Guard = Guard.SHAPES
    in_flight: int = 0
    overlap: bool = True
    limits: WorkerLimits | None = None


class Session:
    """Run a loaded bundle; a context manager. All methods may be called from several threads."""

    def __init__(self, bundle: Bundle, stages: Sequence[Stage], options: SessionOptions | None = None) -> None:
        self.bundle = bundle
        self.before_bytes: int | None = None
        """The memory of this process before the bundle was loaded, where somebody looked."""
        self._options = options or SessionOptions()
        self._stages = tuple(stages)
        self._types = bundle.tensors
        self._names = tuple((stage.part.target, stage.device) for stage in stages)
        self._flow = flow_of(stages)
        self._routes = routes_of(stages, frozenset(bundle.outputs))
        self._layout = layout_of(stages, self._routes, self._flow)
        self._expected = known_of(bundle.inputs)
        if len(self._expected) < len(bundle.inputs):
            self._expected = ()
        readers = [(name, stage.index) for stage in stages for name in stage.part.inputs if name in bundle.inputs]
        self._entries = tuple(readers)
        self._through = tuple(name for name in bundle.inputs if name in bundle.outputs)
        self._lanes: list[Lane] = []
        self._engine: StageScheduler | None = None
        self._starting = threading.Lock()

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Run:
        """Return outputs, taps and timings; inputs are stored values as the bundle declares them.

        Raises DeviceError when an input is missing, unknown or has the wrong type or shape, and for unknown taps.
        """
        if self._options.overlap and self._flow.overlaps:
            return self.run_async(inputs, taps).result()
        request = self._request(inputs, taps)
        for stage in self._stages:
            self._work(stage, request)
        self._lanes.append(request.lane)
        return self._finished(request)

    def run_async(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Future[Run]:
        """Start a run and return at once; several of them follow each other through the partitions.

        Raises DeviceError at once for wrong inputs; what goes wrong later is raised by the future.
        """
        # Costs a tenth of the time budget of importing the runtime.
        from concurrent.futures import Future

        request = self._request(inputs, taps)
        future: Future[Run] = Future()
        future.set_running_or_notify_cancel()

        def finish(error: BaseException | None) -> None:
            if error is not None:
                # The lane may still be written to by a stage that runs: it is left alone.
                future.set_exception(error)
                return
            self._lanes.append(request.lane)
            future.set_result(self._finished(request))

        self._started_engine().submit(request, finish)
        return future

    def run_many(self, feeds: Iterable[Mapping[str, AnyArray]], taps: Sequence[str] = ()) -> Iterator[Run]:
        """Yield the run of every feed in order, with several under way: the mode for throughput."""
        most = self._options.in_flight or len({stage.device for stage in self._stages}) + 1
        waiting: deque[Future[Run]] = deque()
        try:
            for inputs in feeds:
                waiting.append(self.run_async(inputs, taps))
                if len(waiting) >= most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.exception()

    def profile(
        self,
        feeds: Sequence[Mapping[str, AnyArray]],
        options: ProfileOptions,
        advance: Callable[[int], None] = lambda done: None,
    ) -> RunProfile:
        """Return how long runs take: one at a time, then several under way; `advance` hears how many are done.

        Inputs take turns. Raises DeviceError where there are none or they are wrong.
        """
        if not feeds:
            raise DeviceError("there is nothing to run a profile on.", hint="Give at least one sample.")
        reset_peak()
        for _ in range(options.warm_ups):
            self.run(feeds[0])
        runs: list[Run] = []
        starts: list[int] = []
        for number in range(options.runs):
            starts.append(time.perf_counter_ns())
            runs.append(self.run(feeds[number % len(feeds)]))
            advance(number + 1)
        begin = time.perf_counter_ns()
        for number, _ in enumerate(self.run_many(feeds[index % len(feeds)] for index in range(options.runs))):
            advance(options.runs + number + 1)
        together_ns = time.perf_counter_ns() - begin
        peak = memory_peak()
        memory = None if peak is None else ProcessMemory(self.before_bytes, peak)
        return RunProfile(tuple(runs), tuple(starts), together_ns, self.devices, memory, self._counted())

    def _counted(self) -> tuple[PartitionAccount, ...]:
        return tuple(
            PartitionAccount(len(account), sum(place != device for place in account.values()))
            for account, device in zip(self.accounts(), self.devices, strict=True)
        )

    @property
    def devices(self) -> tuple[str, ...]:
        """Return the device of every partition."""
        return tuple(stage.device for stage in self._stages)

    def accounts(self) -> tuple[Mapping[str, str], ...]:
        """Return for every partition which operators its backend holds and where they run; empty where it is silent."""
        accounts = (stage.abilities.account for stage in self._stages)
        return tuple({} if account is None else account() for account in accounts)

    def operator_times(self) -> tuple[Sequence[OperatorTime], ...]:
        """Return for every partition the times of its operators, where it was compiled with profiling."""
        tellers = (stage.abilities.operator_times for stage in self._stages)
        return tuple(() if times is None else times() for times in tellers)

    def close(self) -> None:
        """Free every device, after the runs under way; a second call does nothing."""
        with self._starting:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
        for stage in self._stages:
            stage.executable.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _request(self, inputs: Mapping[str, AnyArray], taps: Sequence[str]) -> Request:
        started = time.perf_counter_ns()
        if len(inputs) != len(self._expected) or not fits(self._expected, inputs):
            check_inputs(self.bundle.inputs, inputs)
        lane, tapped = self._lane(), {}
        if taps:
            for tensor in taps:
                if tensor not in self._types:
                    raise DeviceError(f"tap '{tensor}': the model has no such tensor.")
            tapped = {name: inputs[name] for name in taps if name in inputs}
        for name, reader in self._entries:
            lane.fed[reader][name] = inputs[name]
        return Request(lane, {name: inputs[name] for name in self._through}, tuple(taps), tapped, started)

    def _work(self, stage: Stage, request: Request) -> None:
        run_stage(stage, self._routes[stage.index], request, self._options.guard)

    def _lane(self) -> Lane:
        try:
            return self._lanes.pop()
        except IndexError:
            return Lane(self._stages, self._routes, self._layout)

    def _started_engine(self) -> StageScheduler:
        with self._starting:
            if self._engine is None:
                self._engine = StageScheduler(self._stages, self._flow, self._work)
            return self._engine

    def _finished(self, request: Request) -> Run:
        outputs = {name: request.outputs[name] for name in self.bundle.outputs}
        elapsed = time.perf_counter_ns() - request.started_ns
        return Run(outputs, request.tapped, self._types, request.marks, self._names, request.started_ns, elapsed)


def open_session(bundle: Bundle, options: SessionOptions | None = None) -> Session:
    """Load every partition of a bundle on a device; raise DeviceNotFound or DeviceError when one cannot be."""
    before = memory_now()
    stages: list[Stage] = []
    try:
        for index, part in enumerate(bundle.partitions):
            installed = backend(part.backend).version
            if installed != part.backend_version:
                raise BundleError(
                    f"partition {index} was compiled by {part.backend} {part.backend_version}; "
                    f"{installed} is installed.",
                    hint="Compile the model again with 'dovetail compile'.",
                )
            _check_needs(index, part)
            device, executable = _load(part, options)
            stages.append(Stage(index, part, device, executable, part.signature))
    except Exception:
        for stage in stages:
            stage.executable.close()
        raise
    session = Session(bundle, stages, options)
    session.before_bytes = before
    return session


def _check_needs(index: int, part: CompiledPartition) -> None:
    """Raise BundleError where this place lacks what a partition needs."""
    unmet = backend(part.backend).abilities().unmet
    why = "" if unmet is None or not part.needs else unmet(part.needs)
    if why:
        raise BundleError(
            f"partition {index} ({part.target}) does not run here: it needs {why}.",
            hint="Install what is missing, or compile the model again for what is here.",
        )


def _load(part: CompiledPartition, options: SessionOptions | None) -> tuple[str, Executable]:
    """Return the name of the device and the partition loaded on it, in a worker where that is asked for."""
    device = find_device(part.backend, part.target)
    limits = None if options is None else options.limits
    if limits is None or _is_safe(part):
        try:
            return device.name, device.load(part.blob, part.signature)
        except DeviceError:
            raise
        except Exception as error:
            # A plug-in is anybody's code: whatever it raises is its device's failure.
            raise DeviceError(f"{device.name}: {type(error).__name__}: {error}.") from error
    # Starting processes is for who asks for it: a board need not pay for the import.
    from dovetail.backend.containment import CompilerPlace, load_contained

    return device.name, load_contained(CompilerPlace(part.backend, part.target), part.blob, part.signature, limits)


def _is_safe(part: CompiledPartition) -> bool:
    is_safe = backend(part.backend).abilities().compiles_in_process
    return is_safe is not None and is_safe(find_target(part.target))
