"""A session: a bundle loaded on devices, ready to run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np

from dovetail.backend.protocols import Executable
from dovetail.backend.registry import backend, find_device
from dovetail.bundle.bundle import Bundle, CompiledPartition
from dovetail.errors import BundleError, DeviceError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.types import TensorType, dequantize_array


@dataclass(frozen=True, slots=True)
class PartitionTiming:
    """Say how long one partition ran, and where."""

    index: int
    target: str
    device: str
    elapsed_ns: int


@dataclass(frozen=True, slots=True)
class Run:
    """Hold what a run gave: outputs and taps as stored values, with their types, and timings."""

    outputs: Mapping[str, AnyArray]
    taps: Mapping[str, AnyArray]
    types: Mapping[str, TensorType]
    timings: tuple[PartitionTiming, ...]

    def real(self, tensor: str) -> AnyArray:
        """Return the real values of an output or a tap; raise KeyError when it is neither."""
        stored = self.outputs[tensor] if tensor in self.outputs else self.taps[tensor]
        quant = self.types[tensor].quant
        return stored if quant is None else dequantize_array(stored, quant)


@dataclass(frozen=True, slots=True)
class _Stage:
    index: int
    part: CompiledPartition
    device: str
    executable: Executable


class Session:
    """Run a loaded bundle; a context manager."""

    def __init__(self, bundle: Bundle, stages: Sequence[_Stage]) -> None:
        self.bundle = bundle
        self._stages = tuple(stages)
        self._types = bundle.tensors
        self._last_use = _last_uses(stages, frozenset(bundle.outputs))

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Run:
        """Return outputs, taps and timings; inputs are stored values as the bundle declares them.

        Raises DeviceError when an input is missing, unknown or has the wrong type or shape, and for unknown taps.
        """
        check_inputs(self.bundle.inputs, inputs)
        for tensor in taps:
            if tensor not in self._types:
                raise DeviceError(f"tap '{tensor}': the model has no such tensor.")
        values: dict[str, AnyArray] = dict(inputs)
        tapped: dict[str, AnyArray] = {name: inputs[name] for name in taps if name in inputs}
        timings: list[PartitionTiming] = []
        for stage in self._stages:
            wanted = tuple(name for name in taps if name in stage.part.tensors and name not in tapped)
            fed = {name: values[name] for name in stage.part.inputs}
            start = time.perf_counter_ns()
            made = stage.executable.run(fed, wanted)
            elapsed = time.perf_counter_ns() - start
            timings.append(PartitionTiming(stage.index, stage.part.target, stage.device, elapsed))
            tapped.update({name: made[name] for name in wanted})
            values.update({name: made[name] for name in stage.part.outputs})
            for name in self._last_use.get(stage.index, ()):
                values.pop(name, None)
        outputs = {name: values[name] for name in self.bundle.outputs}
        return Run(outputs, tapped, self._types, tuple(timings))

    def close(self) -> None:
        """Free every device; a second call does nothing."""
        for stage in self._stages:
            stage.executable.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_session(bundle: Bundle) -> Session:
    """Load every partition of a bundle on a device; raise DeviceNotFound or DeviceError when one cannot be."""
    stages: list[_Stage] = []
    try:
        for index, part in enumerate(bundle.partitions):
            installed = backend(part.backend).version
            if installed != part.backend_version:
                raise BundleError(
                    f"partition {index} was compiled by {part.backend} {part.backend_version}; "
                    f"{installed} is installed.",
                    hint="Compile the model again with 'dovetail compile'.",
                )
            device = find_device(part.backend, part.target)
            stages.append(_Stage(index, part, device.name, device.load(part.blob, part.signature)))
    except Exception:
        for stage in stages:
            stage.executable.close()
        raise
    return Session(bundle, stages)


def check_inputs(expected: Mapping[str, TensorType], given: Mapping[str, AnyArray]) -> None:
    """Raise DeviceError when inputs are missing, unknown or of the wrong type or shape."""
    for name in given:
        if name not in expected:
            raise DeviceError(f"input '{name}' is unknown.", hint=f"The model reads: {', '.join(expected)}.")
    symbols: dict[str, int] = {}
    for name, kind in expected.items():
        if name not in given:
            raise DeviceError(f"input '{name}' is missing.", hint=f"The model reads: {', '.join(expected)}.")
        array = given[name]
        if not isinstance(array, np.ndarray) or array.dtype != kind.dtype.carrier:
            found = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise DeviceError(f"input '{name}' is {found}; {kind.dtype.carrier} is expected.")
        if kind.shape is not None:
            _check_shape(name, kind.shape, array.shape, symbols)


def _check_shape(
    name: str, expected: Sequence[int | str | None], found: Sequence[int], symbols: dict[str, int]
) -> None:
    fits = len(expected) == len(found)
    for want, size in zip(expected, found, strict=False):
        if isinstance(want, int):
            fits = fits and want == size
        elif isinstance(want, str):
            fits = fits and symbols.setdefault(want, size) == size
    if not fits:
        wanted = ", ".join("?" if dim is None else str(dim) for dim in expected)
        raise DeviceError(f"input '{name}' has shape {list(found)}; [{wanted}] is expected.")


def _last_uses(stages: Sequence[_Stage], keep: frozenset[str]) -> dict[int, list[str]]:
    """Map a stage to the tensors that can be dropped after it."""
    last = {name: stage.index for stage in stages for name in stage.part.inputs}
    uses: dict[int, list[str]] = {}
    for name, index in last.items():
        if name not in keep:
            uses.setdefault(index, []).append(name)
    return uses
