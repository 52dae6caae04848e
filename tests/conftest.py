"""What several rooms' tests share."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import draws
import hypothesis
import needs
import pytest
from hypothesis.internal.conjecture import providers

from dovetail.backend import registry
from dovetail.cost.probed import FOLDER_VARIABLE

pytest_plugins = ("once", "skips")
# The first two are clocks on the wall. Hypothesis draws from a test's name instead of the run's seed where CI is set.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], derandomize=False
)
hypothesis.settings.load_profile("patient")
hypothesis.core.global_force_seed = draws.seed_of("hypothesis")  # type: ignore[assignment]
# Hypothesis draws constants of the modules that happen to be loaded: which ones are depends on what ran before.
providers._get_local_constants = providers.Constants
ROOT = Path(__file__).parents[1]
DEFAULT_MODELS = ROOT.parent / "shared" / "models"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what the run drew from."""
    terminalreporter.write_line(f"{draws.VARIABLE}={draws.run_seed()}")


@pytest.fixture(scope="session", autouse=True)
def _prices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the vendor's prices of a run apart from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("prices")))
        yield


@pytest.fixture(scope="session")
def models() -> Path:
    """Return the folder of collected models; skip where there is none."""
    folder = Path(os.environ.get("DOVETAIL_MODELS", DEFAULT_MODELS))
    if not (folder / "MANIFEST.json").is_file():
        needs.without("models", f"no collected models at {folder}: set DOVETAIL_MODELS")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _no_failures_of_others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let what compilers failed on be remembered where the person who runs the tests does not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOVETAIL_FAILURES", str(tmp_path_factory.mktemp("failures")))
        yield


@pytest.fixture(scope="session")
def digits() -> Path:
    """Return the folder of the embedded digit detector."""
    return ROOT / "examples" / "digits"


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], None]]:
    """Put a package of tests/thirdparty, and the metadata that an installer would write, on the path."""
    before = list(sys.path)
    names: list[str] = []

    def call(name: str) -> None:
        package = Path(__file__).parent / "thirdparty" / name
        project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
        site = tmp_path_factory.mktemp("site")
        metadata = site / f"{project['name']}-{project['version']}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        )
        lines = [
            line
            for group, points in project["entry-points"].items()
            for line in (f"[{group}]", *(f"{point} = {value}" for point, value in points.items()))
        ]
        (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
        sys.path[:0] = [str(site), str(package)]
        names.append(name)
        _forget()

    yield call
    sys.path[:] = before
    for name in names:
        sys.modules.pop(name, None)
    _forget()


def _forget() -> None:
    for cached in (registry._points, registry.backend, registry.find_target):
        cached.cache_clear()
