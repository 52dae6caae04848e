"""What tensors of the float model hold on the samples that NNCF calibrates on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from dovetail.data import SampleSource
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.quantize.calibrate import load_float

CHANNELS = 1
"""The axis of channels."""


@dataclass(frozen=True, slots=True)
class Held:
    """The bounds of every channel over all samples."""

    low: AnyArray
    high: AnyArray


def watch(graph: Graph, samples: SampleSource, tensors: Collection[str]) -> Mapping[str, Held]:
    """Return what tensors hold, channel by channel; raise DeviceError where the model does not run."""
    taps = [name for name in tensors if name not in graph.inputs]
    seen: dict[str, list[tuple[AnyArray, AnyArray]]] = {name: [] for name in tensors}
    executable = load_float(graph)
    try:
        for sample in samples:
            values = executable.run(sample.inputs, taps)
            for name, found in seen.items():
                found.append(_channels(sample.inputs[name] if name in graph.inputs else values[name]))
    finally:
        executable.close()
    return {name: _held(found) for name, found in seen.items()}


def _channels(value: AnyArray) -> tuple[AnyArray, AnyArray]:
    flat = (
        np.moveaxis(value, CHANNELS, 0).reshape(value.shape[CHANNELS], -1) if value.ndim > 1 else value.reshape(1, -1)
    )
    return flat.min(axis=1), flat.max(axis=1)


def _held(found: list[tuple[AnyArray, AnyArray]]) -> Held:
    low, high = (np.stack(items) for items in zip(*found, strict=True))
    return Held(low.min(axis=0), high.max(axis=0))
