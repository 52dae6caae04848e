"""Workers that are killed, hang, crash or are asked for nonsense: errors with a reason, and nothing left behind."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import work

from dovetail.backend.protocols import CompileOptions, Signature
from dovetail.backends.verisilicon.driver.bench import GraphBench
from dovetail.backends.verisilicon.driver.process import DriverLimits, Launch, WorkerDiedError, WorkerProcess
from dovetail.backends.verisilicon.driver.session import Settings, VendorSession
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.errors import CompileError, CompileFailure, DeviceLost
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.sdk.selftest import convolution_graph

from .conftest import target_named

pytestmark = [pytest.mark.sdk, pytest.mark.usefixtures("traceless")]
TARGET = target_named("vsi:v853")
SLOW = Graph(
    "slow",
    (Node("n", "Exp", ("x",), ("y",)),),
    ("x",),
    ("y",),
    {"x": TensorType(DType.F32, (1, 64, 64, 64)), "y": TensorType(DType.F32, (1, 64, 64, 64))},
)
"""Its shader takes seconds to compile."""


def soon(action: Callable[[], object], delay_s: float) -> threading.Timer:
    timer = threading.Timer(delay_s, action)
    timer.start()
    return timer


def test_a_worker_starts_quickly_and_in_little_memory(vendor: VsiBackend) -> None:
    session = VendorSession(lower_graph(convolution_graph(), part_of(TARGET)), Settings(vendor.folder))
    used = Path(f"/proc/{session.process_id}/stat").read_text().rpartition(")")[2].split()[11:13]
    processor_s = sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
    status = Path(f"/proc/{session.process_id}/status").read_text()
    resident_kb = int(status.partition("VmHWM:")[2].split()[0])
    session.close()
    session.close()
    assert processor_s < 3.0
    assert resident_kb < 300_000


@pytest.mark.parametrize(("limits", "workers"), [(DriverLimits(kept_bytes=1), 3), (DriverLimits(), 1)])
def test_a_worker_that_holds_much_is_followed_by_another(
    limits: DriverLimits, workers: int, vendor: VsiBackend
) -> None:
    """Graphs are never freed: a campaign over nine parts held 20 GB."""
    graph = convolution_graph()
    program = lower_graph(graph, part_of(TARGET))
    kind = graph.types[graph.inputs[0]]
    sample = {graph.inputs[0]: np.zeros(kind.static_shape or (), kind.dtype.carrier)}
    seen = set()
    with GraphBench(part_of(TARGET).sdk_name, Settings(vendor.folder, limits)) as simulator:
        for _ in range(3):
            simulator.measure(program, [sample], {name: graph.types[name] for name in graph.outputs})
            assert simulator._worker is not None
            assert simulator._worker.resident_bytes > 10 << 20
            seen.add(simulator._worker.pid)
    assert len(seen) == workers


def test_killed_while_compiling_is_a_compile_error(vendor: VsiBackend) -> None:
    session = VendorSession(lower_graph(SLOW, part_of(TARGET)), Settings(vendor.folder))
    process = session.process_id
    soon(lambda: os.kill(process, signal.SIGKILL), 0.5)
    with pytest.raises(CompileError, match="died while compiling: SIGKILL") as caught:
        session.compile()
    assert caught.value.failure is CompileFailure.KILLED
    assert not Path(f"/proc/{process}").exists()


def test_killed_while_running_is_a_lost_device(graphs: VsiBackend) -> None:
    graph = convolution_graph()
    blob = graphs.compile(graph, TARGET, CompileOptions())
    executable = graphs.devices()[0].load(blob, Signature.of(graph))
    sample = {"x": np.zeros((1, 2, 4, 4), np.uint8)}
    executable.run(sample)
    os.kill(executable.process_id, signal.SIGKILL)
    with pytest.raises(DeviceLost, match="SIGKILL"):
        executable.run(sample)
    executable.close()


def test_a_stopped_worker_runs_out_of_time(graphs: VsiBackend) -> None:
    graph = convolution_graph()
    hurried = replace(graphs, limits=DriverLimits(run_s=0.5))
    executable = hurried.devices()[0].load(graphs.compile(graph, TARGET, CompileOptions()), Signature.of(graph))
    os.kill(executable.process_id, signal.SIGSTOP)
    with pytest.raises(DeviceLost, match="took longer than"):
        executable.run({"x": np.zeros((1, 2, 4, 4), np.uint8)})


def test_a_compilation_that_takes_too_long_is_ended(vendor: VsiBackend) -> None:
    session = VendorSession(lower_graph(SLOW, part_of(TARGET)), Settings(vendor.folder, DriverLimits(compile_s=1.0)))
    process = session.process_id
    with pytest.raises(CompileError, match="took longer than 1 s"):
        session.compile()
    assert not Path(f"/proc/{process}").exists()


def test_processor_time_is_limited(vendor: VsiBackend) -> None:
    session = VendorSession(lower_graph(SLOW, part_of(TARGET)), Settings(vendor.folder, DriverLimits(cpu_seconds=1)))
    with pytest.raises(CompileError, match=r"processor time|SIGKILL"):
        session.compile()


def test_memory_is_limited(vendor: VsiBackend) -> None:
    with pytest.raises(CompileError) as caught:
        VendorSession(
            lower_graph(convolution_graph(), part_of(TARGET)),
            Settings(vendor.folder, DriverLimits(address_bytes=100 << 20)),
        ).compile()
    assert "\n" not in str(caught.value)


def test_an_unknown_part_is_noticed(vendor: VsiBackend) -> None:
    part = replace(part_of(TARGET), sdk_name="VIP9000PICO_PID0XEF", pid=0xEF)
    with pytest.raises(
        CompileError, match=r"asked the simulator for VIP9000PICO_PID0XEF .* it started as PID 0x10000020"
    ):
        VendorSession(lower_graph(convolution_graph(), part), Settings(vendor.folder))


def test_a_shim_that_is_not_one_is_refused(vendor: VsiBackend, tmp_path: Path) -> None:
    shim = tmp_path / "libdovetail_vsi.so"
    shim.write_bytes(b"not a library")
    with pytest.raises(CompileError, match="cannot be loaded"):
        VendorSession(lower_graph(convolution_graph(), part_of(TARGET)), Settings(replace(vendor.folder, shim=shim)))


def test_a_worker_dies_with_its_parent(vendor: VsiBackend) -> None:
    launch = Launch(vendor.folder.shim, vendor.folder.sdk, "VIP9000PICO_PID0XEE")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # a parent that is killed without a chance to clean up
        worker = WorkerProcess(launch, DriverLimits(), 64)
        os.write(writer, f"{worker.pid} {worker.folder}".encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    process, place = os.read(reader, 4096).decode().split()
    os.close(reader)
    os.close(writer)
    deadline = time.monotonic() + work.PATIENCE_S
    while (_alive(int(process)) or Path(place).exists()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _alive(int(process))
    assert not Path(place).exists()


@pytest.mark.parametrize("step", ["compile", "run"])
def test_a_worker_that_works_dies_with_its_parent(step: str, vendor: VsiBackend) -> None:
    reader, writer = os.pipe()
    before = _folders()
    child = os.fork()
    if child == 0:
        session = VendorSession(lower_graph(SLOW, part_of(TARGET)), Settings(vendor.folder))
        found = " ".join(sorted(_folders() - before))
        if step == "run":
            session.compile()
        os.write(writer, f"{session.process_id} {found}".encode())
        if step == "run":
            session.run({"x": np.zeros((1, 64, 64, 64), np.float32)}, {"y": SLOW.types["y"]})
        else:
            session.compile()
        os._exit(1)
    process, *folders = os.read(reader, 4096).decode().split()
    time.sleep(0.2)  # let it begin
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)
    deadline = time.monotonic() + work.PATIENCE_S
    while (_alive(int(process)) or any(Path(name).exists() for name in folders)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert folders
    assert not _alive(int(process))
    assert not any(Path(name).exists() for name in folders)


def _folders() -> set[str]:
    """Return the folders of workers that are there now, those that other tests keep among them."""
    return {str(path) for path in Path(tempfile.gettempdir()).glob("dovetail-vsi-*")}


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_damaged_messages_end_the_worker(vendor: VsiBackend) -> None:
    launch = Launch(vendor.folder.shim, vendor.folder.sdk, "VIP9000PICO_PID0XEE")
    for message in ({"do": "nonsense"}, {"do": "build", "tensors": [{}]}, {"do": "run", "inputs": [], "outputs": []}):
        worker = WorkerProcess(launch, DriverLimits(), 0)
        with pytest.raises(WorkerDiedError, match="died while obeying"):
            worker.ask(dict(message), within_s=work.PATIENCE_S, doing="obeying")
        worker.close()
