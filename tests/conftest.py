"""What several rooms' tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DEFAULT_MODELS = ROOT.parent / "shared" / "models"


@pytest.fixture(scope="session")
def models() -> Path:
    """Return the folder of collected models; skip where there is none."""
    folder = Path(os.environ.get("DOVETAIL_MODELS", DEFAULT_MODELS))
    if not (folder / "MANIFEST.json").is_file():
        pytest.skip(f"no collected models at {folder}: set DOVETAIL_MODELS")
    return folder


@pytest.fixture(scope="session")
def digits() -> Path:
    """Return the folder of the embedded digit detector."""
    return ROOT / "examples" / "digits"
