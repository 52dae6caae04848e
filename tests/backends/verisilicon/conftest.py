"""The installed SDK, or a reason to skip."""

from __future__ import annotations

import gc
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import needs
import numpy as np
import pytest
import work
from draws import seed_here, seed_of

from dovetail.backend.target import TargetProfile
from dovetail.backends.verisilicon.driver.process import DriverLimits
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.part import profile_of
from dovetail.backends.verisilicon.plugin import BlobForm, VsiBackend
from dovetail.ir.precision import Precision
from dovetail.sdk import find_verisilicon
from dovetail.sdk.build import build_shim
from dovetail.sdk.location import SHIM_NAME, SdkFolder, installation_folder
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome
from dovetail.testing.wild.growth import Growth

OLDER = "6.42.0"


EVERY = "DOVETAIL_EVERY"
_LEAST, _SHARE = 4, 4


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out three quarters of the cases of tests that have many, others with every seed; DOVETAIL_EVERY=1 runs all.

    They are the same arrangement on several parts and at several precisions. Cases that were found and kept all run.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name != "test_wild.py":
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left: set[pytest.Item] = set()
    for name, cases in tests.items():
        if len(cases) > _LEAST and not os.environ.get(EVERY) and not config.getoption("collectonly"):
            count = len(cases) - max(_LEAST, -(-len(cases) // _SHARE))
            left.update(random.Random(seed_of(name)).sample(cases, count))
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]


def drawn_input(growth: Growth, *shape: int) -> str:
    """Return an input of a drawn graph whose values lie evenly in -2 to 2."""
    name = growth.input(*shape)
    growth.values[name] = [growth.rng.uniform(-2.0, 2.0, shape).astype(np.float32) for _ in range(2)]
    return name


_kept: dict[str, SimulatorJudge] = {}
_held: list[str] = []
_MOST_KEPT = 2
"""Parts whose simulator is kept."""


def _limits() -> DriverLimits:
    """Let a simulator hold a sixteenth of the machine's memory, but no more than 1.5 GB: all its kernels of a part."""
    share = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 16
    return DriverLimits(kept_bytes=min(max(share, DriverLimits().kept_bytes), 3 << 29))


@contextmanager
def kept_judge(target: str, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    """Give the judge of a part that all tests of a process share: compiling a shader kernel takes 15 s, once."""
    if target not in _kept:
        _kept[target] = SimulatorJudge(profile_of(target_named(target)), Settings(vendor.folder, _limits()))
    _kept[target] = _kept.pop(target)
    for name in [name for name in _kept if name not in (target, *_held)][: max(0, len(_kept) - _MOST_KEPT)]:
        _kept.pop(name).close()
    _held.append(target)
    try:
        yield _kept[target]
    finally:
        _held.remove(target)


@pytest.fixture(scope="session", autouse=True)
def _ends_judges() -> Iterator[None]:
    """End what was kept."""
    yield
    while _kept:
        _kept.popitem()[1].close()


def expect_equal(target: str, precision: Precision, vendor: VsiBackend, cases: Mapping[str, WildCase]) -> None:
    """Assert that the simulator gives what the emulator does of every case."""
    with kept_judge(target, vendor) as judge:
        for name, case in cases.items():
            found = judge.judge(case, precision)
            assert found.outcome is WildOutcome.EQUAL, f"{name}: {found.steps} {found.reason}"


def expect_ties_only(
    target: str, precision: Precision, vendor: VsiBackend, drawn: Callable[[int], WildCase], count: int, share: float
) -> None:
    """Assert that of drawn cases no more than a share of all elements, and a fiftieth of one case's, is a step off."""
    seed, differing, elements = seed_here(), 0, 0
    with kept_judge(target, vendor) as judge:
        for index in np.random.SeedSequence(seed).generate_state(count):
            found = judge.judge(drawn(int(index)), precision)
            said = f"seed {index}: {found.outcome.value} {found.steps} {found.reason}"
            assert found.outcome in (WildOutcome.EQUAL, WildOutcome.DIFFERS), said
            assert found.steps.largest <= 1, said
            assert found.steps.differing <= max(2, 0.02 * found.steps.elements), said
            differing, elements = differing + found.steps.differing, elements + found.steps.elements
    assert differing <= max(2, share * elements), f"seed {seed}: {differing} of {elements}"


@pytest.fixture(scope="session")
def vendor() -> VsiBackend:
    """Return the backend that writes binary networks; skip where the SDK is not installed."""
    needs.verisilicon()
    return VsiBackend(find_verisilicon().folder)


@pytest.fixture(scope="session")
def graphs(vendor: VsiBackend) -> VsiBackend:
    """Return the backend that keeps graphs, whose tensors can be tapped."""
    return VsiBackend(vendor.folder, BlobForm.GRAPH)


@pytest.fixture(scope="session")
def timvx(tmp_path_factory: pytest.TempPathFactory) -> VsiBackend:
    """Return the backend over TIM-VX; skip where the older SDK is not installed."""
    sdk = installation_folder(version=OLDER) / "sdk"
    folder = SdkFolder(sdk, tmp_path_factory.mktemp("shim") / SHIM_NAME, "test", sdk)
    if not folder.has_sdk:
        needs.without(
            "timvx", f"SDK {OLDER} is not installed: run 'dovetail sdk install verisilicon --version {OLDER}'"
        )
    build_shim(folder)
    return VsiBackend(folder)


@pytest.fixture(scope="session", autouse=True)
def _own_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let workers make their folders where nobody else does, so that leftovers can be told."""
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.mktemp("workers"))
    yield
    tempfile.tempdir = before


def target_named(name: str) -> TargetProfile:
    """Return a target by name."""
    return next(one for one in VSI_PROFILES if one.name == name)


def traces() -> set[str]:
    """Return the folders and child processes of workers that are there now."""
    folders = {str(path) for path in Path(tempfile.gettempdir()).glob("dovetail-vsi-*")}
    children: set[str] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if b"driver/worker.py" in line and parent == os.getpid():
            children.add(entry.name)
    return folders | children


def check_one_line(error: Exception) -> None:
    """Fail unless an error says something on one line."""
    assert str(error).strip()
    assert "\n" not in str(error)


@pytest.fixture
def traceless() -> Iterator[None]:
    """Fail a test that leaves a process, a folder or an open shared memory behind."""
    before, descriptors = traces(), _shared_memory()
    yield
    # What an error's traceback held is let go by the collector, and processes take their time to end on a busy machine.
    gc.collect()
    limit = time.monotonic() + work.PATIENCE_S
    while not traces() <= before and time.monotonic() < limit:
        time.sleep(0.1)
    assert traces() <= before
    assert _shared_memory() <= descriptors


def _shared_memory() -> set[str]:
    found: set[str] = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if "memfd:dovetail-vsi" in target:
            found.add(f"{entry.name} {target}")
    return found
