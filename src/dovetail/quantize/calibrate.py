"""Calibrate: one streaming pass of the float model over samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from dovetail.backend.protocols import CompileOptions, Executable, Signature
from dovetail.backend.registry import backend, find_device, find_target
from dovetail.data.batches import Batch, in_batches, wholly_batchable
from dovetail.data.sample import SampleSource
from dovetail.errors import DataError, DeviceError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.quantize.observers import CalibrationMethod, Observer, ObserverOptions, make_observer
from dovetail.quantize.ranges import Range, Ranges
from dovetail.quantize.statistics import PowerMeter, Statistics

FLOAT_BACKEND = "cpu"
"""The backend that runs the float model."""

_TOGETHER = 16
_TOGETHER_BYTES = 32 << 20
"""Most samples that go through the model together, and most bytes of their activations."""

Progress = Callable[[int], None]
"""Called with the number of samples done."""


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """How ranges are found."""

    method: CalibrationMethod = CalibrationMethod.MINMAX
    observer: ObserverOptions = field(default_factory=ObserverOptions)
    threads: int = 0
    as_written: bool = False
    """Run operators one by one, on one sample at a time: in the last bits ranges differ from those of fused ones."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What one pass over the samples has found."""

    ranges: Ranges
    statistics: Statistics


def calibrate(
    graph: Graph,
    samples: SampleSource,
    options: CalibrationOptions | None = None,
    progress: Progress = lambda done: None,
) -> Calibration:
    """Return the range of every real tensor and the signal power of its channels.

    Memory is bounded by one sample's activations, or by 32 MiB where samples of small models go together. Raises
    DataError for an empty data set, for samples that do not fit the model and for NaN or infinity in an activation
    (with the tensor's name).
    """
    how = options or CalibrationOptions()
    watch = _Watch(graph, how)
    stream = iter(samples)
    count = 0
    try:
        most = 1
        while group := list(islice(stream, most)):
            for batch in in_batches(group, most):
                watch.see(batch)
            count += len(group)
            most = watch.most_together
            progress(count)
    finally:
        watch.close()
    if count == 0:
        raise DataError("the data set is empty: there is nothing to calibrate on.", hint="Give at least one sample.")
    return Calibration(Ranges(graph.digest, how.method.value, count, watch.ranges()), watch.meter.statistics())


class _Watch:
    """Run the float model and watch every real tensor; extremes can be taken of several samples at once."""

    def __init__(self, graph: Graph, options: CalibrationOptions) -> None:
        inside = (tensor for node in graph.nodes for tensor in node.outputs if tensor)
        watched = [name for name in (*graph.inputs, *inside) if graph.types[name].holds_reals]
        self._observers = {name: make_observer(options.method, options.observer) for name in watched}
        self._taps = [name for name in watched if name not in graph.inputs]
        self._executable = load_float(graph, options.threads, as_written=options.as_written)
        together = options.method is CalibrationMethod.MINMAX and not options.as_written
        self._together = together and wholly_batchable(graph)
        self.meter = PowerMeter()
        self.most_together = 1

    def see(self, batch: Batch) -> None:
        """Take some samples; raise DataError that names the sample at fault."""
        try:
            self._take(batch)
        except DataError:
            # Extremes can be taken twice, and the powers are lost with the error.
            for sample in batch.samples if len(batch.samples) > 1 else ():
                self._take(Batch(sample.inputs, (sample,)))
            raise

    def ranges(self) -> dict[str, Range]:
        """Return what every tensor that held a value has spanned."""
        return {name: Range(*observer.range()) for name, observer in self._observers.items() if observer.count}

    def close(self) -> None:
        """Let go of the model."""
        self._executable.close()

    def _take(self, batch: Batch) -> None:
        name = batch.samples[0].id
        values = _run(self._executable, batch.inputs, name, self._taps)
        for tensor, observer in self._observers.items():
            value = batch.inputs.get(tensor, values.get(tensor))
            if value is not None and value.size:
                _observe(observer, tensor, value, name)
                self.meter.update(tensor, value)
        if self._together:
            size = sum(value.nbytes for value in values.values()) // len(batch.samples)
            self.most_together = min(_TOGETHER, max(1, _TOGETHER_BYTES // max(size, 1)))


def _run(
    executable: Executable, inputs: Mapping[str, AnyArray], sample: str, taps: list[str]
) -> Mapping[str, AnyArray]:
    try:
        return executable.run(inputs, taps)
    except DeviceError as error:
        raise DataError(f"sample '{sample}': the model does not run on it: {error.message}", hint=error.hint) from error


def load_float(graph: Graph, threads: int = 0, *, as_written: bool = False) -> Executable:
    """Return the float model on the CPU, ready to run; `as_written` fuses nothing."""
    target = find_target(FLOAT_BACKEND)
    blob = backend(FLOAT_BACKEND).compile(graph, target, CompileOptions(threads=threads, as_written=as_written))
    return find_device(FLOAT_BACKEND, target.name).load(blob, Signature.of(graph))


def _observe(observer: Observer, tensor: str, value: AnyArray, sample: str) -> None:
    try:
        observer.update(value.astype(np.float32, copy=False))
    except DataError as error:
        raise DataError(f"tensor '{tensor}', sample '{sample}': {error.message}", hint=error.hint) from error
