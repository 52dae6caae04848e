"""Download the pinned wheel with pip, and check it before anything opens it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from dovetail.errors import DovetailError
from dovetail.sdk.pinned import WHEELS, PinnedWheel

Progress = Callable[[str, float], None]
"""Called with what is being done and the share that is done, 0 to 1."""

_BLOCK_BYTES = 1 << 20
_POLL_S = 0.5


def download_wheel(wheel: PinnedWheel, folder: Path, progress: Progress) -> Path:
    """Return the downloaded wheel, not yet checked; raise DovetailError when it cannot be had."""
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"),
        *("--disable-pip-version-check", "--progress-bar", "off", "--no-cache-dir", "--retries", "1"),
        *("--python-version", wheel.python, "--implementation", "cp", "--platform", wheel.platform),
        *("--dest", str(folder), wheel.requirement),
    ]
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(wheel, folder, progress, stop), daemon=True)
    watcher.start()
    try:
        # TMPDIR keeps pip's partial download where the watcher sees it, on the disc that will hold the result.
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=_environment(folder)
        )
    except OSError as error:
        raise DovetailError(f"pip cannot be started: {error.strerror}.", hint=_OFFLINE_HINT) from error
    finally:
        stop.set()
        watcher.join()
    wheels = sorted(folder.glob("*.whl"))
    if ended.returncode != 0 or not wheels:
        raise DovetailError(
            f"{wheel.requirement} cannot be downloaded: {pip_reason(ended.stderr or ended.stdout)}.",
            hint=_OFFLINE_HINT,
            option="source",
        )
    return wheels[0]


_OFFLINE_HINT = "Check the network and pip's index, or download the wheel elsewhere and install from that file."


def _environment(folder: Path) -> dict[str, str]:
    import os

    return {**os.environ, "TMPDIR": str(folder)}


def pip_reason(output: str) -> str:
    """Return why pip failed, in a few words taken from what it printed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any("No module named pip" in line for line in lines):
        return "this Python has no pip"
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    unreachable = ("NewConnectionError", "Name or service", "Temporary failure", "ConnectTimeout", "Network is unreach")
    if any(sign in line for line in lines for sign in unreachable):
        return "the package index cannot be reached"
    return (errors or lines or ["pip gave no reason"])[0].rstrip(".")[:300]


def _watch(wheel: PinnedWheel, folder: Path, progress: Progress, stop: threading.Event) -> None:
    while not stop.wait(_POLL_S):
        size = 0
        for path in folder.rglob("*"):
            try:
                size += path.stat().st_size if path.is_file() else 0
            except OSError:
                continue
        progress(f"downloading {wheel.requirement}", min(size / wheel.size_bytes, 0.99))


def file_sha256(path: Path, progress: Progress | None = None) -> str:
    """Return the SHA-256 of a file."""
    hasher = hashlib.sha256()
    total, done = max(path.stat().st_size, 1), 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            hasher.update(block)
            done += len(block)
            if progress is not None:
                progress("checking", done / total)
    return hasher.hexdigest()


def check_wheel(wheel: PinnedWheel, path: Path, progress: Progress) -> None:
    """Raise DovetailError when a file is not the pinned wheel."""
    digest = file_sha256(path, progress)
    other = next((one for one in WHEELS.values() if one.sha256 == digest and one is not wheel), None)
    if other is not None:
        raise DovetailError(
            f"{path.name} is {other.requirement}, not {wheel.requirement}.",
            hint=f"Ask for version {other.version} to install it.",
            option="version",
        )
    if digest != wheel.sha256:
        raise DovetailError(
            f"{path.name} is not {wheel.requirement}: its SHA-256 is {digest}, expected {wheel.sha256}.",
            hint="Download it again; if it happens twice, report it and do not use the file.",
        )
