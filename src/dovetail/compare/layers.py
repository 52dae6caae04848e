"""Compare a bundle with its float model layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace

import numpy as np

from dovetail.bundle.bundle import Bundle
from dovetail.compare.isolate import isolated_errors
from dovetail.compare.outputs import CompareOptions, compare_outputs
from dovetail.compare.record import Comparison
from dovetail.data.sample import Sample, SampleSource
from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.plan.units import clamp_host
from dovetail.quantize.calibrate import load_float
from dovetail.runtime.place import LocalRuntime, Runtime

Progress = Callable[[str, int], None]
"""Called with what is being done and how much of it is done."""


@dataclass(frozen=True, slots=True)
class LayerRequest:
    """What to compare: the float graph that the bundle was made from, on some samples.

    `layers` adds a row for every layer; `isolate` the error that each layer adds by itself, which is simulated here.
    `place` is where the bundle runs. Where a plan has repairs, `graph` is the one that they make, and outputs are
    compared with those of the model as `shipped`.
    """

    graph: Graph
    bundle: Bundle
    samples: SampleSource
    options: CompareOptions = field(default_factory=CompareOptions)
    layers: bool = True
    isolate: bool = True
    place: Runtime = field(default_factory=LocalRuntime)
    shipped: Graph | None = None


@dataclass(frozen=True, slots=True)
class LayerRuns:
    """The real values of tensors `[N, ...]` by the float model's names, and the samples that they are of."""

    golden: Mapping[str, AnyArray]
    measured: Mapping[str, AnyArray]
    samples: tuple[Sample, ...]
    repaired: Mapping[str, AnyArray] = field(default_factory=dict)
    """Float outputs with the repairs, where the golden ones are of the model as shipped."""


def compare_layers(request: LayerRequest, progress: Progress = lambda title, done: None) -> Comparison:
    """Compare the real values of a bundle's tensors with the float model's, aligned by origin.

    The verdict rests on the model's outputs and the tasks in the options. All tensors of all samples are in memory.
    Raises PlanError when the bundle was made from another graph, DataError when there is no sample.
    """
    return judge_layers(request, run_layers(request, progress), progress)


def run_layers(request: LayerRequest, progress: Progress = lambda title, done: None) -> LayerRuns:
    """Run the float model and the bundle; errors are those of `compare_layers`."""
    request.bundle.plan.check(request.graph)
    return _run_both(request, _pairs(request), progress)


def judge_layers(request: LayerRequest, runs: LayerRuns, progress: Progress = lambda title, done: None) -> Comparison:
    """Compare what the float model and the bundle gave."""
    graph, golden, measured = request.graph, runs.golden, runs.measured
    outputs = {name: golden[name] for name in graph.outputs}
    judged = compare_outputs(
        outputs,
        {name: measured[name] for name in graph.outputs},
        replace(request.options, outputs=graph.outputs),
        label_arrays(runs.samples) if request.options.tasks else None,
    )
    if not request.layers:
        return judged
    layers = list(_pairs(request))
    errors = isolated_errors(graph, request.bundle, runs.samples, layers, progress) if request.isolate else {}
    origins = {name: _maker(graph, name) for name in golden}
    everything = replace(request.options, outputs=graph.outputs, tasks=(), origins=origins, isolated_errors=errors)
    return replace(judged, rows=compare_outputs(golden, measured, everything).rows)


def _pairs(request: LayerRequest) -> Mapping[str, str]:
    return align_tensors(request.graph, request.bundle) if request.layers else {}


def align_tensors(graph: Graph, bundle: Bundle) -> Mapping[str, str]:
    """Map every real tensor that a layer of the graph makes to the tensor of the bundle that stands for it.

    Left out: what a clamp limits in the same step (it never exists by itself), and what the bundle does not have.
    """
    by_origin: dict[str, str] = {}
    for name in bundle.tensors:
        by_origin.setdefault(bundle.origins.get(name, name), name)
    pairs: dict[str, str] = {}
    for node in graph.nodes:
        fused = any(
            clamp_host(graph, user) is node and bundle.plan.placement(user.name) == bundle.plan.placement(node.name)
            for tensor in node.outputs
            for user in graph.consumers.get(tensor, ())
        )
        for tensor in node.outputs:
            if not tensor or fused or not graph.types[tensor].holds_reals:
                continue
            stored = tensor if tensor in bundle.tensors else by_origin.get(graph.origin_of(tensor))
            if stored is not None:
                pairs[tensor] = stored
    return pairs


def _run_both(request: LayerRequest, pairs: Mapping[str, str], progress: Progress) -> LayerRuns:
    graph = request.graph
    aligned = {**pairs, **{name: name for name in graph.outputs}}
    golden: dict[str, list[AnyArray]] = {name: [] for name in aligned}
    measured: dict[str, list[AnyArray]] = {name: [] for name in aligned}
    repaired: dict[str, list[AnyArray]] = {name: [] for name in graph.outputs} if request.shipped is not None else {}
    samples: list[Sample] = []
    with ExitStack() as stack:
        executable = stack.enter_context(closing(load_float(graph)))
        shipped = None if request.shipped is None else stack.enter_context(closing(load_float(request.shipped)))
        with request.place.load(request.bundle) as model:
            for sample in request.samples:
                reals = dict(executable.run(sample.inputs, [name for name in aligned if name not in graph.outputs]))
                for name, arrays in repaired.items():
                    arrays.append(reals[name])
                if shipped is not None:
                    reals.update(shipped.run(sample.inputs))
                run = model.run(sample.inputs, [name for name in pairs.values() if name not in graph.outputs])
                for name, stored in aligned.items():
                    golden[name].append(reals[name])
                    measured[name].append(run.real(stored))
                samples.append(sample)
                progress("comparing", len(samples))
    if not samples:
        raise DataError("the data set is empty: there is nothing to compare on.", hint="Give at least one sample.")
    return LayerRuns(_stacked(golden), _stacked(measured), tuple(samples), _stacked(repaired))


def _stacked(parts: Mapping[str, Sequence[AnyArray]]) -> dict[str, AnyArray]:
    return {name: stack_samples(name, arrays) for name, arrays in parts.items()}


def stack_samples(name: str, arrays: Sequence[AnyArray]) -> AnyArray:
    """Return one tensor of all samples as `[N, ...]`; a batch dimension of 1 becomes N.

    Raises DataError when samples differ in shape.
    """
    if len({array.shape for array in arrays}) != 1:
        raise DataError(
            f"tensor '{name}' differs in shape from sample to sample.", hint="Compare samples of one shape."
        )
    joins = arrays[0].ndim > 0 and arrays[0].shape[0] == 1
    return np.concatenate(arrays) if joins else np.stack(arrays)


def label_arrays(samples: Sequence[Sample]) -> dict[str, AnyArray]:
    """Return the labels of samples by name, as `[N, ...]`."""
    return {name: np.stack([sample.labels[name] for sample in samples]) for name in samples[0].labels}


def _maker(graph: Graph, tensor: str) -> str:
    node = graph.producers.get(tensor)
    return tensor if node is None else node.name
