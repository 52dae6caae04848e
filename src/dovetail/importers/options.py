"""What a person may ask of an import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Say how to read a model.

    `shapes` fixes the sizes of graph inputs: `{"input": (1, 3, 224, 224)}`.
    `max_file_bytes` bounds what is read, `max_fold_bytes` what one folded constant may add.
    `exact_hybrid` keeps what TFLite's kernels of float data and integer weights compute, data quantised as it runs;
    without it their weights become floats, which is what a plan for an NPU starts from.
    """

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    max_file_bytes: int = 2 * 1024**3
    max_fold_bytes: int = 16 * 1024**2
    exact_hybrid: bool = True
