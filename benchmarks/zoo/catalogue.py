"""Every case, and where the collection is."""

from __future__ import annotations

import os
from pathlib import Path

from zoo import audio, detectors, vision
from zoo.case import Case

ENVIRONMENT = "DOVETAIL_MODELS"

CASES: tuple[Case, ...] = (*detectors.CASES, *vision.CASES, *audio.CASES)


def models_root(given: Path | None = None) -> Path:
    """Return the folder of the collected models: as given, $DOVETAIL_MODELS, or ../shared/models."""
    if given is not None:
        return given
    beside = Path(__file__).resolve().parents[3] / "shared" / "models"
    return Path(os.environ.get(ENVIRONMENT, beside))
