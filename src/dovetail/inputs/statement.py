"""One statement about how pictures become an input."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.data.preprocess import Channels, PreprocessStep


@dataclass(frozen=True, slots=True)
class Statement:
    """What one source says; None where it says nothing. A value is (pixel - mean) * scale."""

    source: str
    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    channels: Channels | None = None
    steps: tuple[PreprocessStep, ...] | None = None
