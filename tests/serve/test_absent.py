"""Without the packages of the extra: one line that says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SERVER = [("serve", package) for package in ("grpc", "starlette", "uvicorn", "prometheus_client")]
CLIENT = [("devices", "grpc")]


@pytest.mark.parametrize(("command", "package"), [*SERVER, *CLIENT])
def test_what_is_missing_is_named(command: str, package: str, tmp_path: Path) -> None:
    words = ["serve", str(tmp_path)] if command == "serve" else ["devices", "--on", "grpc://127.0.0.1:1"]
    program = (
        f"import sys; sys.modules[{package!r}] = None; from dovetail.cli.main import main; sys.exit(main({words}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert package.partition(".")[0] in done.stderr
    assert "pip install 'dovetail[serve]'" in done.stderr
    assert done.stderr.count("\n") == 1
