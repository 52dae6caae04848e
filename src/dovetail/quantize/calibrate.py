"""Calibrate: one streaming pass of the float model over samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dovetail.backend.protocols import CompileOptions, Executable, Signature
from dovetail.backend.registry import backend, find_device, find_target
from dovetail.data.sample import Sample, SampleSource
from dovetail.errors import DataError, DeviceError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.types import TensorType
from dovetail.quantize.observers import CalibrationMethod, Observer, ObserverOptions, make_observer
from dovetail.quantize.ranges import Range, Ranges
from dovetail.quantize.statistics import PowerMeter, Statistics

FLOAT_BACKEND = "cpu"
"""The backend that runs the float model."""

Progress = Callable[[int], None]
"""Called with the number of samples done."""


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """Say how ranges are found."""

    method: CalibrationMethod = CalibrationMethod.MINMAX
    observer: ObserverOptions = field(default_factory=ObserverOptions)
    threads: int = 0


@dataclass(frozen=True, slots=True)
class Calibration:
    """Hold what one pass over the samples has found."""

    ranges: Ranges
    statistics: Statistics


def calibrate(
    graph: Graph,
    samples: SampleSource,
    options: CalibrationOptions | None = None,
    progress: Progress = lambda done: None,
) -> Calibration:
    """Return the range of every real tensor and the signal power of its channels.

    Memory is bounded by one sample's activations. Raises DataError for an empty data set, for samples that do not
    fit the model and for NaN or infinity in an activation (with the tensor's name).
    """
    asked = options or CalibrationOptions()
    watched = [
        name
        for name in (*graph.inputs, *(tensor for node in graph.nodes for tensor in node.outputs if tensor))
        if graph.types[name].holds_reals
    ]
    observers = {name: make_observer(asked.method, asked.observer) for name in watched}
    meter = PowerMeter()
    computed = [name for name in watched if name not in graph.inputs]
    executable = load_float(graph, asked.threads)
    count = 0
    try:
        for sample in samples:
            values = _run(executable, sample, computed)
            for name in watched:
                _observe(observers[name], name, sample.id, sample.inputs.get(name, values.get(name)), meter)
            count += 1
            progress(count)
    finally:
        executable.close()
    if count == 0:
        raise DataError("the data set is empty: there is nothing to calibrate on.", hint="Give at least one sample.")
    seen = {name: Range(*observer.range()) for name, observer in observers.items() if observer.count}
    return Calibration(Ranges(graph.digest, asked.method.value, count, seen), meter.statistics())


def _run(executable: Executable, sample: Sample, taps: Sequence[str]) -> Mapping[str, AnyArray]:
    try:
        return executable.run(sample.inputs, taps)
    except DeviceError as error:
        raise DataError(
            f"sample '{sample.id}': the model does not run on it: {error.message}", hint=error.hint
        ) from error


def load_float(graph: Graph, threads: int = 0) -> Executable:
    """Return the float model on the CPU, ready to run."""
    target = find_target(FLOAT_BACKEND)
    blob = backend(FLOAT_BACKEND).compile(graph, target, CompileOptions(threads=threads))
    return find_device(FLOAT_BACKEND, target.name).load(blob, signature_of(graph))


def signature_of(graph: Graph) -> Signature:
    """Return the types of a graph's inputs and outputs."""
    return Signature(_types(graph, graph.inputs), _types(graph, graph.outputs))


def _types(graph: Graph, names: tuple[str, ...]) -> Mapping[str, TensorType]:
    return {name: graph.types[name] for name in names}


def _observe(observer: Observer, name: str, sample: str, value: AnyArray | None, meter: PowerMeter) -> None:
    if value is None or value.size == 0:
        return
    try:
        observer.update(value.astype(np.float32, copy=False))
    except DataError as error:
        reason = error.message.removeprefix("tensor: ")
        raise DataError(f"tensor '{name}', sample '{sample}': {reason}", hint=error.hint) from error
    meter.update(name, value)
