"""The rules of ONNX Runtime on processors that are older than this one: both forms are judged wherever CI runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from older_cpu import older_cpu

ROOT = Path(__file__).parents[3]
_JUDGED = (
    "tests/backends/reference/test_ort_rules.py",
    "tests/backends/reference/test_judges.py::test_agrees_with_onnx_runtime",
    "tests/importers/test_onnx_quantized.py",
)
FORMS = {"avx": "wide", "avx2": "pairs", "avx512": "pairs"}


@pytest.mark.parametrize("kind", FORMS)
def test_the_form_of_the_rules_is_measured(kind: str, tmp_path: Path) -> None:
    program = "from dovetail.backend.registry import find_target; print(find_target('reference:ort').name)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=older_cpu(kind, tmp_path), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"reference:ort-{FORMS[kind]}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind, form in FORMS.items() if form == "pairs"])
def test_what_saturates_there_is_computed_alike(kind: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not models", "-p", "no:cacheprovider", *_JUDGED]
    environment = older_cpu(kind, tmp_path)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "skipped" not in done.stdout
